//! `warpkov mdp solve` by criteria other than the discounted sum, run as users and scripts run it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::run;

/// State 0: stay with reward 1, or go to state 1 with reward 0; state 1: return with reward 3. In Gymnasium's format.
const DETOUR: &str = r#"{"gamma": 1, "P": [[[[1, 0, 1, false]], [[1, 1, 0, false]]], [[[1, 0, 3, false]]]]}"#;

/// The output of `warpkov mdp …`, which must have exit code `code`.
#[track_caller]
fn printed(folder: &Path, arguments: &[&str], code: i32) -> String {
    let output = run(folder, &[&["mdp"], arguments].concat());
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The output of `warpkov mdp solve` on the CPU.
#[track_caller]
fn solved(folder: &Path, arguments: &[&str]) -> String {
    printed(folder, &[&["solve"], arguments, &["--device", "cpu"]].concat(), 0)
}

#[track_caller]
fn report(folder: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&solved(folder, &[arguments, &["--json"]].concat())).unwrap()
}

/// Asserts exit code 2 and each of `words` on stderr.
#[track_caller]
fn refuses(folder: &Path, arguments: &[&str], words: &[&str]) {
    let output = run(folder, &[&["mdp", "solve"], arguments].concat());
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b""[..]), "{arguments:?}: {message}");
    words.iter().for_each(|word| assert!(message.contains(word), "{arguments:?}: no '{word}' in: {message}"));
}

fn folder_with(name: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(name), text).unwrap();
    folder
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)
}

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).unwrap()
}

/// V and its two bounds, from the line that begins with `Value at init:`.
fn value_at_init(report: &str) -> [f64; 3] {
    let line = report.lines().find_map(|line| line.strip_prefix("Value at init: ")).expect("no value at init");
    let found: Vec<f64> = line.split([',', ' ']).filter_map(|word| word.parse().ok()).collect();
    found.try_into().unwrap()
}

/// A total reward of exactly 0, by cancellation: proven if numbers with enough bits are affordable, otherwise reported.
#[test]
fn a_value_that_may_be_zero_has_no_relative_error() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // State 0 earns the amount that state 1 loses. The number of bits that distinguishes 0 from nearby values grows
    // with the states.
    let write = |name: &str, states: usize| {
        let end = states - 1;
        let (mut text, mut starts) = (String::new(), vec![0, 1, 2]);
        for state in 2..end {
            text += &format!(",{},{end}", (state + 1).min(end - 1));
            starts.push(2 + 2 * (state - 1));
        }
        starts.push(starts[end] + 1);
        let data: String = (2..end).map(|_| ",0.1,0.9").collect();
        let earned: String = (2..end).map(|_| ",0.3").collect();
        let model = format!(
            "{{\"S\":{states},\"A\":1,\"gamma\":1,\"P\":{{\"indptr\":{starts:?},\"indices\":[1,{end}{text},{end}],\
             \"data\":[1,1{data},1]}},\"action_rewards\":[0.1,-0.1{earned},0]}}"
        );
        fs::write(folder.join(name), model).unwrap();
    };
    write("small.json", 60);
    write("large.json", 3000);
    let found = report(folder, &["small.json", "--criterion", "total", "--relative"]);
    assert_eq!((&found["values"][0], &found["converged"]), (&json!(0.0), &json!(true)), "{found}");
    let text = printed(folder, &["solve", "large.json", "--criterion", "total", "--relative", "--device", "cpu"], 1);
    assert!(text.contains("Not solved to ε = 1e-6 |V*|: the value of state 0 is between -"), "{text}");
    assert!(
        text.contains("a value that may be 0 has no relative error") && !text.contains("and ≤ 1e-6 |V*|"),
        "{text}"
    );
}

