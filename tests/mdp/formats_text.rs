//! Text formats of models: the explicit files of PRISM and Storm, DRN, and the XML and text formats of Jóhannsson's
//! thesis.

use std::fs;
use std::path::{Path, PathBuf};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use warpkov::common::choice::FileFormat;
use warpkov::mdp::io::{Format, ReadOptions, read, read_from, read_with, write, write_as, write_to};
use warpkov::mdp::model::{ActionNames, Choices, Csr, Mdp, MdpParts};

pub const FORMATS: [Format; 5] = [Format::Prism, Format::Storm, Format::Drn, Format::Xml, Format::Text];

pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)
}

/// A valid file name for a model in this format.
pub fn named(folder: &Path, format: Format) -> PathBuf {
    let extension = if format == Format::Storm { "tra" } else { format.extensions()[0] };
    folder.join("model").with_extension(extension)
}

/// V after `sweeps` greedy sweeps from 0.
fn swept(mdp: &Mdp, sweeps: usize) -> Vec<f64> {
    let rewards = mdp.expected_rewards();
    let mut values = vec![0.0; mdp.states() as usize];
    for _ in 0..sweeps {
        let q = |row: usize| {
            let (successors, probs) = mdp.transitions().row(row);
            let next: f64 = successors.iter().zip(probs).map(|(&s, p)| p * values[s as usize]).sum();
            rewards[row] + mdp.gamma() * next
        };
        let state = |s| mdp.choices().rows(s).map(q).reduce(f64::max).unwrap_or(0.0);
        values = (0..mdp.states() as usize).map(state).collect();
    }
    values
}

pub fn assert_near(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{found:?} for {expected:?}");
    }
}

fn row_names(mdp: &Mdp) -> Option<Vec<&str>> {
    mdp.action_names()
        .as_ref()
        .map(|names| names.of_row.iter().map(|&name| names.names[name as usize].as_str()).collect())
}

/// Forest management with S = 3: V* is (26.244, 29.484, 33.484) for γ = 0.9 and (74.6496, 78.1056, 82.1056) for γ =
/// 0.96 (documentation of pymdptoolbox, policy iteration).
#[test]
fn the_forest_is_the_same_in_every_format() {
    for (name, gamma, labels, names) in [
        ("forest.tra", 1.0, "deadlock init old", true),
        ("forest-storm.tra", 1.0, "deadlock init old", false),
        ("forest.drn", 1.0, "init old", true),
        ("forest.xml", 0.9, "", true),
        ("forest.txt", 0.9, "", false),
    ] {
        let mut mdp = read(&data(name)).unwrap();
        assert_eq!((mdp.states(), mdp.rows(), mdp.gamma()), (3, 6, gamma), "{name}");
        assert!(matches!(mdp.choices(), Choices::Uniform(2)), "{name}");
        assert_eq!(mdp.transitions().col()[..], [0, 1, 0, 0, 2, 0, 0, 2, 0]);
        assert_eq!(mdp.transitions().val()[..], [0.1, 0.9, 1.0, 0.1, 0.9, 1.0, 0.1, 0.9, 1.0]);
        assert_near(&mdp.expected_rewards(), &[0.0, 0.0, 0.0, 1.0, 4.0, 2.0], 1e-15);
        assert_eq!(mdp.labels().keys().map(String::as_str).collect::<Vec<_>>().join(" "), labels);
        assert!(mdp.labels().get("old").is_none_or(|old| *old == [2]));
        assert_eq!(row_names(&mdp), names.then(|| ["wait", "cut"].repeat(3)));
        for (gamma, optimal) in [(0.9, [26.244, 29.484, 33.484]), (0.96, [74.6496, 78.1056, 82.1056])] {
            mdp = mdp.with_gamma(gamma).unwrap();
            assert_near(&swept(&mdp, 1000), &optimal, 1e-12);
        }
    }
}

