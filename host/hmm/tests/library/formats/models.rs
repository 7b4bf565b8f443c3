//! Files of models.

use std::fs;
use std::path::Path;

use warpkov_hmm::generate::{Kind, Uniform};
use warpkov_hmm::io::{self, Format};
use warpkov_hmm::model::{Covariances, Emissions, Hmm, HmmParts, Names};

use crate::channels::{ALL, case};
use crate::random::Random;

use super::common::{dna, models, npy};

const MODEL: &str = r#"{"pi": [0.5, 0.5], "A": [[0.9, 0.1], [0.1, 0.9]], "B": [[0.5, 0.5], [0.25, 0.75]]}"#;

fn of_json(text: &str) -> Result<Hmm, String> {
    io::read_from(text.as_bytes(), "m", None).map_err(|error| error.to_string())
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
    let plain = HmmParts { names: Names::default(), ..dna().into_parts() }.validated().unwrap();
    let path = folder.path().join("model.hmm");
    io::write(&path, Format::Umdhmm, &plain).unwrap();
    assert_eq!(io::read(&path, None).unwrap(), plain);
    let error = io::write(&path, Format::Umdhmm, &models()[0]).unwrap_err().to_string();
    assert!(error.ends_with("UMDHMM's format has no place for end probabilities or vectors"), "{error}");
    assert_eq!(io::read(&path, None).unwrap(), plain);
}

#[test]
fn files_written_by_umdhmm_are_read() {
    // test.hmm of UMDHMM 1.02.
    let text = "M= 2\nN= 3\nA:\n0.333 0.333 0.333\n0.333 0.333 0.333\n0.333 0.333 0.333\n\
        B:\n0.5   0.5\t\n0.75  0.25\t\n0.25  0.75\t\npi:\n0.333 0.333 0.333\n";
    // The missing digits exceed the tolerance for sums.
    let error = io::read_from(text.as_bytes(), "test.hmm", None).unwrap_err().to_string();
    assert_eq!(error, "test.hmm: pi sums to 0.9990000000000001, expected 1");
    let model = io::read_from(text.replace("0.333", "0.333333").as_bytes(), "test.hmm", None).unwrap();
    assert_eq!((model.states(), model.start()[0]), (3, 1.0 / 3.0));
    let read = |text: &str| io::read_from(text.as_bytes(), "m", Some(Format::Umdhmm)).unwrap_err().to_string();
    assert_eq!(read(""), "m:1: the file ends, expected M=");
    assert_eq!(read("M= 0"), "m:1: found \"0\", expected a number from 1");
    assert_eq!(read("M= 1\nN=1\nA: x"), "m:3: found \"x\", expected a probability");
    assert_eq!(read("M= 1\nN=1\nA: 1\nB:\n"), "m:4: the file ends, expected a probability");
    assert_eq!(read("M= 1\nN=1\nA: 1 B: 1 pi: 1\n\nT="), "m:5: found \"T=\", expected the end of the file");
}