/// Quantitative Verification Benchmark Set, `consensus` of two processes, K = 2: c2, disagree, steps_max and steps_min.
#[test]
fn consensus_from_generator_to_report() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    printed(folder, &["generate", "consensus", "--out", "coin.json"], 0);
    for (exact, criterion) in [
        (49.0 / 128.0, ["reach", "--goal", "finished & all_coins_equal_1", "--minimize"]),
        (13.0 / 120.0, ["reach", "--goal", "finished & !agree", "--maximize"]),
        (75.0, ["total", "--goal", "finished", "--maximize"]),
        (48.0, ["total", "--goal", "finished", "--minimize"]),
    ] {
        let solve = [&["coin.json", "--criterion"], &criterion[..]].concat();
        let text = solved(folder, &solve);
        let [value, lower, upper] = value_at_init(&text);
        assert!(lower <= exact && exact <= upper && upper - lower <= 2e-6, "{exact}: {lower} to {upper}");
        assert!((lower..=upper).contains(&value) && text.contains("Certified: |V − V*| ≤ "), "{text}");
        let found = report(folder, &[&solve[..], &["--out", "solution.json"]].concat());
        let [lower, upper] = ["lower", "upper"].map(|bound| found["init"][0][bound].as_f64().unwrap());
        assert!(lower <= exact && exact <= upper && found["error"].as_f64().unwrap() <= 1e-6, "{found}");
        assert_eq!((&found["criterion"], &found["converged"]), (&json!(criterion[0]), &json!(true)));
        assert!(found["values"].is_null(), "they are in the file");
        let all: Value = serde_json::from_slice(&fs::read(folder.join("solution.json")).unwrap()).unwrap();
        assert_eq!([&all["values"], &all["upper"], &all["policy"]].map(|all| all.as_array().unwrap().len()), [272; 3]);
    }
    let relative =
        ["coin.json", "--criterion", "reach", "--goal", "finished & !agree", "--relative", "--epsilon", "1e-3"];
    assert!(solved(folder, &relative).contains("and ≤ 1e-3 |V*|"));

    let text =
        printed(folder, &["solve", "coin.json", "--criterion", "total", "--goal", "finished", "--max-sweeps", "3"], 1);
    assert!(text.contains("Not converged: the bounds were still too far apart"), "{text}");
    let [_, lower, upper] = value_at_init(&text);
    assert!(lower <= 75.0 && 75.0 <= upper, "{text}");

    // Each step costs 1 and γ = 1/2: a long run costs nearly 2.
    let text = solved(folder, &["coin.json", "--gamma", "0.5", "--minimize"]);
    let line = text.lines().find_map(|line| line.strip_prefix("Value at init: ")).unwrap();
    assert!((line.parse::<f64>().unwrap() - 2.0).abs() < 1e-2, "{line}");

    let info = printed(folder, &["info", "coin.json"], 0);
    assert!(info.contains("Action rewards   ") && !info.contains("Rewards          none"), "{info}");
}

/// Gymnasium 1.4's FrozenLake, slippery, undiscounted: V(0) = 14/17.
#[test]
fn frozen_lake_undiscounted_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lake = data("frozen-lake-4x4.json");
    let solve = [lake.to_str().unwrap(), "--criterion", "total", "--epsilon", "1e-9"];
    let found = report(folder, &solve);
    let [value, lower, upper] = ["values", "lower", "upper"].map(|key| numbers(&found[key])[0]);
    let exact = 14.0 / 17.0;
    assert!(lower <= exact && exact <= upper && (value - exact).abs() <= 1e-9, "{value}");
    for out in ["a.json", "a.csv", "a.npy", "a.txt"] {
        solved(folder, &[&solve[..], &["--out", out]].concat());
    }
    let table = fs::read_to_string(folder.join("a.csv")).unwrap();
    assert_eq!(table.lines().nth(1).unwrap().split(',').nth(1).unwrap().parse::<f64>().unwrap(), value);
    let array = fs::read(folder.join("a.npy")).unwrap();
    assert_eq!(array[128..136], value.to_le_bytes());
    assert_eq!(fs::metadata(folder.join("a.policy.npy")).unwrap().len(), 128 + 16 * 4);
    printed(folder, &["compare", "a.json", "a.txt"], 0);
    assert_eq!(solved(folder, &[&solve[..], &["--out", "-"]].concat()), table);
}