/// The die of Knuth and Yao, *The complexity of nonuniform random number generation* (1976): 11/3 coin flips on
/// average.
#[test]
fn markov_chains_have_one_action() {
    let folder = tempfile::tempdir().unwrap();
    let flips = [(0, 1, 2), (1, 3, 4), (2, 5, 6), (3, 1, 7), (4, 7, 7), (5, 7, 7), (6, 2, 7)];
    let lines: String = flips.iter().map(|(s, a, b)| format!("{s} {a} 0.5\n{s} {b} 1/2\n")).collect();
    let rewards: String = flips.iter().map(|(s, ..)| format!("{s} 1\n")).collect();
    let body: String = flips.iter().map(|(s, a, b)| format!("state {s} [1]\n\t{a} : 0.5\n{b} : 0.5\n")).collect();
    let drn = format!("@type: DTMC\n@nr_states\n8\n@nr_choices\n7\n@model\n{body}state 7 done\n");
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    file("prism.tra", &format!("8 14\n{lines}"));
    file("prism.srew", &format!("8 7\n{rewards}"));
    file("storm.tra", &format!("dtmc\n{lines}"));
    file("storm.state.rew", &rewards);
    file("storm.trans.rew", "");
    file("die.drn", &drn);
    for name in ["prism.tra", "storm.tra", "die.drn"] {
        let mdp = read(&folder.path().join(name)).unwrap();
        assert_eq!((mdp.states(), mdp.rows(), mdp.choices().count(7)), (8, 7, 0), "{name}");
        assert_near(&swept(&mdp, 100)[..1], &[11.0 / 3.0], 1e-14);
    }
}

/// A random model with all features: states with and without actions, rows that end the process, rewards of all kinds.
pub fn random(seed: u64) -> Mdp {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut below = |n: u32| random.next_u32() % n;
    let states = 1 + below(12);
    let (mut offsets, mut row_ptr, mut reward_ptr) = (vec![0], vec![0], vec![0]);
    let (mut col, mut val, mut reward_col, mut reward_val) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut ends, mut earned, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let with = [below(2), below(2), below(2), below(2), below(2)].map(|x| x > 0);
    for state in 0..states {
        let actions = if state == 0 { 1 } else { below(4) };
        for _ in 0..actions {
            let mut successors: Vec<u32> = (0..states).filter(|_| below(3) == 0).collect();
            // In Storm's dialect, the last state must have a transition or be the successor of one.
            if state == 0 {
                successors.retain(|&successor| successor < states - 1);
                successors.push(states - 1);
            }
            if successors.is_empty() {
                successors.push(below(states));
            }
            let end = if with[0] { f64::from(below(3)) } else { 0.0 };
            let weights: Vec<f64> = successors.iter().map(|_| f64::from(1 + below(9))).collect();
            let sum = end + weights.iter().sum::<f64>();
            val.extend(weights.iter().map(|weight| weight / sum));
            ends.push(end / sum);
            for successor in &successors {
                if with[1] && below(2) > 0 {
                    reward_col.push(*successor);
                    reward_val.push(f64::from(below(100)) / 7.0 - 5.0);
                }
            }
            col.extend(successors);
            row_ptr.push(col.len() as u64);
            reward_ptr.push(reward_col.len() as u64);
            earned.push(if with[2] { f64::from(below(5)) / 3.0 } else { 0.0 });
            names.push(below(3));
        }
        offsets.push(offsets.last().unwrap() + u64::from(actions));
    }
    let labels = [("init", vec![0]), ("a-b", (0..states).filter(|s| s % 3 == 1).collect()), ("none", vec![])];
    let list = ["up", "7", ""].map(str::to_owned).to_vec();
    MdpParts {
        states,
        choices: Choices::Ragged(offsets.into()),
        gamma: 0.9,
        transitions: Csr::new(row_ptr, col, val).unwrap(),
        ends: if with[0] { ends.into() } else { Vec::new().into() },
        rewards: Csr::new(reward_ptr, reward_col, reward_val).unwrap(),
        action_rewards: earned.into(),
        labels: if with[3] { labels.map(|(name, states)| (name.to_owned(), states)).into() } else { [].into() },
        action_names: with[4].then_some(ActionNames { names: list, of_row: names }),
        ..MdpParts::default()
    }
    .validated()
    .unwrap()
}

