//! The `warpkov` binary, run as users and scripts run it: files, pipes and links that it reads and writes.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::common::{
    LISTING_A1, code, fails, folder, folder_with_grid, folder_with_inputs, run, run_with, stderr, stdout, succeeds,
    warpkov,
};

#[test]
fn a_broken_pipe_is_not_a_failure() {
    let folder = folder();
    let grid = ["mdp", "generate", "grid", "--width", "128", "--height", "128", "--out", "-"];
    let mut generate = warpkov(folder.path(), &grid).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    generate.stdout.take().unwrap().read_exact(&mut [0; 16]).unwrap();
    let output = generate.wait_with_output().unwrap();
    assert_eq!((code(&output), stderr(&output)), (Some(0), ""));
}

#[test]
fn a_pipe_receives_a_complete_solution() {
    let folder = folder_with_grid();
    let output = succeeds(folder.path(), &["mdp", "solve", "grid.json", "--device", "cpu"]);
    fs::write(folder.path().join("captured.txt"), &output.stdout).unwrap();
    succeeds(folder.path(), &["mdp", "solve", "grid.json", "--device", "cpu", "--out", "whole.json"]);
    succeeds(folder.path(), &["mdp", "compare", "captured.txt", "whole.json"]);
}

#[test]
fn plots_are_valid_files() {
    let folder = folder_with_grid();
    fs::write(folder.path().join("a1.json"), LISTING_A1).unwrap();
    for model in ["grid", "a1"] {
        let (input, svg, png) = (format!("{model}.json"), format!("{model}.svg"), format!("{model}.png"));
        succeeds(folder.path(), &["mdp", "solve", &input, "--method", "parallel", "--plot", &svg, "--plot", &png]);
        let svg = fs::read_to_string(folder.path().join(svg)).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("γ = 0.9") && svg.contains("States whose action changed"));
        assert_eq!(svg.contains("data:image/png;base64,"), model == "grid");
        let png = fs::read(folder.path().join(png)).unwrap();
        let image = image::load_from_memory(&png).unwrap();
        assert_eq!((image.width(), image.height()), (1600, 960));
        // The picture is neither blank nor text only.
        let colors: std::collections::HashSet<_> = image.to_rgb8().pixels().copied().collect();
        assert!(colors.len() > 50, "{} colours", colors.len());
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Damaged, truncated and unknown files are rejected.
#[test]
fn odd_files_are_refused() {
    let folder = folder_with_grid();
    let path = |name: &str| folder.path().join(name);
    succeeds(folder.path(), &["mdp", "convert", "grid.json", "grid.umb"]);
    let whole = fs::read(path("grid.umb")).unwrap();
    // The checksum follows the data, so the whole model has been read when it fails.
    let mut changed = whole.clone();
    changed[whole.len() - 6] ^= 1;
    fs::write(path("changed.umb"), changed).unwrap();
    fs::write(path("cut.umb"), &whole[..whole.len() - 1]).unwrap();
    fs::write(path("more.umb"), [&whole[..], b"more"].concat()).unwrap();
    for name in ["changed.umb", "cut.umb", "more.umb"] {
        fails(folder.path(), &["mdp", "info", name], 2, &[name, "gzip"]);
    }
    let text = fs::read_to_string(path("grid.json")).unwrap();
    for (name, bytes) in [("le.json", u16::to_le_bytes as fn(u16) -> [u8; 2]), ("be.json", u16::to_be_bytes)] {
        let units = std::iter::once('\u{feff}').chain(text.chars()).map(|c| bytes(c as u16));
        fs::write(path(name), units.flatten().collect::<Vec<_>>()).unwrap();
        fails(folder.path(), &["mdp", "info", name], 2, &[name, "is in UTF-16, expected UTF-8"]);
    }
    let labelled = r#"{"S":2,"A":1,"gamma":0.9,"P":{"indptr":[0,1,2],"indices":[1,1],"data":[1,1]},
        "R":{"indptr":[0,0,0],"indices":[],"data":[]},"labels":{"":[0],"\u001b[2Ja b":[1]}}"#;
    fs::write(path("labelled.json"), labelled).unwrap();
    for name in ["l.umb", "l.drn"] {
        fails(folder.path(), &["mdp", "convert", "labelled.json", name], 2, &[name, "no place for the label \"\""]);
        assert!(!path(name).exists());
    }
    let reach = ["mdp", "solve", "labelled.json", "--criterion", "reach", "--goal", "x"];
    fails(folder.path(), &reach, 2, &["the model has '', '\\u{1b}[2Ja b'"]);
}