#[test]
fn horizons_are_solved_step_by_step() {
    let folder = folder_with("detour.json", DETOUR);
    let folder = folder.path();
    let horizon = |arguments: &[&str]| report(folder, &[&["detour.json", "--horizon"], arguments].concat());
    let close = |found: &Value, expected: &[f64]| {
        let off = numbers(found).iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off < 1e-12, "{found}, expected {expected:?}");
    };
    // At t = 0 both actions have the value 4; at t = 1 going has 3 and staying 2; at t = 2 only staying earns.
    let found = horizon(&["3", "--all-steps", "plan.json"]);
    close(&found["values"], &[4.0, 6.0]);
    assert_eq!(
        (&found["criterion"], &found["horizon"], &found["policy"]),
        (&json!("horizon"), &json!(3), &json!([0, 0]))
    );
    let plan: Value = serde_json::from_slice(&fs::read(folder.join("plan.json")).unwrap()).unwrap();
    assert_eq!(plan, json!({ "values": [[4.0, 6.0], [3.0, 4.0], [1.0, 3.0]], "policy": [[0, 0], [1, 0], [0, 0]] }));
    horizon(&["3", "--all-steps", "plan.npy"]);
    let array = fs::read(folder.join("plan.npy")).unwrap();
    assert!(String::from_utf8_lossy(&array[..128]).contains("'shape': (3, 2)"));
    assert_eq!(array[128..], [4.0_f64, 6.0, 3.0, 4.0, 1.0, 3.0].map(f64::to_le_bytes).concat());
    assert_eq!(fs::metadata(folder.join("plan.policy.npy")).unwrap().len(), 128 + 6 * 4);

    close(&horizon(&["4", "--minimize"])["values"], &[3.0, 5.0]);
    close(&horizon(&["3", "--gamma", "0.5"])["values"], &[1.75, 3.75]);
    fs::write(folder.join("last.json"), "[10, 20]").unwrap();
    close(&horizon(&["1", "--terminal-values", "last.json"])["values"], &[20.0, 13.0]);
    close(&horizon(&["1", "--terminal-values", "last.json", "--minimize"])["values"], &[11.0, 13.0]);
    close(&horizon(&["0", "--terminal-values", "last.json"])["values"], &[10.0, 20.0]);
    assert!(solved(folder, &["detour.json", "--horizon", "3"]).contains("gamma=1, horizon=3"));
    fs::write(folder.join("short.json"), "[10]").unwrap();
    let short = ["detour.json", "--horizon", "1", "--terminal-values", "short.json"];
    refuses(folder, &short, &["short.json: 1 terminal values, expected one per state, 2"]);
}

/// γ = 0.9: staying earns 10, the cycle 2.7/0.19. Undiscounted: 1 per step, or 1.5.
#[test]
fn objectives_and_gains() {
    let folder = folder_with("detour.json", DETOUR);
    let folder = folder.path();
    for (more, exact, gain) in [("--maximize", 2.7 / 0.19, 1.5), ("--minimize", 10.0, 1.0)] {
        let found = report(folder, &["detour.json", "--gamma", "0.9", more]);
        assert!((numbers(&found["values"])[0] - exact).abs() <= 1e-6, "{more}: {found}");
        let average = ["detour.json", "--criterion", "average", more];
        let found = report(folder, &average);
        assert!(numbers(&found["values"]).iter().all(|value| (value - gain).abs() <= 1e-6), "{more}: {found}");
        // h + g = r + Ph in state 1.
        let bias = numbers(&found["bias"]);
        assert!((bias[1] + gain - 3.0 - bias[0]).abs() < 1e-5, "{bias:?}");
        assert!(solved(folder, &average).contains("Gain: "));
    }
}

#[test]
fn infinite_values_are_written_and_read() {
    let folder = folder_with("detour.json", DETOUR);
    let folder = folder.path();
    let total = ["detour.json", "--criterion", "total"];
    let found = report(folder, &total);
    assert_eq!((&found["values"], &found["error"]), (&json!(["inf", "inf"]), &json!(0.0)));
    let text = solved(folder, &[&total[..], &["--out", "a.json"]].concat());
    assert!(text.contains("Optimal value: inf inf\n"), "{text}");
    assert!(text.contains("Note: the values of 2 states are infinite"), "{text}");
    for out in ["a.csv", "a.txt", "a.npy"] {
        solved(folder, &[&total[..], &["--out", out]].concat());
    }
    assert!(fs::read_to_string(folder.join("a.csv")).unwrap().contains("\n0,inf,"));
    assert_eq!(fs::read(folder.join("a.npy")).unwrap()[128..136], f64::INFINITY.to_le_bytes());
    printed(folder, &["compare", "a.json", "a.txt"], 0);
}

