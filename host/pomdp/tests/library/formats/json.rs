//! JSON.

use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::io as formats;
use warpkov_pomdp::model::Pomdp;

use super::common::{TIGER, assert_same, model, successors};

#[test]
fn json_errors_have_a_position() {
    let read = |text: &str| formats::read_from(text.as_bytes(), "m.json", None).err().unwrap().to_string();
    let start = r#"{"S":1,"A":1,"O":1,"gamma":0.5,"#;
    let matrix = r#"{"indptr":[0,1],"indices":[0],"data":[1]}"#;
    assert_eq!(
        read(&format!("{start}\"P\":{matrix}}}")),
        "m.json:1:77: key \"Z\" is missing (or Z[a][s'][o], Z[s'][a][o], Z[s'][o], O[a][s'][o], O[s'][a][o], O[s'][o])"
    );
    let wrong = matrix.replace("[1]", "[0.5]");
    let message = read(&format!("{start}\"P\":{matrix},\"Z\":{wrong}}}"));
    assert_eq!(message, "m.json: O of action 0 in state 0 sums to 0.5, expected 1");
    // Messages name what has a name.
    let names = "\"state_names\":[\"cold\"],\"action_names\":[\"wait\"]";
    let message = read(&format!("{start}{names},\"P\":{matrix},\"Z\":{wrong}}}"));
    assert_eq!(message, "m.json: O of action wait in state cold sums to 0.5, expected 1");
    let message = read(&format!("{start}{names},\"P\":{},\"Z\":{matrix}}}", matrix.replace("[1]", "[-1]")));
    assert!(message.contains("P row 0 (state cold, action wait): data[0] is -1, expected"), "{message}");
    let message =
        read(&format!("{start}\"P\":{matrix},\"Z\":{matrix},\"start\":{{\"states\":[0],\"probs\":[\"x\"]}}}}"));
    assert!(message.contains("start.probs[0]: found string \"x\", expected a probability"), "{message}");
}

/// The tiger as the arrays of other JSON: each form is the model of Cassandra's text, bit for bit.
#[test]
fn json_takes_the_forms_of_processes() {
    let same = serde_json::json!([[0.5, 0.5], [0.5, 0.5]]);
    let hears = serde_json::json!([[0.85, 0.15], [0.15, 0.85]]);
    let base = serde_json::json!({
        "discount": 0.95,
        "state_names": ["tiger-left", "tiger-right"],
        "action_names": ["listen", "open-left", "open-right"],
        "observation_names": ["hear-left", "hear-right"],
        "O[a][s'][o]": [hears, same, same],
    });
    let read = |keys: &[(&str, serde_json::Value)]| {
        let mut text = base.clone();
        keys.iter().for_each(|(key, value)| text[*key] = value.clone());
        formats::read_from(text.to_string().as_bytes(), "m.json", None).map_err(|error| error.to_string())
    };
    let table = serde_json::json!([[[1, 0], [0, 1]], same, same]);
    let rewards = [[-1.0, -100.0, 10.0], [-1.0, 10.0, -100.0]];
    let expected = model(TIGER);
    let found = read(&[("P[a][s][s']", table.clone()), ("R[s][a]", serde_json::json!(rewards))]).unwrap();
    assert_same(&found, &expected, "tables");

    let mut list = Vec::new();
    for (s, state) in expected.names().states.iter().enumerate() {
        for (a, action) in expected.names().actions.iter().enumerate() {
            for (next, p) in successors(&expected, s as u32, a as u32) {
                let next = &expected.names().states[next as usize];
                list.push(serde_json::json!({
                    "state": state, "action": action, "next": next, "probability": p, "reward": rewards[s][a],
                }));
            }
        }
    }
    list.reverse();
    let list = serde_json::json!(list);
    // A list has its rewards on transitions.
    let found = read(&[("transitions", list.clone())]).unwrap();
    assert_eq!(found.expected_rewards(), expected.expected_rewards());
    let without_rewards = |model: &Pomdp| {
        let mut parts = model.clone().into_parts();
        parts.process.action_rewards = Vec::new().into();
        parts.process.rewards = Default::default();
        parts.validated().unwrap()
    };
    assert_same(&without_rewards(&found), &without_rewards(&expected), "a list");
    let at = |start: serde_json::Value| read(&[("transitions", list.clone()), ("start", start)]);
    assert_eq!(*at("tiger-right".into()).unwrap().start(), Belief::at(1));
    assert_eq!(*at(1.into()).unwrap().start(), Belief::at(1));
    for (found, message) in [
        (at("tiger-rigth".into()), "did you mean \"tiger-right\"?"),
        (at(2.into()), "the start belief is in the state \"2\", expected the name or the number of a state"),
        (read(&[("transitions", list.clone()), ("R[s]", serde_json::json!([1, 2]))]), "expected no tables beside it"),
        (read(&[("transitions", list.clone()), ("gamma", 0.5.into())]), "found both \"gamma\" and \"discount\""),
        (read(&[("transitions", list.clone()), ("names", serde_json::json!({}))]), "found both \"names\" and a list"),
        (read(&[("transition", list.clone())]), "did you mean \"transitions\"?"),
        (
            read(&[("transitions", list.clone()), ("state_names", serde_json::json!(["left", "tiger-right"]))]),
            "found the next state \"tiger-left\", expected one of the given names",
        ),
        (read(&[("transitions", serde_json::json!(list.as_array().unwrap()[1..]))]), "sum to 0.5, expected 1"),
        (
            read(&[("transitions", serde_json::json!(list.as_array().unwrap()[2..]))]),
            "every state of a POMDP needs the same actions",
        ),
    ] {
        let error = found.err().unwrap_or_else(|| panic!("read, expected {message}"));
        assert!(error.contains(message), "{error}\nexpected {message}");
    }
}

