//! Files of alpha vectors, of other programs too, and of policy graphs.

use std::io;

use warpkov_mdp::model::Objective;
use warpkov_pomdp::alpha::AlphaVectors;
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::io as formats;
use warpkov_pomdp::io::{Format, Policy, PolicyGraph};

use super::common::{TIGER, model, observed, seen, successors};

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
    let long = long.replace("4294967295", "100000000");
    let alone = formats::read_vectors_from(long.as_bytes(), "m", None, None).unwrap_err().to_string();
    assert!(alone.contains("sparse vectors of 100000000 numbers in all, expected at most 1048576"), "{alone}");
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
