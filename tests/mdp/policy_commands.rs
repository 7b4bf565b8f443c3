//! The commands around a policy: rows in words, plans, values, simulation, Q-factors, and the value over γ.

use std::fs;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::json;
use warpkov::mdp::ask::evaluate::chain;
use warpkov::mdp::ask::q::q_factors;
use warpkov::mdp::ask::simulate::{self, Simulator};
use warpkov::mdp::generate::Garnet;
use warpkov::mdp::model::{Mdp, MdpParts};

use crate::models::{model, object, on_cpu, printed, random_model, replacement, write};

/// The replacement problem with names.
fn named() -> Mdp {
    let mut parts = replacement(3).into_parts();
    parts.state_names = Some(["new", "worn", "old, loud"].map(str::to_owned).to_vec().into());
    let names = ["keep", "replace"].map(str::to_owned).to_vec();
    parts.action_names = Some(warpkov::mdp::model::ActionNames { names, of_row: vec![0, 1, 0, 1, 0, 1] });
    parts.validated().unwrap()
}

#[test]
fn rows_are_shown_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut parts = replacement(3).into_parts();
    parts.labels.insert("done".to_owned(), vec![2]);
    write(folder, "m.json", &parts.validated().unwrap());
    let (text, _) = printed(folder, &["info", "m.json", "--show", "0,2"], 0);
    let expected = "\
State 0
  Action 0: reward 10
    0.25     to 0
    0.75     to 1
  Action 1: reward -4
    1        to 0

State 2, label done
  Action 0: reward 6
    1        to 2
  Action 1: reward -4
    1        to 0
";
    assert_eq!(text, expected);
    let shown = object(folder, &["info", "m.json", "--show", "1"]);
    assert_eq!(
        shown["states"][0]["actions"][0]["successors"][1],
        json!({"state": 2, "name": "2", "probability": 0.75, "reward": 0.0})
    );
    let (_, error) = printed(folder, &["info", "m.json", "--show", "3"], 2);
    assert_eq!(error, "error: --show: found '3', expected a state: a number below 3\n");
    let long = Garnet { states: 100, actions: 20, branching: 40, ..Garnet::default() }.generate().unwrap();
    write(folder, "long.json", &long);
    let (text, _) = printed(folder, &["info", "long.json", "--show", "5"], 0);
    assert!(text.contains("to 28 more states (--all lists them)") && text.contains("… and 8 more actions"), "{text}");
    let (text, _) = printed(folder, &["info", "long.json", "--show", "5", "--all"], 0);
    assert_eq!(text.lines().count(), 1 + 20 * 41);
}

