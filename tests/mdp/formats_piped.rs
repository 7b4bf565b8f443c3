//! Text formats through the command: in pipes, compressed, and without what a format lacks.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use warpkov::mdp::io::{Format, ReadOptions, read, read_from, write_as};

use super::formats_text::{FORMATS, assert_near, data, named, random};

fn warpkov(arguments: &[&str], input: &[u8]) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_warpkov"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // An output that is not read is not a failure.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn models_are_piped_in_every_format_that_streams() {
    for name in ["forest.drn", "forest.xml", "forest.txt"] {
        let text = fs::read(data(name)).unwrap();
        let format = Format::of_name(Path::new(name)).unwrap().to_string();
        for arguments in [
            &["mdp", "convert", "-", "-", "--to", &format][..],
            &["mdp", "convert", "-", "-", "--to", &format, "--format", &format],
        ] {
            let (code, first, error) = warpkov(arguments, &text);
            assert_eq!((code, error.as_str()), (0, ""));
            assert_eq!(warpkov(arguments, first.as_bytes()), (0, first, String::new()));
        }
        let (code, report, _) = warpkov(&["mdp", "solve", "-", "--gamma", "0.96", "--json"], &text);
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(code, 0);
        let values: Vec<f64> = serde_json::from_value(report["values"].clone()).unwrap();
        assert_near(&values, &[74.6496, 78.1056, 82.1056], 1e-6);
    }
    let (code, _, error) = warpkov(&["mdp", "convert", "-", "-", "--to", "prism"], b"");
    assert_eq!((code, error.as_str()), (2, "error: prism cannot be streamed, expected the name of a file\n"));
    // Transitions alone, as for any .tra file without companion files.
    let (code, text, _) = warpkov(&["mdp", "info", "-"], b"1 1 1\n0 0 0 1\n");
    assert!(code == 0 && text.starts_with("States (S)       1\n"), "{text}");
    let (code, _, error) = warpkov(&["mdp", "info", "-", "--reward", "r"], b"1 1 1\n0 0 0 1\n");
    assert_eq!((code, error.contains("found no named rewards, expected \"r\"")), (2, true), "{error}");
    let (code, _, error) = warpkov(&["mdp", "info", "-", "--format", "npz"], b"PK");
    assert_eq!((code, error.contains("npz needs an uncompressed file, not a pipe")), (2, true));
}

/// In every text format, a compressed file and a file with a byte-order mark give the same model. The same holds for
/// companion files.
#[test]
fn compressed_texts_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let everything = (0..).map(random).find(|mdp| {
        mdp.rewards().nnz() > 0 && !mdp.labels().is_empty() && mdp.ends().is_empty() && mdp.action_names().is_none()
    });
    let mdp = everything.unwrap();
    for format in FORMATS.into_iter().chain([Format::Json, Format::Gymnasium]) {
        let plain = folder.path().join(format!("{format}"));
        fs::create_dir(&plain).unwrap();
        let name = match format {
            Format::Gymnasium => "model.json".to_owned(),
            _ => named(Path::new(""), format).display().to_string(),
        };
        write_as(&plain.join(&name), format, &mdp).unwrap();
        let expected = read(&plain.join(&name)).unwrap();
        let files: Vec<_> = fs::read_dir(&plain).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        for (extension, pack) in PACKERS {
            let packed = folder.path().join(format!("{format}-{extension}"));
            fs::create_dir(&packed).unwrap();
            for file in &files {
                let text = fs::read(plain.join(file)).unwrap();
                let text = [&b"\xef\xbb\xbf"[..], &text].concat();
                fs::write(packed.join(format!("{}.{extension}", file.display())), pack(&text)).unwrap();
            }
            let packed = packed.join(format!("{name}.{extension}"));
            let back = read(&packed).unwrap();
            assert_eq!(back.transitions().val()[..], expected.transitions().val()[..], "{format} {extension}");
            assert_eq!(back.expected_rewards(), expected.expected_rewards(), "{format} {extension}");
            assert_eq!(back.labels(), expected.labels(), "{format} {extension}");
            // The compression is recognised by content.
            let bytes = fs::read(&packed).unwrap();
            let back = read_from(&bytes[..], "pipe", &ReadOptions::default()).unwrap();
            assert_eq!(back.transitions().val()[..], expected.transitions().val()[..], "{format} {extension}");
        }
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn xz(text: &[u8]) -> Vec<u8> {
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(6)).unwrap();
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
}

type Pack = fn(&[u8]) -> Vec<u8>;
const PACKERS: [(&str, Pack); 3] = [("gz", gzip), ("xz", xz), ("zst", zstd)];

/// γ has two names in JSON, and may be absent: then it is 1, and an option sets it.
#[test]
fn json_may_lack_a_discount_factor() {
    let folder = tempfile::tempdir().unwrap();
    let solve = |gamma: &str, options: &[&str]| {
        let model = format!(r#"{{{gamma} "P[s][a][s']": [[[1]]], "R[s]": [1]}}"#);
        std::fs::write(folder.path().join("m.json"), model).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_warpkov"));
        let output = command.current_dir(&folder).args(["mdp", "solve", "m.json"]).args(options).output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code(), out, err)
    };
    for (gamma, options) in [
        ("\"discount\": 0.5,", &[][..]),
        ("\"gamma\": 0.5,", &[]),
        ("", &["--gamma", "0.5"]),
        ("", &["--discount", "0.5"]),
        ("\"discount\": 0.9,", &["--gamma", "0.5"]),
    ] {
        let (code, out, err) = solve(gamma, options);
        assert_eq!(code, Some(0), "{err}");
        assert!(out.contains("Optimal value: 2\n") || out.contains("Optimal value: 2.0"), "{gamma} {options:?}: {out}");
    }
    let (code, _, err) = solve("", &[]);
    assert_eq!(code, Some(2));
    assert!(err.contains("gamma is 1, but discounted values need gamma < 1: set option gamma"), "{err}");
    let (code, _, err) = solve("\"gamma\": 0.5, \"discount\": 0.6,", &[]);
    assert_eq!(code, Some(2));
    assert!(err.contains("found both \"gamma\" and \"discount\", expected one of them"), "{err}");
}