/// Models, policies, beliefs, sequences and solutions from compressed files, and from pipes in place of files.
#[test]
fn texts_are_read_compressed_and_through_pipes() {
    let folder = folder_with_grid();
    let pack = |name: &str| {
        let text = fs::read(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(format!("{name}.gz")), gzip(&text)).unwrap();
        fs::remove_file(folder.path().join(name)).unwrap();
    };
    let done = |arguments: &str| {
        let arguments: Vec<_> = arguments.split(' ').collect();
        stdout(&succeeds(folder.path(), &arguments)).to_owned()
    };
    for out in ["a.json", "a.csv", "a.txt", "a.npy"] {
        done(&format!("mdp solve grid.json --device cpu --epsilon 1e-12 --out {out}"));
        pack(out);
    }
    done("mdp compare a.json.gz a.txt.gz");
    pack("grid.json");
    let tally = |arguments: &str| serde_json::from_str::<Value>(&done(arguments)).unwrap()["sweeps"].as_u64().unwrap();
    for values in ["a.json.gz", "a.csv.gz", "a.txt.gz", "a.npy.gz"] {
        let sweeps = tally(&format!("mdp solve grid.json.gz --device cpu --json --values {values}"));
        // The text format has six digits.
        assert!(sweeps < if values == "a.txt.gz" { 20 } else { 5 }, "{values}: {sweeps}");
    }

    done("pomdp generate tiger --out tiger.pomdp");
    done("pomdp solve tiger.pomdp --time 5 --quiet --out tiger.alpha");
    fs::write(folder.path().join("two.beliefs"), "0.5 0.5\n").unwrap();
    let evaluated = done("pomdp act tiger.pomdp --policy tiger.alpha");
    ["tiger.pomdp", "tiger.alpha", "two.beliefs"].iter().for_each(|name| pack(name));
    assert_eq!(done("pomdp act tiger.pomdp.gz --policy tiger.alpha.gz"), evaluated);
    done("pomdp trace tiger.pomdp.gz --alphas tiger.alpha.gz --beliefs two.beliefs.gz --element g_ao[0][0][0][0]");

    done("hmm generate random --states 2 --symbols 3 --out model.json");
    done("hmm sample model.json --sequences 3 --length 5 --out data.txt");
    let decoded = done("hmm decode model.json data.txt --device cpu");
    ["model.json", "data.txt"].iter().for_each(|name| pack(name));
    assert_eq!(done("hmm decode model.json.gz data.txt.gz --device cpu"), decoded);

    // A named pipe.
    let bytes = |name: &str| fs::read(folder.path().join(name)).unwrap();
    for (arguments, input) in [
        (&["mdp", "info", "/dev/stdin"][..], &bytes("grid.json.gz")[..]),
        (&["mdp", "solve", "grid.json.gz", "--values", "/dev/stdin"], &bytes("a.txt.gz")),
        (&["mdp", "compare", "a.json.gz", "/dev/stdin"], &bytes("a.json.gz")),
        (&["pomdp", "info", "/dev/stdin"], &bytes("tiger.pomdp.gz")),
        (&["pomdp", "act", "tiger.pomdp.gz", "--policy", "/dev/stdin"], &bytes("tiger.alpha.gz")),
        (&["hmm", "info", "/dev/stdin"], &bytes("model.json.gz")),
        (&["hmm", "score", "model.json.gz", "/dev/stdin", "--device", "cpu"], &bytes("data.txt.gz")),
    ] {
        let output = run_with(folder.path(), arguments, input);
        assert_eq!(code(&output), Some(0), "{arguments:?}: {}", stderr(&output));
    }
}