/// Rewards of observations count by their expectation, whatever the order of the keys.
#[test]
fn json_rewards_of_observations_are_expected() {
    let text = r#"{"gamma":0.5,"R[s][a][s'][o]":[[[[1,2],[3,4]]],[[[5,6],[7,-8]]]],
        "O[s'][o]":[[0.25,0.75],[0.5,0.5]],"P[s][a][s']":[[[0.5,0.5]],[[0,1]]]}"#;
    let found = formats::read_from(text.as_bytes(), "m.json", None).unwrap();
    assert_eq!(found.process().rewards().val()[..], [1.75, 3.5, 5.75, -0.5]);
    assert_eq!(found.expected_rewards(), [2.625, -0.5]);
    let other = text
        .replace("R[s][a]", "R[a][s]")
        .replace("[[[[1,2],[3,4]]],[[[5,6],[7,-8]]]]", "[[[[1,2],[3,4]],[[5,6],[7,-8]]]]");
    assert_same(&formats::read_from(other.as_bytes(), "m.json", None).unwrap(), &found, "by actions");
}

/// Lists may number states and actions, and name them in their own order; every state needs the same actions.
#[test]
fn lists_of_transitions_have_their_own_names() {
    let read = |list: &str| {
        let text = format!("{{\"gamma\":0.5,\"Z[s'][o]\":[[1],[1]],\"transitions\":[{list}]}}");
        formats::read_from(text.as_bytes(), "m.json", None).map_err(|error| error.to_string())
    };
    let outcome =
        |s: &str, a: &str, next: &str| format!("{{\"state\":{s},\"action\":{a},\"next\":{next},\"probability\":1}}");
    let lines =
        |rows: &[[&str; 3]]| rows.iter().map(|row| outcome(row[0], row[1], row[2])).collect::<Vec<_>>().join(",");
    let numbered = read(&lines(&[["1", "1", "0"], ["0", "0", "0"], ["0", "1", "1"], ["1", "0", "1"]])).unwrap();
    assert_eq!((numbered.states(), numbered.actions(), numbered.names().actions.len()), (2, 2, 0));
    assert_eq!(successors(&numbered, 1, 1), [(0, 1.0)]);
    let [b, a] = ["\"b\"", "\"a\""];
    let named = read(&lines(&[[b, "\"y\"", b], [b, "\"x\"", a], [a, "\"x\"", b], [a, "\"y\"", a]])).unwrap();
    assert_eq!(
        (&named.names().states[..], &named.names().actions[..]),
        (&["b", "a"].map(String::from)[..], &["y", "x"].map(String::from)[..])
    );
    assert_eq!(successors(&named, 0, 1), [(1, 1.0)]);
    let error = read(&lines(&[[b, "\"y\"", a], [a, "\"x\"", b]])).err().unwrap();
    assert!(error.contains("every state of a POMDP needs the same actions"), "{error}");
    let error = read(&lines(&[[b, "\"y\"", a]])).err().unwrap();
    assert!(error.contains("every state of a POMDP needs the same actions"), "{error}");
}