#[test]
fn round_trips_keep_the_model() {
    let folder = tempfile::tempdir().unwrap();
    for (seed, format) in (0..60).flat_map(|seed| FORMATS.map(|format| (seed, format))) {
        // The formats of the thesis require different action names within a state.
        let ids = matches!(format, Format::Xml | Format::Text);
        let mut parts = random(seed).into_parts();
        parts.action_names = parts.action_names.filter(|_| !ids);
        let mdp = parts.validated().unwrap();
        let path = named(folder.path(), format);
        write_as(&path, format, &mdp).unwrap();
        let back = read(&path).unwrap().with_gamma(mdp.gamma()).unwrap();
        let what = format!("seed {seed}, {format}");

        let ended = u32::from(mdp.ends().iter().any(|&end| end > 0.0));
        assert_eq!(back.states(), mdp.states() + ended, "{what}");
        assert_near(&swept(&back, 50)[..mdp.states() as usize], &swept(&mdp, 50), 1e-12);
        assert!(matches!(format, Format::Xml | Format::Text | Format::Drn) || mdp.labels() == back.labels(), "{what}");
        if ended == 0 && format != Format::Drn {
            let counts = |mdp: &Mdp| (0..mdp.states() as usize).map(|s| mdp.choices().count(s)).collect::<Vec<_>>();
            assert_eq!(counts(&mdp), counts(&back), "{what}");
            assert_eq!(mdp.transitions().row_ptr()[..], back.transitions().row_ptr()[..], "{what}");
            assert_eq!(mdp.transitions().col()[..], back.transitions().col()[..], "{what}");
            assert_eq!(mdp.transitions().val()[..], back.transitions().val()[..], "{what}");
            assert_near(&back.expected_rewards(), &mdp.expected_rewards(), 1e-12);
            let unnamed = row_names(&mdp).filter(|names| names.iter().any(|name| !name.is_empty()));
            assert_eq!(row_names(&back).is_some(), unnamed.is_some() && !ids, "{what}");
        }
        // A second round trip gives the same model.
        write_as(&path, format, &back).unwrap();
        let text = fs::read(&path).unwrap();
        let again = read(&path).unwrap();
        assert_eq!(again.transitions().val()[..], back.transitions().val()[..], "{what}");
        assert_eq!(again.expected_rewards(), back.expected_rewards(), "{what}");
        assert_eq!((again.labels(), row_names(&again)), (back.labels(), row_names(&back)), "{what}");
        if format.streams() {
            let mut piped = Vec::new();
            write_to(&mut piped, format, &back).unwrap();
            assert_eq!(piped, text, "{what}");
            assert_eq!(read_from(&piped[..], "pipe", &ReadOptions::default()).unwrap().states(), back.states());
        }
    }
}

#[test]
fn files_for_storm_mention_the_last_state() {
    let folder = tempfile::tempdir().unwrap();
    let path = named(folder.path(), Format::Text);
    fs::write(&path, "S:0:0:1\nA:0:1\nD:0:1:0\nS:1:0:0\nS:2:0:0\n").unwrap();
    let tra = named(folder.path(), Format::Storm);
    write_as(&tra, Format::Storm, &read(&path).unwrap()).unwrap();
    assert_eq!(fs::read_to_string(&tra).unwrap(), "mdp\n0 0 0 1\n2 0 2 1\n");
}

/// In DRN every state has an action. A state without actions gets a loop, and the label that Storm gives to such
/// states.
#[test]
fn terminal_states_of_drn_are_loops() {
    let folder = tempfile::tempdir().unwrap();
    let tra = folder.path().join("a.tra");
    fs::write(&tra, "2 1 1\n0 0 1 1\n").unwrap();
    let mut text = Vec::new();
    write_to(&mut text, Format::Drn, &read(&tra).unwrap()).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.ends_with("@model\nstate 0\n\taction 0\n\t\t1 : 1\nstate 1 deadlock\n\taction 0\n\t\t1 : 1\n"),
        "{text}"
    );
    assert!(text.contains("@nr_choices\n2\n"));
}