/// Every command that writes files: (arguments, output option, extension). The inputs are those of
/// [`folder_with_inputs`], or absent.
const WRITERS: [(&str, &str, &str); 32] = [
    ("mdp solve grid.json", "--out", "json"),
    ("mdp solve grid.json", "--out", "csv"),
    ("mdp solve grid.json", "--out", "npy"),
    ("mdp solve grid.json", "--plot", "svg"),
    ("mdp solve grid.json --horizon 3 --gamma 1", "--all-steps", "npy"),
    ("mdp convert grid.json", "", "drn"),
    ("mdp convert grid.json", "", "tra"),
    ("mdp convert grid.json", "", "safetensors"),
    ("mdp convert grid.json", "", "P.bin"),
    ("mdp generate forest", "--out", "json"),
    ("bench mdp --suite scaling --device emulated --largest 100 --runs 1", "--plot", "svg"),
    ("bench mdp --case G1 --method values --device cpu --runs 1", "--plot", "svg"),
    ("bench mdp --suite table-6.1 --case GW-64x64x1 --method sequential --runs 1", "--plot", "svg"),
    ("bench pomdp --suite backups --device cpu --size 4 --runs 1", "--plot", "svg"),
    ("bench hmm --suite figures --case 4x3x5 --device cpu --runs 2", "--plot", "svg"),
    ("pomdp solve tiger.pomdp --quiet", "--out", "alpha"),
    ("pomdp solve tiger.pomdp --quiet", "--plot", "svg"),
    ("pomdp convert tiger.pomdp", "", "json"),
    ("pomdp generate tiger", "--out", "json"),
    ("pomdp bound tiger.pomdp --policy tiger.alpha", "--plot", "svg"),
    ("pomdp simulate tiger.pomdp --policy tiger.alpha --steps 3", "--plot", "svg"),
    ("hmm score model.json data.txt --device cpu", "--out", "csv"),
    ("hmm decode model.json data.txt --device cpu", "--out", "txt"),
    ("hmm decode model.json data.txt --device cpu --samples 3", "--out", "csv"),
    ("hmm posterior model.json data.txt --device cpu", "--out", "npy"),
    ("hmm posterior model.json data.txt --device cpu --summary", "--out", "csv"),
    ("hmm score model.json data.txt --device cpu --window 2", "--out", "npy"),
    ("hmm train model.json data.txt --device cpu --quiet", "--out", "json"),
    ("hmm train model.json data.txt --device cpu --quiet --by variational", "--posterior", "json"),
    ("hmm sample model.json --length 3", "--out", "txt"),
    ("hmm info model.json", "--plot", "svg"),
    ("hmm convert model.json", "", "npz"),
];

fn with_output<'a>(command: &'a str, option: &'a str, out: &'a str) -> Vec<&'a str> {
    command.split(' ').chain([option, out]).filter(|argument| !argument.is_empty()).collect()
}

/// An output that cannot be written is an error before any input is read.
#[test]
fn outputs_are_checked_before_the_work() {
    let folder = folder();
    fs::create_dir(folder.path().join("sub")).unwrap();
    for (command, option, extension) in WRITERS {
        let name = format!("x.{extension}");
        fs::create_dir(folder.path().join(&name)).unwrap();
        // The inputs are absent, but the error is about the output.
        fails(folder.path(), &with_output(command, option, &name), 2, &["cannot write", &name, "directory"]);
        fs::remove_dir(folder.path().join(&name)).unwrap();
        let absent = format!("absent/{name}");
        fails(folder.path(), &with_output(command, option, &absent), 2, &[&absent, "there is no folder absent"]);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&name, folder.path().join(&name)).unwrap();
            fails(folder.path(), &with_output(command, option, &name), 2, &["cannot write", &name, "form a loop"]);
            fs::remove_file(folder.path().join(&name)).unwrap();
        }
    }
    // Additional files next to the named one.
    fs::create_dir(folder.path().join("a.policy.npy")).unwrap();
    fails(folder.path(), &["mdp", "solve", "absent.json", "--out", "a.npy"], 2, &["a.policy.npy", "directory"]);
    fs::create_dir(folder.path().join("a.lab")).unwrap();
    fails(folder.path(), &["mdp", "convert", "absent.json", "a.tra"], 2, &["a.lab", "directory"]);
    fs::create_dir(folder.path().join("g.bin")).unwrap();
    fails(folder.path(), &["mdp", "convert", "absent.json", "P.bin"], 2, &["g.bin", "directory"]);
    let two = ["mdp", "solve", "absent.json", "--plot", "a.svg", "--plot", "sub/../a.svg"];
    fails(folder.path(), &two, 2, &["a.svg and", "are one file"]);
}

