//! `warpkov pomdp verify`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn run(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    command.current_dir(folder).arg("pomdp").args(arguments.split(' ')).output().unwrap()
}

/// The output of a command that must end with this exit code.
#[track_caller]
fn printed(folder: &Path, arguments: &str, code: i32) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(if code == 2 { output.stderr } else { output.stdout }).unwrap()
}

/// One state, and two actions that cost 1 and 3.
const COSTS: &str = "discount: 0.5\nvalues: cost\nstates: 1\nactions: 2\nobservations: 1\nT: *\n1\nO: *\n1\nR: 0: *: *: * 1\nR: 1: *: *: * 3\n";

#[test]
fn policies_are_proved_or_refuted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    printed(folder, "generate tiger --out tiger.json", 0);
    printed(folder, "solve tiger.json --device cpu --gap 1e-3 --out tiger.alpha --quiet", 0);
    let text = printed(folder, "verify tiger.json tiger.alpha", 0);
    assert!(text.contains("Proved: V(b₀) − V*(b₀) ≤ ") && text.ends_with("The policy is proved.\n"), "{text}");

    let found: Value =
        serde_json::from_str(&printed(folder, "verify tiger.json tiger.alpha --loss 2e-3 --json", 0)).unwrap();
    assert_eq!((&found["verdict"], &found["objective"]), (&"proved".into(), &"maximize".into()));
    let ends = |name: &str| [0, 1].map(|end| found[name][end].as_f64().unwrap());
    let [lower, upper] = ends("optimal");
    // SARSOP's bounds.
    assert!(19.37 < lower && lower <= 19.3721 && (19.3711..19.375).contains(&upper), "{found}");
    assert!(ends("attained")[0] <= lower && ends("attained")[1] == upper, "{found}");
    for name in ["value", "policy", "loss"] {
        let number = |key: &str| found[name][key].as_f64().unwrap();
        assert!(found[name]["verdict"] == "proved" && number("lower") <= number("upper"), "{found}");
        assert!(number("upper") <= number("limit"), "{found}");
    }

    // A loss that no proof can reach, and vectors above V*.
    let text = printed(folder, "verify tiger.json tiger.alpha --loss 0", 1);
    assert!(text.contains("Undecided: V*(b₀) − V^π(b₀) is between "), "{text}");
    fs::write(folder.join("boast.alpha"), "0\n30 30\n\n").unwrap();
    let text = printed(folder, "verify tiger.json boast.alpha", 1);
    assert!(text.contains("Refuted: V(b₀) − V*(b₀) > 1e-6: at least ") && text.contains("is refuted"), "{text}");

    // To listen for ever earns −20, and to act well 19.37.
    fs::write(folder.join("listen.alpha"), "0\n-20 -20\n\n").unwrap();
    printed(folder, "verify tiger.json listen.alpha --loss 40", 0);
    let text = printed(folder, "verify tiger.json listen.alpha --loss 10", 1);
    assert!(text.contains("Refuted: V*(b₀) − V^π(b₀) > 1e1: at least 1"), "{text}");

    // Costs: 1 in each step, Σ γᵗ = 2.
    fs::write(folder.join("costs.pomdp"), COSTS).unwrap();
    fs::write(folder.join("costs.alpha"), "0\n2\n\n").unwrap();
    let text = printed(folder, "verify costs.pomdp costs.alpha --loss 1e-9", 0);
    assert!(text.contains("Proved: V*(b₀) − V(b₀) ≤ "), "{text}");
    fs::write(folder.join("costs.alpha"), "0\n1.9\n\n").unwrap();
    printed(folder, "verify costs.pomdp costs.alpha", 1);

    // γ = 1, and files that do not fit.
    fs::write(folder.join("endless.pomdp"), COSTS.replace("0.5", "1")).unwrap();
    assert!(printed(folder, "verify endless.pomdp costs.alpha", 2).contains("expected a discount factor below 1"));
    assert!(printed(folder, "verify tiger.json costs.alpha", 2).contains("costs.alpha"));
    printed(folder, "verify tiger.json none.alpha", 2);
}

/// Exact vectors are optimal in every belief, which the verifier proves for several starts.
#[test]
fn exact_solutions_are_proved() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    printed(folder, "generate tiger --out tiger.pomdp", 0);
    let text = printed(folder, "solve tiger.pomdp --exact --out exact.alpha", 0);
    for said in ["Method: exact backups, on ", "Size: 9 beliefs, 9 vectors\n", "Error in any belief: at most "] {
        assert!(text.contains(said), "{text}");
    }
    let text = fs::read_to_string(folder.join("tiger.pomdp")).unwrap();
    for start in ["0.5 0.5", "0.97 0.03", "0.2 0.8", "0 1"] {
        fs::write(folder.join("start.pomdp"), text.replace("start: uniform", &format!("start: {start}"))).unwrap();
        let proof = printed(folder, "verify start.pomdp exact.alpha --loss 1e-5", 0);
        assert!(proof.contains("Proved: V*(b₀) − V^π(b₀) ≤ "), "{start}: {proof}");
    }
    let found = |arguments: &str| -> Value { serde_json::from_str(&printed(folder, arguments, 0)).unwrap() };
    let exact = found("solve tiger.pomdp --exact --json");
    assert!(exact["error"].as_f64().unwrap() < 1e-8 && exact.get("expansion").is_none(), "{exact}");
    let near = found("solve tiger.pomdp --exact --gap 3 --json");
    assert!(
        near["gap"].as_f64().unwrap() <= 3.0 && near["iterations"].as_u64() < exact["iterations"].as_u64(),
        "{near}"
    );
    // A plan of three steps, whose vectors are those of its first step.
    let plan = found("solve tiger.pomdp --exact --horizon 3 --out plan.pg --json");
    let searched = found("solve tiger.pomdp --horizon 3 --gap 1e-9 --json");
    let bound = |found: &Value, name: &str| found[name].as_f64().unwrap();
    assert!(bound(&plan, "lower") <= bound(&searched, "upper") && bound(&plan, "upper") >= bound(&searched, "lower"));
    printed(folder, &format!("verify tiger.pomdp plan.pg --value {} --loss 1e-6", bound(&plan, "lower")), 0);
    for (option, said) in [
        ("--device emulated", "an exact solution is found by one process on the CPU: expected no option device"),
        ("--expansion fsvi", "cannot be used with"),
        ("--checkpoint a.checkpoint", "--checkpoint is for a search: --horizon and --exact have no checkpoints"),
    ] {
        let text = printed(folder, &format!("solve tiger.pomdp --exact {option}"), 2);
        assert!(text.contains(said), "{option}: {text}");
    }
}

