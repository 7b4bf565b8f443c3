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

    // Costs: 1 in each step, Σ γᵗ = 2.
    let costs = "discount: 0.5\nvalues: cost\nstates: 1\nactions: 2\nobservations: 1\nT: *\n1\nO: *\n1\nR: 0: *: *: * 1\nR: 1: *: *: * 3\n";
    fs::write(folder.join("costs.pomdp"), costs).unwrap();
    fs::write(folder.join("costs.alpha"), "0\n2\n\n").unwrap();
    let text = printed(folder, "verify costs.pomdp costs.alpha --loss 1e-9", 0);
    assert!(text.contains("Proved: V*(b₀) − V(b₀) ≤ "), "{text}");
    fs::write(folder.join("costs.alpha"), "0\n1.9\n\n").unwrap();
    printed(folder, "verify costs.pomdp costs.alpha", 1);

    // γ = 1, and files that do not fit.
    fs::write(folder.join("endless.pomdp"), costs.replace("0.5", "1")).unwrap();
    assert!(printed(folder, "verify endless.pomdp costs.alpha", 2).contains("expected a discount factor below 1"));
    assert!(printed(folder, "verify tiger.json costs.alpha", 2).contains("costs.alpha"));
    printed(folder, "verify tiger.json none.alpha", 2);
}
