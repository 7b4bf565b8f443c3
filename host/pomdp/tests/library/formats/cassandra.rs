//! Cassandra's format `.pomdp`.

use std::path::Path;

use warpkov_mdp::model::{Csr, Objective};
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::io as formats;
use warpkov_pomdp::io::Format;
use warpkov_pomdp::model::Pomdp;

use super::common::{ROVER, TIGER, TWO, assert_same, fault, model, observed, parse, sevenths, successors, two};

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
