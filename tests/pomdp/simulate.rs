//! Simulation, lookahead and certificates against known values.

use std::io::Write;
use std::ops::ControlFlow;
use std::process::Stdio;

use warpkov::pomdp::alpha::AlphaVectors;
use warpkov::pomdp::belief::Belief;
use warpkov::pomdp::generate::{Layout, RockSample, Tag, Tiger};
use warpkov::pomdp::lookahead::lookahead;
use warpkov::pomdp::model::Pomdp;
use warpkov::pomdp::plot::{FRAMES, draw_bounds, draw_episode, draw_vectors};
use warpkov::pomdp::projection::Projection;
use warpkov::pomdp::simulate::{Error, Options, Simulator, Step, check};
use warpkov::pomdp::solution::Round;
use warpkov::pomdp::verify::verify;

/// SARSOP's bounds on the tiger's V*(b₀), γ = 0.95.
const TIGER: [f64; 2] = [19.3711, 19.3721];

/// A policy of one vector with all values 0, which takes `action` forever.
fn always(model: &Pomdp, action: u32) -> AlphaVectors {
    let mut policy = AlphaVectors::new(model.states());
    policy.push(action, &vec![0.0; model.states() as usize]);
    policy
}

/// The tiger's vectors after many exact backups at a grid of beliefs, which contains the reachable ones: the beliefs
/// after hearing the tiger k times more often on one side than on the other.
fn tiger_policy(model: &Pomdp) -> AlphaVectors {
    let odds = |k: i32| (0.85_f64 / 0.15).powi(k);
    let beliefs: Vec<f64> = (-6..=6).map(|k| odds(k) / (1.0 + odds(k))).collect();
    let rewards = model.expected_rewards();
    let mut policy = AlphaVectors::new(2);
    policy.push(0, &[-20.0, -20.0]);
    for _ in 0..600 {
        let mut next = AlphaVectors::new(2);
        for b in &beliefs {
            let belief = [1.0 - b, *b];
            let mut best: (f64, u32, [f64; 2]) = (f64::NEG_INFINITY, 0, [0.0; 2]);
            for action in 0..3 {
                let mut alpha = [rewards[action as usize], rewards[3 + action as usize]];
                for observation in 0..2 {
                    let projected = |i: usize| {
                        [0, 1].map(|s| {
                            let (to, p) = model.successors(s, action);
                            let seen = |s: u32| model.observed(action, s).1[observation];
                            to.iter().zip(p).map(|(&s, p)| p * seen(s) * policy.vector(i)[s as usize]).sum::<f64>()
                        })
                    };
                    let dot = |g: [f64; 2]| belief[0] * g[0] + belief[1] * g[1];
                    let chosen = (0..policy.len()).map(projected).max_by(|a, b| dot(*a).total_cmp(&dot(*b))).unwrap();
                    alpha[0] += 0.95 * chosen[0];
                    alpha[1] += 0.95 * chosen[1];
                }
                let value = belief[0] * alpha[0] + belief[1] * alpha[1];
                if value > best.0 {
                    best = (value, action, alpha);
                }
            }
            let known = (0..next.len()).any(|i| next.actions()[i] == best.1 && next.vector(i) == best.2);
            if !known {
                next.push(best.1, &best.2);
            }
        }
        policy = next;
    }
    policy
}

#[test]
fn tiger_earns_what_is_published() {
    let model = Tiger::default().generate().unwrap();
    let policy = tiger_policy(&model);
    let value = policy.best(model.start()).unwrap().1;
    assert!((TIGER[0] - 1e-3..=TIGER[1]).contains(&value), "{value}");
    let options = Options { episodes: 20_000, steps: None, seed: 7 };
    let found = Simulator::new(&model, &policy, &options).unwrap().evaluate(&|| false).unwrap();
    // 0.95^270 is the first power that is at most 10⁻⁶. The tiger has no terminal state.
    assert_eq!((found.horizon, found.cut, found.steps), (270, 20_000, 270 * 20_000));
    assert!((found.tail - 0.95_f64.powi(270) * 2000.0).abs() < 1e-12);
    // Four standard errors: almost every seed passes.
    assert!((found.mean - value).abs() <= 2.0 * found.half_width + found.tail, "{found:?}, {value}");
    assert!(found.half_width > 0.1 && found.half_width < 1.0, "{found:?}");
}