#[test]
fn folders_of_arrays_are_read_like_archives() {
    let folder = tempfile::tempdir().unwrap();
    let model = HmmParts { names: Names::default(), ..dna().into_parts() }.validated().unwrap();
    let Emissions::Categorical { probs, .. } = model.emissions() else { panic!("symbols") };
    for (name, shape, numbers) in [
        ("startprob_", "(2,)", model.start()),
        ("transmat_", "(2, 2)", model.transitions()),
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
fn invalid_models_are_reported() {
    assert!(of_json(MODEL).is_ok());
    let replaced = |from: &str, to: &str| of_json(&MODEL.replacen(from, to, 1)).unwrap_err();
    assert_eq!(replaced("0.9, 0.1", "0.9, 0.2"), "m: A[0] sums to 1.1, expected 1");
    assert_eq!(replaced("[0.9, 0.1]", "[0.9]"), "m:1:42: A[1]: found 2 entries, expected 1 as in those before");
    assert_eq!(replaced("[0.9, 0.1], ", ""), "m: A is 1 × 2, expected 2 × 2, in the order [from][to]");
    assert_eq!(replaced("0.25, 0.75", "1.25, -0.25"), "m: B[1][0] is 1.25, expected a probability");
    assert!(replaced("0.25, 0.75", "NaN, 1").ends_with(": B[1][0]: expected value"));
    assert_eq!(replaced("[0.5, 0.5]", "[]"), "m: A is 2 × 2, expected 0 × 0, in the order [from][to]");
    assert_eq!(
        replaced("\"pi\"", "\"pie\""),
        "m:1:7: unknown key \"pie\" (known keys: pi, A, B, A[to][from], B[symbol][state], means, covariances, \
         channels, columns, end, durations, states, symbols, classes; free text: comment, _…)"
    );
    assert!(replaced("\"B\"", "\"Symbols\"").contains("unknown key \"Symbols\", did you mean \"symbols\"? (known"));
    assert!(replaced("\"B\"", "\"_B\"").ends_with(": key \"B\" is missing (or B[symbol][state], means, channels)"));
    assert!(replaced("\"B\"", "\"A\"").contains("key \"A\" appears twice"));
    assert!(
        replaced("\"B\"", "\"A[to][from]\"").ends_with("found both \"A\" and \"A[to][from]\", expected one of them")
    );
    assert!(
        replaced("\"B\": [[0.5, 0.5], [0.25, 0.75]]", "\"means\": [[0], [1]]")
            .ends_with("key \"covariances\" is missing, expected it with \"means\"")
    );
    assert_eq!(
        replaced("\"B\": [[0.5, 0.5], [0.25, 0.75]]", "\"means\": [[0], [1]], \"covariances\": [[1], [-1]]"),
        "m: covariances[1][0] is -1, expected a positive number"
    );
    assert_eq!(replaced("}", ", \"states\": [\"a\"]}"), "m: 1 names of states, expected 2");
    assert!(of_json("{\"pi\": [1").unwrap_err().starts_with("m:1:9: pi[1]: EOF while parsing"));
    let error = io::read(Path::new("absent.json"), None).unwrap_err().to_string();
    assert!(error.starts_with("cannot read absent.json: "), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.npz");
    fs::write(&path, "PK").unwrap();
    assert!(io::read(&path, None).unwrap_err().to_string().starts_with(&format!("{}: ", path.display())));
}

/// Channels of all families but code, with names of columns, and numbers in place of arrays of one number.
#[test]
fn channels_are_read_back_bit_for_bit() {
    for seed in 0..5 {
        for named in [false, true] {
            let (model, _) = case(seed, 3, &ALL[..12], &[1]);
            let mut parts = model.into_parts();
            if let (true, Emissions::Channels(channels)) = (named, &mut parts.emissions) {
                channels.names = (0..channels.dimensions).map(|column| format!("column {column}")).collect();
            }
            let model = parts.validated().unwrap();
            let mut text = Vec::new();
            io::write_to(&mut text, Format::Json, &model).unwrap();
            assert_eq!(io::read_from(&text[..], "m", None).unwrap(), model);
            assert!(io::holds(Format::Npz, &model).is_err() && io::holds(Format::Umdhmm, &model).is_err());
        }
    }
    // hmmlearn has some of them.
    let folder = tempfile::tempdir().unwrap();
    for name in ["poisson", "multinomial", "mixture"] {
        let mut parts = case(7, 3, &[name], &[1]).0.into_parts();
        if let Emissions::Channels(channels) = &mut parts.emissions {
            channels.names = (0..channels.dimensions).map(|column| format!("column {column}")).collect();
        }
        let model = parts.validated().unwrap();
        let path = folder.path().join("model.npz");
        io::write(&path, Format::Npz, &model).unwrap();
        assert_eq!(io::read(&path, None).unwrap(), model, "{name}");
    }
}

#[test]
fn invalid_channels_are_reported() {
    let of = |columns: &str, channels: &str| {
        of_json(&format!("{{\"pi\": [1], \"A\": [[1]], \"states\": [\"s\"]{columns}, \"channels\": {channels}}}"))
    };
    let poisson = "[{\"family\": \"poisson\", \"columns\": [0], \"rates\": [3]}]";
    let full = "[{\"family\": \"poisson\", \"columns\": [0], \"rates\": [[3]]}]";
    assert_eq!(of("", poisson).unwrap(), of("", full).unwrap());
    assert_eq!(of("", &poisson.replace("[3]", "{\"s\": 3}")).unwrap(), of("", full).unwrap());
    let named = of(", \"columns\": [\"rain\"]", &poisson.replace("[0]", "[\"rain\"]")).unwrap();
    let Emissions::Channels(channels) = named.emissions() else { panic!("channels") };
    assert_eq!((channels.column(0), channels.list[0].columns[0]), ("rain".to_owned(), 0));
    let error = |columns: &str, channels: &str| of(columns, channels).unwrap_err();
    let wrong = |from: &str, to: &str| error("", &poisson.replace(from, to));
    assert!(
        wrong("poisson", "fish")
            .contains("channels.family: found string \"fish\", expected \"categorical\" or \"bernoulli\"")
    );
    assert!(wrong("\"rates\": [3]", "\"comment\": 1").ends_with("m: channels[0]: key \"rates\" is missing"));
    assert_eq!(
        wrong("[3]", "[3], \"scales\": [1]"),
        "m: channels[0]: found \"scales\", which the family poisson does not have"
    );
    assert_eq!(
        wrong("[3]", "[3], \"lags\": 1"),
        "m: channels[0]: found \"lags\", which the family poisson does not have"
    );
    assert_eq!(wrong("[3]", "[3, 4]"), "m: channels[0].rates is 2, expected 1 × 1");
    assert_eq!(wrong("[3]", "[-3]"), "m: channels[0].rates[0][0] is -3, expected a number of at least 0");
    assert_eq!(wrong("[0]", "[1]"), "m: no channel has column 0");
    assert_eq!(wrong("[0]", "[4294967295]"), "m: channels[0] has column 4294967295, expected one below 4294967295");
    assert_eq!(wrong("[0]", "[\"rain\"]"), "m: channels[0]: no column is called \"rain\"");
    assert!(wrong("\"columns\": [0], ", "").contains("key \"columns\" is missing"));
    assert_eq!(error("", "[]"), "m: a model that emits vectors needs at least one channel");
    assert!(error(", \"B\": [[1]]", poisson).contains("found both \"B\" and \"channels\""));
    let error = of_json("{\"pi\": [1], \"A\": [[1]], \"B\": [[1]], \"columns\": [\"a\"]}").unwrap_err();
    assert!(error.ends_with("found \"columns\" without \"channels\""), "{error}");
}

/// A model of three symbols that is not symmetric, in every form that people write by hand.
#[test]
fn forms_written_by_hand_are_equal() {
    let by_rows = r#"{"states": ["h", "f"], "symbols": ["n", "c", "d"], "pi": [0.6, 0.4],
        "A": [[0.7, 0.2], [0.4, 0.6]], "end": [0.1, 0], "B": [[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]]}"#;
    let expected = of_json(by_rows).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(by_rows.contains(from), "{from}");
        of_json(&by_rows.replacen(from, to, 1))
    };
    let transposed = r#""A[to][from]": [[0.7, 0.4], [0.2, 0.6]]"#;
    let named = r#""A": {"f": {"f": 0.6, "h": 0.4}, "h": {"f": 0.2, "h": 0.7}}"#;
    let named_transposed = r#""A[to][from]": {"f": {"f": 0.6, "h": 0.2}, "h": {"f": 0.4, "h": 0.7}}"#;
    for form in [transposed, named, named_transposed] {
        assert_eq!(changed(r#""A": [[0.7, 0.2], [0.4, 0.6]]"#, form).unwrap(), expected, "{form}");
    }
    let rows = r#""B": [[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]]"#;
    for form in [
        r#""B[symbol][state]": [[0.5, 0.1], [0.4, 0.3], [0.1, 0.6]]"#,
        r#""B": {"h": {"n": 0.5, "c": 0.4, "d": 0.1}, "f": {"d": 0.6, "n": 0.1, "c": 0.3}}"#,
        r#""B[symbol][state]": {"d": {"h": 0.1, "f": 0.6}, "c": {"h": 0.4, "f": 0.3}, "n": {"h": 0.5, "f": 0.1}}"#,
    ] {
        assert_eq!(changed(rows, form).unwrap(), expected, "{form}");
    }
    assert_eq!(changed("[0.6, 0.4]", r#"{"f": 0.4, "h": 0.6}"#).unwrap(), expected);
    assert_eq!(changed("[0.1, 0]", r#"{"h": 0.1}"#).unwrap(), expected);
    // The wrong order is an error that names the order, even where the matrix is square.
    let wrong = changed(rows, r#""B": [[0.5, 0.1], [0.4, 0.3], [0.1, 0.6]]"#).unwrap_err();
    assert_eq!(wrong, "m: B is 3 × 2, expected 2 × symbols, in the order [state][symbol]");
    let wrong = changed(rows, r#""B[symbol][state]": [[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]]"#).unwrap_err();
    assert_eq!(wrong, "m: B[symbol][state] is 2 × 3, expected symbols × 2, in the order [symbol][state]");
    let wrong = changed(r#""A": [[0.7, 0.2], [0.4, 0.6]]"#, r#""A": [[0.7, 0.4], [0.2, 0.6]]"#).unwrap_err();
    assert_eq!(
        wrong,
        "m: A[0] with end[0] sums to 1.2000000000000002, expected 1, but every column of A does: A looks transposed, \
         expected A[i][j] from state i to state j"
    );
    let wrong = of_json(&MODEL.replace("[[0.5, 0.5], [0.25, 0.75]]", "[[0.5, 0.25], [0.5, 0.75]]")).unwrap_err();
    assert!(
        wrong.starts_with("m: B[0] sums to 0.75, expected 1, but every column of B does: B looks trans"),
        "{wrong}"
    );
    let wrong = of_json(&MODEL.replace("[[0.5, 0.5], [0.25, 0.75]]", "[[0.5, 0.25], [0.4, 0.75]]")).unwrap_err();
    assert_eq!(wrong, "m: B[0] sums to 0.75, expected 1");
    // UMDHMM's text is one list of numbers: the transpose has the same length.
    let text = "M= 3\nN= 2\nA:\n0.9 0.1\n0.2 0.8\nB:\n0.5 0.2\n0.4 0.2\n0.1 0.6\npi:\n1 0\n";
    let error = io::read_from(text.as_bytes(), "m", None).unwrap_err().to_string();
    assert!(error.contains("B looks transposed, expected B[i][o] of state i and symbol o"), "{error}");
    for (from, to, message) in [
        ("[0.6, 0.4]", r#"{"g": 0.4, "h": 0.6}"#, "m: pi: no state is called \"g\""),
        ("[0.6, 0.4]", r#"{"h": {"f": 1}}"#, "m: pi[\"h\"]: found an object, expected a number"),
        ("[0.6, 0.4]", r#"{"h": 0.5, "h": 0.5}"#, ": pi: key \"h\" appears twice"),
        ("[0.6, 0.4]", r#"{"h": "1"}"#, ": pi: found string \"1\", expected a probability or an object"),
        (
            "[[0.7, 0.2], [0.4, 0.6]]",
            r#"{"h": 1}"#,
            "m: A[\"h\"]: found a number, expected an object with names as keys",
        ),
        ("[[0.7, 0.2], [0.4, 0.6]]", "[[0.7, 0.2], 1]", ": A[1]: found 1, expected an array"),
        ("[[0.7, 0.2], [0.4, 0.6]]", "[1, [0.4, 0.6]]", ": A[1]: found an array, expected a probability"),
        ("[[0.7, 0.2], [0.4, 0.6]]", "[[[1]]]", "m: A is 1 × 1 × 1, expected 2 × 2, in the order [from][to]"),
        ("\"h\", \"f\"", "\"h\", \"h\"", "m: two states are called \"h\""),
    ] {
        let error = changed(from, to).unwrap_err();
        assert!(error.ends_with(message), "{error}");
    }
    let without = by_rows.replacen("\"states\": [\"h\", \"f\"], ", "", 1).replacen("[0.6, 0.4]", r#"{"h": 1}"#, 1);
    let error = of_json(&without).unwrap_err();
    assert_eq!(error, "m: pi has names as keys, expected a list of the names of every state");
    let error = changed("[0.6, 0.4]", r#"{"h": 0.5, "F": 0.5}"#).unwrap_err();
    assert_eq!(error, "m: pi: no state is called \"F\", did you mean \"f\"?");
    // Deep and wide tables neither overflow the stack nor the memory.
    let deep = format!("{{\"pi\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(of_json(&deep).unwrap_err().contains("recursion limit"));
}

#[test]
fn the_shape_of_arrays_decides_the_type_of_covariances() {
    let bytes = |numbers: &[f64]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, descr: &str, shape: &str, data: &[u8]| {
        fs::write(folder.path().join(format!("{name}.npy")), npy(descr, shape, data)).unwrap();
    };
    put("startprob_", "<f8", "(2,)", &bytes(&[0.5, 0.5]));
    put("transmat_", "<f8", "(2, 2)", &bytes(&[0.5; 4]));
    put("means_", "<f8", "(2, 3)", &bytes(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
    let matrices = |variances: [f64; 6]| -> Vec<f64> {
        (0..18).map(|at| if at / 3 % 3 == at % 3 { variances[at / 9 * 3 + at % 3] } else { 0.0 }).collect()
    };
    let variances = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let read = || match io::read(folder.path(), None).map(|model| model.emissions().clone()) {
        Ok(Emissions::Gaussian { covariances, .. }) => Ok(covariances),
        Ok(_) => panic!("symbols"),
        Err(error) => Err(error.to_string().rsplit(": ").next().unwrap().to_owned()),
    };
    put("covars_", "<f8", "(2, 3, 3)", &bytes(&matrices(variances)));
    assert_eq!(read(), Ok(Covariances::Full(matrices(variances))));
    // hmmlearn's property `covars_` is N × D × D for every type; its attribute `_covars_` is not.
    let kind = |text: &str| {
        let codes: Vec<u8> = text.chars().flat_map(|letter| u32::from(letter).to_le_bytes()).collect();
        put("covariance_type", &format!("<U{}", text.len()), "()", &codes);
    };
    kind("diag");
    assert_eq!(read(), Ok(Covariances::Diagonal(variances.to_vec())));
    kind("tied");
    assert_eq!(read(), Ok(Covariances::Full(matrices(variances))));
    put("covars_", "<f8", "(3, 3)", &bytes(&matrices(variances)[..9]));
    assert_eq!(read(), Ok(Covariances::Full(matrices([1.0, 2.0, 3.0, 1.0, 2.0, 3.0]))));
    kind("spherical");
    assert_eq!(read(), Err("covars_ is of shape [3, 3], expected 2 as covariance_type is spherical".to_owned()));
    put("covars_", "<f8", "(2,)", &bytes(&[7.0, 8.0]));
    assert_eq!(read(), Ok(Covariances::Diagonal(vec![7.0, 7.0, 7.0, 8.0, 8.0, 8.0])));
    kind("round");
    assert_eq!(read(), Err("covariance_type is \"round\", expected diag, full, spherical or tied".to_owned()));
    // Vectors without components have no covariances, whatever their type.
    put("means_", "<f8", "(2, 0)", &[]);
    put("covars_", "<f8", "(2, 0, 0)", &[]);
    kind("diag");
    assert_eq!(read(), Err("means_ is of shape [2, 0], expected 2 × D".to_owned()));
    // A round trip keeps full covariances full, even if they are diagonal matrices.
    let emissions =
        Emissions::Gaussian { dimensions: 3, means: vec![0.0; 6], covariances: Covariances::Full(matrices(variances)) };
    let model = Uniform { states: 2, kind: Kind::Symbols(1), ends: false, seed: 1 }.generate().unwrap();
    let model = HmmParts { emissions, ..model.into_parts() }.validated().unwrap();
    for format in [Format::Json, Format::Npz] {
        let path = folder.path().join(format!("model.{format}"));
        io::write(&path, format, &model).unwrap();
        assert_eq!(io::read(&path, None).unwrap(), model);
    }
}

#[test]
fn damaged_files_are_refused_or_read_but_never_end_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.npz");
    io::write(&path, Format::Npz, &models()[3]).unwrap();
    let archive = fs::read(&path).unwrap();
    let mut json = Vec::new();
    io::write_to(&mut json, Format::Json, &models()[3]).unwrap();
    let mut random = Random(1);
    let mut next = |below: usize| (random.unit() * below as f64) as usize;
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
