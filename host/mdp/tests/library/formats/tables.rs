//! Tables of rows in every form, with names, and what is ambiguous.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use warpkov_mdp::io::{
    Format, ReadOptions, open_parts, read, read_from, read_from_noted, read_json, write, write_json, write_to,
};
use warpkov_mdp::model::{ActionNames, Csr, MdpParts, Whole};

use super::common::{fault, from_text, random, same_matrices};

/// A model whose probabilities and rewards have many magnitudes, and its P and R as tables with row s·A + a.
fn tables(seed: u64) -> (u32, u32, Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut below = |n: u32| random.next_u32() % n;
    let (states, actions) = (1 + below(6), 1 + below(4));
    let rows = (states * actions) as usize;
    let p = (0..rows).map(|_| {
        let mut row: Vec<f64> =
            (0..states).map(|_| if below(3) == 0 { 0.0 } else { 10f64.powi(-(below(18) as i32)) }).collect();
        row[below(states) as usize] += 1.0;
        let sum: f64 = row.iter().sum();
        row.iter().map(|p| p / sum).collect()
    });
    let p: Vec<Vec<f64>> = p.collect();
    let sign = |draw: u32| if draw == 0 { -1.0 } else { 1.0 };
    let r = p.iter().map(|row| {
        let reward = |p: &f64| if *p == 0.0 { 0.0 } else { 10f64.powi(below(600) as i32 - 300) * sign(below(2)) };
        row.iter().map(reward).collect()
    });
    let r = r.collect();
    (states, actions, p, r)
}

/// A table with row s·A + a as JSON, in either order.
fn nested(rows: &[Vec<f64>], states: u32, actions: u32, by_action: bool) -> String {
    let row = |s: u32, a: u32| serde_json::to_string(&rows[(s * actions + a) as usize]).unwrap();
    let outer = if by_action { actions } else { states };
    let inner = if by_action { states } else { actions };
    let part = |i: u32| {
        let rows: Vec<_> = (0..inner).map(|j| if by_action { row(j, i) } else { row(i, j) }).collect();
        format!("[{}]", rows.join(","))
    };
    format!("[{}]", (0..outer).map(part).collect::<Vec<_>>().join(",\n"))
}

