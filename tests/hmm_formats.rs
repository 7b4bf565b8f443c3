//! Formats of hidden Markov models and of sequences: what is written is read back, and what is wrong is named.

use std::fs;
use std::path::Path;

use warpkov::hmm::generate::{IceCream, Kind, LeftRight, Uniform};
use warpkov::hmm::io::{self, Format, sequences};
use warpkov::hmm::model::{Emissions, Hmm, Names};
use warpkov::hmm::sample::sample;
use warpkov::hmm::sequences::{Observations, Sequences};

const MODEL: &str = r#"{"pi": [0.5, 0.5], "A": [[0.9, 0.1], [0.1, 0.9]], "B": [[0.5, 0.5], [0.25, 0.75]]}"#;

fn of_json(text: &str) -> Result<Hmm, String> {
    io::read_from(text.as_bytes(), "m", None).map_err(|error| error.to_string())
}

fn dna() -> Hmm {
    let mut model = Uniform { states: 2, kind: Kind::Symbols(4), ends: false, seed: 1 }.generate().unwrap();
    model.names.symbols = ["A", "C", "G", "T"].map(str::to_owned).to_vec();
    model
}

fn models() -> Vec<Hmm> {
    let vectors = |full| Kind::Vectors { dimensions: 3, full };
    vec![
        IceCream.generate().unwrap(),
        dna(),
        Uniform { states: 3, kind: vectors(false), ends: true, seed: 2 }.generate().unwrap(),
        LeftRight { states: 4, jump: 2, kind: vectors(true), ends: false, seed: 3 }.generate().unwrap(),
    ]
}

#[test]
fn models_are_read_back_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    for model in models() {
        for format in [Format::Json, Format::Npz] {
            let path = folder.path().join(format!("model.{format}"));
            io::write(&path, format, &model).unwrap();
            assert_eq!(io::read(&path, None).unwrap(), model);
        }
    }
    let plain = Hmm { names: Names::default(), ..dna() };
    let path = folder.path().join("model.hmm");
    io::write(&path, Format::Umdhmm, &plain).unwrap();
    assert_eq!(io::read(&path, None).unwrap(), plain);
    let error = io::write(&path, Format::Umdhmm, &models()[0]).unwrap_err().to_string();
    assert!(error.ends_with("UMDHMM's format has no place for ends and for vectors"), "{error}");
    assert_eq!(io::read(&path, None).unwrap(), plain);
}

#[test]
fn umdhmm_is_read_as_its_programs_write_it() {
    // test.hmm of UMDHMM 1.02.
    let text = "M= 2\nN= 3\nA:\n0.333 0.333 0.333\n0.333 0.333 0.333\n0.333 0.333 0.333\n\
        B:\n0.5   0.5\t\n0.75  0.25\t\n0.25  0.75\t\npi:\n0.333 0.333 0.333\n";
    // Digits that are left out are more than what may be made up for.
    let error = io::read_from(text.as_bytes(), "test.hmm", None).unwrap_err().to_string();
    assert_eq!(error, "test.hmm: pi sums to 0.9990000000000001, expected 1");
    let model = io::read_from(text.replace("0.333", "0.333333").as_bytes(), "test.hmm", None).unwrap();
    assert_eq!((model.states(), model.start[0]), (3, 1.0 / 3.0));
    let read = |text: &str| io::read_from(text.as_bytes(), "m", Some(Format::Umdhmm)).unwrap_err().to_string();
    assert_eq!(read(""), "m:1: the file ends, expected M=");
    assert_eq!(read("M= 0"), "m:1: found \"0\", expected a number from 1");
    assert_eq!(read("M= 1\nN=1\nA: x"), "m:3: found \"x\", expected a probability");
    assert_eq!(read("M= 1\nN=1\nA: 1\nB:\n"), "m:4: the file ends, expected a probability");
    assert_eq!(read("M= 1\nN=1\nA: 1 B: 1 pi: 1\n\nT="), "m:5: found \"T=\", expected the end of the file");
}

