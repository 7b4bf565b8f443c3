//! Formats of partially observable models: files of other programs, error messages for invalid files, and
//! round trips.
//!
//! One file, because all formats share the same models and the mutations at the end.

use std::io;
use std::path::Path;

use warpkov_mdp::model::{Csr, Objective};
use warpkov_pomdp::alpha::AlphaVectors;
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::io as formats;
use warpkov_pomdp::io::{Format, Policy, PolicyGraph};
use warpkov_pomdp::model::Pomdp;

/// The tiger of Kaelbling, Littman and Cassandra, *Planning and acting in partially observable stochastic domains*
/// (1998).
const TIGER: &str = "\
# The tiger is behind one of two doors.
discount: 0.95
values: reward
states: tiger-left tiger-right
actions: listen open-left open-right
observations: hear-left hear-right

T: listen
identity
T: open-left
uniform
T: open-right
uniform

O: listen
0.85 0.15
0.15 0.85
O: open-left
uniform
O: open-right
uniform

R: listen : * : * : * -1
R: open-left : tiger-left : * : * -100
R: open-left : tiger-right : * : * 10
R: open-right : tiger-left : * : * 10
R: open-right : tiger-right : * : * -100
";

fn parse(text: &str) -> Result<Pomdp, String> {
    formats::read_from(text.as_bytes(), "m.pomdp", Some(Format::Pomdp)).map_err(|error| error.to_string())
}

