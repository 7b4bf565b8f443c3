//! Mutated files are read or refused, whatever the format.

use warpkov_pomdp::io as formats;
use warpkov_pomdp::io::Format;

use super::common::{ROVER, TIGER, sevenths};

/// A file with every construct of the grammar.
const EVERYTHING: &str = "\
discount : 0.95
values: cost
states: a b-1 c_2
actions: 2
observations: x y
start include: a 2
T: *
identity
T: 0 : a 0.5 .25 0.25 # a row
T: 1 : * reset
T: 0 : b-1 : * 0.0 T: 0 : 1 : c_2 1.
O: * uniform
O: 1 : 2
1e-1 9.0E-1
O : 0 : a : x 1 O:0:a:y 0
R: * : * : * : * -1
R: 0 : a : b-1 + 1 - 2
R: 1 : * 1 2 3 4 5 6
";

/// Deterministic mutations like those of a fuzzer: bytes and pieces of `texts` are changed, copied and deleted. No
/// mutation may cause a panic, and every error has a position or a reason. Returns the numbers of accepted and of
/// refused texts.
fn mutate(texts: &[&str], tokens: &[&str], count: usize, read: impl Fn(&[u8]) -> Result<(), String>) -> [usize; 2] {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut below = |bound: usize| random.next_u32() as usize % bound.max(1);
    let mut outcomes = [0; 2];
    for _ in 0..count {
        let mut text = texts[below(texts.len())].as_bytes().to_vec();
        for _ in 0..1 + below(4) {
            let (from, length) = (below(text.len()), 1 + below(12));
            let piece = from..text.len().min(from + length);
            match below(6) {
                0 => text[piece.start..piece.end.min(piece.start + 1)].fill(below(256) as u8),
                1 => text[piece.start..piece.end.min(piece.start + 1)].fill(b" :*#.-019aTOR\n"[below(14)]),
                2 => drop(text.drain(piece)),
                3 => {
                    let copy = text[piece].to_vec();
                    let to = below(text.len() + 1);
                    text.splice(to..to, copy);
                }
                4 => drop(text.splice(piece, tokens[below(tokens.len())].bytes())),
                _ => text.truncate(from),
            }
        }
        match read(&text) {
            Ok(()) => outcomes[0] += 1,
            Err(message) => {
                assert!(message.starts_with("m:"), "{message}");
                outcomes[1] += 1;
            }
        }
    }
    outcomes
}

fn read_as(format: Format) -> impl Fn(&[u8]) -> Result<(), String> {
    move |text| formats::read_from(text, "m", Some(format)).map(drop).map_err(|error| error.to_string())
}

#[test]
fn mutations_of_files_are_read_or_refused() {
    let tokens = [
        "T: * ",
        "O:",
        " R: ",
        " uniform ",
        "identity",
        "reset",
        "start",
        "start:",
        "include: ",
        "exclude",
        "*",
        " : ",
        "1e999",
        "1.",
        ".",
        "-",
        "999999999",
        "18446744073709551616",
        "0.5",
        "values: cost",
        "\u{feff}",
        "\0",
        "observations: 2 ",
    ];
    let texts = [TIGER, EVERYTHING];
    let [read, refused] = mutate(&texts, &tokens, 20_000, read_as(Format::Pomdp));
    assert!(read > 300 && refused > 5000, "{read} read, {refused} refused");
}

#[test]
fn mutations_of_other_formats_are_read_or_refused() {
    let mut json = Vec::new();
    formats::write_to(&mut json, Format::Json, &sevenths()).unwrap();
    let json = String::from_utf8(json).unwrap();
    let tokens = [
        "*",
        "-",
        "uniform",
        "identity",
        "<Entry>",
        "</Entry>",
        "&amp;",
        "1e999",
        "[",
        "]",
        "{",
        "4294967295",
        "-1",
        "0.5",
    ];
    let vectors = |format: Format| {
        move |text: &[u8]| {
            let read = formats::read_vectors_from(text, "m", Some(format), None);
            read.map(drop).map_err(|error| error.to_string())
        }
    };
    for (format, [read, refused]) in [
        (Format::Json, mutate(&[&json], &tokens, 4000, read_as(Format::Json))),
        (Format::Pomdpx, mutate(&[ROVER], &tokens, 4000, read_as(Format::Pomdpx))),
        (Format::Alpha, mutate(&["0\n-1 2.5\n\n1\n0 3\n\n"], &tokens, 4000, vectors(Format::Alpha))),
        (
            Format::PolicyXml,
            mutate(
                &[
                    "<Policy type=\"value\"><AlphaVector vectorLength=\"2\"><Vector action=\"1\" obsValue=\"0\">1 2</Vector>\
                   <SparseVector action=\"0\"><Entry>1 -1.5</Entry></SparseVector></AlphaVector></Policy>",
                ],
                &tokens,
                4000,
                vectors(Format::PolicyXml),
            ),
        ),
    ] {
        assert!(read > 20 && refused > 500, "{format}: {read} read, {refused} refused");
    }
}

/// A file that another program shortens while it is read is an invalid model or a valid one, but no fault of the process.
#[test]
fn files_may_shrink_while_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pomdp");
    let text = format!("{}{TIGER}", "# A comment of forty bytes in every line\n".repeat(1 << 17));
    for round in 0..20 {
        std::fs::write(&path, &text).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_micros(200 * round));
                std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(9).unwrap();
            });
            if let Err(error) = formats::read(&path, None) {
                assert!(matches!(error, formats::Error::Place { .. }), "{error}");
            }
        });
    }
}
