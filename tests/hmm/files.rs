//! What the commands read and write: formats, positions of states, missing observations, samples and pipes.

use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::common::{fails, ice_cream, parsed, piped, run};

/// `--to` names the format of a file whatever its name, and of the standard output.
#[test]
fn to_chooses_the_format() {
    let folder = ice_cream();
    fs::write(folder.path().join("three.txt"), "3 3 1\n1\n").unwrap();
    for (command, formats, standard) in [
        ("decode", &[("text", "txt"), ("csv", "csv"), ("bed", "bed"), ("npy", "npy")][..], "txt"),
        ("score", &[("csv", "csv"), ("npy", "npy")], "csv"),
        ("posterior", &[("csv", "csv"), ("npy", "npy")], "csv"),
    ] {
        let command = format!("{command} ice.json three.txt --device cpu");
        let written = |out: &str| {
            assert_eq!(
                run(folder.path(), &format!("{command} --out {out}")).contains("Sequences"),
                command.starts_with("score")
            );
            fs::read(folder.path().join(out.split(' ').next().unwrap())).unwrap()
        };
        for (format, extension) in formats {
            let expected = written(&format!("named.{extension}"));
            assert_eq!(written(&format!("plain --to {format}")), expected);
            assert_eq!(written(&format!("other.npy --to {format}")), expected);
            assert_eq!(written(&format!("plain --to {extension}")), expected, "an extension is a name, too");
            if *format != "npy" {
                let printed = run(folder.path(), &format!("{command} --out - --to {format}"));
                assert_eq!(printed.as_bytes(), expected);
            }
        }
        let printed = run(folder.path(), &format!("{command} --out -"));
        assert_eq!(printed.as_bytes(), written(&format!("named.{standard}")));
        let known: Vec<&str> = formats.iter().map(|(_, extension)| *extension).collect();
        let message = fails(folder.path(), &format!("{command} --out x.xyz"), 2);
        assert_eq!(message, format!("error: x.xyz: the name must end in .{}\n", known.join(" or .")));
        assert!(fails(folder.path(), &format!("{command} --to csv"), 2).contains("--out"));
        assert!(fails(folder.path(), &format!("{command} --out x --to xyz"), 2).contains("possible values: "));
    }
    let message = fails(folder.path(), "score ice.json three.txt --out - --json", 2);
    assert_eq!(message, "error: --out - and --json both write to the standard output\n");
    run(folder.path(), "decode ice.json three.txt --out runs --to bed --states H");
    assert_eq!(fs::read_to_string(folder.path().join("runs")).unwrap(), "1\t0\t3\tH\n");
    let message = fails(folder.path(), "decode ice.json three.txt --out runs.csv --states H", 2);
    assert!(message.contains("--states selects the states of a .bed file"), "{message}");
}