#[test]
fn incompatible_options_are_refused() {
    let folder = folder_with("detour.json", DETOUR);
    let folder = folder.path();
    let refuses = |arguments: &[&str], words: &[&str]| refuses(folder, &[&["detour.json"], arguments].concat(), words);
    refuses(&[], &["gamma is 1", "option criterion"]);
    refuses(&["--criterion", "reach"], &["needs --goal"]);
    refuses(&["--criterion", "reach", "--goal", "home"], &["'home'", "no labels"]);
    refuses(&["--criterion", "reach", "--goal", "0,2"], &["found '2', expected a state: a number below 2"]);
    refuses(&["--goal", "0"], &["--goal needs --criterion reach"]);
    refuses(&["--criterion", "average", "--goal", "0"], &["--goal needs --criterion reach"]);
    refuses(&["--relative"], &["--relative needs"]);
    refuses(&["--criterion", "average", "--horizon", "3"], &["cannot be used with"]);
    refuses(&["--minimize", "--maximize"], &["cannot be used with"]);
    refuses(&["--all-steps", "a.npy"], &["--horizon"]);
    refuses(&["--horizon", "3", "--all-steps", "a.txt"], &[".json or .npy or .csv"]);
    refuses(&["--criterion", "average", "--gamma", "0.5"], &["--gamma is for the discounted criterion only"]);
    refuses(&["--criterion", "average", "--method", "serial"], &["--method is for"]);
    refuses(&["--criterion", "average", "--plot", "a.jpeg"], &[".svg or .png"]);
    printed(folder, &["generate", "consensus", "--out", "coin.drn"], 0);
    let labels = "there is no label 'done', the model has ";
    let coin = ["mdp", "solve", "coin.drn", "--criterion", "reach", "--goal", "done"];
    let message = String::from_utf8(run(folder, &coin).stderr).unwrap();
    assert!(message.contains(labels) && message.contains("'agree', ") && message.contains("'init'"), "{message}");
    let absent = ["mdp", "solve", "detour.json", "--criterion", "average", "--device", "cuda:4096"];
    assert_eq!(run(folder, &absent).status.code(), Some(3));
}

/// Plots of grids are maps, of other models profiles. For undiscounted criteria they also show the bounds per sweep,
/// unless the graph analysis alone solved the model.
#[test]
fn plots_show_values_bias_and_bounds() {
    let folder = folder_with("detour.json", DETOUR);
    let folder = folder.path();
    printed(folder, &["generate", "grid", "--width", "7", "--height", "5", "--out", "grid.json"], 0);
    printed(folder, &["generate", "consensus", "--out", "coin.drn"], 0);
    let bounds = "Half of the widest interval between bounds";
    let coin = ["coin.drn", "--criterion", "reach", "--goal", "finished & !agree", "--maximize"];
    let cases: [(&[&str], &[&str], bool, bool); 7] = [
        (&coin, &["272 states", "probability of reaching the goal", "Probabilities, sorted"], false, true),
        (&["grid.json", "--criterion", "reach", "--goal", "12"], &["7 × 5 cells, probability of", ">P<"], true, false),
        (
            &["grid.json", "--criterion", "total", "--goal", "34", "--minimize"],
            &["total reward until", ">V<"],
            true,
            true,
        ),
        (&["grid.json", "--criterion", "average"], &["average reward"], true, true),
        (&["grid.json", "--horizon", "9"], &["reward of 9 steps, γ = 0.9", ">V<"], true, false),
        (&["detour.json", "--criterion", "average"], &["average reward 1.5", "Bias, sorted"], false, true),
        (&["detour.json", "--horizon", "1"], &["reward of 1 step, γ = 1", "Values, sorted"], false, false),
    ];
    for (arguments, expected, map, bounded) in cases {
        solved(folder, &[arguments, &["--plot", "a.svg", "--plot", "a.png"]].concat());
        let svg = fs::read_to_string(folder.join("a.svg")).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        let text: String = svg.lines().filter(|line| !line.contains("base64")).map(|line| line.trim()).collect();
        for words in expected.iter().copied().chain([": solved", "|V − V*| ≤"]) {
            assert!(text.contains(words), "{arguments:?}: no '{words}' in {text}");
        }
        assert_eq!((svg.contains("data:image/png;base64,"), text.contains(bounds)), (map, bounded), "{arguments:?}");
        assert_eq!(text.contains("‖ΔV‖∞"), arguments.contains(&"--horizon"), "{arguments:?}");
        let image = image::load_from_memory(&fs::read(folder.join("a.png")).unwrap()).unwrap();
        assert_eq!((image.width(), image.height()), (1600, 960));
        let colors: std::collections::HashSet<_> = image.to_rgb8().pixels().copied().collect();
        assert!(colors.len() > 50, "{arguments:?}: {} colours", colors.len());
    }
}

