//! Files of policies and of values.

use warpkov_mdp::io::{read_policy, read_values, write_csv, write_csv_named, write_npy};
use warpkov_mdp::model::{MdpParts, NO_ACTION};

use super::common::from_text;

#[test]
fn policies_are_read_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mdp = from_text(
        "state,action,next,probability\nnew,keep,worn,1\nnew,replace,new,1\nworn,keep,end,1\nworn,replace,new,1\nend,,,\n",
    );
    let policy = [0, 1, NO_ACTION];
    let values = [1.5, -2.0, 0.0];
    let mut named = Vec::new();
    write_csv_named(&mut named, &values, &policy, mdp.names().unwrap()).unwrap();
    let text = "state,value,action,state_number,action_number\nnew,1.5,keep,0,0\nworn,-2.0,replace,1,1\nend,0.0,,2,\n";
    assert_eq!(String::from_utf8(named.clone()).unwrap(), text);
    let mut plain = Vec::new();
    write_csv(&mut plain, &values, &policy).unwrap();
    let mut npy = Vec::new();
    write_npy(&mut npy, &policy).unwrap();
    let mut signed = Vec::new();
    write_npy(&mut signed, &[0_i64, 1, -1]).unwrap();
    for (name, bytes) in [
        ("named.csv", &named[..]),
        ("plain.csv", &plain),
        ("a.npy", &npy),
        ("signed.npy", &signed),
        ("hand.csv", b"action,state\nreplace,worn\n0,new\n"),
        ("a.txt", b"Optimal policy: 0 1 -\nOptimal value: 1 2 0\n"),
        ("list.json", b"[\"keep\", 1, null]"),
        ("report.json", b"{\"policy\": [0, 1, null], \"values\": [1, 2, 0], \"policy_names\": [\"keep\"]}"),
        ("object.json", b"{\"worn\": \"replace\", \"new\": 0}"),
        ("one-step.json", b"[[\"keep\", 1, null]]"),
        ("one-step.csv", b"step,action,state\n0,replace,worn\n0,0,new\n"),
    ] {
        std::fs::write(path(name), bytes).unwrap();
        assert_eq!(read_policy(&path(name), &mdp).unwrap(), policy, "{name}");
    }
    assert_eq!(read_values(&path("named.csv")).unwrap(), values);
    // The same file for a model without names: its numbers count.
    let unnamed = MdpParts { state_names: None, action_names: None, ..mdp.clone().into_parts() }.validated().unwrap();
    assert_eq!(read_policy(&path("named.csv"), &unnamed).unwrap(), policy);

    let fault = |name: &str, text: &str| {
        std::fs::write(path(name), text).unwrap();
        read_policy(&path(name), &mdp).unwrap_err().to_string().replace(&format!("{}/", folder.path().display()), "")
    };
    for (name, text, message) in [
        (
            "b.csv",
            "state,action\nnew,kep\n",
            "b.csv:2: found action kep of state new, expected one of keep, replace, or a number below 2",
        ),
        (
            "b.csv",
            "state,action\nold,keep\n",
            "b.csv:2: found state old, expected one of the 3 names of states, such as new, or a number below 3",
        ),
        (
            "b.csv",
            "state,action\nnew,keep\nnew,keep\n",
            "b.csv:3: state new has a second action, expected one action per state",
        ),
        ("b.csv", "state,action\nnew,keep\n", "b.csv: state worn has no action, expected one for each state"),
        (
            "b.csv",
            "state,action\nend,keep\n",
            "b.csv:2: found action keep of state end, expected none: it has no actions",
        ),
        (
            "b.csv",
            "state,action\nnew,\n",
            "b.csv:2: found no action of state new, expected one of keep, replace, or a number below 2",
        ),
        (
            "b.csv",
            "state,value\nnew,1\n",
            "b.csv:1: found the columns state, value, but no action; expected state, action; optional: state_number, action_number, step",
        ),
        ("b.csv", "step,state,action\nx,new,keep\n", "b.csv:2: found step x, expected a number"),
        (
            "b.csv",
            "step,state,action\n1,new,keep\n1,worn,keep\n",
            "b.csv: has no actions of step 0, expected all steps from 0 on",
        ),
        ("b.json", "[[0, 0, null], [0, 1]]", "b.json: found 2 actions, expected one per state, 3"),
        ("b.json", "[0, 1]", "b.json: found 2 actions, expected one per state, 3"),
        ("b.json", "[0, 1.5, null]", "b.json: found 1.5, expected an action: its name or number"),
        (
            "b.json",
            "[0, 2, null]",
            "b.json: found action 2 of state worn, expected one of keep, replace, or a number below 2",
        ),
        ("b.json", "[0", "b.json:1:2: EOF while parsing a list"),
        ("b.json", r#"{"new": 0, "worn": 0, "new": 1}"#, "b.json:1:31: key \"new\" appears twice"),
        ("b.json", r#"{"policy": [0, 0, null], "policy": []}"#, "b.json:1:38: key \"policy\" appears twice"),
        ("b.txt", "Optimal policy: 0 x -", "b.txt: line 1, entry 2: 'x' is not an action"),
    ] {
        assert_eq!(fault(name, text), message, "{text}");
    }
}

#[test]
fn written_values_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (values, policy) = ([1.0 / 3.0, -1e300, 0.0, 5e-324], [1, 0, NO_ACTION, 2]);
    let mut csv = Vec::new();
    write_csv(&mut csv, &values, &policy).unwrap();
    let text = "state,value,action\n0,0.3333333333333333,1\n1,-1e300,0\n2,0.0,\n3,5e-324,2\n";
    assert_eq!(String::from_utf8(csv.clone()).unwrap(), text);
    let mut npy = Vec::new();
    write_npy(&mut npy, &values).unwrap();
    // Bytes written by numpy.save, for an array of four <f8.
    assert_eq!((npy.len(), &npy[..8]), (128 + 32, &b"\x93NUMPY\x01\x00"[..]));
    let mut actions = Vec::new();
    write_npy(&mut actions, &policy).unwrap();
    assert!(String::from_utf8_lossy(&actions).contains("{'descr': '<u4', 'fortran_order': False, 'shape': (4,), }"));

    let json = serde_json::to_vec(&values).unwrap();
    let object = [b"{\"status\": \"solved\", \"values\": ", &json[..], b"}"].concat();
    for (name, bytes) in [("a.csv", csv), ("a.npy", npy), ("list.json", json), ("object.json", object)] {
        std::fs::write(path(name), bytes).unwrap();
        assert_eq!(read_values(&path(name)).unwrap(), values, "{name}");
    }

    let message = |name: &str, text: &str| {
        std::fs::write(path(name), text).unwrap();
        let error = read_values(&path(name)).unwrap_err().to_string();
        error.replace(&format!("{}{}", folder.path().display(), std::path::MAIN_SEPARATOR), "")
    };
    assert_eq!(message("b.csv", "value\n1\nx\n"), "b.csv:3: found 'x', expected a value");
    assert_eq!(message("b.csv", "state,value\n1,1\n"), "b.csv:2: found state 1, expected state 0");
    assert_eq!(
        message("b.csv", "s,w\n"),
        "b.csv:1: found the columns state, w, but no value; expected value; optional: state, state_number"
    );
    assert_eq!(message("b.csv", "value\n1\nNaN\n"), "b.csv: the value of state 1 is NaN, expected a finite number");
    assert_eq!(message("b.json", "{}"), "b.json:1:2: missing field `values`");
    assert!(message("b.npy", "x").starts_with("b.npy: "));
}