#[test]
fn positions_of_states_are_written_as_bed() {
    let folder = tempfile::tempdir().unwrap();
    let model = r#"{"pi": [0.5, 0.5], "A": [[0.9, 0.1], [0.1, 0.9]], "states": ["AT rich", "GC"],
        "symbols": ["A", "C", "G", "T"], "B": [[0.49, 0.01, 0.01, 0.49], [0.01, 0.49, 0.49, 0.01]]}"#;
    fs::write(folder.path().join("m.json"), model).unwrap();
    fs::write(folder.path().join("d.fa"), ">chr1 first\nATaaNCCGgg\nTTTT\n>chr2\nGGCC\n").unwrap();
    let message = fails(folder.path(), "decode m.json d.fa --out x.bed", 2);
    assert!(message.starts_with("error: d.fa:2: record chr1, position 5: found \"N\", which is A or C or G or T, "));
    let bed = |arguments: &str| {
        run(folder.path(), &format!("decode m.json d.fa --out x.bed {arguments}"));
        fs::read_to_string(folder.path().join("x.bed")).unwrap()
    };
    let whole = "chr1\t0\t4\tAT_rich\nchr1\t4\t10\tGC\nchr1\t10\t14\tAT_rich\nchr2\t0\t4\tGC\n";
    let [found, tie] =
        [bed("--missing marginalise"), whole.replace("0\t4\tAT", "0\t5\tAT").replace("\t4\t10", "\t5\t10")];
    assert!(found == whole || found == tie, "{found}");
    let parts = "chr1\t0\t4\tAT_rich\nchr1\t5\t10\tGC\nchr1\t10\t14\tAT_rich\nchr2\t0\t4\tGC\n";
    assert_eq!(bed("--missing split"), parts);
    assert_eq!(bed("--missing split --states GC"), "chr1\t5\t10\tGC\nchr2\t0\t4\tGC\n");
    // Positions are those of the file where an observation was removed.
    assert_eq!(bed("--missing skip"), parts);
    let message = fails(folder.path(), "decode m.json d.fa --missing split --out x.bed --states X", 2);
    assert!(message.ends_with("error: --states: the model has no state \"X\"\n"), "{message}");
    // The compressed file gives the same output.
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&fs::read(folder.path().join("d.fa")).unwrap()).unwrap();
    fs::write(folder.path().join("z.fa.gz"), packed.finish().unwrap()).unwrap();
    run(folder.path(), "decode m.json z.fa.gz --missing split --out z.bed");
    assert_eq!(fs::read_to_string(folder.path().join("z.bed")).unwrap(), parts);
    // The other formats also have the file's names and positions. Every device sums over ambiguous symbols.
    run(folder.path(), "decode m.json d.fa --missing split --out x.csv");
    let written = fs::read_to_string(folder.path().join("x.csv")).unwrap();
    assert!(written.starts_with("sequence,position,state\nchr1,1,AT rich\n") && written.contains("\nchr1,6,GC\n"));
    let report = |device: &str, command: &str| {
        parsed(&run(folder.path(), &format!("{command} m.json d.fa --missing marginalise --json --device {device}")))
    };
    assert_eq!(report("cpu", "score")["names"], json!(["chr1", "chr2"]));
    let numbers = |value: &Value| -> Vec<f64> {
        let key = ["log_likelihoods", "scores", "posteriors"].into_iter().find(|key| value.get(key).is_some());
        let mut all = Vec::new();
        fn collect(value: &Value, all: &mut Vec<f64>) {
            match value {
                Value::Array(values) => values.iter().for_each(|value| collect(value, all)),
                value => all.push(value.as_f64().unwrap()),
            }
        }
        collect(&value[key.unwrap()], &mut all);
        all
    };
    for command in ["score", "decode", "posterior"] {
        let [cpu, emulated] = ["cpu", "emulated"].map(|device| report(device, command));
        let (cpu, emulated) = (numbers(&cpu), numbers(&emulated));
        assert!(cpu.iter().zip(&emulated).all(|(a, b)| (a - b).abs() < 1e-12 * a.abs().max(1.0)), "{command}");
        assert_eq!(cpu.len(), emulated.len());
    }
    // Training divides the counts of N among its letters, on every device and from a checkpoint.
    let train = |more: &str| {
        let command = format!("train m.json d.fa --missing marginalise --tolerance 0 --json {more}");
        let output = piped(folder.path(), &command.split(' ').collect::<Vec<_>>(), "");
        assert_eq!(output.status.code(), Some(1), "not converged: {}", String::from_utf8_lossy(&output.stderr));
        parsed(&String::from_utf8(output.stdout).unwrap())
    };
    let whole = train("--iterations 6 --device cpu");
    let emulated = train("--iterations 6 --device emulated");
    assert_eq!((numbers(&whole).len(), numbers(&emulated).len()), (7, 7));
    for (found, expected) in numbers(&emulated).into_iter().zip(numbers(&whole)) {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
    train("--iterations 3 --device cpu --checkpoint c.ckpt");
    assert_eq!(numbers(&train("--iterations 6 --device cpu --resume c.ckpt")), numbers(&whole));
    // Another letter of the same code is other data.
    let other = fs::read_to_string(folder.path().join("d.fa")).unwrap().replace("NN", "RR").replace('N', "R");
    fs::write(folder.path().join("d.fa"), other).unwrap();
    let message = fails(folder.path(), "train m.json d.fa --missing marginalise --resume c.ckpt", 2);
    assert!(message.contains("other"), "{message}");
}