#[test]
fn models_are_generated_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let formats = ["json", "safetensors", "prism", "storm", "drn", "xml", "text", "npz", "petsc", "umb", "gymnasium"];
    for format in formats {
        let out = format!("forest-{format}.{}", if format == "petsc" { "P.bin" } else { "tra" });
        printed(folder, &["generate", "forest", "--out", &out, "--to", format], 0);
        let info = printed(folder, &["info", &out, "--format", format, "--json"], 0);
        assert!(serde_json::from_str::<Value>(&info).unwrap()["states"].as_u64() >= Some(3), "{format}");
    }
    assert!(printed(folder, &["generate", "forest", "--out", "-", "--to", "drn"], 0).contains("@type: MDP"));
}

/// The status is "solved" if and only if the run has converged; otherwise it names the reason.
#[test]
fn the_status_says_how_a_run_ended() {
    let folder = folder_with("detour.json", DETOUR);
    let folder = folder.path();
    fs::write(folder.join("huge.json"), DETOUR.replace("3, false", "1.5e308, false")).unwrap();
    let garnet =
        "generate garnet --states 10 --actions 3 --branching 3 --ragged --gamma 0.99999 --seed 108 --out slow.json";
    printed(folder, &garnet.split(' ').collect::<Vec<_>>(), 0);
    for (arguments, code, status) in [
        ("detour.json --gamma 0.9", 0, "solved"),
        ("detour.json --gamma 0.9 --epsilon 1e-15", 1, "stalled"),
        ("detour.json --gamma 0.99999 --epsilon 1e-15", 1, "stalled"),
        ("detour.json --gamma 0.9 --epsilon 1e-15 --method krylov", 1, "stalled"),
        ("detour.json --gamma 0.9 --precision f32 --epsilon 1e-9", 1, "stalled"),
        ("detour.json --gamma 0.9 --method krylov --precision f32 --epsilon 1e-9", 0, "solved"),
        ("detour.json --gamma 0.9 --max-sweeps 1", 1, "sweep-limit"),
        ("detour.json --gamma 0.9 --theta 1e-9 --max-sweeps 2 --method serial", 1, "sweep-limit"),
        ("detour.json --gamma 0.9 --theta 1e-9 --method serial", 0, "solved"),
        ("detour.json --gamma 0.9 --max-policies 1 --method serial", 1, "policy-limit"),
        ("detour.json --gamma 0.9 --tie 2 --method serial", 1, "stalled"),
        ("huge.json --gamma 0.99", 1, "overflow"),
        ("huge.json --gamma 0.99 --theta 1 --method serial --max-policies 9", 1, "overflow"),
        ("detour.json --horizon 3 --epsilon 1e-30", 1, "stalled"),
        ("detour.json --horizon 3", 0, "solved"),
        ("detour.json --criterion average --epsilon 1e-30", 1, "stalled"),
        ("detour.json --criterion average", 0, "solved"),
        ("slow.json --method gauss-seidel --epsilon 1", 0, "solved"),
        ("slow.json --method sequential --epsilon 1", 0, "solved"),
    ] {
        let words: Vec<&str> = arguments.split(' ').collect();
        let text = printed(folder, &[&["solve"], &words[..], &["--device", "cpu", "--json"]].concat(), code);
        let found: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&found["status"], &found["converged"]), (&json!(status), &json!(code == 0)), "{arguments}");
        assert!(code == 0 || !found["notes"].to_string().contains("were enough"), "{arguments}: {}", found["notes"]);
    }
    let krylov = ["detour.json", "--gamma", "0.9", "--method", "krylov", "--precision", "f32"];
    let found = report(folder, &krylov);
    assert_eq!((&found["precision"], &found["tie"]), (&json!("f64"), &json!(1e-9)));
    assert!(found["notes"].to_string().contains("krylov computes in f64"), "{found}");
    let text = printed(folder, &["solve", "detour.json", "--gamma", "0.9", "--tie", "2", "--method", "serial"], 1);
    assert!(text.contains("actions within the tie margin 2e0 pass for equal"), "{text}");
}