#[cfg(unix)]
#[test]
fn inputs_are_not_written() {
    let folder = folder_with_inputs();
    let at = |name: &str| folder.path().join(name);
    fs::hard_link(at("grid.json"), at("hard.json")).unwrap();
    std::os::unix::fs::symlink("grid.json", at("soft.json")).unwrap();
    let before = fs::read(at("grid.json")).unwrap();
    let refused = |arguments: &str, word: &str| {
        let arguments: Vec<_> = arguments.split(' ').collect();
        fails(folder.path(), &arguments, 2, &["error: ", word, "expected another file to write to"]);
    };
    for out in ["grid.json", "./grid.json", "hard.json", "soft.json"] {
        refused(&format!("mdp solve grid.json --out {out}"), out);
        refused(&format!("mdp convert grid.json {out}"), out);
        refused(&format!("mdp solve hard.json --out {out}"), out);
    }
    let stdin = fs::File::open(at("grid.json")).unwrap();
    let output = warpkov(folder.path(), &["mdp", "solve", "-", "--out", "soft.json"]).stdin(stdin).output().unwrap();
    assert_eq!((code(&output), stderr(&output).contains("the standard input")), (Some(2), true), "{}", stderr(&output));
    let out = fs::File::options().append(true).open(at("grid.json")).unwrap();
    let output = warpkov(folder.path(), &["mdp", "solve", "absent.json", "--out", "hard.json"]).stdout(out).output();
    assert!(stderr(&output.unwrap()).contains("hard.json is the standard output as well"));
    assert_eq!(fs::read(at("grid.json")).unwrap(), before);

    succeeds(folder.path(), &["mdp", "solve", "grid.json", "--out", "v.json", "--device", "cpu"]);
    succeeds(folder.path(), &["mdp", "convert", "grid.json", "m.tra"]);
    fs::write(at("m.lab"), "0=\"init\"\n0: 0\n").unwrap();
    refused("mdp solve grid.json --values v.json --out v.json", "v.json");
    // A companion file of the input, and one of the output.
    refused("mdp solve m.tra --out m.lab --to json", "m.lab");
    refused("mdp convert m.tra m.other --to storm", "m.lab");
    refused("pomdp convert tiger.pomdp tiger.pomdp", "tiger.pomdp");
    refused("pomdp convert tiger.alpha tiger.alpha", "tiger.alpha");
    refused("hmm train model.json data.txt --out model.json", "model.json");
    refused("hmm decode model.json data.txt --out data.txt", "data.txt");
    refused("hmm sample model.json --length 3 --out model.json --to lines", "model.json");
}

/// Output to devices, pipes and links writes to their targets. A full device is an error.
#[cfg(target_os = "linux")]
#[test]
fn devices_pipes_and_links_stay_what_they_are() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    let folder = folder_with_inputs();
    let at = |name: &str| folder.path().join(name);
    for (command, option, extension) in WRITERS {
        if extension == "tra" || extension == "P.bin" {
            continue;
        }
        let name = format!("full.{extension}");
        symlink("/dev/full", at(&name)).unwrap();
        let output = run(folder.path(), &with_output(command, option, &name));
        assert_eq!(code(&output), Some(2), "{command} {extension}: {}", stderr(&output));
        let words = [name.as_str(), "No space left on device"];
        assert!(words.iter().all(|word| stderr(&output).contains(word)), "{command}: {}", stderr(&output));
        assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
        assert!(at(&name).is_symlink() && !at("full.policy.npy").exists());
        fs::remove_file(at(&name)).unwrap();
    }
    let solve = ["mdp", "solve", "grid.json", "--device", "cpu", "--out"];
    let solve = |out: &[&str]| [&solve[..], out].concat().iter().map(|&a| a.to_owned()).collect::<Vec<_>>();
    let solved = |out: &[&str]| {
        let arguments = solve(out);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        succeeds(folder.path(), &arguments)
    };
    solved(&["whole.csv"]);
    let expected = fs::read(at("whole.csv")).unwrap();
    for format in ["csv", "npy", "json", "text"] {
        solved(&["/dev/null", "--to", format]);
    }
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert!(!Path::new("/dev/null.policy.npy").exists());
    assert!(stdout(&solved(&["/dev/stdout", "--to", "csv"])).starts_with(std::str::from_utf8(&expected).unwrap()));
    for format in ["prism", "petsc"] {
        let convert = ["mdp", "convert", "grid.json", "/dev/null", "--to", format];
        assert_eq!(code(&run(folder.path(), &convert)), Some(2), "{format}");
    }

    assert!(Command::new("mkfifo").arg(at("pipe.csv")).status().unwrap().success());
    let pipe = at("pipe.csv");
    let reader = thread::spawn(move || fs::read(pipe).unwrap());
    solved(&["pipe.csv"]);
    assert_eq!(reader.join().unwrap(), expected);
    assert!(fs::symlink_metadata(at("pipe.csv")).unwrap().file_type().is_fifo());

    fs::create_dir(at("there")).unwrap();
    symlink("there/target.csv", at("link.csv")).unwrap();
    for _ in 0..2 {
        solved(&["link.csv"]);
        assert!(at("link.csv").is_symlink() && fs::read(at("there/target.csv")).unwrap() == expected);
    }
    fs::write(at("private.csv"), "old").unwrap();
    fs::set_permissions(at("private.csv"), fs::Permissions::from_mode(0o600)).unwrap();
    solved(&["private.csv"]);
    assert_eq!(fs::metadata(at("private.csv")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read(at("private.csv")).unwrap(), expected);
}