/// Removed observations leave a gap in the positions of every table, and of the picture.
#[test]
fn skipped_observations_keep_the_positions_of_the_others() {
    let folder = ice_cream();
    fs::write(folder.path().join("d.csv"), "sequence,ice\na,3\nb,1\na,NA\na,1\nb,NA\nb,NA\nb,2\n").unwrap();
    let places = |command: &str| -> Vec<String> {
        run(folder.path(), &format!("{command} ice.json d.csv --missing skip --out x.csv"));
        let written = fs::read_to_string(folder.path().join("x.csv")).unwrap();
        written.lines().skip(1).map(|line| line.split(',').take(2).collect::<Vec<_>>().join(" ")).collect()
    };
    for command in ["decode", "posterior"] {
        assert_eq!(places(command), ["a 1", "a 3", "b 1", "b 4"], "{command}");
    }
    run(folder.path(), "posterior ice.json d.csv --missing skip --out x.csv --plot x.svg --sequence 2");
    // JSON holds the positions from 0. An array has no place for them, which a note says.
    for command in ["decode", "posterior"] {
        let found = parsed(&run(folder.path(), &format!("{command} ice.json d.csv --missing skip --json")));
        assert_eq!(found["positions"], json!([[0, 2], [0, 3]]), "{command}");
        assert!(parsed(&run(folder.path(), &format!("{command} ice.json diary.txt --json")))["positions"].is_null());
        let arguments = format!("{command} ice.json d.csv --missing skip --out x.npy");
        let output = piped(folder.path(), &arguments.split(' ').collect::<Vec<_>>(), "");
        let note = String::from_utf8(output.stderr).unwrap();
        assert!(note.contains("the array has no rows for missing observations"), "{note}");
    }
    let ring = r#"{"pi": [1, 0], "A": [[0, 1], [1, 0]], "B": [[1, 0], [0, 1]]}"#;
    fs::write(folder.path().join("ring.json"), ring).unwrap();
    fs::write(folder.path().join("r.csv"), "sequence,x\na,0\na,NA\na,0\n").unwrap();
    let output = piped(folder.path(), &["score", "ring.json", "r.csv", "--missing", "skip"], "");
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("position 3: found symbol 0, which no reachable state emits"), "{message}");
}

/// Vectors with missing numbers are scored, decoded and trained, with equal results on every device and rank.
#[test]
fn missing_numbers_of_vectors_are_integrated_out() {
    let folder = tempfile::tempdir().unwrap();
    let model = r#"{"pi": [0.5, 0.5], "A": [[0.9, 0.1], [0.2, 0.8]], "means": [[0, 0], [4, 2]],
        "covariances": [[[1, 0.5], [0.5, 1]], [[2, -0.4], [-0.4, 1]]]}"#;
    fs::write(folder.path().join("m.json"), model).unwrap();
    // ln P of one vector, whose second number is missing, is that of the mixture of the marginals.
    fs::write(folder.path().join("one.csv"), "x,y\n1,NA\n").unwrap();
    let density = |x: f64, mean: f64, variance: f64| {
        (-(x - mean).powi(2) / (2.0 * variance)).exp() / (std::f64::consts::TAU * variance).sqrt()
    };
    let expected = (0.5 * density(1.0, 0.0, 1.0) + 0.5 * density(1.0, 4.0, 2.0)).ln();
    let score = parsed(&run(folder.path(), "score m.json one.csv --missing marginalise --json"));
    assert!((score["log_likelihood"].as_f64().unwrap() - expected).abs() < 1e-14, "{score}");
    let mut rows = "sequence,x,y\n".to_owned();
    for step in 0..60 {
        let (x, y) = (f64::from(step * 7 % 11) * 0.4, f64::from(step * 5 % 13) * 0.3);
        let (x, y) = match step % 6 {
            1 => ("NA".to_owned(), y.to_string()),
            4 => (x.to_string(), String::new()),
            5 => ("nan".to_owned(), "?".to_owned()),
            _ => (x.to_string(), y.to_string()),
        };
        rows.push_str(&format!("{},{x},{y}\n", step % 2));
    }
    fs::write(folder.path().join("d.csv"), rows).unwrap();
    let message = fails(folder.path(), "score m.json d.csv", 2);
    assert!(message.ends_with("expected a finite number (option missing selects a treatment)\n"), "{message}");
    let report = |command: &str| parsed(&run(folder.path(), &format!("{command} --missing marginalise --json")));
    let number = |value: &Value| value.as_f64().unwrap();
    let close = |one: &Value, other: &Value| (number(one) - number(other)).abs() < 1e-9 * number(one).abs();
    let cpu = report("score m.json d.csv --device cpu");
    assert!(close(&cpu["log_likelihood"], &report("score m.json d.csv --device emulated")["log_likelihood"]));
    let paths = report("decode m.json d.csv --device cpu");
    assert_eq!(paths["paths"], report("decode m.json d.csv --device emulated")["paths"]);
    let posterior = report("posterior m.json d.csv --device cpu");
    assert_eq!(posterior["posteriors"][0].as_array().unwrap().len(), 30);
    for kind in ["full", "diagonal", "spherical", "tied"] {
        let train = |device: &str| {
            let output = piped(
                folder.path(),
                &format!("train m.json d.csv --missing marginalise --covariances {kind} --iterations 20 --tolerance 0 --json --device {device}")
                    .split(' ')
                    .collect::<Vec<_>>(),
                "",
            );
            parsed(&String::from_utf8(output.stdout).unwrap())
        };
        let (cpu, emulated) = (train("cpu"), train("emulated"));
        let logs = |report: &Value| report["log_likelihoods"].as_array().unwrap().clone();
        assert!(logs(&cpu).len() > 5 && logs(&cpu).windows(2).all(|pair| number(&pair[1]) > number(&pair[0]) - 1e-9));
        assert!(logs(&cpu).iter().zip(&logs(&emulated)).all(|(one, other)| close(one, other)), "{kind}");
    }
}