/// Four entries of one successor sum to slightly more than 1, and a single number may exceed 1 as much, in every
/// format.
#[test]
fn rows_may_have_rounding_errors() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let model = |entries: &str| format!(r#"{{"gamma": 0.5, "P": [[[{entries}], [[1.0, 0, 0, false]]]]}}"#);
    let split = "[0.8, 0, 1, false], [0.05, 0, 1, false], [0.05, 0, 1, false], [0.1, 0, 1, false]";
    fs::write(folder.join("split.json"), model(split)).unwrap();
    fs::write(folder.join("one.json"), model("[1.0000005, 0, 1, false]")).unwrap();
    for name in ["split.json", "one.json"] {
        let formats = ["json", "safetensors", "prism", "drn", "npz", "petsc", "umb", "gymnasium"];
        for format in formats {
            let out = format!("{name}-{format}.{}", if format == "petsc" { "P.bin" } else { "tra" });
            printed(folder, &["convert", name, &out, "--to", format], 0);
            let found = report(folder, &[&out, "--format", format, "--gamma", "0.5"]);
            // PETSc files contain costs.
            assert!((numbers(&found["values"])[0].abs() - 2.0).abs() < 1e-5, "{name} as {format}: {found}");
        }
    }
    for wrong in ["1.000002", "-1e-9", "nan"] {
        fs::write(folder.join("wrong.json"), model(&format!("[{wrong}, 0, 1, false]"))).unwrap();
        refuses(folder, &["wrong.json"], &["wrong.json"]);
    }
}

/// 60 states from which one action leads to the next state or back to the first at random, and another directly to the
/// end of this path.
#[test]
fn ties_with_long_paths_are_solved_quickly() {
    let way = |i: usize| format!("[[[0.5, 0, 0, false], [0.5, {}, 0, false]], [[1, 60, 0, false]]]", i + 1);
    let states: Vec<String> = (0..60).map(way).collect();
    let last = "[[[0.5, 61, 3, false], [0.5, 62, 1, false]]], [[[1, 61, 0, false]]], [[[1, 62, 0, false]]]";
    let folder = folder_with("way.json", &format!(r#"{{"gamma": 1, "P": [{}, {last}]}}"#, states.join(", ")));
    let folder = folder.path();
    for (criterion, exact) in [(&["reach", "--goal", "61"][..], 0.5), (&["total"], 2.0)] {
        let found = report(folder, &[&["way.json", "--criterion"], criterion].concat());
        assert!((numbers(&found["values"])[0] - exact).abs() < 1e-9, "{found}");
        assert_eq!((&found["bits"], &found["converged"]), (&json!(128), &json!(true)));
        let text = solved(folder, &[&["way.json", "--criterion"], criterion].concat());
        assert!(text.contains("policies evaluated by elimination in 128 bits"), "{text}");
    }
}

/// The first Ctrl-C ends the sweeps, with a report and the exit code of an interrupted process.
#[cfg(unix)]
#[test]
fn an_interrupted_solve_still_reports() {
    let folder = folder_with("detour.json", DETOUR);
    let solve = ["mdp", "solve", "detour.json", "--horizon", "4000000000", "--device", "cpu", "--json"];
    let child = Command::new(env!("CARGO_BIN_EXE_warpkov"))
        .current_dir(folder.path())
        .args(solve)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(1500));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["status"], &report["converged"]), (&json!("interrupted"), &json!(false)));
}