/// Runs as a user without write permission everywhere.
#[cfg(target_os = "linux")]
#[test]
fn files_without_write_permission_are_refused() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let mode = |name: &str, mode: u32| fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    fs::create_dir(at("closed")).unwrap();
    fs::write(at("read-only.json"), "old").unwrap();
    fs::write(at("shared.json"), "old").unwrap();
    if root {
        chown(at("shared.json"), Some(0), Some(65_534)).unwrap();
    }
    mode("", 0o777);
    mode("closed", 0o555);
    mode("read-only.json", 0o444);
    mode("shared.json", 0o664);
    let generate = |out: &str| {
        let mut command = warpkov(folder.path(), &["mdp", "generate", "forest", "--out", out]);
        if root {
            command.uid(65_534).gid(65_534);
        }
        command.output()
    };
    let Ok(output) = generate("new.json") else {
        // The other user cannot reach the folder of the binary.
        assert!(root);
        return;
    };
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    for out in ["closed/new.json", "read-only.json"] {
        let output = generate(out).unwrap();
        assert_eq!(code(&output), Some(2), "{out}: {}", stderr(&output));
        assert!(stderr(&output).contains(out) && stderr(&output).contains("denied"), "{}", stderr(&output));
    }
    assert_eq!(fs::read(at("read-only.json")).unwrap(), b"old");
    // A writable file of another user keeps its owner.
    let before = fs::metadata(at("shared.json")).unwrap();
    let output = generate("shared.json").unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let after = fs::metadata(at("shared.json")).unwrap();
    assert_eq!((after.uid(), after.gid(), after.mode()), (before.uid(), before.gid(), before.mode()));
    assert_eq!(fs::read(at("shared.json")).unwrap(), fs::read(at("new.json")).unwrap());
    mode("closed", 0o755);
}

/// A decompression bomb does not fill the memory of a line reader; it ends with the reader's error.
#[test]
fn decompressed_input_is_not_held_in_memory() {
    let folder = folder();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let block = vec![b'0'; 1 << 20];
    (0..64).for_each(|_| encoder.write_all(&block).unwrap());
    fs::write(folder.path().join("bomb.drn.gz"), encoder.finish().unwrap()).unwrap();
    fails(folder.path(), &["mdp", "info", "bomb.drn.gz"], 2, &["bomb.drn.gz:1: a line of more than 16777216 bytes"]);
}

/// Killed at any time, a command leaves its output absent, unchanged or complete, never half written.
#[test]
fn killed_while_writing_leaves_no_half_file() {
    let folder = folder();
    let target = folder.path().join("grid.json");
    let grid = ["mdp", "generate", "grid", "--width", "192", "--height", "192", "--out", "grid.json"];
    succeeds(folder.path(), &grid);
    let complete = fs::read(&target).unwrap();
    for old in [None, Some(&b"an older file"[..])] {
        for delay in [0, 5, 10, 20, 40, 60, 80, 120, 160] {
            match old {
                Some(old) => fs::write(&target, old).unwrap(),
                None => drop(fs::remove_file(&target)),
            }
            let mut child = warpkov(folder.path(), &grid).spawn().unwrap();
            thread::sleep(Duration::from_millis(delay));
            child.kill().unwrap();
            child.wait().unwrap();
            let found = fs::read(&target).ok();
            let intact = found.as_deref() == old || found.as_ref() == Some(&complete);
            assert!(intact, "after {delay} ms: {:?} bytes", found.map(|found| found.len()));
        }
    }
}

#[test]
fn malformed_models_have_exit_code_2() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/malformed");
    let expected = fs::read(folder.join("expected.json")).unwrap();
    let expected: std::collections::BTreeMap<String, String> = serde_json::from_slice(&expected).unwrap();
    for (file, message) in expected {
        let output = run(&folder, &["mdp", "solve", &file]);
        assert_eq!((code(&output), stdout(&output)), (Some(2), ""), "{file}");
        assert_eq!(stderr(&output), format!("error: {message}\n"));
    }
}