/// Everything that `sample` writes can be read again.
#[test]
fn sampled_fasta_is_read_again_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = |symbols: &[&str], named: bool| {
        let b = vec![1.0 / symbols.len() as f64; symbols.len()];
        let mut model = json!({ "pi": [1], "A": [[1]], "B": [b] });
        if named {
            model["symbols"] = json!(symbols);
        }
        fs::write(folder.path().join("m.json"), model.to_string()).unwrap();
    };
    let readable: [(&[&str], bool); 5] = [
        (&["A", "C", "G", "T"], false),
        (&["a", "A", "-", "."], true),
        (&["N", "X"], true),
        (&["A", "C", "G", "U"], true),
        (&["0", "1", "*"], true),
    ];
    for (symbols, named) in readable {
        model(symbols, named);
        run(folder.path(), "sample m.json --sequences 3 --length 150 --out s.fasta");
        let report = parsed(&run(folder.path(), "score m.json s.fasta --json"));
        let expected = -450.0 * (symbols.len() as f64).ln();
        assert!((report["log_likelihood"].as_f64().unwrap() - expected).abs() < 1e-9, "{symbols:?}");
    }
    let refused: [(&[&str], bool, &str); 6] = [
        (&["A", "C"], false, "one letter each"),
        (&["A", "C", "G"], false, "one letter each"),
        (&["A", "CG"], true, "one letter each"),
        (&[">", "A"], true, "no place for the symbol \">\""),
        (&[";", "A"], true, "no place for the symbol \";\""),
        (&[" ", "A"], true, "no place for the symbol \" \""),
    ];
    for (symbols, named, expected) in refused {
        model(symbols, named);
        let message = fails(folder.path(), "sample m.json --length 20 --out t.fasta", 2);
        assert!(message.starts_with("error: --out: ") && message.contains(expected), "{message}");
        assert!(!folder.path().join("t.fasta").exists());
    }
}

#[test]
fn names_with_commas_are_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let model = r#"{"pi": [0.5, 0.5], "A": [[0.9, 0.1], [0.1, 0.9]], "B": [[0.9, 0.1], [0.2, 0.8]],
        "states": ["dry, warm", "wet"], "symbols": ["no", "rain, hail"]}"#;
    fs::write(folder.path().join("m.json"), model).unwrap();
    fs::write(folder.path().join("d.csv"), "day;seen\nx,y;no\nx,y;no\nx,y;\"rain, hail\"\n").unwrap();
    let table = run(folder.path(), "posterior m.json d.csv --id day");
    assert!(table.starts_with("sequence,position,\"dry, warm\",wet\n\"x,y\",1,"), "{table}");
    run(folder.path(), "decode m.json d.csv --id day --out p.csv");
    let written = fs::read_to_string(folder.path().join("p.csv")).unwrap();
    assert!(written.starts_with("sequence,position,state\n\"x,y\",1,\"dry, warm\"\n"), "{written}");
    assert!(run(folder.path(), "decode m.json d.csv --id day").starts_with("\"dry, warm\" "));
    run(folder.path(), "score m.json d.csv --id day --out s.csv");
    assert!(fs::read_to_string(folder.path().join("s.csv")).unwrap().contains("\n\"x,y\",-"));
    run(folder.path(), "sample m.json --length 9 --out w.csv");
    assert_eq!(run(folder.path(), "decode m.json w.csv").split('"').count() % 2, 1);
}