/// A single episode has no standard deviation.
#[test]
fn one_episode_has_no_interval() {
    let model = Tiger::default().generate().unwrap();
    let options = Options { episodes: 1, ..Options::default() };
    let found = Simulator::new(&model, &tiger_policy(&model), &options).unwrap().evaluate(&|| false).unwrap();
    assert!(found.mean.is_finite() && found.half_width == f64::INFINITY, "{found:?}");
    assert!(serde_json::to_value(found).unwrap()["half_width"].is_null());
}

#[test]
fn episodes_do_not_depend_on_threads() {
    let model = Tag::default().generate().unwrap();
    let policy = always(&model, 4);
    let options = Options { episodes: 300, steps: Some(40), seed: 3 };
    let simulator = Simulator::new(&model, &policy, &options).unwrap();
    let found = simulator.evaluate(&|| false).unwrap();
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_eq!(pool.install(|| simulator.evaluate(&|| false).unwrap()), found);
    }
    let other = Simulator::new(&model, &policy, &Options { seed: 4, ..options }).unwrap().evaluate(&|| false).unwrap();
    assert_ne!(other.mean, found.mean);
}

/// Blind policies earn the value of their alpha vector, the fixed point of α = rₐ + γ Tₐ α.
#[test]
fn blind_policies_earn_their_value() {
    // RockSample[7,8], always east: seven moves; the last one earns 10 and ends the episode.
    let model = RockSample::new(Layout::R7x8).generate().unwrap();
    let options = Options { episodes: 50, ..Options::default() };
    let east = Simulator::new(&model, &always(&model, 2), &options).unwrap().evaluate(&|| false).unwrap();
    assert!((east.mean - 10.0 * 0.95_f64.powi(6)).abs() < 1e-12, "{east:?}");
    assert_eq!((east.half_width < 1e-12, east.steps, east.cut, east.tail), (true, 350, 0, 0.0));
    // The tiger, always the left door: −45 per step on average.
    let model = Tiger::default().generate().unwrap();
    let options = Options { episodes: 4000, ..Options::default() };
    let open = Simulator::new(&model, &always(&model, 1), &options).unwrap().evaluate(&|| false).unwrap();
    assert!((open.mean + 900.0).abs() <= 2.0 * open.half_width + open.tail, "{open:?}");
}

#[test]
fn lookahead_is_one_step() {
    let model = Tiger::default().generate().unwrap();
    let policy = tiger_policy(&model);
    // At the fixed point the largest Q-factor is V. Opening a door at b₀ earns −45 and then V(b₀).
    let value = policy.best(model.start()).unwrap().1;
    let outlooks = lookahead(&model, &policy, model.start());
    assert!((outlooks[0].value - value).abs() < 1e-9, "{outlooks:?}");
    assert!(outlooks[1..].iter().all(|open| (open.value - (-45.0 + 0.95 * value)).abs() < 1e-9));
    assert_eq!(outlooks[0].observations.len(), 2);
    // The belief after hearing the tiger twice on the left: .85² / (.85² + .15²).
    let mut projection = Projection::default();
    let once = projection.update(&model, model.start(), 0, 0).unwrap();
    let twice = projection.update(&model, &once, 0, 0).unwrap();
    assert!((once.probs()[0] - 0.85).abs() < 1e-15 && (twice.probs()[0] - 0.7225 / 0.745).abs() < 1e-15);
    let outlooks = lookahead(&model, &policy, &twice);
    assert!(outlooks[2].value > outlooks[0].value && outlooks[0].value > outlooks[1].value);
    // In Tag, a robot that goes west from the lower left corner stays there and can observe no other cell.
    let tag = Tag::default().generate().unwrap();
    assert_eq!(projection.update(&tag, &Belief::at(5), 3, 1), None);
    assert_eq!(projection.update(&tag, &Belief::at(29), 3, 29), Some(Belief::at(29)));
}