#[test]
fn all_forms_of_a_model_are_equal() {
    for seed in 0..200 {
        let (states, actions, p, r) = tables(seed);
        let table = |rows, by_action| nested(rows, states, actions, by_action);
        let by_action = from_text(&format!(
            "{{\"gamma\":0.5,\"P[a][s][s']\":{},\"R[a][s][s']\":{}}}",
            table(&p, true),
            table(&r, true)
        ));
        let by_state = from_text(&format!(
            "{{\"R[s][a][s']\":{},\"P[s][a][s']\":{},\"gamma\":0.5}}",
            table(&r, false),
            table(&p, false)
        ));
        same_matrices(&by_action, &by_state);
        assert_eq!((by_action.states(), by_action.choices().max()), (states, actions), "{seed}");
        for (row, expected) in p.iter().enumerate() {
            let (columns, values) = by_action.transitions().row(row);
            let mut found = vec![0.0; states as usize];
            columns.iter().zip(values).for_each(|(&column, &value)| found[column as usize] = value);
            assert_eq!(&found, expected, "{seed}");
        }
        // CSR, CSV and lists of transitions of the same model.
        let mut bytes = Vec::new();
        write_json(&mut bytes, &by_action).unwrap();
        same_matrices(&by_action, &read_json(&bytes[..], "csr").unwrap());
        bytes.clear();
        write_to(&mut bytes, Format::Csv, &by_action).unwrap();
        let csv = String::from_utf8(bytes).unwrap();
        same_matrices(&by_action, &from_text(&csv).with_gamma(0.5).unwrap());
        let mut lines: Vec<_> = csv.lines().skip(1).collect();
        let entries = lines.iter().map(|line| {
            let fields: Vec<_> = line.split(',').collect();
            let [state, action, next, p, reward] = fields[..] else { panic!("{line}") };
            format!(
                "{{\"next\":{next},\"state\":\"{state}\",\"probability\":{p},\"action\":{action},\"reward\":{reward}}}"
            )
        });
        let list = format!("{{\"gamma\":0.5,\"transitions\":[{}]}}", entries.collect::<Vec<_>>().join(","));
        same_matrices(&by_action, &from_text(&list));
        lines.reverse();
        let shuffled = format!("state,action,next,probability,reward\r\n{}", lines.join("\r\n\r\n"));
        same_matrices(&by_action, &from_text(&shuffled).with_gamma(0.5).unwrap());
    }
    // Rewards of states and of actions.
    let p = "\"gamma\":0.5,\"P[a][s][s']\":[[[1,0],[0,1]],[[0,1],[1,0]],[[0.5,0.5],[0,1]]]";
    for (rewards, expected) in [
        ("\"R[s]\":[1,-2]", [1.0, 1.0, 1.0, -2.0, -2.0, -2.0]),
        ("\"R[s][a]\":[[1,2,3],[4,5,6]]", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ("\"R[a][s]\":[[1,4],[2,5],[3,6]]", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ("\"S\":2,\"A\":3", [0.0; 6]),
    ] {
        assert_eq!(from_text(&format!("{{{p},{rewards}}}")).expected_rewards(), expected, "{rewards}");
    }
    let ends =
        from_text("{\"gamma\":1,\"P[s][a][s']\":[[[0.5,0],[0,1]],[[0,1],[1,0]]],\"ends[s][a]\":[[0.5,0],[0,0]]}");
    assert_eq!(ends.ends()[..], [0.5, 0.0, 0.0, 0.0]);
}

#[test]
fn messages_name_states_and_actions() {
    let names = r#""state_names":["cold","hot\u001b"],"action_names":["wait","stop"]"#;
    let of = |rest: &str| fault(&format!("{{\"gamma\":0.5,{names},{rest}}}"));
    let p = "\"P[a][s][s']\":[[[1,0],[0,1]],[[0,1],[0.5,0]]]";
    let message = of(&format!("{p},\"R[s]\":[0,0]"));
    assert!(message.contains("P row 3 (state hot\\u{1b}, action stop): probabilities sum to 0.5"), "{message}");
    let p = "\"P[a][s][s']\":[[[1,0],[0,1]],[[0,1],[1,0]]]";
    let message = of(&format!("{p},\"ends[s][a]\":[[0,0.5],[0,0]],\"R[s]\":[0,0]"));
    assert!(message.contains("P row 1 (state cold, action stop): probabilities sum to 1.5"), "{message}");
    let message = of(&format!("{p},\"ends[s][a]\":[[0,-0.5],[0,0]],\"R[s]\":[0,0]"));
    assert!(message.contains("ends row 1 (state cold, action stop) is -0.5, expected a probability"), "{message}");
}

#[test]
fn names_survive_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let texts = ["new", " worn, \"out\" ", "é\u{1f600}", "7", "end"];
    for seed in 0..20 {
        let mut parts = random(seed).into_parts();
        let (states, rows) = (parts.states, parts.transitions.rows());
        let names = (0..states).map(|s| format!("{}{s}", texts[s as usize % texts.len()])).collect();
        parts.state_names = Some(Arc::new(names));
        let actions = parts.choices.max();
        parts.action_names = Some(ActionNames {
            names: (0..actions).map(|a| format!("{}{a}", texts[a as usize % texts.len()])).collect(),
            of_row: (0..rows as u32).map(|row| row % actions).collect(),
        });
        parts.labels = [("init".to_owned(), vec![states - 1])].into();
        let mdp = parts.validated().unwrap();
        for name in ["a.json", "a.csv", "a.safetensors", "a.npz"] {
            let path = folder.path().join(name);
            write(&path, &mdp).unwrap();
            let back = read(&path).unwrap().with_gamma(mdp.gamma()).unwrap();
            assert_eq!((back.state_names(), back.action_names()), (mdp.state_names(), mdp.action_names()), "{name}");
            assert_eq!(back.transitions().val()[..], mdp.transitions().val()[..], "{name}");
            if let Some(mapped) = open_parts(&path, &ReadOptions::default()).unwrap() {
                let names = mapped.names().unwrap();
                for state in 0..states {
                    assert_eq!(names.name_of_state(state.into()), mdp.state_name(state));
                    let last = actions - 1;
                    assert_eq!(names.name_of_action(state.into(), last), mdp.action_name(state, last));
                }
                for (states, whole) in [(0..1, 0..1), (0..u64::from(states), 0..u64::from(states))] {
                    assert_eq!(mapped.rows(states).unwrap().count(), mdp.choices().max() as usize * whole.count());
                }
            }
        }
        // A state that takes up the end of the process has a name, too.
        let ends = vec![1.0; rows];
        let transitions = Csr::empty(rows);
        let ended = MdpParts { ends: ends.into(), transitions, ..mdp.clone().into_parts() }.validated().unwrap();
        let path = folder.path().join("b.csv");
        write(&path, &ended).unwrap();
        let back = read(&path).unwrap();
        assert_eq!(back.state_names().unwrap()[..states as usize], *mdp.state_names().unwrap());
        assert_eq!(back.states(), states + 1);
    }
    // Labels by name, in any order, and names beside a list of transitions.
    let list = r#"{"gamma":0.9,"state_names":["b","a","c"],"action_names":["y","x"],"labels":{"init":["a","b"]},"transitions":[
        {"state":"a","action":"x","next":"c","probability":1},{"state":"a","action":"y","next":"b","probability":1},
        {"state":"b","action":"x","next":"a","probability":1}]}"#;
    let mdp = from_text(list);
    assert_eq!(mdp.state_names().unwrap(), ["b", "a", "c"]);
    assert_eq!(mdp.labels()["init"], [0, 1]);
    assert_eq!(
        ((0..2).map(|a| mdp.action_name(1, a)).collect::<Vec<_>>(), mdp.action_name(0, 0)),
        (vec!["y".into(), "x".into()], "x".into())
    );
    let wrong = |from: &str, to: &str| fault(&list.replacen(from, to, 1));
    assert!(
        wrong("\"next\":\"c\"", "\"next\":\"cc\"")
            .contains("transitions[0]: found the next state \"cc\", expected one of the given names")
    );
    assert!(
        wrong("[\"a\",\"b\"]", "[\"a\",\"d\"]")
            .contains("label \"init\": found \"d\", expected a state's name or number")
    );
}

