//! POMDPX.

use warpkov_mdp::model::Objective;
use warpkov_pomdp::alpha::AlphaVectors;
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::io as formats;
use warpkov_pomdp::io::{Format, Policy};
use warpkov_pomdp::model::Pomdp;

use super::common::{ROVER, TIGER, assert_same, model, observed, seen, sevenths, successors, two};

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
    [Format::Pomdpx, Format::PomdpxDd].into_iter().for_each(is_read_back);
}

fn is_read_back(format: Format) {
    use crate::random::Random;
    let written = |model: &Pomdp| {
        let mut text = Vec::new();
        formats::write_to(&mut text, format, model).map(|()| text).map_err(|error| error.to_string())
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

/// Equal parts are written once, and short ones in a word.
#[test]
fn written_diagrams_are_small() {
    let written = |model: &Pomdp, format| {
        let mut text = Vec::new();
        formats::write_to(&mut text, format, model).unwrap();
        String::from_utf8(text).unwrap()
    };
    let tiger = written(&model(TIGER), Format::PomdpxDd);
    for part in [
        "<DAG><SubDAG type=\"uniform\" var=\"state_0\"/></DAG>",
        "<Edge val=\"listen\"><SubDAG type=\"persistent\" var=\"state_1\"/></Edge>",
        "<Edge val=\"open-left\"><SubDAG type=\"uniform\" var=\"state_1\"/></Edge>",
        "<Edge val=\"listen\"><Terminal> -1",
    ] {
        assert!(tiger.contains(part), "{part} in {tiger}");
    }
    // The robot moves alike wherever the opponent is.
    let tag = warpkov_pomdp::generate::Tag::default().generate().unwrap();
    let tag = warpkov_pomdp::model::PomdpParts { seen: Vec::new(), ..tag.into_parts() }.validated().unwrap();
    let (tables, diagrams) = (written(&tag, Format::Pomdpx), written(&tag, Format::PomdpxDd));
    assert!(diagrams.contains("<SubDAGTemplate id=\"t0\">"), "{} bytes", diagrams.len());
    assert!(diagrams.len() < tables.len(), "{} and {} bytes", diagrams.len(), tables.len());
    let read = formats::read_from(diagrams.as_bytes(), "m", None).unwrap();
    let again = formats::read_from(tables.as_bytes(), "m", None).unwrap();
    assert_same(&read, &again, "tag");
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
        ("<Parameter type=\"TBL\">", "<Parameter type=\"DD\">", "m:15:7: <Parameter> has no <DAG>"),
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