fn model(text: &str) -> Pomdp {
    parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The error of a text: the first line of the message without the file's name, and the text above the caret.
fn fault(text: &str) -> (String, String) {
    let error = parse(text).err().unwrap_or_else(|| panic!("this is read:\n{text}"));
    let lines: Vec<&str> = error.lines().collect();
    let caret = match lines[..] {
        [_, line, caret] => line.chars().skip(caret.chars().count() - 1).collect(),
        _ => String::new(),
    };
    (lines[0].strip_prefix("m.pomdp:").unwrap_or(lines[0]).to_owned(), caret)
}

/// T(s, a, ·).
fn successors(model: &Pomdp, state: u32, action: u32) -> Vec<(u32, f64)> {
    let (col, val) = model.successors(state, action);
    col.iter().copied().zip(val.iter().copied()).collect()
}

/// O(a, s', ·).
fn observed(model: &Pomdp, action: u32, state: u32) -> Vec<(u32, f64)> {
    let (col, val) = model.observed(action, state);
    col.iter().copied().zip(val.iter().copied()).collect()
}

/// A preamble with two states, actions and observations; T, O and R are missing.
const TWO: &str = "discount: 0.5 states: 2 actions: 2 observations: 2\n";

/// The model of the preamble, a valid T, a valid O, and then `text`.
fn two(text: &str) -> Pomdp {
    model(&format!("{TWO} T: * identity O: * uniform {text}"))
}

#[test]
fn the_tiger_has_its_entries() {
    let tiger = model(TIGER);
    assert_eq!((tiger.states(), tiger.actions(), tiger.observation_count(), tiger.gamma()), (2, 3, 2, 0.95));
    assert_eq!(tiger.names().states, ["tiger-left", "tiger-right"]);
    assert_eq!(tiger.names().actions, ["listen", "open-left", "open-right"]);
    assert_eq!(tiger.names().observations, ["hear-left", "hear-right"]);
    assert_eq!(*tiger.start(), Belief::uniform(vec![0, 1]));
    assert_eq!(successors(&tiger, 1, 0), [(1, 1.0)]);
    assert_eq!(successors(&tiger, 1, 2), [(0, 0.5), (1, 0.5)]);
    assert_eq!(observed(&tiger, 0, 1), [(0, 0.15), (1, 0.85)]);
    assert_eq!(tiger.expected_rewards(), [-1.0, -100.0, 10.0, -1.0, 10.0, -100.0]);
    assert_eq!(tiger.process().rewards().nnz(), 0, "rewards of actions need no entries");
}

#[test]
fn white_space_and_comments_are_ignored() {
    let all = TIGER.replace("# The tiger is behind one of two doors.\n", "");
    let packed = all.replace(" : ", ":").replace(": ", ":").replace('\n', "\r\n");
    let loose = all.replace(':', "\n:#a;b\n\t").replace(' ', " \n ");
    for text in [packed, loose, format!("\u{feff}{TIGER}# no line end")] {
        let (found, expected) = (model(&text), model(TIGER));
        assert_eq!(found.expected_rewards(), expected.expected_rewards());
        assert_eq!(found.names(), expected.names());
        assert_eq!(observed(&found, 0, 1), [(0, 0.15), (1, 0.85)]);
    }
}

#[test]
fn the_preamble_comes_in_any_order() {
    let text = "start: b observations: x y  discount : 0.9 actions\n:\n2 values: cost states: a b T: * identity O: * uniform \
                R: 0 : a : * : * 3";
    let model = model(text);
    assert_eq!(*model.start(), Belief::at(1));
    assert_eq!(model.process().objective(), Objective::Minimize);
    assert_eq!(model.expected_rewards(), [3.0, 0.0, 0.0, 0.0]);
    assert_eq!(model.to_maximize().expected_rewards(), [-3.0, 0.0, 0.0, 0.0]);
    assert!(model.names().actions.is_empty());
}

#[test]
fn the_start_has_many_forms() {
    let start = |text: &str| {
        let text =
            format!("discount: 0.5 states: a b start-c d actions: 1 observations: 1 {text} T: * identity O: * uniform");
        model(&text).start().clone()
    };
    assert_eq!(start(""), Belief::uniform(vec![0, 1, 2, 3]));
    assert_eq!(start("start: uniform"), Belief::uniform(vec![0, 1, 2, 3]));
    assert_eq!(start("start: start-c"), Belief::at(2));
    assert_eq!(start("start: 3"), Belief::at(3));
    assert_eq!(start("start: 0.5 0 .25 0.25"), Belief::dense(&[0.5, 0.0, 0.25, 0.25]).unwrap());
    assert_eq!(start("start: 0 0 1 0"), Belief::at(2));
    assert_eq!(start("start include: b 3"), Belief::uniform(vec![1, 3]));
    assert_eq!(start("start exclude: b 3"), Belief::uniform(vec![0, 2]));
    let single = model("discount: 0.5 states: 1 actions: 1 observations: 1 start: 1 T: * identity O: * uniform");
    assert_eq!(*single.start(), Belief::at(0));
}

#[test]
fn transitions_by_entry_row_and_matrix() {
    let names = "discount: 0.5 states: a b actions: x y observations: 1 O: * uniform ";
    let entries = "T: x : a : a 0.25 T: x:a:b 0.75 T: x : b : a 1 T: y : * : b 1.";
    let rows = "T: x : a\n0.25 0.75 T: x : b 1.0 0.0 T: y : * 0 1";
    let matrices = "T: x 0.25 0.75 1 0 T: y 0 1 0 1";
    for text in [entries, rows, matrices] {
        let model = model(&format!("{names}{text}"));
        assert_eq!(successors(&model, 0, 0), [(0, 0.25), (1, 0.75)], "{text}");
        assert_eq!(successors(&model, 1, 0), [(0, 1.0)], "{text}");
        assert_eq!([0, 1].map(|state| successors(&model, state, 1)), [[(1, 1.0)], [(1, 1.0)]].map(Vec::from), "{text}");
    }
}

#[test]
fn a_reset_goes_to_the_start() {
    let text = "discount: 0.5 states: 3 actions: 2 observations: 1 O: * uniform T: * identity T: 1 : 2 reset \
                T: 0 : * reset start: 0.5 0.25 0.25";
    let model = model(text);
    assert_eq!(successors(&model, 2, 1), [(0, 0.5), (1, 0.25), (2, 0.25)]);
    assert_eq!(successors(&model, 1, 0), [(0, 0.5), (1, 0.25), (2, 0.25)]);
    assert_eq!(successors(&model, 1, 1), [(1, 1.0)]);
}

#[test]
fn the_last_specification_wins() {
    let model = two("T: 0 : 0 : 1 0.5 T: 0 : 0 : 0 0.5 T: 1 : * uniform T: * : 1 : 0 0.25 T: * : 1 : 1 0.75
         O: * : * : * 0.0 O: * : * : 1 1 O: 1 : 0 0.125 0.875 O: 1 : 0 : 1 0.5 O: 1 : 0 : 0 0.5");
    assert_eq!(successors(&model, 0, 0), [(0, 0.5), (1, 0.5)]);
    assert_eq!(successors(&model, 0, 1), [(0, 0.5), (1, 0.5)]);
    assert_eq!(successors(&model, 1, 1), [(0, 0.25), (1, 0.75)]);
    assert_eq!(observed(&model, 0, 0), [(1, 1.0)]);
    assert_eq!(observed(&model, 1, 0), [(0, 0.5), (1, 0.5)]);
    // A later wildcard replaces the whole row, whose sum is then valid again.
    let whole = two("T: 0 : 0 : 1 1 T: 0 : 0 : 0 0 T: * identity");
    assert_eq!(successors(&whole, 0, 0), [(0, 1.0)]);
}

#[test]
fn rewards_are_expected_over_observations() {
    let names = "discount: 0.5 states: 2 actions: 1 observations: 2 T: * uniform O: * 0.75 0.25 0.5 0.5 ";
    let rewards = |text: &str| model(&format!("{names}{text}")).expected_rewards();
    assert_eq!(rewards("R: 0 : 0 : 0 : 1 8"), [0.5 * 0.25 * 8.0, 0.0]);
    assert_eq!(rewards("R: 0 : * : 1 -4 8"), [0.5 * (0.5 * -4.0 + 0.5 * 8.0); 2]);
    assert_eq!(rewards("R: 0 : 0 1 2 3 4"), [0.5 * (0.75 + 0.5) + 0.5 * (1.5 + 2.0), 0.0]);
    assert_eq!(rewards("R: * : * : * : * 7 R: * : * : * : 0 - 1"), [0.5 * (1.75 - 0.75) + 0.5 * (3.5 - 0.5); 2]);
    assert_eq!(rewards("R: * : * : * : 0 -1 R: * : 1 : * : * +7"), [0.5 * -0.75 + 0.5 * -0.5, 7.0]);
    assert_eq!(rewards("R: 0 : 1 : * : * 3 R: * : * : 1 : * 1"), [0.5, 0.5 * 3.0 + 0.5]);
}

#[test]
fn rewards_are_stored_in_the_simplest_form() {
    let process = |text: &str| two(text).process().clone();
    let of_actions = process("R: 1 : * : * : * -3.5");
    assert_eq!((of_actions.rewards().nnz(), &of_actions.action_rewards()[..]), (0, &[0.0, -3.5, 0.0, -3.5][..]));
    assert!(process("R: 0 : 0 : 1 : * 5").action_rewards().is_empty(), "what cannot happen earns nothing");
    let text = "T: 0 uniform R: 0 : * : 1 : * 2 R: 1 : 0 : * : * 1";
    let of_transitions = process(text);
    assert_eq!(&of_transitions.rewards().col()[..], [1, 1]);
    assert_eq!(&of_transitions.rewards().row_ptr()[..], [0, 1, 1, 2, 2]);
    assert_eq!(&of_transitions.action_rewards()[..], [0.0, 1.0, 0.0, 0.0]);
}

#[test]
fn an_mdp_observes_its_state() {
    let names = "discount: 0.9 states: a b actions: x T: x uniform ";
    for (text, expected) in [
        ("R: x : a : b 4", [2.0, 0.0]),
        ("R: x : a -2 4", [1.0, 0.0]),
        ("R: x 0 1 1 1", [0.5, 1.0]),
        ("R: * : * : * 3", [3.0, 3.0]),
    ] {
        let model = model(&format!("{names}{text}"));
        assert_eq!(model.observation_count(), 2);
        assert_eq!(model.names().observations, ["a", "b"]);
        assert_eq!(observed(&model, 0, 1), [(1, 1.0)]);
        assert_eq!(model.expected_rewards(), expected, "{text}");
    }
    assert_eq!(fault(&format!("{names} R: x : a : b : a 1")).1, ": a 1");
}

#[test]
fn row_sums_have_a_tolerance() {
    let text = |last: &str| format!("{TWO}T: * identity O: * uniform T: 0 : 0 0.333333 {last}");
    let model = model(&text("0.666666"));
    assert_eq!(model.successors(0, 0).1.iter().sum::<f64>(), 1.0);
    let (message, caret) = fault(&text("0.6666"));
    assert!(message.ends_with("T of action 0 in state 0 sums to 0.999933, expected 1; last set here"));
    assert_eq!(caret, "0.6666");
}

#[test]
fn errors_have_a_position() {
    let of = |text: &str| fault(&format!("{TWO}{text}"));
    for (text, message, caret) in [
        ("T: 2 identity", "2:4: found `2`, expected the action by a number below 2", "2 identity"),
        ("T: 0 : x uniform", "2:8: found `x`, expected the state by a number below 2", "x uniform"),
        ("T: 0 : 0 : 1 1.5", "2:14: found 1.5, expected a probability", "1.5"),
        ("T: 0 : 0 : 1 -0.5", "2:14: found `-0.5`, expected a probability", "-0.5"),
        ("T: 0 : 0 : 1", "2:13: the file ends, expected a probability", ""),
        ("T: 0 1 0 0 T: 1", "2:12: found `T`, expected a probability", "T: 1"),
        ("T: 0 1 0 0 1 1", "2:14: found `1`, expected T, O or R", "1"),
        ("O: 0 reset", "2:6: found `reset`, expected a probability", "reset"),
        ("T: * : * : * 0.5 O: * uniform R: 0 1", "2:36: found `1`, expected `:` and a state", "1"),
        ("T: * uniform O: * uniform R: 0 : 0 : 0 : 0 1e999", "2:44: found `1e999`, expected a reward", "1e999"),
        ("T: * uniform O: * uniform R: 0 : 0 : 0 : 0 nan", "2:44: found `nan`, expected a reward", "nan"),
        ("T 0 uniform", "2:1: found `T`, expected the next section", "T 0 uniform"),
        ("T: * uniform O 0 uniform", "2:16: found `0`, expected `:`", "0 uniform"),
        ("values: rewards", "2:9: found `rewards`, expected reward or cost", "rewards"),
        ("discount: 0.5", "2:1: discount appears twice", "discount: 0.5"),
        ("T: * identity states: 2", "2:15: states appears twice", "states: 2"),
        ("T: * identity values: cost", "2:15: values after T, O or R, expected it before them", "values: cost"),
        (
            "start: 0.5 0.25 T: * identity O: * uniform",
            "2:8: the start belief sums to 0.75, expected 1",
            "0.5 0.25 T: * identity O: * uniform",
        ),
        (
            "start: 0.5 0.50 0.25 T: * identity O: * uniform",
            "2:17: found `0.25`, expected the next section",
            "0.25 T: * identity O: * uniform",
        ),
        (
            "start include: 5 T: * identity O: * uniform",
            "2:16: found `5`, expected the state by a number below 2",
            "5 T: * identity O: * uniform",
        ),
        (
            "start exclude: 0 1 T: * identity O: * uniform",
            "2:16: the start belief has no state",
            "0 1 T: * identity O: * uniform",
        ),
        ("foo: 1", "2:1: found `foo`, expected the next section", "foo: 1"),
        ("O: * uniform", "2:13: the file ends, expected T", ""),
        ("T: * uniform", "2:13: O of action 0 to state 0 sums to 0, expected 1; never set", ""),
    ] {
        let (found, place) = of(text);
        assert_eq!((&found[..], &place[..]), (message, caret), "{text}");
    }
    for (text, message) in [
        ("foo: 1", "1:1: found `foo`, expected discount, values, states, actions, observations, start, T, O or R"),
        ("", "1:1: states are not declared, expected `states:` before T, O and R"),
        ("T: * identity", "1:1: states are not declared, expected `states:` before T, O and R"),
        ("states: 2 T: * identity", "1:11: actions are not declared, expected `actions:` before T, O and R"),
        ("states: 2 actions: 1 T: * identity", "1:35: the file ends, expected `discount:` at its beginning"),
        (
            "states: 2 actions: 1 O: * identity",
            "1:22: observations are not declared, expected `observations:` before O",
        ),
        ("states: a b a", "1:13: the state `a` appears twice"),
        ("states: a 1b", "1:11: found `1b`, expected the name of a state, which begins with a letter"),
        ("states: 2 a", "1:11: found `a`, expected the next section"),
        ("states: 0", "1:9: found `0`, expected a number from 1 to 268435456"),
        ("states: 99999999999", "1:9: found `99999999999`, expected a number from 1 to 268435456"),
        ("states: actions: 2", "1:9: found `actions`, expected the names or the number of states"),
        ("discount: 1.5", "1:11: found 1.5, expected γ in [0, 1]"),
        (
            "states: 100000000 actions: 100 T: * identity",
            "1:32: 100000000 states and 100 actions make more than 268435456 pairs",
        ),
    ] {
        assert_eq!(fault(text).0, message, "{text}");
    }
}

#[test]
fn named_items_also_have_numbers() {
    let model = model(
        "discount: 0.5 states: a-1 b_2 actions: x observations: p q O: * uniform T: x : 0 : b_2 1 T: 0 : 1 : a-1 1",
    );
    assert_eq!(successors(&model, 0, 0), [(1, 1.0)]);
    assert_eq!(successors(&model, 1, 0), [(0, 1.0)]);
    let error = fault("discount: 0.5 states: a b actions: x observations: 1 T: x : A : a 1").0;
    assert_eq!(
        error, "1:61: found `A`, expected the state by its name, or by a number below 2",
        "names are case-sensitive"
    );
}

/// Asserts that two models are equal to the last bit.
fn assert_same(found: &Pomdp, expected: &Pomdp, what: &str) {
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let (own, its) = (found.process(), expected.process());
    for (a, b) in [
        (own.transitions(), its.transitions()),
        (own.rewards(), its.rewards()),
        (found.observations(), expected.observations()),
    ] {
        assert_eq!((&a.row_ptr()[..], &a.col()[..]), (&b.row_ptr()[..], &b.col()[..]), "{what}");
        assert_eq!(bits(a.val()), bits(b.val()), "{what}");
    }
    assert_eq!(bits(own.action_rewards()), bits(its.action_rewards()), "{what}");
    assert_eq!((own.gamma().to_bits(), own.objective()), (its.gamma().to_bits(), its.objective()), "{what}");
    assert_eq!((found.start(), found.names()), (expected.start(), expected.names()), "{what}");
}

/// A model with all features of the formats: sevenths, names, costs, rewards of transitions and of actions.
fn sevenths() -> Pomdp {
    let row = ["0.14285714285714285"; 7].join(" ");
    model(&format!(
        "discount: 0.3 values: cost states: a b c d e f g actions: stay go observations: p q
         start: 0.1 0.2 0.3 0.4 0 0 0
         T: stay identity T: go : * {row}
         O: * : * 0.3333333333333333 0.6666666666666667 O: go : a 1e-7 0.9999999
         R: stay : * : * : * 0.1 R: go : * : * : * 2 R: go : b : c : q -3 R: go : d : d : * 1e-9"
    ))
}

/// The same model with negated rewards in place of costs.
fn as_rewards(model: &Pomdp) -> Pomdp {
    let (mut parts, sign) = (model.clone().into_parts(), model.process().objective().sign());
    let negated = |numbers: &[f64]| numbers.iter().map(|number| sign * number + 0.0).collect::<Vec<_>>();
    let rewards = &parts.process.rewards;
    let csr = Csr::new(rewards.row_ptr().to_vec(), rewards.col().to_vec(), negated(rewards.val())).unwrap();
    parts.process.rewards = csr;
    parts.process.action_rewards = negated(&parts.process.action_rewards).into();
    parts.process.objective = Objective::Maximize;
    parts.validated().unwrap()
}

/// SARSOP ignores `values: cost`.
#[test]
fn costs_are_written_as_negated_rewards() {
    let mut text = Vec::new();
    formats::write_to(&mut text, Format::Pomdp, &sevenths()).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("\nvalues: reward\n") && text.contains("\nR: stay : * : * : * -0.1\n"), "{text}");
}

/// SARSOP reads no state behind `start:`.
#[test]
fn a_certain_start_is_written_as_included() {
    let mut text = Vec::new();
    let model = warpkov_pomdp::generate::Inspection::default().generate().unwrap();
    formats::write_to(&mut text, Format::Pomdp, &model).unwrap();
    assert!(String::from_utf8(text).unwrap().contains("\nstart include: good\n"));
}

#[test]
fn written_models_are_read_back() {
    for (what, written) in [("tiger", model(TIGER)), ("sevenths", sevenths()), ("two", two("R: 0 : 1 : * : * 1"))] {
        for format in [Format::Pomdp, Format::Json] {
            let mut text = Vec::new();
            formats::write_to(&mut text, format, &written).unwrap();
            let expected = if format == Format::Pomdp { as_rewards(&written) } else { written.clone() };
            for asked in [Some(format), None] {
                let found = formats::read_from(&text[..], "m", asked).unwrap();
                assert_same(&found, &expected, &format!("{what} in {format}"));
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiger.POMDP");
    formats::write(&path, Format::Pomdp, &model(TIGER)).unwrap();
    assert_same(&formats::read(&path, None).unwrap(), &model(TIGER), "a file");
    assert!(formats::read(Path::new("/nowhere/a.pomdp"), None).is_err());
}

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

/// A rover with an observed position and a hidden rock: two positions, a good or bad rock, and a sensor that is correct
/// with probability .8, from position 0 only.
const ROVER: &str = r#"<?xml version="1.0" encoding="ISO-8859-1"?>
<!-- A small one. -->
<pomdpx version="1.0" id="rover">
  <Description>A rover &amp; a rock</Description>
  <Discount> 0.95 </Discount>
  <Variable>
    <StateVar vnamePrev="place_0" vnameCurr="place_1" fullyObs="true"><NumValues>2</NumValues></StateVar>
    <StateVar vnamePrev="rock_0" vnameCurr="rock_1"><ValueEnum>good bad</ValueEnum></StateVar>
    <ObsVar vname="sensor"><ValueEnum>ogood obad</ValueEnum></ObsVar>
    <ActionVar vname="act"><ValueEnum>stay go sample</ValueEnum></ActionVar>
    <RewardVar vname="reward"/>
  </Variable>
  <InitialStateBelief>
    <CondProb><Var>place_0</Var><Parent>null</Parent>
      <Parameter type="TBL"><Entry><Instance>-</Instance><ProbTable>1.0 0.0</ProbTable></Entry></Parameter></CondProb>
    <CondProb><Var>rock_0</Var><Parent>null</Parent>
      <Parameter type="TBL"><Entry><Instance>-</Instance><ProbTable>uniform</ProbTable></Entry></Parameter></CondProb>
  </InitialStateBelief>
  <StateTransitionFunction>
    <CondProb><Var>rock_1</Var><Parent>act place_0 rock_0</Parent><Parameter>
      <Entry><Instance>* * - -</Instance><ProbTable>identity</ProbTable></Entry>
      <Entry><Instance>sample s1 * -</Instance><ProbTable>0 1</ProbTable></Entry></Parameter></CondProb>
    <CondProb><Var>place_1</Var><Parent>act place_0</Parent><Parameter type="TBL">
      <Entry><Instance>* - -</Instance><ProbTable>identity</ProbTable></Entry>
      <Entry><Instance>go * -</Instance><ProbTable>0.25 0.75</ProbTable></Entry></Parameter></CondProb>
  </StateTransitionFunction>
  <ObsFunction>
    <CondProb><Var>sensor</Var><Parent>place_1 rock_1</Parent><Parameter type="TBL">
      <Entry><Instance>s0 - -</Instance><ProbTable>0.8 0.2 0.2 0.8</ProbTable></Entry>
      <Entry><Instance>s1 * -</Instance><ProbTable>uniform</ProbTable></Entry></Parameter></CondProb>
  </ObsFunction>
  <RewardFunction>
    <Func><Var>reward</Var><Parent>act place_0 rock_0</Parent><Parameter type="TBL">
      <Entry><Instance>sample s1 good</Instance><ValueTable>10</ValueTable></Entry>
      <Entry><Instance>sample s1 bad</Instance><ValueTable>-10</ValueTable></Entry></Parameter></Func>
    <Func><Var>reward</Var><Parent>act place_1</Parent><Parameter type="TBL">
      <Entry><Instance>go -</Instance><ValueTable>0 -1</ValueTable></Entry></Parameter></Func>
  </RewardFunction>
</pomdpx>
"#;

#[test]
fn pomdpx_is_flattened() {
    let rover = formats::read_from(ROVER.as_bytes(), "rover", None).unwrap();
    assert_eq!((rover.states(), rover.actions(), rover.observation_count(), rover.gamma()), (4, 3, 4, 0.95));
    assert_eq!(rover.names().states, ["s0_good", "s0_bad", "s1_good", "s1_bad"]);
    assert_eq!(rover.names().actions, ["stay", "go", "sample"]);
    assert_eq!(rover.names().observations, ["ogood_s0", "ogood_s1", "obad_s0", "obad_s1"]);
    assert_eq!(*rover.start(), Belief::uniform(vec![0, 1]));
    assert_eq!(successors(&rover, 1, 1), [(1, 0.25), (3, 0.75)]);
    assert_eq!(successors(&rover, 2, 2), [(3, 1.0)]);
    assert_eq!(observed(&rover, 0, 1), [(0, 0.2), (2, 0.8)]);
    assert_eq!(observed(&rover, 2, 3), [(1, 0.5), (3, 0.5)]);
    // The actions stay, go, sample in each state.
    assert_eq!(rover.expected_rewards(), [0.0, -0.75, 0.0, 0.0, -0.75, 0.0, 0.0, -0.75, 10.0, 0.0, -0.75, -10.0]);
    let mut text = Vec::new();
    formats::write_to(&mut text, Format::Pomdp, &rover).unwrap();
    assert_same(&formats::read_from(&text[..], "m", None).unwrap(), &rover, "through .pomdp");
}

/// Models as POMDPX are the same, bit for bit, at any magnitude; states without names get those of `NumValues`.
#[test]
fn written_pomdpx_is_read_back() {
    use crate::random::Random;
    let written = |model: &Pomdp| {
        let mut text = Vec::new();
        formats::write_to(&mut text, Format::Pomdpx, model).map(|()| text).map_err(|error| error.to_string())
    };
    let read = |model: &Pomdp| formats::read_from(&written(model).unwrap()[..], "m", None).unwrap();
    assert_same(&read(&model(TIGER)), &model(TIGER), "tiger");
    let two = two("R: 0 : 1 : * : * 1");
    let mut expected = two.clone().into_parts();
    let names = |prefix: &str, own: &[String], count: u32| match own {
        [] => (0..count).map(|i| format!("{prefix}{i}")).collect(),
        own => own.to_vec(),
    };
    expected.names.states = names("s", &two.names().states, two.states());
    expected.names.actions = names("a", &two.names().actions, two.actions());
    expected.names.observations = names("o", &two.names().observations, two.observation_count());
    assert_same(&read(&two), &expected.validated().unwrap(), "two");

    let (mut random, mut seen_functions) = (Random::new(3), [false; 2]);
    for case in 0..60 {
        let scale = 10_f64.powi(case % 25 - 12);
        let (states, actions, observations) =
            (1 + random.below(12) as u32, 1 + random.below(3) as u32, 1 + random.below(5) as u32);
        let rows = (states * actions) as usize;
        let transitions = random.distributions(rows, states, 4);
        // Rows have rewards of their successors, or one of the action.
        let mut follow = vec![(0, Vec::new()); rows];
        let mut own = vec![0.0; rows];
        for row in 0..rows {
            if random.below(2) == 0 && transitions.row(row).0.len() > 1 {
                follow[row] = (row, transitions.row(row).0.to_vec());
            } else {
                own[row] = scale * random.signed(1)[0];
            }
        }
        let (mut row_ptr, mut col, mut val) = (vec![0], Vec::new(), Vec::new());
        for (_, columns) in follow {
            val.extend(random.signed(columns.len()).iter().map(|reward| scale * reward));
            col.extend(columns);
            row_ptr.push(col.len() as u64);
        }
        let start = random.distributions(1, states, 3);
        let named = |what: &str, count: u32| (0..count).map(|i| format!("{what}-{i}'\"é")).collect();
        let process = warpkov_mdp::model::MdpParts {
            states,
            choices: warpkov_mdp::model::Choices::Uniform(actions),
            gamma: random.unit(),
            transitions,
            rewards: warpkov_mdp::model::Csr::new(row_ptr, col, val).unwrap(),
            action_rewards: own.into(),
            ..Default::default()
        };
        let model = warpkov_pomdp::model::PomdpParts {
            process,
            observation_count: observations,
            observations: random.distributions(rows, observations, 3),
            start: Belief::new(start.col().to_vec(), start.val().to_vec()).unwrap(),
            names: warpkov_pomdp::model::Names {
                states: named("state", states),
                actions: named("action", actions),
                observations: named("seen", observations),
            },
            ..Default::default()
        };
        let model = model.validated().unwrap();
        assert_same(&read(&model), &model, &format!("case {case}"));
        // SARSOP's programs expect a variable of rewards for each function.
        let text = String::from_utf8(written(&model).unwrap()).unwrap();
        let [variables, functions] = ["<RewardVar ", "<Func>"].map(|tag| text.matches(tag).count());
        assert_eq!(variables, functions, "case {case}");
        seen_functions[functions - 1] = true;
    }
    assert_eq!(seen_functions, [true; 2]);

    // Costs become negated rewards.
    let (costs, found) = (sevenths(), read(&sevenths()));
    assert_eq!(found.process().objective(), Objective::Maximize);
    let negated: Vec<f64> = costs.expected_rewards().iter().map(|cost| -cost).collect();
    assert_eq!(found.expected_rewards(), negated);

    // What the format has no place for.
    for name in ["a b", "*", "-", "", "a<b", "a&b", "a\nb"] {
        let mut parts = model(TIGER).into_parts();
        parts.names.states[1] = name.to_owned();
        let error = written(&parts.validated().unwrap()).unwrap_err();
        assert!(error.contains("pomdpx has no place for the state"), "{error}");
    }
    let seen = formats::read_from(seen("maximize").as_bytes(), "m", None).unwrap();
    assert!(written(&seen).unwrap_err().contains("a component observed at the start"));
}

#[test]
fn pomdpx_errors_have_a_position() {
    let fault = |from: &str, to: &str| {
        assert!(ROVER.contains(from), "{from}");
        let text = ROVER.replacen(from, to, 1);
        let error = formats::read_from(text.as_bytes(), "m", Some(Format::Pomdpx)).err();
        error.unwrap_or_else(|| panic!("{to} is read")).to_string().lines().next().unwrap_or_default().to_owned()
    };
    for (from, to, message) in [
        ("<Discount> 0.95", "<Discount> x", "m:5:14: found `x`, expected a number"),
        ("0.8 0.2 0.2 0.8", "0.8 0.2 0.2", "m:29:41: <ProbTable> has 3 numbers, expected 4"),
        (
            "0.8 0.2 0.2 0.8",
            "0.8 0.2 0.2 0.6",
            "m:28:5: the probabilities of sensor given place_1 = s0, rock_1 = bad are [0.2, 0.6], \
          expected a sum of 1",
        ),
        ("sample s1 good", "sample s1 great", "m:34:34: found `great`, expected a value of rock_0, `*` or `-`"),
        ("sample s1 good", "sample s1", "m:34:14: <Instance> has 2 words, expected 3"),
        ("<Var>rock_1</Var>", "<Var>rock_2</Var>", "m:20:20: found `rock_2`, expected a variable that is allowed here"),
        (
            "<Parent>act place_0</Parent>",
            "<Parent>act rock_1 place_0</Parent>",
            "m:24:14: <Instance> has 3 words, expected 4",
        ),
        ("<Parameter type=\"TBL\">", "<Parameter type=\"DD\">", "m:15:7: a parameter of type \"DD\", expected \"TBL\""),
        (
            "<NumValues>2<",
            "<NumValues>99999999999<",
            "m:7:82: found `99999999999`, expected a number from 1 to 16777216",
        ),
        (
            "<ValueEnum>good bad</ValueEnum>",
            "<NumValues>9000000</NumValues>",
            "m:6:3: more than 16777216 states, the combinations \
          of all state variables",
        ),
        ("<Var>place_1</Var>", "<Var>rock_1</Var>", "m:23:5: rock_1 appears twice"),
        ("</pomdpx>", "", "m:3:1: <pomdpx> has no end tag"),
    ] {
        assert_eq!(fault(from, to), message);
    }
}

/// Vectors whose numbers need all digits.
fn policy() -> AlphaVectors {
    let mut vectors = AlphaVectors::new(2);
    vectors.push(0, &[-1.0 - 1e-3, 0.1 + 0.2]);
    vectors.push(1, &[-100.0, 10.0]);
    vectors.push(2, &[10.0, -100.0]);
    vectors
}

#[test]
fn vectors_are_read_back() {
    let (tiger, policy) = (model(TIGER), policy());
    for format in [Format::Alpha, Format::PolicyXml] {
        let mut text = Vec::new();
        let written = Policy { vectors: &policy, model: None, name: "<tiger>", stages: &[], support: None };
        formats::write_policy_to(&mut text, format, written).unwrap();
        for asked in [Some(format), None] {
            assert_eq!(formats::read_vectors_from(&text[..], "m", asked, Some(&tiger)).unwrap(), policy, "{format}");
        }
        assert!(formats::write_to(io::sink(), format, &tiger).is_err());
    }
    let mut text = Vec::new();
    formats::write_policy_to(
        &mut text,
        Format::Alpha,
        Policy { vectors: &policy, model: None, name: "", stages: &[], support: None },
    )
    .unwrap();
    assert_eq!(str::from_utf8(&text).unwrap(), "0\n-1.001 0.30000000000000004\n\n1\n-100 10\n\n2\n10 -100\n\n");
}

#[test]
fn vectors_of_other_programs_are_read() {
    let sparse = "<Policy version=\"0.1\" type=\"value\" model=\"m.pomdpx\"><AlphaVector vectorLength=\"3\" numObsValue=\"1\" \
                  numVectors=\"2\"><Vector action=\"1\" obsValue=\"0\">1 2 3 </Vector><SparseVector action=\"0\" obsValue=\"0\">\
                  <Entry>2 -1.5</Entry></SparseVector></AlphaVector></Policy>";
    let vectors = formats::read_vectors_from(sparse.as_bytes(), "m", None, None).unwrap();
    assert_eq!(
        (vectors.states(), vectors.actions(), vectors.values()),
        (3, &[1, 0][..], &[1.0, 2.0, 3.0, 0.0, 0.0, -1.5][..])
    );
    let error = |text: &str| {
        let error = formats::read_vectors_from(text.as_bytes(), "m", None, Some(&model(TIGER))).err();
        error.map_or_else(String::new, |error| error.to_string().lines().next().unwrap_or_default().to_owned())
    };
    assert!(error(sparse).ends_with("vectors of 3 states, expected 2 as in the model"), "{}", error(sparse));
    // A small file cannot ask for gigabytes, with or without a model.
    let long = sparse.replace("vectorLength=\"3\"", "vectorLength=\"4294967295\"");
    assert!(error(&long).ends_with("expected 2 as in the model"), "{}", error(&long));
    let alone = formats::read_vectors_from(long.as_bytes(), "m", None, None).unwrap_err().to_string();
    assert!(alone.contains("a vectorLength of 4294967295, expected at most"), "{alone}");
    assert_eq!(
        error(&sparse.replace("numObsValue=\"1\"", "numObsValue=\"4\"")),
        "m:1:53: vectors for 4 observed values with 3 states each, expected 1, because no component of the model's states \
         is fully observed"
    );
    assert_eq!(error("0\n1 2\n\n3\n1 2"), "m: vector 1 has action 3, expected one below 3 as in the model");
    assert_eq!(error("0\n1 2\n\n1\n1 2 3"), "m:5:1: a vector of 3 numbers, expected 2 as in the first");
    assert_eq!(error("0\n1 x\n"), "m:2:3: found `x`, expected a number");
    assert_eq!(error("0 1\n1 2\n"), "m:1:3: found `1`, expected the end of the line after the index of an action");
    assert_eq!(error("0\n"), "m:2:1: the file ends, expected the vector of an action");
    assert_eq!(error("\n"), "m:2:1: the file ends, expected a vector");
}

/// SARSOP's programs read numbers between blanks: a tag directly after a number would be part of it.
#[test]
fn numbers_in_xml_are_surrounded_by_blanks() {
    let mut policy = AlphaVectors::new(2);
    policy.push(1, &[1.5, -2.0]);
    let mut text = Vec::new();
    formats::write_policy_to(
        &mut text,
        Format::PolicyXml,
        Policy { vectors: &policy, model: None, name: "m", stages: &[], support: None },
    )
    .unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("<Vector action=\"1\" obsValue=\"0\">1.5 -2 </Vector>"), "{text}");
    // A file with a missing vector is an error.
    let cut = text.replace("numVectors=\"1\"", "numVectors=\"2\"");
    let error = formats::read_vectors_from(cut.as_bytes(), "m", None, None).unwrap_err().to_string();
    assert!(error.contains("<AlphaVector> has 1 vectors, expected 2 as numVectors says"), "{error}");
}

/// Two state variables with two values each; x is observed.
fn seen(objective: &str) -> String {
    let rows = "\"indptr\":[0,2,4,6,8,10,12,14,16],\"indices\":[0,2,1,3,0,2,1,3,0,2,1,3,0,2,1,3],\
                \"data\":[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5]";
    let observed = "\"indptr\":[0,1,2,3,4,5,6,7,8],\"indices\":[0,0,1,1,0,0,1,1],\"data\":[1,1,1,1,1,1,1,1]";
    format!(
        "{{\"S\":4,\"A\":2,\"O\":2,\"gamma\":0.5,\"objective\":\"{objective}\",\"P\":{{{rows}}},\"Z\":{{{observed}}},\
         \"action_rewards\":[1,2,3,4,5,6,7,8],\"seen\":[0,0,1,1]}}"
    )
}

/// Planes for each value of x, one of which has fewer, for rewards and for costs: a plane that is dominated for rewards
/// is not for costs.
#[test]
fn planes_per_observed_value_are_read_back() {
    for (objective, sign) in [("maximize", 1.0), ("minimize", -1.0)] {
        let model = formats::read_from(seen(objective).as_bytes(), "m", None).unwrap();
        assert_eq!(model.parts(), [[0, 1], [2, 3]]);
        let mut policy = AlphaVectors::new(4);
        // In the last two states the second plane exceeds the others; in the first two states it does not.
        for (action, vector) in [(0, [3.0, 0.0, 1.0, 1.0]), (1, [0.0, 3.0, 2.0, 2.0]), (1, [2.0, 2.0, -5.0, 1.5])] {
            policy.push(action, &vector.map(|value| sign * value));
        }
        let mut text = Vec::new();
        let written = Policy { vectors: &policy, model: Some(&model), name: "m", stages: &[], support: None };
        formats::write_policy_to(&mut text, Format::PolicyXml, written).unwrap();
        assert!(String::from_utf8_lossy(&text).contains("vectorLength=\"2\" numObsValue=\"2\" numVectors=\"4\""));
        let read = formats::read_vectors_from(&text[..], "m", None, Some(&model)).unwrap().times(sign);
        let policy = policy.times(sign);
        for start in [0, 2] {
            for part in 0..=10 {
                let first = f64::from(part) / 10.0;
                let belief = Belief::dense(&[vec![0.0; start as usize], vec![first, 1.0 - first]].concat()).unwrap();
                let [found, expected] = [&read, &policy].map(|policy| {
                    let (best, value) = policy.best(&belief).unwrap();
                    (policy.actions()[best], value)
                });
                assert_eq!(found, expected, "{objective} {belief:?}");
            }
        }
    }
}

/// The value of an observed variable is less than the number of states, and the grouping needs no more memory than the
/// states.
#[test]
fn observed_values_are_limited_by_the_states() {
    let text = seen("maximize").replace("[0,0,1,1]}", "[0,0,4294967295,4294967295]}");
    let error = formats::read_from(text.as_bytes(), "m", None).err().unwrap().to_string();
    assert!(error.contains("the observed component of state 2 is 4294967295, expected a number below 4"), "{error}");
    // The values need not be consecutive; in SARSOP's files they must be.
    let model = formats::read_from(text.replace("4294967295", "3").as_bytes(), "m", None).unwrap();
    assert_eq!(model.parts(), [[0, 1], [2, 3]]);
    let mut policy = AlphaVectors::new(4);
    policy.push(1, &[1.0, 2.0, 3.0, 4.0]);
    let mut text = Vec::new();
    let written = Policy { vectors: &policy, model: Some(&model), name: "m", stages: &[], support: None };
    formats::write_policy_to(&mut text, Format::PolicyXml, written).unwrap();
    assert!(String::from_utf8_lossy(&text).contains("vectorLength=\"4\" numObsValue=\"1\" numVectors=\"1\""));
    assert_eq!(formats::read_vectors_from(&text[..], "m", None, Some(&model)).unwrap(), policy);
    let none = String::from_utf8_lossy(&text).replace("numObsValue=\"1\"", "numObsValue=\"0\"");
    let error = formats::read_vectors_from(none.as_bytes(), "m", None, Some(&model)).unwrap_err().to_string();
    assert!(error.contains("vectors for 0 observed values"), "{error}");
}

/// Unambiguous content takes precedence over the file name.
#[test]
fn content_is_recognised_under_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rover.pomdp");
    for text in [ROVER.to_owned(), format!("\u{feff}{ROVER}")] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(
            formats::read(&path, None).unwrap().states(),
            formats::read_from(ROVER.as_bytes(), "rover", None).unwrap().states()
        );
    }
    let mut json = Vec::new();
    formats::write_to(&mut json, Format::Json, &model(TIGER)).unwrap();
    std::fs::write(&path, json).unwrap();
    assert_eq!(formats::read(&path, None).unwrap().states(), 2);
}

/// Finite rewards whose discounted sum overflows.
#[test]
fn overflowing_rewards_are_refused() {
    for reward in ["1e308", "-1e299"] {
        let error = parse(&TIGER.replace("* 10\n", &format!("* {reward}\n"))).err().unwrap_or_default();
        assert!(error.contains("add up beyond the range of f64"), "{error}");
    }
    assert!(parse(&TIGER.replace("* 10\n", "* 1e290\n")).is_ok());
}

/// The tiger's optimal controller (Kaelbling, Littman and Cassandra, 1998, Figure 14): listen until one side has been
/// heard twice more than the other, then open the other door. SARSOP's bounds on its value are 19.3711 and 19.3721.
#[test]
fn policy_graphs_are_read() {
    let tiger = model(TIGER);
    let actions = [0, 0, 0, 2, 1];
    let next = [1, 2, 3, 0, 0, 4, 0, 0, 0, 0];
    let rewards = tiger.expected_rewards();
    let mut values = vec![[0.0; 2]; 5];
    for _ in 0..1000 {
        let backed_up = |node: usize, state: u32| {
            let action = actions[node];
            let successors = successors(&tiger, state, action);
            let future = successors.iter().flat_map(|&(successor, prob)| {
                let observed = observed(&tiger, action, successor);
                observed.into_iter().map(move |(o, seen)| (prob * seen, next[2 * node + o as usize], successor))
            });
            let future: f64 = future.map(|(prob, next, successor)| prob * values[next][successor as usize]).sum();
            rewards[(state * 3 + action) as usize] + 0.95 * future
        };
        values = (0..5).map(|node| [0, 1].map(|state| backed_up(node, state))).collect();
    }
    let vectors = AlphaVectors::from_parts(2, values.concat(), actions.to_vec()).unwrap();
    let (best, value) = vectors.best(tiger.start()).unwrap();
    assert!(best == 0 && (19.3711..19.3721).contains(&value), "{value}");

    let graph = PolicyGraph::new(&tiger, &vectors).unwrap();
    assert_eq!(graph.next, next.map(|next| Some(next as u32)));
    assert_eq!((&graph.starts[..], &graph.actions[..], &graph.reached[..]), (&[0][..], &actions[..], &[true; 5][..]));
    let write = |format| {
        let mut text = Vec::new();
        let policy = Policy { vectors: &vectors, model: Some(&tiger), name: "", stages: &[], support: None };
        formats::write_policy_to(&mut text, format, policy).unwrap();
        String::from_utf8(text).unwrap()
    };
    assert_eq!(write(Format::Pg), "0 0  1 2\n1 0  3 0\n2 0  0 4\n3 2  0 0\n4 1  0 0\n");
    let dot = write(Format::Dot);
    for line in [
        "start -> 0;",
        "0 [label=\"listen\"];",
        "1 -> 3 [label=\"hear-left\"];",
        "4 -> 0 [label=\"hear-left\\nhear-right\"];",
    ] {
        assert!(dot.contains(&format!("\n  {line}\n")), "{line} in {dot}");
    }
    // For costs, the best action is the cheapest.
    let mut costs = tiger.clone().into_parts();
    costs.process.objective = Objective::Minimize;
    let costs = costs.validated().unwrap();
    assert_eq!(PolicyGraph::new(&costs, &vectors.clone().times(-1.0)).unwrap(), graph);
    assert_eq!(PolicyGraph::new(&tiger, &AlphaVectors::new(2)), None);
}

/// A file with every construct of the grammar.
const EVERYTHING: &str = "\
discount : 0.95
values: cost
states: a b-1 c_2
actions: 2
observations: x y
start include: a 2
T: *
identity
T: 0 : a 0.5 .25 0.25 # a row
T: 1 : * reset
T: 0 : b-1 : * 0.0 T: 0 : 1 : c_2 1.
O: * uniform
O: 1 : 2
1e-1 9.0E-1
O : 0 : a : x 1 O:0:a:y 0
R: * : * : * : * -1
R: 0 : a : b-1 + 1 - 2
R: 1 : * 1 2 3 4 5 6
";

/// Deterministic mutations like those of a fuzzer: bytes and pieces of `texts` are changed, copied and deleted. No
/// mutation may cause a panic, and every error has a position or a reason. Returns the numbers of accepted and of
/// refused texts.
fn mutate(texts: &[&str], tokens: &[&str], count: usize, read: impl Fn(&[u8]) -> Result<(), String>) -> [usize; 2] {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut below = |bound: usize| random.next_u32() as usize % bound.max(1);
    let mut outcomes = [0; 2];
    for _ in 0..count {
        let mut text = texts[below(texts.len())].as_bytes().to_vec();
        for _ in 0..1 + below(4) {
            let (from, length) = (below(text.len()), 1 + below(12));
            let piece = from..text.len().min(from + length);
            match below(6) {
                0 => text[piece.start..piece.end.min(piece.start + 1)].fill(below(256) as u8),
                1 => text[piece.start..piece.end.min(piece.start + 1)].fill(b" :*#.-019aTOR\n"[below(14)]),
                2 => drop(text.drain(piece)),
                3 => {
                    let copy = text[piece].to_vec();
                    let to = below(text.len() + 1);
                    text.splice(to..to, copy);
                }
                4 => drop(text.splice(piece, tokens[below(tokens.len())].bytes())),
                _ => text.truncate(from),
            }
        }
        match read(&text) {
            Ok(()) => outcomes[0] += 1,
            Err(message) => {
                assert!(message.starts_with("m:"), "{message}");
                outcomes[1] += 1;
            }
        }
    }
    outcomes
}

fn read_as(format: Format) -> impl Fn(&[u8]) -> Result<(), String> {
    move |text| formats::read_from(text, "m", Some(format)).map(drop).map_err(|error| error.to_string())
}

#[test]
fn mutations_of_files_are_read_or_refused() {
    let tokens = [
        "T: * ",
        "O:",
        " R: ",
        " uniform ",
        "identity",
        "reset",
        "start",
        "start:",
        "include: ",
        "exclude",
        "*",
        " : ",
        "1e999",
        "1.",
        ".",
        "-",
        "999999999",
        "18446744073709551616",
        "0.5",
        "values: cost",
        "\u{feff}",
        "\0",
        "observations: 2 ",
    ];
    let texts = [TIGER, EVERYTHING];
    let [read, refused] = mutate(&texts, &tokens, 20_000, read_as(Format::Pomdp));
    assert!(read > 300 && refused > 5000, "{read} read, {refused} refused");
}

#[test]
fn mutations_of_other_formats_are_read_or_refused() {
    let mut json = Vec::new();
    formats::write_to(&mut json, Format::Json, &sevenths()).unwrap();
    let json = String::from_utf8(json).unwrap();
    let tokens = [
        "*",
        "-",
        "uniform",
        "identity",
        "<Entry>",
        "</Entry>",
        "&amp;",
        "1e999",
        "[",
        "]",
        "{",
        "4294967295",
        "-1",
        "0.5",
    ];
    let vectors = |format: Format| {
        move |text: &[u8]| {
            let read = formats::read_vectors_from(text, "m", Some(format), None);
            read.map(drop).map_err(|error| error.to_string())
        }
    };
    for (format, [read, refused]) in [
        (Format::Json, mutate(&[&json], &tokens, 4000, read_as(Format::Json))),
        (Format::Pomdpx, mutate(&[ROVER], &tokens, 4000, read_as(Format::Pomdpx))),
        (Format::Alpha, mutate(&["0\n-1 2.5\n\n1\n0 3\n\n"], &tokens, 4000, vectors(Format::Alpha))),
        (
            Format::PolicyXml,
            mutate(
                &[
                    "<Policy type=\"value\"><AlphaVector vectorLength=\"2\"><Vector action=\"1\" obsValue=\"0\">1 2</Vector>\
                   <SparseVector action=\"0\"><Entry>1 -1.5</Entry></SparseVector></AlphaVector></Policy>",
                ],
                &tokens,
                4000,
                vectors(Format::PolicyXml),
            ),
        ),
    ] {
        assert!(read > 20 && refused > 500, "{format}: {read} read, {refused} refused");
    }
}

/// An observed state variable: the rover's position, which is uncertain at the start.
#[test]
fn observed_variables_are_preserved() {
    let rover = formats::read_from(ROVER.as_bytes(), "rover", None).unwrap();
    assert_eq!(rover.seen().len(), rover.states() as usize);
    let mut json = Vec::new();
    formats::write_to(&mut json, Format::Json, &rover).unwrap();
    let again = formats::read_from(&json[..], "json", None).unwrap();
    assert_eq!((again.seen(), again.start().clone()), (rover.seen(), rover.start().clone()));
    // b₀ is the mixture of the beliefs given each observed value.
    let mut mixed = vec![0.0; rover.states() as usize];
    for (prob, belief) in rover.starts() {
        belief.iter().for_each(|(state, p)| mixed[state as usize] += prob * p);
    }
    let start = rover.start().to_dense(rover.states());
    assert!(mixed.iter().zip(&start).all(|(a, b)| (a - b).abs() < 1e-15), "{mixed:?}");

    // SARSOP's policies for such models have vectors for each observed value.
    let parts = *rover.seen().iter().max().unwrap() + 1;
    let length = rover.states() / parts;
    let mut vectors = AlphaVectors::new(rover.states());
    let value = |vector: u32, state: u32| f64::from((7 * vector + 3 * state) % 11) - 5.0;
    (0..6)
        .for_each(|i| vectors.push(i % rover.actions(), &(0..rover.states()).map(|s| value(i, s)).collect::<Vec<_>>()));
    let mut text = Vec::new();
    let policy = Policy { vectors: &vectors, model: Some(&rover), name: "rover", stages: &[], support: None };
    formats::write_policy_to(&mut text, Format::PolicyXml, policy).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(&format!("vectorLength=\"{length}\" numObsValue=\"{parts}\"")), "{text}");
    let read = formats::read_vectors_from(text.as_bytes(), "p", None, Some(&rover)).unwrap();
    for part in 0..parts {
        let states: Vec<u32> = (0..rover.states()).filter(|&s| rover.seen()[s as usize] == part).collect();
        for weight in 0..=10 {
            let mut dense = vec![0.0; rover.states() as usize];
            dense[states[0] as usize] += f64::from(weight) / 10.0;
            dense[states[states.len() - 1] as usize] += 1.0 - f64::from(weight) / 10.0;
            let belief = Belief::dense(&dense).unwrap();
            let ((a, own), (b, its)) = (vectors.best(&belief).unwrap(), read.best(&belief).unwrap());
            assert!((own - its).abs() < 1e-12, "{own} {its}");
            let tied = |set: &AlphaVectors, action: u32| {
                (0..set.len()).any(|i| set.actions()[i] == action && (belief.dot(set.vector(i)) - own).abs() < 1e-12)
            };
            assert!(tied(&vectors, read.actions()[b]) && tied(&read, vectors.actions()[a]));
        }
    }
    let error = formats::read_vectors_from(text.as_bytes(), "p", None, Some(&model(TIGER))).unwrap_err().to_string();
    assert!(error.contains("expected 1, because no component of the model's states is fully observed"), "{error}");
}

/// A file that another program shortens while it is read is an invalid model or a valid one, but no fault of the process.
#[test]
fn files_may_shrink_while_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pomdp");
    let text = format!("{}{TIGER}", "# A comment of forty bytes in every line\n".repeat(1 << 17));
    for round in 0..20 {
        std::fs::write(&path, &text).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_micros(200 * round));
                std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(9).unwrap();
            });
            if let Err(error) = formats::read(&path, None) {
                assert!(matches!(error, formats::Error::Place { .. }), "{error}");
            }
        });
    }
}