#[test]
fn what_is_ambiguous_is_an_error() {
    let p = |table: &str| fault(&format!("{{\"gamma\":0.9,\"P\":{table}}}"));
    assert_eq!(
        p("[[[1,0],[0,1]],[[0,1],[1,0]]]"),
        "m:1:46: P: found a table of 2 × 2 × 2 numbers without its order, expected the key \"P[a][s][s']\" (2 states, 2 actions) \
         or the key \"P[s][a][s']\" (2 states, 2 actions)"
    );
    assert!(p("[[[1,0],[0,1]]]").ends_with(
        "the key \"P[a][s][s']\" (2 states, 1 actions) or the key \"P[s][a][s']\" (does not fit: 1 states and rows of 2)"
    ));
    // Four states: rows of four numbers are not Gymnasium's transitions.
    let four = "[[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]]";
    assert!(p(four).contains("1 × 4 × 4"), "{}", p(four));
    assert!(fault(four).contains("expected an object"), "{}", fault(four));
    let gymnasium = from_text("{\"gamma\":0.9,\"P\":[[[[1,0,5,0]]]]}");
    assert_eq!((gymnasium.states(), gymnasium.gamma()), (1, 0.9));
    assert_eq!(from_text("[[[],[[1,1,5,true]]],[]]".replace("[],[[", "[[").as_str()).ends()[..], [1.0]);
    assert!(fault("{\"P\":[[[[1,0,5,0]]]],\"gama\":0.9}").contains("unknown key \"gama\", did you mean \"gamma\"?"));

    let of = |keys: &str| fault(&format!("{{\"gamma\":0.9,\"P[a][s][s']\":[[[1,0],[0,1]]],{keys}}}"));
    for (keys, message) in [
        ("\"R\":[1,2]", "R: found a table of 2 numbers without its order, expected the key \"R[s]\""),
        (
            "\"R\":[[1],[2]]",
            "R: found a table of 2 × 1 numbers without its order, expected the key \"R[s][a]\" or \"R[a][s]\"",
        ),
        ("\"R[s][a]\":[[1,2]]", "R[s][a] is of 1 × 2 numbers, expected 2 × 1"),
        ("\"R[s][a][s']\":[[[1,2],[1,2]]]", "R[s][a][s'] is of 1 × 2 × 2 numbers, expected 2 × 1 × 2"),
        ("\"R[s]\":[1,2],\"R[s][a]\":[[1],[2]]", "found two tables of rewards, expected one"),
        ("\"action_rewards\":[1,2]", "keys \"R\" and \"action_rewards\" are for the rows of \"P\""),
        ("\"ends\":[0,0]", "key \"ends\" is for the rows of \"P\", expected \"ends[s][a]\""),
        ("\"choices\":[0,1,2]", "key \"choices\" is for the rows of \"P\" only"),
        ("\"S\":3", "S is 3, and the transitions have 2"),
        ("\"A\":2", "A is 2, and the transitions have 1"),
        (
            "\"P\":{\"indptr\":[0],\"indices\":[],\"data\":[]}",
            "found both \"P\" and \"P[a][s][s']\", expected one of them",
        ),
        ("\"action_names\":[\"x\",\"y\"]", "action_names has 2 elements, expected one per action, 1"),
        ("\"state_names\":[\"x\"]", "state_names has 1 elements, expected one per state, 2"),
        ("\"state_names\":[\"x\",\"x\"]", "state_names[1] is \"x\", as state_names[0]; expected distinct names"),
        ("\"statenames\":[]", "unknown key \"statenames\", did you mean \"state_names\"?"),
        ("\"objective\":\"min\"", "objective: found string \"min\", expected \"maximize\" or \"minimize\""),
    ] {
        assert!(of(keys).contains(message), "{keys}: {}", of(keys));
    }
    let table = |key: &str, table: &str| fault(&format!("{{\"gamma\":0.9,\"{key}\":{table}}}"));
    assert!(table("P[s][a][s']", "[[[1,0],[0,1]]]").contains(
        "P[s][a][s'] is of 1 × 2 × 2 numbers, expected S × A × S (as \"P[a][s][s']\" it has 2 states and 1 actions)"
    ));
    assert!(table("P[a][s][s']", "[[[1,0],[0]]]").contains("found 1 entries, expected 2"));
    assert!(table("P[a][s][s']", "[[[1,\"x\"],[0,1]]]").contains("found string \"x\", expected a number"));
    assert!(table("P[a][s][s']", "[]").contains("has 1 levels of arrays, expected 3"));
    assert!(table("P[a][s][s']", "[[[]]]").contains("expected A × S × S"));
    assert!(table("P[a][s][s]", "[[[1]]]").contains("unknown key \"P[a][s][s]\", did you mean \"P[a][s][s']\"?"));
    assert!(table("P[a][s][s']", "[[[0.5,0.4],[0,1]]]").contains("probabilities sum to 0.9"));
    assert!(fault("{\"gamma\":0.9}").contains("key \"P\" is missing (or P[a][s][s'], P[s][a][s'], transitions)"));
}