#[test]
fn order_does_not_matter_and_repetitions_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let tra = folder.path().join("a.tra");
    fs::write(&tra, "3 4 7\n2 0 2 1\n0 1 2 .5 b\n0 0 1 1e0 a\n1 0 2 0.25\n1 0 0 0.5\n0 1 0 0.5 b\n1 0 2 0.25\n")
        .unwrap();
    let mdp = read(&tra).unwrap();
    assert_eq!((0..3).map(|s| mdp.choices().count(s)).collect::<Vec<_>>(), [2, 1, 1]);
    assert_eq!(mdp.transitions().row_ptr()[..], [0, 1, 3, 5, 6]);
    assert_eq!(mdp.transitions().col()[..], [1, 0, 2, 0, 2, 2]);
    assert_eq!(mdp.transitions().val()[..], [1.0, 0.5, 0.5, 0.5, 0.5, 1.0]);
    assert_eq!(row_names(&mdp), Some(vec!["a", "b", "", ""]));

    // Repeated successors: the reward is the mean, weighted by the probabilities.
    let text = "S:1:0:0\nS:0:7.5:1\nA:3:3\nD:1:0.25:8\nD:0:0.5:1\nD:1:0.25:4\n";
    let mdp = read_from(text.as_bytes(), "text", &ReadOptions::default()).unwrap();
    assert_eq!((&mdp.transitions().col()[..], &mdp.transitions().val()[..]), (&[0, 1][..], &[0.5, 0.5][..]));
    assert_eq!((mdp.transition_rewards(), mdp.expected_rewards()), (vec![1.0, 6.0], vec![3.5]));
    assert_eq!(row_names(&mdp), Some(vec!["3"]));
}

#[test]
fn rewards_are_chosen_by_name() {
    let by = |name: &str| ReadOptions { reward: Some(name.to_owned()), ..ReadOptions::default() };
    let years = read_with(&data("forest.drn"), &by("years")).unwrap();
    assert_eq!(years.expected_rewards(), [1.0; 6]);
    let error = read_with(&data("forest.drn"), &by("cost")).err().unwrap().to_string();
    assert!(error.ends_with("found the rewards \"yield\", \"years\", expected \"cost\""), "{error}");

    // Several reward structures, as PRISM exports them.
    let folder = tempfile::tempdir().unwrap();
    let tra = folder.path().join("robot.tra");
    fs::write(&tra, "2 2 2\n0 0 1 1 go\n1 0 1 1\n").unwrap();
    fs::write(folder.path().join("robot1.srew"), "# Reward structure: \"time\"\n# State rewards\n2 1\n0 3\n").unwrap();
    fs::write(folder.path().join("robot2.srew"), "# Reward structure \"energy\"\n# State rewards\n2 1\n0 2/5\n")
        .unwrap();
    fs::write(
        folder.path().join("robot2.trew"),
        "# Reward structure \"energy\"\n# Transition rewards\n2 2 1\n0 0 1 1\n",
    )
    .unwrap();
    for (options, expected) in [(ReadOptions::default(), 3.0), (by("time"), 3.0), (by("energy"), 1.4)] {
        assert_eq!(read_with(&tra, &options).unwrap().expected_rewards(), [expected, 0.0]);
    }
    let error = read_with(&tra, &by("cost")).err().unwrap().to_string();
    assert!(error.ends_with("found the rewards \"time\", \"energy\", expected \"cost\""), "{error}");
}

#[test]
fn companion_files_of_an_overwritten_model_are_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tra");
    let names = || {
        let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        names.sort();
        names
    };
    write(&path, &read(&data("forest.tra")).unwrap()).unwrap();
    assert_eq!(names(), ["a.lab", "a.srew", "a.tra", "a.trew"]);
    let plain = read(&data("malformed").join("../forest.txt")).unwrap();
    let plain = MdpParts { rewards: Csr::empty(6), ..plain.into_parts() }.validated().unwrap();
    write(&path, &plain).unwrap();
    assert_eq!(names(), ["a.tra"]);
    assert_eq!(read(&path).unwrap().expected_rewards(), [0.0; 6]);
}