#[test]
fn folders_of_arrays_are_read_as_archives_are() {
    let folder = tempfile::tempdir().unwrap();
    let model = Hmm { names: Names::default(), ..dna() };
    let Emissions::Categorical { probs, .. } = &model.emissions else { panic!("symbols") };
    for (name, shape, numbers) in [
        ("startprob_", "(2,)", &model.start),
        ("transmat_", "(2, 2)", &model.transitions),
        ("emissionprob_", "(2, 4)", probs),
    ] {
        let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
        let bytes =
            [b"\x93NUMPY\x01\x00", &(header.len() as u16 + 1).to_le_bytes()[..], header.as_bytes(), b"\n"].concat();
        let data = numbers.iter().flat_map(|x| x.to_le_bytes());
        fs::write(folder.path().join(format!("{name}.npy")), bytes.into_iter().chain(data).collect::<Vec<u8>>())
            .unwrap();
    }
    assert_eq!(io::read(folder.path(), None).unwrap(), model);
    fs::remove_file(folder.path().join("transmat_.npy")).unwrap();
    let error = io::read(folder.path(), None).unwrap_err().to_string();
    assert_eq!(error, format!("{}: array transmat_ is missing", folder.path().display()));
}

#[test]
fn what_is_no_model_is_named() {
    assert!(of_json(MODEL).is_ok());
    let replaced = |from: &str, to: &str| of_json(&MODEL.replacen(from, to, 1)).unwrap_err();
    assert_eq!(replaced("0.9, 0.1", "0.9, 0.2"), "m: A[0] sums to 1.1, expected 1");
    assert_eq!(replaced("[0.9, 0.1]", "[0.9]"), "m: A[0] has 1 numbers, expected 2");
    assert_eq!(replaced("[0.9, 0.1], ", ""), "m: A has 1 rows, expected 2 as pi has numbers");
    assert_eq!(replaced("0.25, 0.75", "1.25, -0.25"), "m: B[1][0] is 1.25, expected a probability");
    assert_eq!(replaced("0.25, 0.75", "NaN, 1"), "m:1: expected value");
    assert_eq!(replaced("[0.5, 0.5]", "[]"), "m: A[0] has 2 numbers, expected 0");
    assert_eq!(
        replaced("\"B\"", "\"C\""),
        "m:1: unknown field `C`, expected one of `pi`, `A`, `B`, `end`, `means`, `covariances`, `states`, `symbols`"
    );
    assert_eq!(
        replaced("\"B\": [[0.5, 0.5], [0.25, 0.75]]", "\"means\": [[0], [1]]"),
        "m: expected either \"B\", or \"means\" and \"covariances\""
    );
    assert_eq!(
        replaced("\"B\": [[0.5, 0.5], [0.25, 0.75]]", "\"means\": [[0], [1]], \"covariances\": [[1], [-1]]"),
        "m: covariances[1][0] is -1, expected a positive number"
    );
    assert_eq!(replaced("}", ", \"states\": [\"a\"]}"), "m: 1 names of states, expected 2");
    assert!(of_json("{\"pi\": [1").unwrap_err().starts_with("m:1: EOF while parsing"));
    let error = io::read(Path::new("absent.json"), None).unwrap_err().to_string();
    assert!(error.starts_with("cannot read absent.json: "), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.npz");
    fs::write(&path, "PK").unwrap();
    assert!(io::read(&path, None).unwrap_err().to_string().starts_with(&format!("{}: ", path.display())));
}

#[test]
fn sequences_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    for model in models() {
        let drawn = sample(&model, 5, Some(9), 3).unwrap().sequences;
        let vectors = matches!(model.emissions, Emissions::Gaussian { .. });
        let letters = model.names.symbols.iter().any(|name| name == "A");
        for format in
            [sequences::Format::Npy, sequences::Format::Lines, sequences::Format::Csv, sequences::Format::Fasta]
        {
            let refused = match format {
                sequences::Format::Lines => vectors,
                // Eisner's symbols have one character too.
                sequences::Format::Fasta => vectors,
                _ => false,
            };
            let path = folder.path().join(format!("data.{}", format.extensions()[0]));
            let lengths = folder.path().join("lengths.npy");
            let lengths = (format == sequences::Format::Npy).then_some(lengths.as_path());
            let written = sequences::write(&path, lengths, format, &drawn, &model);
            assert_eq!(written.is_err(), refused, "{format}, {letters}");
            if !refused {
                assert_eq!(sequences::read(&path, lengths, None, &model).unwrap(), drawn, "{format}");
            }
        }
    }
    let plain = Hmm { names: Names::default(), ..dna() };
    let one = sample(&plain, 1, Some(30), 1).unwrap().sequences;
    let path = folder.path().join("one.seq");
    sequences::write(&path, None, sequences::Format::Umdhmm, &one, &plain).unwrap();
    assert_eq!(sequences::read(&path, None, None, &plain).unwrap(), one);
    assert!(fs::read_to_string(&path).unwrap().starts_with("T= 30\n"));
}