/// Sums that overflow give no bounds.
#[test]
fn overflowing_values_are_not_certified() {
    let folder = tempfile::tempdir().unwrap();
    let model = r#"{"S":2,"A":1,"gamma":0.99,"P":{"indptr":[0,1,2],"indices":[1,0],"data":[1,1]},
        "R":{"indptr":[0,1,2],"indices":[1,0],"data":[1e308,1e308]}}"#;
    std::fs::write(folder.path().join("large.json"), model).unwrap();
    let solve = |criterion: &[&str]| {
        let arguments = [&["mdp", "solve", "large.json", "--device", "cpu"], criterion].concat();
        let command = std::process::Command::new(env!("CARGO_BIN_EXE_warpkov"));
        let output = { command }.current_dir(folder.path()).args(&arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = solve(&["--horizon", "20"]);
    assert!(code == Some(1) && !said.contains("Certified:"), "{code:?} {said}");
    // The mean is finite and can be bounded.
    let (code, said) = solve(&["--criterion", "average"]);
    assert!(code == Some(1) && !said.contains("NaN"), "{code:?} {said}");
}

/// Fractions of the literature, and solutions that are proved, refuted, and no solutions.
#[test]
fn solutions_are_exact_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    printed(folder, &["generate", "consensus", "--out", "coin.json"], 0);
    for (exact, criterion) in [
        ("49/128", ["reach", "--goal", "finished & all_coins_equal_1", "--minimize"]),
        ("13/120", ["reach", "--goal", "finished & !agree", "--maximize"]),
        ("75", ["total", "--goal", "finished", "--maximize"]),
        ("48", ["total", "--goal", "finished", "--minimize"]),
    ] {
        let asked = [&["coin.json", "--criterion"], &criterion[..]].concat();
        let found = report(folder, &[&asked[..], &["--exact"]].concat());
        assert_eq!((&found["arithmetic"], &found["loss"]), (&json!("rationals"), &json!(0.0)));
        assert!(found["exact"].as_array().unwrap().contains(&json!(exact)), "{exact}: {}", found["exact"]);

        report(folder, &[&asked[..], &["--out", "solution.json"]].concat());
        let verify = [&["verify", "coin.json", "solution.json", "--criterion"], &criterion[..]].concat();
        let text = printed(folder, &verify, 0);
        assert!(text.starts_with("Proved: |V − V*| ≤ ") && text.ends_with("The solution is proved.\n"), "{text}");
    }

    // One state that earns 1: V = 1/(1 − γ) = 2.
    fs::write(folder.join("one.csv"), "state,action,next,probability,reward\na,stay,a,1,1\n").unwrap();
    let found = report(folder, &["one.csv", "--gamma", "0.5", "--exact"]);
    assert_eq!(found["exact"], json!(["2"]));
    let verify = |values: &str, code: i32| {
        fs::write(folder.join("v.json"), format!(r#"{{"values": [{values}], "policy": [0]}}"#)).unwrap();
        printed(folder, &["verify", "one.csv", "v.json", "--gamma", "0.5", "--json"], code)
    };
    let found: Value = serde_json::from_str(&verify("2", 0)).unwrap();
    assert_eq!((&found["verdict"], &found["values"]["verdict"]), (&json!("proved"), &json!("proved")));
    assert_eq!((&found["policy"]["arithmetic"], &found["gamma"]), (&json!("intervals"), &json!(0.5)));
    let found: Value = serde_json::from_str(&verify("2.1", 1)).unwrap();
    assert_eq!((&found["verdict"], &found["values"]["worst"]), (&json!("refuted"), &json!("a")));
    assert_eq!(printed(folder, &["verify", "one.csv", "none.json", "--gamma", "0.5"], 2), "");

    // Idling earns half of it: the policy loses 1.
    fs::write(folder.join("two.csv"), "state,action,next,probability,reward\na,stay,a,1,1\na,idle,a,1,0.5\n").unwrap();
    fs::write(folder.join("idle.json"), r#"{"values": [2], "policy": [1]}"#).unwrap();
    for (loss, code, said) in [("1", 0, "Proved: V* − V^π ≤ 1"), ("0.999", 1, "Refuted: V* − V^π > 9.99e-1: at least ")]
    {
        for more in [&[][..], &["--no-rationals"]] {
            let verify = [&["verify", "two.csv", "idle.json", "--gamma", "0.5", "--loss", loss], more].concat();
            // No interval ends at the exact loss.
            let text = printed(folder, &verify, if more.is_empty() { code } else { 1 });
            assert!(text.contains(if code == 0 && !more.is_empty() { "Undecided: " } else { said }), "{text}");
        }
    }
}