#[test]
fn certificates_of_vectors() {
    let model = Tiger::default().generate().unwrap();
    let policy = tiger_policy(&model);
    let found = verify(&model, &policy, 1e-6, 32, &|| false).unwrap();
    assert_eq!(found.supported, found.vectors, "{found:?}");
    assert!(found.residual <= 1e-6 && found.nodes <= found.vectors);
    assert!((found.attained - found.value).abs() < 1e-6 && found.attained <= TIGER[1], "{found:?}");
    // Vectors raised by 5 exceed their backups by δ = 5 − 5γ, and V(b₀) − δ/(1 − γ) corrects exactly that.
    let mut boast = policy.clone();
    boast.values_mut().iter_mut().for_each(|value| *value += 5.0);
    let caught = verify(&model, &boast, 1e-6, 32, &|| false).unwrap();
    assert_eq!(caught.supported, 0);
    assert!((caught.residual - 0.25).abs() < 1e-6 && (caught.value - found.value - 5.0).abs() < 1e-12, "{caught:?}");
    assert!((caught.certified - found.value).abs() < 1e-4 && (caught.attained - found.attained).abs() < 1e-6);
    // A vector below its policy's value is valid: listening forever attains −20, which is more.
    let modest = verify(
        &model,
        &{
            let mut low = always(&model, 0);
            low.values_mut().fill(-50.0);
            low
        },
        1e-6,
        4,
        &|| false,
    )
    .unwrap();
    assert_eq!((modest.supported, modest.residual, modest.certified), (1, 0.0, -50.0));
    assert!((modest.attained + 20.0).abs() < 1e-6 && modest.lower() == modest.attained, "{modest:?}");
}

#[test]
fn policies_of_other_models_are_refused() {
    let (model, tag) = (Tiger::default().generate().unwrap(), Tag::default().generate().unwrap());
    assert_eq!(check(&model, &AlphaVectors::new(2)), Err(Error::NoVectors));
    assert_eq!(check(&model, &always(&tag, 0)), Err(Error::States { found: 870, expected: 2 }));
    assert_eq!(check(&model, &always(&model, 3)), Err(Error::Action { vector: 0, found: 3, actions: 3 }));
}

#[test]
fn plots_show_vectors_and_bounds() {
    use warpkov::common::plot::Format;
    let model = Tiger::default().generate().unwrap();
    let svg = String::from_utf8(draw_vectors(&model, &tiger_policy(&model), Format::Svg).unwrap()).unwrap();
    assert!(svg.contains("open-left") && svg.contains("b(tiger-right)") && svg.matches("<polyline").count() > 1000);
    let tag = Tag::default().generate().unwrap();
    let message = draw_vectors(&tag, &always(&tag, 0), Format::Svg).unwrap_err().to_string();
    assert_eq!(message, "cannot draw the plot: the model has 870 states, and a plot of alpha vectors needs exactly 2");
    let moments = [(0.0, -20.0, f64::INFINITY), (0.5, 10.0, 25.0), (1.0, 19.37, 19.38)];
    let round =
        |(seconds, lower, upper)| Round { seconds, lower, upper, iterations: 1, backups: 1, beliefs: 1, vectors: 1 };
    let rounds = moments.map(round);
    for rounds in [&rounds[..], &rounds[..1], &[]] {
        let svg = String::from_utf8(draw_bounds("tiger", rounds, Format::Svg).unwrap()).unwrap();
        assert!(svg.contains("lower bound") && svg.contains("upper bound"));
        assert!(draw_bounds("tiger", rounds, Format::Png).unwrap().starts_with(b"\x89PNG"));
    }
}