/// A plan that `solve` writes is read by all commands around policies, in each of its formats, by names where the model has names.
#[test]
fn a_plan_is_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let names = ["worn", "3", "new, shiny", "0"].map(str::to_owned).to_vec();
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mdp = random_model(&mut random, 4, 1.0, true, 0);
    let mdp = MdpParts { state_names: Some(names.into()), ..mdp.into_parts() }.validated().unwrap();
    write(folder, "m.json", &mdp);
    let horizon = ["--horizon", "7", "--device", "cpu"];
    for file in ["plan.csv", "plan.json", "plan.npy"] {
        printed(folder, &[&["solve", "m.json", "--all-steps", file][..], &horizon].concat(), 0);
        let policy = file.replace("plan.npy", "plan.policy.npy");
        let evaluated = object(folder, &[&["policy", "evaluate", "m.json", &policy, "--gap"][..], &horizon].concat());
        // A plan that is followed step by step loses nothing.
        assert_eq!(evaluated["loss"]["states"], 0, "{file}: {evaluated}");
        assert!(evaluated["loss"]["upper"].as_f64().unwrap() < 1e-9, "{file}: {evaluated}");
        let simulate = [&["simulate", "m.json", &policy, "--start", "0"][..], &horizon].concat();
        let (with, without) = (object(folder, &simulate), object(folder, &[&simulate[..2], &simulate[3..]].concat()));
        // Without a policy, the optimal plan is simulated.
        assert_eq!((&with["mean"], &with["lower"]), (&without["mean"], &without["lower"]), "{file}");
        let (_, error) = printed(folder, &["policy", "evaluate", "m.json", &policy, "--horizon", "6"], 2);
        assert!(error.contains("a plan of 7 steps, expected one of 6 steps"), "{error}");
        let (_, error) = printed(folder, &["simulate", "m.json", &policy, "--gamma", "0.9"], 2);
        assert!(error.contains("the criterion has no steps"), "{error}");
    }
    printed(folder, &[&["simulate", "m.json", "plan.csv", "--out", "paths.csv"][..], &horizon].concat(), 0);
    let paths = fs::read_to_string(folder.join("paths.csv")).unwrap();
    assert!(paths.contains("\"new, shiny\"") && paths.contains("worn"), "{paths}");
    let text = fs::read_to_string(folder.join("plan.csv")).unwrap();
    assert!(text.starts_with("step,state,action,value,action_number\n0,worn,"), "{text}");
    fs::write(folder.join("hole.csv"), text.replace("\n3,", "\n30,")).unwrap();
    let (_, error) = printed(folder, &[&["policy", "evaluate", "m.json", "hole.csv"][..], &horizon].concat(), 2);
    assert!(error.contains("has no actions of step 3"), "{error}");
}