#[test]
fn companion_files_must_fit_the_transitions() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let prism = "2 2 2\n0 0 1 1\n1 0 1 1\n";
    let storm = "mdp\n0 0 1 1\n1 0 1 1\n";
    for (tra, name, text, expected) in [
        (
            prism,
            "a.lab",
            "init\n",
            "a.lab:1: found \"init\", expected #DECLARATION (Storm), or labels such as 0=\"init\" (PRISM)",
        ),
        (
            prism,
            "a.lab",
            "0=\"init\" 2=\"x\"\n",
            "a.lab:1: found \"2=\"x\"\", expected #DECLARATION (Storm), or labels such as 0=\"init\" (PRISM)",
        ),
        (prism, "a.lab", "0=\"init\"\n\n5: 0\n", "a.lab:3: found \"5\", expected a state below 2"),
        (prism, "a.lab", "0=\"init\"\n1: 4\n", "a.lab:2: found \"4\", expected the number of a label in line 1"),
        (storm, "a.lab", "#DECLARATION\ninit\n", "a.lab: the file ends, expected #END"),
        (
            storm,
            "a.lab",
            "#DECLARATION\ninit\n#END\n0 goal\n",
            "a.lab:4: found \"goal\", expected a label that is declared",
        ),
        (prism, "a.sta", "(x)\n0:(0)\n2:(1)\n", "a.sta:3: found \"2\", expected a state below 2"),
        (prism, "a.sta", "(x)\n1:(0)\n", "a.sta:2: found \"1\", expected state 0"),
        (prism, "a.sta", "(x)\n0:(0)\n", "a.sta: the file ends, expected state 1 of 2"),
        (prism, "a.srew", "3 1\n0 1\n", "a.srew:1: found \"3\", expected 2, as the transitions have"),
        (prism, "a.srew", "2 2\n0 1\n", "a.srew: found 1 rewards, expected 2, as the first line says"),
        (prism, "a.srew", "", "a.srew: the file ends, expected a line with numbers of states and rewards"),
        (prism, "a.srew", "2 1\n0 much\n", "a.srew:2: found \"much\", expected a reward"),
        (prism, "a.srew", "2 1\n0 1 2\n", "a.srew:2: found \"2\", expected the end of the line"),
        (
            "2 1 1\n0 0 1 1\n",
            "a.srew",
            "2 1\n1 3\n",
            "a.srew:2: found \"3\", expected 0, as state 1 has no transitions",
        ),
        (prism, "a.trew", "2 3 1\n0 0 1 1\n", "a.trew:1: found \"3\", expected 2, as the transitions have"),
        (prism, "a.trew", "2 2 1\n0 1 1 1\n", "a.trew:2: found choice 1 of state 0, which has 1"),
        (storm, "a.trans.rew", "0 0 2 1\n", "a.trans.rew:1: found \"2\", expected a state below 2"),
        (storm, "a.state.rew", "0\n", "a.state.rew:1: the line ends, expected a reward"),
        (
            prism,
            "a.trew",
            "2 2 2\n0 0 1 1\n0 0 1 1\n",
            "a.tra: R row 0 (state 0, action 0): state 1 appears more than once",
        ),
    ] {
        fs::write(file("a.tra"), tra).unwrap();
        fs::write(file(name), text).unwrap();
        let found = read(&file("a.tra")).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(found, file(expected).display().to_string());
        fs::remove_file(file(name)).unwrap();
    }
}

#[test]
fn models_that_a_format_cannot_hold_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let forest = read(&data("forest.tra")).unwrap();
    let label = MdpParts { labels: [("very old".to_owned(), vec![2])].into(), ..forest.clone().into_parts() };
    let label = label.validated().unwrap();
    let names = ActionNames { names: vec!["do it".to_owned()], of_row: vec![0; 6] };
    let name = MdpParts { action_names: Some(names), ..forest.into_parts() }.validated().unwrap();
    for (format, model, message) in [
        (Format::Storm, &label, "there is no place for the label \"very old\""),
        (Format::Storm, &name, "there is no place for white space in the action's name \"do it\""),
        (Format::Drn, &name, "DRN has no place for white space in the action's name \"do it\""),
    ] {
        let path = named(folder.path(), format);
        let error = write_as(&path, format, model).unwrap_err().to_string();
        assert!(error.ends_with(message), "{error}");
        assert!(!path.exists());
    }
    for format in [Format::Prism, Format::Drn] {
        let path = named(folder.path(), format);
        write_as(&path, format, &label).unwrap();
        assert_eq!(read(&path).unwrap().labels(), label.labels());
    }
}

#[test]
fn corrupt_files_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["forest.tra", "forest-storm.tra", "forest.drn", "forest.xml", "forest.txt"] {
        let whole = fs::read(data(name)).unwrap();
        let format = Format::of_name(Path::new(name)).unwrap();
        let path = named(folder.path(), format);
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for position in (0..whole.len()).step_by(5) {
            let mut bytes = whole.clone();
            bytes[position] = match random.next_u32() % 4 {
                0 => b'9',
                1 => b'\n',
                2 => b' ',
                _ => random.next_u32() as u8,
            };
            fs::write(&path, &bytes).unwrap();
            let _ = read(&path);
            fs::write(&path, &whole[..position]).unwrap();
            let _ = read(&path);
        }
    }
}
