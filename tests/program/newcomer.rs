//! A newcomer's way: a problem in words becomes a model as CSV, as JSON and as Rust code, and all three give the same policy,
//! by name. Files whose rows are in another order than they say are refused or warned of.
//!
//! | machine | action | profit | then |
//! | --- | --- | --- | --- |
//! | new | run | 10 | worn with probability 0.3 |
//! | worn | run | 7 | broken with probability 0.4 |
//! | broken | run | 0 | broken |
//! | any | replace | −20 | new |
//!
//! A profit of the next period is worth 0.95 of one of this period.

use std::fs;
use std::process::{Command, Output};

use tempfile::TempDir;
use warpkov::mdp::matrix_free::Representation;
use warpkov::mdp::{ModelOptions, solve_model};
use warpkov::runtime::choose::DeviceChoice;
use warpkov_device::device::Parameter;
use warpkov_kernels::mdp::Model;

const CSV: &str = "\
state,action,next,probability,reward
new,run,new,0.7,10
new,run,worn,0.3,10
new,replace,new,1,-20
worn,run,worn,0.6,7
worn,run,broken,0.4,7
worn,replace,new,1,-20
broken,run,broken,1,0
broken,replace,new,1,-20
";

const JSON: &str = r#"{
  "gamma": 0.95,
  "state_names": ["new", "worn", "broken"],
  "action_names": ["run", "replace"],
  "P[a][s][s']": [
    [[0.7, 0.3, 0], [0, 0.6, 0.4], [0, 0, 1]],
    [[1, 0, 0], [1, 0, 0], [1, 0, 0]]
  ],
  "R[s][a]": [[10, -20], [7, -20], [0, -20]]
}"#;

#[derive(Clone, Copy, Parameter)]
struct Machine {
    gamma: f64,
}

impl Model for Machine {
    fn gamma(&self) -> f64 {
        self.gamma
    }
    fn states(&self) -> u64 {
        3
    }
    fn actions(&self, _state: u64) -> u32 {
        2
    }
    fn outcomes(&self, state: u64, action: u32, mut each: impl FnMut(u64, f64, f64)) {
        let (profit, wear) = [(10.0, 0.3), (7.0, 0.4), (0.0, 0.0)][state as usize];
        if action == 1 {
            return each(0, 1.0, -20.0);
        }
        each(state, 1.0 - wear, profit);
        each((state + 1).min(2), wear, profit);
    }
}

warpkov_kernels::model!(Machine);

fn warpkov(folder: &TempDir, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpkov"));
    command.current_dir(folder).args(arguments.split(' ')).output().unwrap()
}

/// The values and the names of the actions of the states that a CSV of a solution lists.
fn solution(output: &Output) -> Vec<(String, f64, String)> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let rows = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    rows.map(|row| (row[0].to_owned(), row[1].parse().unwrap(), row[2].to_owned())).collect()
}

#[test]
fn words_become_a_named_policy_in_three_ways() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("machine.csv"), CSV).unwrap();
    fs::write(folder.path().join("machine.json"), JSON).unwrap();
    let by_csv = solution(&warpkov(&folder, "mdp solve machine.csv --gamma 0.95 --epsilon 1e-9 --out -"));
    let by_json = solution(&warpkov(&folder, "mdp solve machine.json --epsilon 1e-9 --out -"));
    let names: Vec<_> = by_csv.iter().map(|(state, _, action)| (&state[..], &action[..])).collect();
    assert_eq!(names, [("new", "run"), ("worn", "run"), ("broken", "replace")]);
    // The exact solution of the equations of this policy.
    let (g, machine) = (0.95, Machine { gamma: 0.95 });
    let worn_of_new = [(7.0 + g * 0.4 * -20.0) / (1.0 - g * 0.6), g * g * 0.4 / (1.0 - g * 0.6)];
    let new = (10.0 + g * 0.3 * worn_of_new[0]) / (1.0 - g * 0.7 - g * 0.3 * worn_of_new[1]);
    let exact = [new, worn_of_new[0] + worn_of_new[1] * new, g * new - 20.0];
    for found in [&by_csv, &by_json] {
        assert!(
            found.iter().zip(exact).all(|((_, value, _), exact)| (value - exact).abs() <= 1e-9),
            "{found:?} {exact:?}"
        );
        assert!(found.iter().zip(&by_csv).all(|(found, csv)| (&found.0, &found.2) == (&csv.0, &csv.2)), "{found:?}");
    }
    for device in [DeviceChoice::Cpu, DeviceChoice::Emulated] {
        let representation = Representation::Code;
        let options = ModelOptions { device, representation, ..ModelOptions::default() };
        let found = solve_model(&machine, &options).unwrap();
        assert_eq!(found.policy, [0, 0, 1], "{device}");
        assert!(found.values.iter().zip(exact).all(|(value, exact)| (value - exact).abs() <= 1e-6), "{device}");
    }
}

/// The same numbers with the rows of all states for the first action, then those for the second: as sparse rows without names,
/// and as a table without a key that names its order.
#[test]
fn rows_in_another_order_are_refused_or_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let by_action = r#"{"S":3,"A":2,"gamma":0.95,
        "P":{"indptr":[0,2,4,5,6,7,8],"indices":[0,1,1,2,2,0,0,0],"data":[0.7,0.3,0.6,0.4,1,1,1,1]},
        "action_rewards":[10,7,0,-20,-20,-20]}"#;
    fs::write(folder.path().join("by-action.json"), by_action).unwrap();
    fs::write(folder.path().join("table.json"), JSON.replace("P[a][s][s']", "P")).unwrap();
    let warned = warpkov(&folder, "mdp solve by-action.json");
    let message = String::from_utf8_lossy(&warned.stderr).to_lowercase();
    assert!(message.contains("warning") && message.contains("action"), "{message}");
    let refused = warpkov(&folder, "mdp solve table.json");
    let message = String::from_utf8_lossy(&refused.stderr).to_lowercase();
    assert_eq!(refused.status.code(), Some(2));
    assert!(message.contains("p[a][s][s']") && message.contains("p[s][a][s']"), "{message}");
}