#[test]
fn a_policy_is_evaluated_and_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mdp = replacement(3);
    write(folder, "m.json", &mdp);
    fs::write(folder.join("keep.json"), r#"{"policy": [0, 0, 0], "values": [0, 0, 0]}"#).unwrap();
    // V(2) = 6 / (1 − γ) = 60, V(1) = (9 + 0.9·0.75·60) / (1 − 0.9/4), and so on.
    let next = |reward: f64, value: f64| (reward + 0.9 * 0.75 * value) / (1.0 - 0.9 / 4.0);
    let exact = [next(10.0, next(9.0, 60.0)), next(9.0, 60.0), 60.0];
    let found = object(folder, &["policy", "evaluate", "m.json", "keep.json", "--device", "cpu"]);
    let numbers = |name: &str| serde_json::from_value::<Vec<f64>>(found[name].clone()).unwrap();
    let (lower, upper) = (numbers("lower"), numbers("upper"));
    for state in 0..3 {
        assert!(lower[state] <= exact[state] && exact[state] <= upper[state], "{found}");
    }
    assert_eq!((&found["converged"], &found["policy"][0], &found["loss"]), (&json!(true), &json!("0"), &json!(null)));
    // To keep is optimal. To replace every year costs 4 / (1 − γ).
    fs::write(folder.join("replace.json"), r#"{"policy": [1, 1, 1], "values": [0, 0, 0]}"#).unwrap();
    let found = object(folder, &["policy", "evaluate", "m.json", "replace.json", "--device", "cpu", "--gap"]);
    let loss = &found["loss"];
    assert!((loss["max"].as_f64().unwrap() - (exact[0] + 40.0)).abs() < 1e-5, "{loss}");
    let words = [&loss["state"], &loss["action"], &loss["optimal_action"], &loss["states"]];
    assert_eq!(words, [&json!("0"), &json!("1"), &json!("0"), &json!(3)]);
    printed(folder, &["policy", "evaluate", "m.json", "keep.json", "--gap", "--out", "v.csv", "--device", "cpu"], 0);
    let text = fs::read_to_string(folder.join("v.csv")).unwrap();
    assert!(text.starts_with("state,action,value,lower,upper,optimal_action,optimal,loss\n0,0,"), "{text}");
    // An optimal policy loses nothing.
    printed(folder, &["solve", "m.json", "--device", "cpu", "--out", "best.json"], 0);
    let found = object(folder, &["policy", "evaluate", "m.json", "best.json", "--device", "cpu", "--gap"]);
    assert!(found["loss"]["upper"].as_f64().unwrap() < 4e-6, "{}", found["loss"]);
    assert_eq!(found["loss"]["states"], 0);
    let reach = ["policy", "evaluate", "m.json", "keep.json", "--device", "cpu", "--criterion", "reach", "--goal", "2"];
    assert_eq!(object(folder, &reach)["lower"][0], 1.0);
    let average = ["policy", "evaluate", "m.json", "keep.json", "--device", "cpu", "--criterion", "average"];
    assert!((object(folder, &average)["values"][0].as_f64().unwrap() - 6.0).abs() < 1e-6);

    let simulated = |more: &[&str]| {
        let found = object(folder, &[&["simulate", "m.json", "keep.json", "--device", "cpu"], more].concat());
        let number = |name: &str| found[name].as_f64().unwrap();
        (number("lower"), number("upper"), found)
    };
    let (lower, upper, found) = simulated(&["--start", "0", "--confidence", "0.999"]);
    assert!(lower <= exact[0] && exact[0] <= upper && upper - lower < 5.0, "{found}");
    let (lower, upper, found) = simulated(&["--confidence", "0.999"]);
    let mean = exact.iter().sum::<f64>() / 3.0;
    assert!(lower <= mean && mean <= upper, "{found}");
    assert_eq!(found["start_states"], 3);
    printed(
        folder,
        &[
            "simulate",
            "m.json",
            "--start",
            "1..2",
            "--episodes",
            "20",
            "--out",
            "paths.csv",
            "--paths",
            "2",
            "--steps",
            "5",
        ],
        0,
    );
    let paths = fs::read_to_string(folder.join("paths.csv")).unwrap();
    assert!(paths.starts_with("episode,step,state,action,reward,next\n0,0,") && paths.lines().count() == 11, "{paths}");

    for (arguments, word) in [
        (&["simulate", "m.json", "keep.json", "--gamma", "1"][..], "gamma is 1"),
        (&["simulate", "m.json", "--start", "nowhere"], "--start: found 'nowhere'"),
        (&["simulate", "m.json", "--confidence", "1"], "expected a number between 0 and 1"),
        (&["policy", "evaluate", "m.json", "keep.json", "--criterion", "reach"], "needs --goal"),
        (&["policy", "evaluate", "m.json", "none.json"], "none.json"),
        (&["q", "m.json", "--gamma", "1"], "gamma is 1"),
        (&["sensitivity", "m.json", "--gamma", "0.9..0.5"], "expected FROM..TO"),
        (&["sensitivity", "m.json", "--gamma", "0.5..0.9", "--start", "0..1"], "found 2 states, expected one"),
    ] {
        let (_, error) = printed(folder, arguments, 2);
        assert!(error.contains(word), "{arguments:?}: {error}");
    }
}

#[test]
fn names_are_in_reports() {
    use warpkov::common::report::{Report, Results};
    use warpkov::mdp::ask::show::Shown;
    use warpkov::mdp::ask::table::TableFormat;
    let mdp = named();
    let text = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    };
    let shown = text(&|out| Shown::new(&mdp, vec![2], false).write_text(out).unwrap());
    assert!(
        shown.contains("State old, loud (number 2)\n  Action keep (number 0): reward 6\n    1        to old, loud\n"),
        "{shown}"
    );
    let solve = on_cpu(1e-6).discounted(0.9);
    let solution = warpkov::mdp::Solve::new(&mdp, &solve).run().unwrap();
    let factors = q_factors(&mdp, &solution.values, solution.certificate.bound);
    let report = warpkov::mdp::ask::q::QReport { mdp: &mdp, solution: &solution, converged: true, factors: &factors };
    let csv = text(&|out| report.write_as(TableFormat::Csv, out).unwrap());
    assert!(
        csv.starts_with("state,action,q,advantage\nnew,keep,") && csv.contains("\n\"old, loud\",replace,"),
        "{csv}"
    );
    let policy = [0, 0, 1];
    let of = chain(&mdp, &policy).unwrap();
    assert_eq!((of.state_name(1), of.action_name(2, 0)), ("worn".to_owned(), "replace".to_owned()));
    let options = simulate::Options { episodes: 1, steps: Some(4), seed: 0, starts: vec![2], confidence: 0.9 };
    let paths =
        text(&|out| Simulator::new(&of, None, options.clone()).unwrap().write_paths(1, &mdp, &policy, out).unwrap());
    assert!(paths.contains("\n0,0,\"old, loud\",replace,-4.0,new\n0,1,new,keep,10.0,"), "{paths}");
}