#[test]
fn tables_of_rows_are_checked() {
    let csv = |rows: &str| fault(&format!("state,action,next,probability,reward\n{rows}"));
    for (rows, message) in [
        ("", "m: found no transitions, expected at least one"),
        ("a,x,b,0.5,1\nb,x,b,1,0\n", "m:2: the probabilities of action x of state a sum to 0.5, expected 1"),
        (
            "a,x,b,1,1\nb,x,b,1,0\na,x,b,1,2",
            "m:4: action x of state a leads to state b here and in line 2, expected once",
        ),
        ("a,x,b,1.5,1", "m:2: found the probability 1.5, expected a number in [0, 1]"),
        ("a,x,b,-1,1", "m:2: found the probability -1, expected a number in [0, 1]"),
        ("a,x,b,NaN,1", "m:2: found \"NaN\", expected a probability"),
        ("a,x,b,1,inf", "m:2: found \"inf\", expected a reward"),
        ("a,x,b,,1", "m:2: found no probability"),
        ("a,,b,1,1", "m:2: found no action, expected a name or a number"),
        ("a,x,,1,1", "m:2: found no next state, expected a name or a number"),
        (",x,b,1,1", "m:2: found no state, expected a name or a number"),
        ("a,x,b,1", "m:2: found 4 fields, expected 5, as in the header"),
        (
            "1,0,2,1,1\n2,0,1,1,1",
            "m: the states are numbered from 1 to 2, expected the numbers from 0 to S − 1 without gaps, or names",
        ),
        (
            "0,0,1,1,1\n\n1,0,4294967290,1,1",
            "m:4: found state 4294967290, but no state 2; expected the numbers from 0 to S − 1 without gaps, or names",
        ),
        ("\"a,x,b,1,1", "m:2: a field in quotation marks does not end in its line"),
    ] {
        assert_eq!(csv(rows), message, "{rows}");
    }
    for (text, message) in [
        (
            "state,action,next,probability,q\n",
            "m:1: found the unknown column \"q\", expected state, action, next, probability; optional: reward",
        ),
        ("state,action,next,probability,p\n", "m:1: found the column probability twice"),
        ("state|action|next|probability\n0|0|0|1", "m:1: found columns separated by vertical bars, expected commas"),
        ("state;action;next;probability\n0;0;0;0,5", "m:2: found \"0,5\", expected a probability"),
        ("state,action,next,probability,state\n", "m:1: found the column state twice"),
    ] {
        assert_eq!(fault(text), message);
    }
    let options = ReadOptions { format: Some(Format::Csv), ..ReadOptions::default() };
    let forced = |text: &str| read_from(text.as_bytes(), "m", &options).err().unwrap().to_string();
    assert!(
        forced("").starts_with("m: the file ends, expected a header with the columns state, action, next, probability")
    );
    assert!(forced("state,value,action\n").starts_with("m:1: found the columns state, value, action, but no next"));

    // A byte-order mark, blanks, quotation marks, fractions; the reward is optional.
    let text = "\u{feff}probability , \"next\",state, action\r\n1/3,\"a, b\", c ,go\r\n2/3,c,c,go\r\n";
    let mut notes = Vec::new();
    let mdp = read_from_noted(text.as_bytes(), "m", &ReadOptions::default(), &mut |note| notes.push(note)).unwrap();
    assert_eq!((mdp.state_names().unwrap(), mdp.gamma()), (&["c", "a, b"].map(str::to_owned)[..], 1.0));
    assert_eq!(mdp.transitions().val()[..], [2.0 / 3.0, 1.0 / 3.0]);
    assert_eq!(notes, ["the state a, b has no actions: the process ends there"]);
    // What other programs write: columns of other names, and separated by semicolons or tabs.
    for separator in [",", ";", "\t"] {
        let text = "s,a,next_state,prob,r\n0,0,1,1/4,2\n0,0,0,0.75,-2\n1,0,1,1,0\n".replace(',', separator);
        let mdp = from_text(&text);
        assert_eq!(mdp.transitions().val()[..], [0.75, 0.25, 1.0], "{separator:?}");
        assert_eq!(mdp.transitions().col()[..], [0, 1, 1]);
    }
    // A state that is said to be terminal needs no note, and has its place in the order.
    notes.clear();
    let text = "state,action,next,probability\nx,,,\na,go,x,1\n";
    let mdp = read_from_noted(text.as_bytes(), "m", &ReadOptions::default(), &mut |note| notes.push(note)).unwrap();
    assert_eq!((mdp.state_names().unwrap(), notes.len()), (&["x", "a"].map(str::to_owned)[..], 0));
    // Numbers of actions with gaps are names.
    let mdp = from_text("state,action,next,probability\n0,7,0,1\n0,3,0,1\n");
    assert_eq!((mdp.action_name(0, 0), mdp.action_name(0, 1), mdp.state_names()), ("3".into(), "7".into(), None));
}