/// A bar for every possible state, as high as its probability, and a mark for the true one; also where bars have no place of their own.
#[test]
fn episodes_are_drawn_step_by_step() {
    use warpkov::common::plot::Format;
    let (tiger, tag) = (Tiger::default().generate().unwrap(), Tag::default().generate().unwrap());
    let cases = [
        (&tiger, tiger_policy(&tiger), 4),
        (&tag, always(&tag, 0), 20),
        (&tag, always(&tag, 0), 400),
        (&tiger, always(&tiger, 0), 0),
    ];
    for (model, policy, steps) in cases {
        let options = Options { episodes: 1, steps: Some(steps), ..Options::default() };
        let mut seen: Vec<Step> = Vec::new();
        Simulator::new(model, &policy, &options).unwrap().episode(&mut Projection::default(), 0, |step| {
            seen.push(step.clone());
            ControlFlow::Continue(())
        });
        let drawn = &seen[..seen.len().min(FRAMES)];
        let svg = String::from_utf8(draw_episode("episode", model, &seen, Format::Svg).unwrap()).unwrap();
        assert_eq!(svg.matches("#CE6E14").count(), drawn.len() + 1, "{steps} steps");
        let possible: usize = drawn.iter().map(|step| step.belief.states().len()).sum();
        assert_eq!(svg.matches("<rect").count(), 1 + drawn.len() + possible, "{steps} steps");
        assert!(draw_episode("episode", model, &seen, Format::Png).unwrap().starts_with(b"\x89PNG"));
    }
    // Two equal bars at first; heights are those of the probabilities.
    let first = Step {
        belief: Belief::new(vec![0, 1], vec![0.25, 0.75]).unwrap(),
        value: 0.0,
        state: 1,
        action: 0,
        reward: -1.0,
        next: 1,
        observation: 1,
    };
    let svg = String::from_utf8(draw_episode("one", &tiger, &[first], Format::Svg).unwrap()).unwrap();
    assert!(svg.contains("tiger-left") && svg.contains("listen: tiger-right"), "{svg}");
    let heights: Vec<f64> = svg
        .lines()
        .filter(|line| line.contains("<rect") && line.contains("#2660A4"))
        .map(|line| line.split("height=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
        .collect();
    assert!(heights.len() == 2 && (heights[1] / heights[0] - 3.0).abs() < 0.1, "{heights:?}");
}

/// Exit code and output of the binary.
fn warpkov(arguments: &[&str]) -> (Option<i32>, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_warpkov")).args(arguments).output().unwrap();
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn commands_print_the_results_of_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let [model_file, policy_file, plot] =
        ["tiger.pomdp", "tiger.alpha", "tiger.svg"].map(|name| folder.path().join(name).display().to_string());
    assert_eq!(warpkov(&["pomdp", "generate", "tiger", "--out", &model_file]).0, Some(0));
    let model = Tiger::default().generate().unwrap();
    let policy = tiger_policy(&model);
    let text: String = (0..policy.len())
        .map(|i| format!("{}\n{:?} {:?}\n\n", policy.actions()[i], policy.vector(i)[0], policy.vector(i)[1]))
        .collect();
    std::fs::write(&policy_file, text).unwrap();
    let files = [model_file.as_str(), "--policy", &policy_file];
    let run = |command: &str, more: &[&str]| warpkov(&[&["pomdp", command], &files[..], more].concat());
    let json = |command: &str, more: &[&str]| -> serde_json::Value {
        let (code, text) = run(command, &[more, &["--json"]].concat());
        assert_eq!(code, Some(0), "{text}");
        serde_json::from_str(&text).unwrap()
    };

    let options = Options { episodes: 200, steps: Some(50), seed: 9 };
    let expected = Simulator::new(&model, &policy, &options).unwrap().evaluate(&|| false).unwrap();
    let found = json("evaluate", &["--episodes", "200", "--steps", "50", "--seed", "9"]);
    assert_eq!(found["mean"].as_f64(), Some(expected.mean));
    assert_eq!((found["steps"].as_u64(), found["cut"].as_u64()), (Some(10_000), Some(200)));

    let episode = json("simulate", &["--steps", "5"]);
    assert_eq!(episode["steps"].as_array().unwrap().len(), 5);
    assert_eq!(episode["steps"][0]["action"], "listen");
    assert!(run("simulate", &["--steps", "5"]).1.contains("cut after 5 steps"));

    let twice = ["--after", "listen:tiger-left", "--after", "0:0"];
    assert_eq!(json("act", &twice)["action"], "open-right");
    assert_eq!(json("act", &["--belief", "tiger-right=1"])["action"], "open-left");
    assert_eq!(json("act", &[])["action"], "listen");
    assert!(run("act", &[]).1.contains("* listen"));
    let follow = |lines: &str, more: &[&str]| {
        let arguments = [&["pomdp", "act", &model_file, "--policy", &policy_file, "--follow"], more].concat();
        let mut process = std::process::Command::new(env!("CARGO_BIN_EXE_warpkov"));
        process.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = process.spawn().unwrap();
        process.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = process.wait_with_output().unwrap();
        let [text, error] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), text, error)
    };
    let opened = "listen\nlisten\nopen-right\nlisten\n";
    assert_eq!(follow("tiger-left\n\n 0 \ntiger-right\n", &[]).1, opened);
    assert_eq!(follow("listen:tiger-left\ntiger-left\n0:0\n", &[]).1, "listen\nlisten\nopen-right\nopen-right\n");
    let (code, text, _) = follow("tiger-left", &["--json"]);
    assert!(code == Some(0) && text.lines().all(|line| line.starts_with("{\"action\":\"listen\"")), "{text}");
    let (code, text, error) = follow("bark\n", &[]);
    assert!(code == Some(2) && text == "listen\n" && error.contains("bark"), "{error}");
    let (code, text) = run("act", &["--after", "bark:0"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("\"bark\" is no action of the model, expected a name or a number below 3"), "{text}");

    let bound = json("bound", &["--plot", &plot]);
    assert!((bound["attained"].as_f64().unwrap() - 19.3713).abs() < 1e-3, "{bound}");
    assert_eq!(bound["supported"], bound["vectors"]);
    assert!(std::fs::read_to_string(&plot).unwrap().starts_with("<svg"));
    std::fs::write(&policy_file, "0\n30 30\n").unwrap();
    let (code, text) = run("bound", &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("Attained          -20.0000") && text.contains("Supported         0 of 1"), "{text}");
}

/// Plots of the bounds against time, and the bounds in the report, which must agree with SARSOP's.
#[test]
fn solve_plots_its_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (model, policy, svg, png) = (at("tiger.pomdp"), at("tiger.alpha"), at("bounds.svg"), at("bounds.png"));
    assert_eq!(warpkov(&["pomdp", "generate", "tiger", "--out", &model]).0, Some(0));
    let (code, text) =
        warpkov(&["pomdp", "solve", &model, "--out", &policy, "--plot", &svg, "--json", "--gap", "1e-3"]);
    assert_eq!(code, Some(0), "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let number = |name: &str| report[name].as_f64().unwrap();
    assert_eq!(report["stopped_by"], "gap");
    assert!(number("lower") <= TIGER[1] && number("upper") >= TIGER[0] && number("gap") <= 1e-3, "{text}");
    assert_eq!(number("gap_limit"), 1e-3);
    assert!((number("relative_gap") - number("gap") / number("lower")).abs() < 1e-12, "{text}");
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(
        drawn.starts_with("<svg") && drawn.contains("lower bound") && drawn.contains("tiger.pomdp: V*(b₀) from 19.37")
    );
    // One JSON object with the state of the run, and vectors with the reported value.
    let rounds = report["rounds"].as_array().unwrap();
    assert_eq!(rounds.last().unwrap()["lower"], report["lower"]);
    let (code, text) = warpkov(&["pomdp", "bound", &model, "--policy", &policy, "--json"]);
    assert_eq!(code, Some(0), "{text}");
    let bound: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!((bound["value"].as_f64().unwrap() - number("lower")).abs() < 1e-9, "{text}");
    assert!(bound["attained"].as_f64().unwrap() >= number("lower") - 1e-6, "{text}");
    // The default is relative to the value.
    let (code, text) = warpkov(&["pomdp", "solve", &model]);
    assert!(code == Some(0) && text.contains(" % of the value\n"), "{text}");
    let (code, text) = warpkov(&["pomdp", "solve", &model, "--gap", "1", "--relative-gap", "1"]);
    assert!(code == Some(2) && text.contains("cannot be used with"), "{text}");
    // A run that meets a limit has a failure exit code, but still writes its plot.
    let (code, _) = warpkov(&["pomdp", "solve", &model, "--iterations", "1", "--plot", &png]);
    assert_eq!(code, Some(1));
    assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG"));
    let (code, text) = warpkov(&["pomdp", "solve", &model, "--plot", &at("bounds.pdf")]);
    assert_eq!(code, Some(2));
    assert!(text.contains("the name must end in .svg or .png"), "{text}");
}

/// The commands run controllers, whose exact value is that of `bound`, and plans, which end.
#[test]
fn controllers_are_evaluated_and_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (model, policy) = (at("tiger.pomdp"), at("tiger.alpha"));
    let json = |arguments: &[&str]| -> serde_json::Value {
        let (code, text) = warpkov(&[&["pomdp"], arguments, &["--json"]].concat());
        assert_eq!(code, Some(0), "{text}");
        serde_json::from_str(&text).unwrap()
    };
    assert_eq!(warpkov(&["pomdp", "generate", "tiger", "--out", &model]).0, Some(0));
    assert_eq!(warpkov(&["pomdp", "solve", &model, "--out", &policy, "--gap", "1e-3"]).0, Some(0));
    let attained = json(&["bound", &model, "--policy", &policy])["attained"].as_f64().unwrap();
    for name in ["tiger.pg", "tiger.dot"] {
        let controller = at(name);
        assert_eq!(warpkov(&["pomdp", "convert", &policy, &controller, "--model", &model]).0, Some(0));
        let found = json(&["evaluate", &model, "--policy", &controller, "--episodes", "4000"]);
        let number = |value: &serde_json::Value| value.as_f64().unwrap();
        let (lower, upper) = (number(&found["exact"]["lower"]), number(&found["exact"]["upper"]));
        assert!(lower >= attained - 1e-7 && upper - lower < 1e-7 && upper <= TIGER[1], "{found}");
        let error = (number(&found["mean"]) - lower).abs();
        assert!(error <= 2.0 * number(&found["half_width"]) + number(&found["tail"]), "{found}");
        let episode = json(&["simulate", &model, "--policy", &controller, "--steps", "5"]);
        assert_eq!((episode["steps"].as_array().unwrap().len(), &episode["ended"]), (5, &false.into()));
        assert_eq!(episode["steps"][0]["action"], "listen");
    }
    let plan = at("plan.pg");
    assert_eq!(warpkov(&["pomdp", "solve", &model, "--horizon", "3", "--out", &plan]).0, Some(0));
    let episode = json(&["simulate", &model, "--policy", &plan]);
    assert_eq!((episode["steps"].as_array().unwrap().len(), &episode["ended"]), (3, &true.into()));
    let (code, text) = warpkov(&["pomdp", "evaluate", &model, "--policy", &plan]);
    assert!(code == Some(0) && text.contains("Exact reward ") && text.contains("begins in 0\n"), "{text}");
    assert!(text.contains("Cut               0 after 3 steps"), "{text}");
    // Commands that need vectors say so.
    let (code, text) = warpkov(&["pomdp", "bound", &model, "--policy", &plan]);
    assert!(code == Some(2) && text.contains("a file in pg holds a controller, expected alpha vectors"), "{text}");
    let (code, text) = warpkov(&["pomdp", "evaluate", &model, "--policy", &plan, "--node", "99"]);
    assert!(code == Some(2) && text.contains("there is no node 99"), "{text}");
}