/// The value over γ, against a closed form, and the γ at which waiting becomes better than cutting.
#[test]
fn sensitivity_finds_the_change_of_the_action() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // From 0: 1 at once and then nothing, or 3 after two steps: 3γ² > 1 for γ > 1/√3.
    let end = || (vec![(3, 1.0)], 0.0);
    let states = [
        vec![(vec![(3, 1.0)], 1.0), (vec![(1, 1.0)], 0.0)],
        vec![(vec![(2, 1.0)], 0.0)],
        vec![(vec![(3, 1.0)], 3.0)],
        vec![end()],
    ];
    write(folder, "m.json", &model(0.9, &states).validated().unwrap());
    let arguments =
        ["sensitivity", "m.json", "--gamma", "0.1..0.95", "--device", "cpu", "--points", "18", "--plot", "g.svg"];
    let found = object(folder, &arguments);
    let points = found["points"].as_array().unwrap();
    assert_eq!((points.len(), points[0]["gamma"].as_f64(), points[17]["gamma"].as_f64()), (18, Some(0.1), Some(0.95)));
    for point in points {
        let number = |name: &str| point[name].as_f64().unwrap();
        let (gamma, exact) = (number("gamma"), f64::max(1.0, 3.0 * number("gamma").powi(2)));
        assert!((number("value") - exact).abs() <= number("error").max(1e-12) && number("error") <= 1e-6, "{point}");
        assert_eq!(point["action"], if gamma < 0.577 { "0" } else { "1" });
    }
    let changes = found["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    let [low, high] = [0, 1].map(|end| changes[0]["between"][end].as_f64().unwrap());
    let exact = 1.0 / 3f64.sqrt();
    assert!(low <= exact + 1e-6 && exact <= high + 1e-6 && high - low <= 1e-4, "{low} {high}");
    let svg = fs::read_to_string(folder.join("g.svg")).unwrap();
    assert!(svg.contains("V*(0) over the discount factor"), "{svg}");
}

#[test]
fn q_factors_are_written_in_all_forms() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "m.json", &replacement(3));
    let found = object(folder, &["q", "m.json", "--device", "cpu"]);
    let (q, value) = (&found["states"][2]["actions"][0]["q"], &found["states"][2]["value"]);
    assert!(
        q.as_f64().unwrap() <= value.as_f64().unwrap() + 1e-6 && found["bound"].as_f64().unwrap() <= 0.9e-6,
        "{found}"
    );
    printed(folder, &["q", "m.json", "--device", "cpu", "--out", "q.npy"], 0);
    let bytes = fs::read(folder.join("q.npy")).unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("'shape': (3, 2)"));
    let (csv, _) = printed(folder, &["q", "m.json", "--device", "cpu", "--out", "-"], 0);
    assert!(csv.starts_with("state,action,q,advantage\n0,0,") && csv.lines().count() == 7, "{csv}");
    let (text, _) = printed(folder, &["q", "m.json", "--device", "cpu"], 0);
    assert!(text.contains("Certified        |Q − Q*| ≤ "), "{text}");
}