#[test]
fn samples_go_through_every_command() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "generate random --states 4 --dimensions 2 --full --seed 1 --out m.npz");
    run(folder.path(), "sample m.npz --sequences 20 --length 30 --out d.npy --lengths l.npy --states s.txt");
    let report = parsed(&run(folder.path(), "score m.npz d.npy --lengths l.npy --json"));
    assert_eq!((&report["sequences"], &report["observations"]), (&json!(20), &json!(600)));
    let printed = run(folder.path(), "train m.npz d.npy --lengths l.npy --out t.npz --quiet");
    assert!(printed.starts_with("ln P(O) = ") && printed.lines().count() == 1, "{printed}");
    assert!(printed.ends_with("iterations\n") && printed.contains("converged after "), "{printed}");
    run(folder.path(), "decode t.npz d.npy --lengths l.npy --out p.txt");
    // Decoding recovers well separated states almost always.
    let (hidden, found) = ["s.txt", "p.txt"].map(|name| fs::read_to_string(folder.path().join(name)).unwrap()).into();
    let pairs = || hidden.split_whitespace().zip(found.split_whitespace());
    assert_eq!(pairs().count(), 600);
    assert!(pairs().filter(|(a, b)| a == b).count() > 420);
    let info = run(folder.path(), "info m.npz --plot a.svg");
    assert_eq!(info.lines().next(), Some("States (N)       4, 4 to start in"));
    assert!(info.contains("Emissions        vectors of 2, normal, full covariances\n"), "{info}");
    assert!(fs::read_to_string(folder.path().join("a.svg")).unwrap().contains("transition probabilities"));
    run(folder.path(), "generate left-right --states 5 --jump 2 --symbols 3 --ends --out w.json");
    let info = parsed(&run(folder.path(), "info w.json --json"));
    assert_eq!((&info["left_right"], &info["ends"], &info["transitions"]), (&json!(true), &json!(1), &json!(12)));
    assert_eq!(run(folder.path(), "sample w.json --sequences 3").lines().count(), 3);
}

#[test]
fn models_and_sequences_are_read_from_pipes() {
    let folder = ice_cream();
    let output = piped(folder.path(), &["score", "ice.json", "-", "--json"], "1 2 3\n");
    assert_eq!(output.status.code(), Some(0));
    let message = fails(folder.path(), "score - -", 2);
    assert_eq!(message, "error: model and sequences cannot both come from the standard input\n");
    let model = run(folder.path(), "generate ice-cream --out -");
    let output = piped(folder.path(), &["decode", "-", "diary.txt"], &model);
    assert_eq!(output.stdout.len(), 2 * 33);
}

/// A sample that the output format cannot hold is refused before sampling starts.
#[test]
fn samples_that_cannot_be_written_are_refused_first() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "generate random --states 2 --symbols 5 --out many.json");
    run(folder.path(), "generate random --states 2 --dimensions 2 --out vectors.json");
    // Sampling this many would take too long.
    let endless = "--sequences 4000000000 --length 4000000000";
    for (model, format, words) in [
        ("many", "fasta", "one letter each"),
        ("vectors", "fasta", "no place for vectors"),
        ("vectors", "lines", "vectors are written to .csv and .npy"),
        ("many", "umdhmm", "one sequence of symbols"),
        ("vectors", "umdhmm", "one sequence of symbols"),
        ("many", "npy", "need --lengths"),
    ] {
        for out in ["x", "-"] {
            let message = fails(folder.path(), &format!("sample {model}.json {endless} --to {format} --out {out}"), 2);
            assert!(message.contains(words), "{model}, {format}: {message}");
        }
    }
    let message = fails(folder.path(), &format!("sample many.json {endless} --out x.csv"), 2);
    assert!(message.contains("x.csv") && message.contains("needs at least"), "{message}");
    assert!(!folder.path().join("x.csv").exists() && !folder.path().join("x").exists());
}