#[test]
fn controllers_and_plans_are_proved_or_refuted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (name, content) in [
        ("costs.pomdp", COSTS.to_owned()),
        ("endless.pomdp", COSTS.replace("0.5", "1")),
        ("good.pg", "0 0 0\n".to_owned()),
        ("bad.pg", "0 1 0\n".to_owned()),
        // The third step costs 3.
        ("plan.pg", "0 0 1\n1 0 2\n2 1 -\n".to_owned()),
        ("three.alpha", "0\n3\n\n".to_owned()),
        ("less.alpha", "0\n2.9\n\n".to_owned()),
    ] {
        fs::write(folder.join(name), content).unwrap();
    }
    // Σ γᵗ = 2: 2 for the first action, and 6 for the second one.
    for (arguments, code, said) in [
        ("costs.pomdp good.pg --value 2 --loss 1e-9", 0, "Proved: V^π(b₀) − V*(b₀) ≤ "),
        ("costs.pomdp bad.pg --value 6", 0, "Proved: |V − V^π(b₀)| ≤ "),
        ("costs.pomdp bad.pg --value 5.9", 1, "Refuted: |V − V^π(b₀)| > 1e-6: at least 1.000e-1\n"),
        ("costs.pomdp bad.pg --loss 4.1", 0, "The policy is proved.\n"),
        ("costs.pomdp bad.pg --loss 3.9", 1, "Refuted: V^π(b₀) − V*(b₀) > 3.9e0: at least "),
        ("costs.pomdp bad.pg", 2, "expected --value, what it earns, or --loss"),
        ("costs.pomdp three.alpha --value 2", 2, "--value is for controllers"),
        ("endless.pomdp good.pg --value 3", 2, "expected a discount factor below 1, or --horizon"),
        (
            "endless.pomdp good.pg --value 3 --horizon 3 --loss 1e-9",
            0,
            "Horizon: 3\nV^π(b₀) is between 3.000000 and 3.000000\n",
        ),
        ("endless.pomdp plan.pg --value 5 --loss 2.1", 0, "Horizon: 3\n"),
        ("endless.pomdp plan.pg --loss 1.9", 1, "Refuted: V^π(b₀) − V*(b₀) > 1.9e0: at least "),
        ("endless.pomdp plan.pg --loss 1 --horizon 4", 2, "plan.pg: node 2 ends after 3 steps, expected 4"),
        ("endless.pomdp plan.pg --value 2 --horizon 2", 0, "Horizon: 2\n"),
        ("endless.pomdp three.alpha --horizon 3 --loss 1e-9", 0, "Proved: V*(b₀) − V(b₀) ≤ "),
        ("endless.pomdp less.alpha --horizon 3", 1, "Refuted: V*(b₀) − V(b₀) > 1e-6: at least "),
        ("costs.pomdp less.alpha --node 0", 2, "holds alpha vectors, which have no nodes"),
    ] {
        let text = printed(folder, &format!("verify {arguments}"), code);
        assert!(text.contains(said), "{arguments}: {text}");
    }
    let found: Value =
        serde_json::from_str(&printed(folder, "verify endless.pomdp plan.pg --value 5 --loss 2.1 --json", 0)).unwrap();
    assert_eq!((&found["verdict"], &found["horizon"], &found["nodes"]), (&"proved".into(), &3.into(), &3.into()));
    let ends = |name: &str| [0, 1].map(|end| found[name][end].as_f64().unwrap());
    let ([least, most], [lower, upper]) = (ends("attained"), ends("optimal"));
    assert!(least <= 5.0 && 5.0 <= most && most - least < 1e-12 && lower <= 3.0 && 3.0 <= upper, "{found}");

    // What `solve` writes.
    printed(folder, "generate tiger --out tiger.json", 0);
    printed(folder, "solve tiger.json --device cpu --gap 1e-3 --out tiger.pg --quiet", 0);
    let found: Value =
        serde_json::from_str(&printed(folder, "verify tiger.json tiger.pg --loss 2e-3 --json", 0)).unwrap();
    let attained = found["attained"][0].as_f64().unwrap();
    // SARSOP's bounds.
    assert!((19.37..=19.3721).contains(&attained) && found["horizon"].is_null(), "{found}");
    printed(folder, "solve tiger.json --device cpu --horizon 6 --gap 1e-3 --out plan.dot --quiet", 0);
    let text = printed(folder, "verify tiger.json plan.dot --loss 2e-3", 0);
    assert!(text.starts_with("Horizon: 6\n") && text.ends_with("The policy is proved.\n"), "{text}");
}