/// What is said of a text, which is read for a model.
fn said(model: &Hmm, format: sequences::Format, text: &str) -> String {
    match sequences::read_from(text.as_bytes(), "d", Some(format), model) {
        Ok(sequences) => format!("{sequences:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_are_no_sequences_is_named() {
    use sequences::Format::{Csv, Fasta, Lines, Npy, Umdhmm};
    let (dna, plain) = (dna(), Hmm { names: Names::default(), ..dna() });
    let numbers = Uniform { states: 2, kind: Kind::Vectors { dimensions: 1, full: false }, ends: false, seed: 1 };
    let numbers = numbers.generate().unwrap();
    let expected = "expected one of the symbols A, C, G and T";
    assert_eq!(said(&dna, Lines, "A C\nG X T\n"), format!("d:2: sequence 2, position 2: found \"X\", {expected}"));
    assert_eq!(said(&dna, Lines, "A C\n0\n"), format!("d:2: sequence 2, position 1: found \"0\", {expected}"));
    assert_eq!(said(&dna, Lines, "A\n\nC\n"), "d:2: sequence 2 is empty");
    assert_eq!(said(&dna, Lines, ""), "d:1: sequence 1 is empty");
    let expected = "expected the number of a symbol, below 4";
    assert_eq!(said(&plain, Lines, "0,1 2\n3 4\n"), format!("d:2: sequence 2, position 2: found \"4\", {expected}"));
    assert_eq!(said(&plain, Lines, "-1"), format!("d:1: sequence 1, position 1: found \"-1\", {expected}"));
    let expected = "expected a finite number";
    assert_eq!(said(&numbers, Lines, "1.5 nan"), format!("d:1: sequence 1, position 2: found \"nan\", {expected}"));
    assert_eq!(
        said(&dna, Fasta, ">a\nACGT\n>b\nacNt\n"),
        "d:4: sequence 2, position 3: found \"N\", expected one of the symbols A, C, G and T"
    );
    assert_eq!(said(&dna, Fasta, ">a\n>b\nA\n"), "d:2: sequence 1 is empty");
    assert_eq!(said(&dna, Fasta, "ACGT\n"), "d:1: expected a line that begins with > before the letters");
    assert_eq!(
        said(&numbers, Fasta, ">a\nA\n"),
        "d:1: the model has no symbols with names, which the letters could be"
    );
    let csv = "sequence,symbol\n1,A\n1,C\n2,G\n";
    assert!(said(&dna, Csv, csv).contains("offsets: [0, 2, 3]"), "{}", said(&dna, Csv, csv));
    assert!(said(&dna, Csv, "symbol\nA\nC\n").contains("offsets: [0, 2]"));
    assert_eq!(said(&dna, Csv, "sequence,symbol\n1,A,C\n"), "d:2: found 3 columns, expected 2 as in the header");
    assert_eq!(said(&dna, Csv, "sequence,x,y\n"), "d:1: the header has 3 columns, expected 2 for what the model emits");
    assert_eq!(said(&dna, Csv, "sequence,symbol\n"), "d:1: sequence 1 is empty");
    assert_eq!(said(&plain, Umdhmm, "T= 2\n1 5\n"), "d: sequence 1, position 2: found symbol 4, expected one below 4");
    assert_eq!(said(&plain, Umdhmm, "T= 2\n1 0\n"), "d:2: found \"0\", expected the number of a symbol, from 1");
    assert!(said(&plain, Npy, "xxxxxxxxxxxx").starts_with("d: is no array of NumPy"));
}

#[test]
fn arrays_and_lengths_must_fit() {
    let folder = tempfile::tempdir().unwrap();
    let plain = Hmm { names: Names::default(), ..dna() };
    let [data, lengths] = ["data.npy", "lengths.npy"].map(|name| folder.path().join(name));
    let drawn = sample(&plain, 3, Some(4), 1).unwrap().sequences;
    sequences::write(&data, Some(&lengths), sequences::Format::Npy, &drawn, &plain).unwrap();
    let more = sample(&plain, 4, Some(4), 1).unwrap().sequences;
    let other = folder.path().join("other.npy");
    sequences::write(&other, Some(&folder.path().join("four.npy")), sequences::Format::Npy, &more, &plain).unwrap();
    let error = sequences::read(&data, Some(&folder.path().join("four.npy")), None, &plain).unwrap_err().to_string();
    assert!(error.contains("the lengths sum to 16, expected the 12 observations of "), "{error}");
    let error = sequences::write(&data, None, sequences::Format::Npy, &drawn, &plain).unwrap_err().to_string();
    assert!(error.ends_with("several sequences in one array need a file of lengths"), "{error}");
    // One sequence, without lengths.
    assert_eq!(sequences::read(&data, None, None, &plain).unwrap().offsets, [0, 12]);
    let small = Uniform { states: 2, kind: Kind::Symbols(1), ends: false, seed: 1 }.generate().unwrap();
    let error = sequences::read(&data, Some(&lengths), None, &small).unwrap_err().to_string();
    assert!(error.contains("expected one below 1"), "{error}");
    let vectors = Uniform { states: 2, kind: Kind::Vectors { dimensions: 2, full: false }, ends: false, seed: 1 };
    let error = sequences::read(&data, Some(&lengths), None, &vectors.generate().unwrap()).unwrap_err().to_string();
    assert!(error.ends_with("is of shape [12, 1], expected n × 2"), "{error}");
    let symbols = Observations::Vectors { dimensions: 1, values: vec![1.0] };
    let error = Sequences { offsets: vec![0, 1], observations: symbols }.check(&plain).unwrap_err().to_string();
    assert_eq!(error, "the sequences are of numbers, expected symbols as the model emits");
}

#[test]
fn damaged_files_are_refused_or_read_but_never_end_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.npz");
    io::write(&path, Format::Npz, &models()[3]).unwrap();
    let archive = fs::read(&path).unwrap();
    let mut json = Vec::new();
    io::write_to(&mut json, Format::Json, &models()[3]).unwrap();
    // A linear congruential generator will do (Knuth's MMIX).
    let mut state = 1u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..300 {
        let mut bytes = archive.clone();
        let at = next(bytes.len());
        bytes[at] ^= 1 << next(8);
        fs::write(&path, &bytes).unwrap();
        if let Err(error) = io::read(&path, None) {
            assert!(error.to_string().contains("m.npz"), "{error}");
        }
        let mut text = json.clone();
        let at = next(text.len());
        text[at] = b" ,[]{}\"-e9"[next(10)];
        if let Err(error) = io::read_from(&text[..], "m", Some(Format::Json)) {
            assert!(error.to_string().starts_with("m:"), "{error}");
        }
    }
}
