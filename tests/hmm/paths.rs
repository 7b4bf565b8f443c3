//! `warpkov hmm decode --best` and `--samples`, `posterior --summary` and `score --window`, run as users run them.

use std::fs;

use crate::common::{fails, ice_cream, parsed, run};

/// The numbers of an array of NumPy behind its header.
fn numbers<const N: usize>(path: &std::path::Path) -> Vec<[u8; N]> {
    let bytes = fs::read(path).unwrap();
    let header = 10 + u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    bytes[header..].as_chunks::<N>().0.to_vec()
}

#[test]
fn decode_lists_the_best_paths() {
    let folder = ice_cream();
    let folder = folder.path();
    fs::write(folder.join("days.txt"), "2 3 3\n1\n").unwrap();
    let text = run(folder, "decode ice.json days.txt --best 3");
    let lines: Vec<&str> = text.lines().collect();
    // P(O, q) is 3.136 · 10⁻³, 3.92 · 10⁻⁴ and 6.4 · 10⁻⁵.
    assert_eq!(lines, ["-5.764807\tH H H", "-7.844249\tC H H", "-9.656627\tC C C", "-3.352407\tC", "-5.298317\tH"]);
    assert_eq!(run(folder, "decode ice.json days.txt"), "H H H\nC\n");
    let json = parsed(&run(folder, "decode ice.json days.txt --best 3 --json"));
    assert_eq!(json["paths"][0][1], parsed(r#"["C", "H", "H"]"#));
    assert_eq!(json["paths"][1].as_array().unwrap().len(), 2);
    assert!((json["scores"][0][0].as_f64().unwrap() - 0.003_136_f64.ln()).abs() < 1e-12);
    run(folder, "decode ice.json days.txt --best 3 --out best.csv");
    let table = fs::read_to_string(folder.join("best.csv")).unwrap();
    assert!(table.starts_with("sequence,path,position,state\n1,1,1,H\n1,1,2,H\n1,1,3,H\n1,2,1,C\n"), "{table}");
    assert!(table.ends_with("2,1,1,C\n2,2,1,H\n"), "{table}");
    run(folder, "decode ice.json days.txt --best 3 --out best.npy");
    let states: Vec<u32> = numbers(&folder.join("best.npy")).into_iter().map(u32::from_le_bytes).collect();
    assert_eq!(states, [1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, u32::MAX]);
    // Of all eight paths, the probabilities sum to P(O).
    let json = parsed(&run(folder, "decode ice.json days.txt --best 99 --json"));
    let scores = json["scores"][0].as_array().unwrap();
    let total: f64 = scores.iter().map(|score| score.as_f64().unwrap().exp()).sum();
    assert!(scores.len() == 8 && (total - 0.003_726).abs() < 1e-15, "{total}");
    for (arguments, message) in [
        ("--best 0", "0 is not in 1.."),
        ("--best 2 --by posterior", "cannot be used with"),
        ("--best 2 --samples 2", "cannot be used with"),
        ("--best 2 --out a.bed", "a .bed file holds one path of each sequence"),
        ("--best 2 --device emulated", "--best runs on the CPU, in f64"),
        ("--samples 2 --precision f32", "--samples runs on the CPU, in f64"),
        ("--seed 2", "required"),
    ] {
        let found = fails(folder, &format!("decode ice.json days.txt {arguments}"), 2);
        assert!(found.contains(message), "{found}");
    }
    fs::write(folder.join("long.txt"), "1 ".repeat(100_000)).unwrap();
    let found = fails(folder, "decode ice.json long.txt --best 4000000000", 3);
    assert!(found.contains("4000000000 best paths of sequence 1 need"), "{found}");
}

#[test]
fn decode_draws_paths() {
    let folder = ice_cream();
    let folder = folder.path();
    fs::write(folder.join("days.txt"), "2 3 3\n1\n").unwrap();
    let text = run(folder, "decode ice.json days.txt --samples 2000 --seed 7");
    assert_eq!(text.lines().count(), 4000);
    assert_eq!(run(folder, "decode ice.json days.txt --samples 5 --seed 7").lines().count(), 10);
    let first = |text: &str| text.lines().take(5).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(first(&run(folder, "decode ice.json days.txt --samples 5 --seed 7")), first(&text));
    // γ₁(H) is 0.8607.
    let hot = text.lines().take(2000).filter(|path| path.starts_with('H')).count();
    assert!((1721 - 80..1721 + 80).contains(&hot), "{hot}");
    // A missing day, and a model that cannot emit the second sequence.
    fs::write(folder.join("gap.txt"), "2 ? 3\n").unwrap();
    let gap = run(folder, "decode ice.json gap.txt --missing marginalise --samples 3");
    assert!(gap.lines().count() == 3 && gap.lines().all(|line| line.split(' ').count() == 3), "{gap}");
    let ring = r#"{"pi": [0.5, 0.5], "A": [[0, 1], [1, 0]], "B": [[1, 0], [0, 1]], "states": ["a", "b"]}"#;
    fs::write(folder.join("ring.json"), ring).unwrap();
    fs::write(folder.join("two.txt"), "0 1 0\n0 0\n").unwrap();
    assert_eq!(run(folder, "decode ring.json two.txt --samples 2"), "a b a\na b a\nimpossible\n");
    assert_eq!(run(folder, "decode ring.json two.txt --best 2"), "-0.693147\ta b a\nimpossible\n");
}

#[test]
fn posterior_sums_times_and_visits() {
    let folder = ice_cream();
    let folder = folder.path();
    fs::write(folder.join("days.txt"), "2 3 3\n1\n").unwrap();
    let json = parsed(&run(folder, "posterior ice.json days.txt --summary --json"));
    let number = |key: &str, sequence: usize, state: usize| json[key][sequence][state].as_f64().unwrap();
    let posteriors = parsed(&run(folder, "posterior ice.json days.txt --json"));
    for state in 0..2 {
        let rows = posteriors["posteriors"][0].as_array().unwrap();
        let time: f64 = rows.iter().map(|row| row[state].as_f64().unwrap()).sum();
        assert!((number("time", 0, state) - time).abs() < 1e-12);
        assert!((number("visits", 1, state) - number("time", 1, state)).abs() < 1e-12);
    }
    let text = run(folder, "posterior ice.json days.txt --summary");
    assert!(text.starts_with("sequence,state,time,visits\n1,C,") && text.lines().count() == 5, "{text}");
    run(folder, "posterior ice.json days.txt --summary --out sums.npy");
    let found: Vec<f64> = numbers(&folder.join("sums.npy")).into_iter().map(f64::from_le_bytes).collect();
    assert_eq!((found.len(), found[1], found[7]), (8, number("time", 0, 1), number("visits", 1, 1)));
    let message = fails(folder, "posterior ice.json days.txt --summary --device emulated", 2);
    assert!(message.contains("--summary runs on the CPU"), "{message}");
}

#[test]
fn score_slides_a_window() {
    let folder = ice_cream();
    let folder = folder.path();
    fs::write(folder.join("days.txt"), "2 3 3 1 2\n1\n3 3\n").unwrap();
    let expected = |text: &str| {
        fs::write(folder.join("part.txt"), text).unwrap();
        parsed(&run(folder, "score ice.json part.txt --json"))["log_likelihoods"][0].as_f64().unwrap()
    };
    let all = [("1", "1", "2 3"), ("1", "2", "3 3"), ("1", "3", "3 1"), ("1", "4", "1 2"), ("3", "1", "3 3")];
    for device in ["cpu", "emulated"] {
        for (step, parts) in [(1, &all[..]), (3, &[all[0], all[3], all[4]][..])] {
            let text = run(folder, &format!("score ice.json days.txt --window 2 --step {step} --device {device}"));
            let mut lines = text.lines();
            assert_eq!(lines.next(), Some("sequence,position,log_likelihood"));
            for (sequence, position, part) in parts {
                let line = lines.next().unwrap();
                let log: f64 = line.strip_prefix(&format!("{sequence},{position},")).unwrap().parse().unwrap();
                assert!((log - expected(part)).abs() < 1e-12, "{line}");
            }
            assert_eq!(lines.next(), None);
        }
    }
    run(folder, "score ice.json days.txt --window 2 --out windows.npy");
    let found: Vec<f64> = numbers(&folder.join("windows.npy")).into_iter().map(f64::from_le_bytes).collect();
    let json = parsed(&run(folder, "score ice.json days.txt --window 2 --json"));
    assert_eq!(json["log_likelihoods"], serde_json::json!(found));
    assert_eq!((&json["sequences"][4], &json["first"][4], &json["window"]), (&3.into(), &1.into(), &2.into()));
    // Positions of observations that were not removed.
    fs::write(folder.join("gap.txt"), "2 ? 3 3\n").unwrap();
    let gap = run(folder, "score ice.json gap.txt --missing split --window 2");
    assert!(gap.lines().nth(1).unwrap().contains(",3,"), "{gap}");
    let message = fails(folder, "score ice.json days.txt --window 6", 2);
    assert!(message.contains("--window: expected at most 5, the longest sequence"), "{message}");
    let message = fails(folder, "score ice.json days.txt --step 2", 2);
    assert!(message.contains("--window"), "{message}");
}
