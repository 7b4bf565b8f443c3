//! `warpkov pomdp trace` on the example in `data/`: G. Losapio, "Understanding kernel computations" (2022).

use std::process::{Command, Output};

use serde_json::{Value, json};

fn trace(arguments: &[&str]) -> Output {
    let data = |name: &str| format!("{}/data/{name}", env!("CARGO_MANIFEST_DIR"));
    Command::new(env!("CARGO_BIN_EXE_warpkov"))
        .args(["pomdp", "trace", &data("two-state.json"), "--alphas", &data("two-state.alpha")])
        .args(["--beliefs", &data("two-state.beliefs")])
        .args(arguments)
        .output()
        .expect("the binary runs")
}

fn stdout(arguments: &[&str]) -> String {
    let output = trace(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The results of sections 2 to 7 ("The final matrix is"). Their belief set is the first two of the three in the file.
#[test]
fn tensors_agree_with_the_source() {
    let found: Value = serde_json::from_str(&stdout(&["--json"])).expect("JSON");
    let tensor = |kernel: &str| {
        let tensors = found["tensors"].as_array().expect("tensors");
        tensors.iter().find(|tensor| tensor["kernel"] == kernel).expect("the tensor")["values"].clone()
    };
    fn rounded(value: &Value) -> Value {
        match value {
            Value::Array(values) => values.iter().map(rounded).collect(),
            value => json!((value.as_f64().expect("a number") * 1e9).round() / 1e9),
        }
    }
    let first_two = |kernel: &str| rounded(&Value::Array(tensor(kernel).as_array().expect("beliefs")[..2].to_vec()));
    let one = json!([[0.1, 0.4], [0.4, 0.4]]);
    let other = json!([[0.0, 0.6], [0.6, 0.6]]);
    assert_eq!(rounded(&tensor("g_ao")), json!([[one, one], [other, other]]));
    let (one, other) = (json!([[0.19, 0.18], [0.4, 0.6]]), json!([[0.28, 0.36], [0.4, 0.6]]));
    assert_eq!(first_two("scores"), json!([[one, one], [other, other]]));
    assert_eq!(first_two("best"), json!([[[0.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]));
    assert_eq!(first_two("g_ab"), json!([[[0.2, 1.8], [2.2, 1.2]], [[0.0, 2.2], [2.2, 1.2]]]));
    assert_eq!(first_two("action_scores"), json!([[0.68, 1.9], [1.32, 1.6]]));
    assert_eq!(first_two("best_action"), json!([1.0, 1.0]));
    assert_eq!(first_two("backup"), json!([[2.2, 1.2], [2.2, 1.2]]));
}

#[test]
fn elements_are_derived() {
    let text = stdout(&["--element", "G_AO[1][1][0][1]", "--element", "backup[1]"]);
    assert!(text.contains("i = l / (|Ω||A||S|) = 13 / 8 = 1\n"), "{text}");
    assert!(text.contains("G_AO[1][1][0][1] = G_AO[13] = 0.6\n"), "{text}");
    assert!(text.ends_with("B_KP[0][1] = B_KP[1] = 1.2\n\n"), "{text}");
    let refused = trace(&["--element", "g_ao[99]"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("expected an index below 16"));
}

/// By the definitions: action 1 leads from b = [.1 .9] to state 1 with probability 1, and
/// p(o|b, a) = .2.
#[test]
fn the_lookahead_follows_the_definitions() {
    let text = stdout(&["--lookahead", "2"]);
    assert!(
        text.contains(
            "  a = 1    c1 = b · R[1] = 0.1\n    o = 0\n      b̂(s') = O(a,s',o) Σ_s T(s,a,s') b(s) = [0 0.2]\n"
        )
    );
    assert!(text.contains("      b^{a,o} = b̂ / Σ b̂ = [0 1]\n"), "{text}");
    assert!(text.contains("      p(o|b,a) = b · t_{a,o} = 0.2\n"), "{text}");
    assert!(text.contains("c1 + γ c2 = 0.9 + γ·1.08 = 1.98\n"), "{text}");
    assert!(text.contains("  a* = 0\n\nThe same as in the source"), "{text}");
}

/// The numbers of sections 8 and 9 of the source: its T_inv lets action 1 keep each state.
#[test]
fn the_lookahead_by_t_inv_is_that_of_the_source() {
    let text = stdout(&["--lookahead", "2"]);
    let (_, text) =
        text.split_once("The same as in the source: with T_inv[a][s'] = s, which T does not have\n").unwrap();
    assert!(text.starts_with("  T_inv = [[0 1] [0 1]]\n  kernel next_belief_inverse\n  a = 0 "), "{text}");
    let (_, text) = text.split_once("  a = 1 ").unwrap();
    assert!(text.contains("      b̂(s') = O(a,s',o) b(T_inv[a][s']) = [0.01 0.18]\n"), "{text}");
    assert!(text.contains("      b^{a,o} = b̂ / Σ b̂ = [0.0526316 0.947368]\n"), "{text}");
    assert!(text.contains("      p(o|b,a) = b · t_{a,o} = 0.2\n"), "{text}");
    let found: Value = serde_json::from_str(&stdout(&["--lookahead", "2", "--json"])).expect("JSON");
    let source = &found["lookahead_by_inverse"];
    assert_eq!((&source["kernel"], &source["inverse"]), (&json!("next_belief_inverse"), &json!([[0, 1], [0, 1]])));
    let belief = |found: &Value| -> Vec<f64> {
        let belief = found["actions"][1]["outlooks"][0]["belief"].as_array().expect("a belief");
        belief.iter().map(|p| (p.as_f64().expect("a number") * 100.0).round() / 100.0).collect()
    };
    assert_eq!((belief(source), belief(&found["lookahead"])), (vec![0.05, 0.95], vec![0.0, 1.0]));
    let without: Value = serde_json::from_str(&stdout(&["--json"])).expect("JSON");
    assert!(without["lookahead"].is_null() && without["lookahead_by_inverse"].is_null());
}

#[test]
fn only_devices_with_kernels_are_accepted() {
    let found =
        |device: &str| -> Value { serde_json::from_str(&stdout(&["--json", "--device", device])).expect("JSON") };
    let [emulated, chosen] = ["emulated", "auto"].map(found);
    assert_eq!(emulated["device"], "the emulator");
    assert!(chosen["device"].is_string());
    assert_eq!(chosen["tensors"], emulated["tensors"]);
    assert_eq!(trace(&["--device", "cuda:4096"]).status.code(), Some(3));
    let refused = trace(&["--device", "cpu"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("expected auto, cuda:N or emulated"));
}
