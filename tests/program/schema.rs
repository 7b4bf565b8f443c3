//! The JSON Schemas and the readers agree: what a reader accepts, its schema accepts, and what a schema accepts and its
//! reader does not breaks one of the rules below, which no schema can state.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use jsonschema::{Validator, draft202012};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use serde_json::{Map, Number, Value, json};
use warpkov::{hmm, mdp, pomdp};

/// A class of models.
struct Class {
    name: &'static str,
    schema: &'static str,
    read: fn(&[u8]) -> Result<(), String>,
    /// Rules that other classes have too.
    shared: &'static [&'static [Rule]],
    rules: &'static [Rule],
    /// Least number of mutated documents that schema and reader refuse, and that only the reader refuses.
    least: [usize; 2],
}

/// A part of the message for a broken rule that no schema can state, and the rule.
type Rule = (&'static str, &'static str);

/// Rules of all readers.
const COMMON: [Rule; 4] = [
    ("sums to", "distributions sum to 1"),
    ("sum to", "distributions sum to 1"),
    (".0, expected", "integers are written without a fraction"),
    ("e+300, expected", "integers are written without an exponent"),
];

/// Rules of sparse matrices, grids and sets of states, in models with actions.
const SPARSE: [Rule; 10] = [
    ("elements, expected", "arrays have one element per row, state or entry"),
    ("indptr[0] is", "offsets ascend from 0 to the number of entries"),
    ("indptr ends", "offsets ascend from 0 to the number of entries"),
    ("indptr falls", "offsets ascend from 0 to the number of entries"),
    ("expected equal lengths", "indices and data are equally long"),
    ("expected a state below", "states are below S"),
    ("expected a probability in [0, 1]", "entries of P are probabilities"),
    ("appears more than once", "a row has a column once"),
    ("expected one per state", "a grid has a cell per state"),
    ("expected ascending states", "sets of states ascend"),
];

/// Rules of tables by names.
const TABLES: [Rule; 5] = [
    ("in the order [", "tables have the shape of their key"),
    ("is called", "keys of tables are names"),
    ("has names as keys", "tables by names need lists of names"),
    ("entries, expected", "rows of a table are equally long"),
    ("names of", "lists of names are complete"),
];

const CLASSES: [Class; 4] = [
    Class {
        name: "mdp",
        schema: mdp::io::SCHEMA,
        read: |text| {
            let options = mdp::io::ReadOptions { format: Some(mdp::io::Format::Json), ..Default::default() };
            mdp::io::read_from(text, "m", &options).map(drop).map_err(|error| error.to_string())
        },
        shared: &[&SPARSE],
        rules: &[
            ("choices[", "choices ascend from 0 by the number of actions"),
            ("expected an index below the number of names", "numbers of names are below their count"),
            ("levels of arrays, expected", "tables have the depth of their key"),
            ("numbers, expected", "tables have the shape of their key"),
            ("entries, expected", "rows of a table are equally long"),
            ("and the transitions have", "S and A are those of the transitions"),
            ("expected one of the given names", "transitions have the names of the list"),
            ("expected a state's name or number", "labels have names of states"),
            ("expected a name or a number", "names are not empty"),
        ],
        least: [5000, 800],
    },
    Class {
        name: "pomdp",
        schema: pomdp::io::SCHEMA,
        read: |text| {
            let model = pomdp::io::read_from(text, "m", Some(pomdp::io::Format::Json));
            model.map(drop).map_err(|error| error.to_string())
        },
        shared: &[&SPARSE, &TABLES],
        rules: &[
            ("not in [0, 1]", "entries of Z are probabilities"),
            ("rows, expected", "Z has a row per action and state"),
            ("expected one below", "states and observations are below their number"),
            ("strictly ascending states, each with one probability", "the start has ascending states"),
            ("twice", "the start has a state once"),
            ("add up beyond the range", "values are below 1e300"),
            ("observed component", "the observed component is one number below S per state"),
            ("expected the name or the number of a state", "the start is a state"),
            ("needs the same actions", "every state has every action"),
            ("and the transitions have", "S and A are those of the transitions"),
            ("expected one of the given names", "transitions have the names of the list"),
            ("expected a name or a number", "names are not empty"),
            ("expected once", "a transition comes once"),
        ],
        least: [3000, 400],
    },
    Class {
        name: "hmm",
        schema: hmm::io::SCHEMA,
        read: |text| {
            let model = hmm::io::read_from(text, "m", Some(hmm::io::Format::Json));
            model.map(drop).map_err(|error| error.to_string())
        },
        shared: &[&TABLES],
        rules: &[
            ("not symmetric and positive definite", "covariances are symmetric and positive definite"),
            ("because the state has a duration", "a state with a duration does not lead to itself"),
            ("durations has", "each state has an entry"),
            ("expected u32", "integers are below 2³², without a fraction"),
            ("channels[", "channels have the columns and the parameters of their family"),
            ("no channel has", "every column has a channel"),
        ],
        least: [1500, 200],
    },
    Class {
        name: "hmm-posterior",
        schema: hmm::io::beliefs::SCHEMA,
        read: |text| hmm::io::beliefs::read_from(text, "m").map(drop).map_err(|error| error.to_string()),
        shared: &[&TABLES],
        rules: &[
            ("of a distribution are 0", "each distribution has a parameter above 0"),
            ("expected a number above", "beta and nu are in range, and S is positive definite"),
            ("S is not symmetric", "S is symmetric"),
        ],
        least: [1000, 100],
    },
];

impl Class {
    /// The rules of this class, without those of all readers.
    fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.shared.iter().copied().flatten().chain(self.rules)
    }

    fn validator(&self) -> (Value, Validator) {
        let schema: Value = serde_json::from_str(self.schema).unwrap();
        draft202012::meta::validate(&schema).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let validator = draft202012::new(&schema).unwrap();
        (schema, validator)
    }

    /// Models that the reader accepts: with every key, of every shape.
    fn corpus(&self) -> Vec<Value> {
        let data = |name: &str| {
            let text = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)).unwrap();
            serde_json::from_slice(&text).unwrap()
        };
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut text = Vec::new();
            write(&mut text);
            serde_json::from_slice(&text).unwrap()
        };
        match self.name {
            "mdp" => {
                let grid = mdp::generate::SlipGrid { width: 2, height: 2, ..Default::default() }.generate().unwrap();
                let sparse = json!({ "indptr": [0, 1, 3], "indices": [0, 0, 1], "data": [0.5, 0.25, 0.5] });
                let one = json!({ "indptr": [0, 1, 2], "indices": [0, 1], "data": [1, 1], "_": 1, "comment": 1 });
                let by_action = json!([[[0.5, 0.5], [0, 1]], [[1, 0], [0.25, 0.5]]]);
                let by_state = json!([[[0.5, 0.5], [1, 0]], [[0, 1], [0.25, 0.5]]]);
                let ends = json!([[0, 0], [0, 0.25]]);
                let list = json!([
                    { "state": "new", "action": "keep", "next": "old", "probability": 1, "reward": 2, "_": 1 },
                    { "state": "old", "action": "sell", "next": "gone", "probability": 1 },
                    { "state": "gone" },
                ]);
                let mut all = vec![
                    data("listing-a1.json"),
                    data("table-3.1.json"),
                    written(&|out| mdp::io::write_to(&mut *out, mdp::io::Format::Json, &grid).unwrap()),
                    json!({
                        "S": 2, "gamma": 0.5, "choices": [0, 2, 2], "P": sparse, "ends": [0.5, 0.25], "R": sparse,
                        "action_rewards": [1, -2.5], "objective": "minimize", "labels": { "done": [1], "none": [] },
                        "action_names": { "names": ["go", "stay"], "of_row": [1, 0], "_note": 1 }, "format": "CSR",
                        "comment": ["any", 1], "$schema": "mdp.schema.json", "_": null,
                    }),
                    json!({
                        "S": 2, "gamma": 0.5, "A": 1, "P": one, "state_names": ["a", "b"], "action_names": ["go"],
                        "labels": { "done": ["b"] },
                        "grid": { "width": 2, "height": 1, "goal": 1, "walls": [0], "obstacles": [1], "comment": "" },
                    }),
                    json!({ "gamma": 1, "transitions": list, "state_names": ["new", "old", "gone"] }),
                    json!({ "gamma": 1, "transitions": list, "action_names": ["sell", "keep"], "S": 3 }),
                    json!({ "discount": 0.5, "transitions": list }),
                    json!({ "transitions": list }),
                ];
                for (key, table) in [
                    ("R[s]", json!([1, -2])),
                    ("R[s][a]", json!([[1, 2], [3, -4.5]])),
                    ("R[a][s]", json!([[1, 2], [3, -4.5]])),
                    ("R[a][s][s']", by_action.clone()),
                    ("R[s][a][s']", by_state.clone()),
                ] {
                    let mut model = json!({ "gamma": 0.5, "P[a][s][s']": by_action, "ends[s][a]": ends });
                    model[key] = table.clone();
                    all.push(model);
                    let mut model =
                        json!({ "gamma": 0.5, "S": 2, "A": 2, "P[s][a][s']": by_state, "ends[s][a]": ends });
                    model[key] = table;
                    all.push(model);
                }
                all
            }
            "pomdp" => {
                let tiger = pomdp::generate::Tiger::default().generate().unwrap();
                let one = json!({ "indptr": [0, 1, 2], "indices": [0, 1], "data": [1, 1.0] });
                let names = json!({ "states": ["left", "right"], "actions": ["look"], "observations": ["l", "r"] });
                let list = json!([
                    { "state": "left", "action": "look", "next": "right", "probability": 0.25, "reward": 2 },
                    { "state": "left", "action": "look", "next": "left", "probability": 0.75, "_": 1, "$schema": "s" },
                    { "state": "right", "action": "look", "next": "right", "probability": 1, "comment": 1 },
                ]);
                vec![
                    written(&|out| pomdp::io::write_to(&mut *out, pomdp::io::Format::Json, &tiger).unwrap()),
                    json!({
                        "S": 2, "A": 1, "O": 2, "gamma": 0.5, "P": one, "Z": one, "R": one, "action_rewards": [1, -2],
                        "objective": "minimize", "labels": { "done": [1] }, "format": "CSR", "seen": [0, 1],
                        "start": { "states": [0, 1], "probs": [0.25, 0.75], "comment": "" },
                        "grid": { "width": 2, "height": 1, "goal": 1, "walls": [0], "obstacles": [0] }, "_": {},
                    }),
                    json!({
                        "gamma": 1, "names": names, "P": one, "start[s]": { "left": 1 }, "comment": "",
                        "Z[a][s'][o]": { "look": { "left": { "l": 1 }, "right": { "l": 0.25, "r": 0.75 } } },
                    }),
                    json!({
                        "gamma": 1, "S": 2, "A": 1, "O": 2, "P": one, "start[s]": [0.5, 0.5], "$schema": "s",
                        "Z[s'][a][o]": [[[1, 0]], [[0.5, 0.5]]],
                    }),
                    json!({ "gamma": 1, "names": names, "P": one, "Z[s'][o]": [[1, 0], [0.5, 0.5]] }),
                    json!({ "gamma": 0, "P[s][a][s']": [[[1, 0]], [[1, 0]]], "Z[s'][o]": [[1], [1]], "R[s]": [1, 2] }),
                    json!({
                        "gamma": 0, "names": names, "Z[s'][o]": { "left": { "l": 1 }, "right": { "r": 1 } },
                        "P[a][s][s']": { "look": { "left": { "right": 1 }, "right": { "right": 0.5, "left": 0.5 } } },
                        "R[a][s][s']": { "look": { "left": { "right": -1.5 } } },
                    }),
                    json!({
                        "gamma": 0, "P": one, "Z[a][s'][o]": [[[1], [1]]], "R[s][a]": [[1], [2]], "state_names": ["l", "r"],
                        "start": { "states": ["r", 0], "probs": [0.25, 0.75] },
                    }),
                    json!({ "gamma": 0, "P": one, "Z[a][s'][o]": [[[1], [1]]], "R[a][s]": [[1, 2]] }),
                    json!({ "gamma": 0, "P": one, "Z[a][s'][o]": [[[1], [1]]], "R[s][a][s']": [[[1, 2]], [[0, 3]]] }),
                    json!({
                        "discount": 0.5, "transitions": list, "O[s'][o]": [[1, 0], [0.5, 0.5]], "start": "left",
                        "observation_names": ["l", "r"],
                    }),
                    json!({
                        "gamma": 0.5, "transitions": list, "state_names": ["right", "left"], "action_names": ["look"],
                        "O[a][s'][o]": [[[1], [1]]], "S": 2, "A": 1, "O": 1, "start": 1,
                    }),
                    json!({
                        "gamma": 0.5, "P": one, "O[s'][a][o]": [[[1, 0]], [[0.5, 0.5]]],
                        "R[a][s][s'][o]": [[[[1, 2], [3, 4]], [[5, 6], [7, -8]]]],
                    }),
                    json!({
                        "gamma": 0.5, "P": one, "Z[s'][o]": [[1, 0], [0.5, 0.5]],
                        "R[s][a][s'][o]": [[[[1, 2], [3, 4]]], [[[5, 6], [7, -8]]]],
                    }),
                ]
            }
            "hmm-posterior" => {
                let normal = |nu: Value, scales: Value| {
                    json!({
                        "pi": [1, 0.5], "A": [[2, 1], [0.5, 0.25]], "m": [[0, 1], [-2, 3.5]], "beta": [1, 2.5], "nu": nu, "S": scales,
                    })
                };
                vec![
                    normal(json!([2, 4.5]), json!([[0.25, 1], [2, 3]])),
                    normal(json!([2.5, 4]), json!([[[2, 0.5], [0.5, 1]], [[1, 0], [0, 1]]])),
                    normal(json!([3.5]), json!([[[2, 0.5], [0.5, 1]]])),
                    json!({
                        "pi": [1.5, 0.5], "A": [[3, 0], [0.5, 2.25]], "end": [1, 0], "B": [[1, 2.5, 0], [0.25, 1, 4]],
                        "states": ["C", "H"], "symbols": ["1", "2", "3"], "comment": 1, "$schema": "s", "_": [],
                    }),
                    json!({
                        "states": ["C", "H"], "symbols": ["1", "2"], "pi": { "C": 1 }, "end": { "H": 0.5 },
                        "A": { "C": { "C": 2, "H": 0.5 }, "H": { "H": 1 } }, "B": { "C": { "1": 4 }, "H": { "1": 1, "2": 3 } },
                    }),
                    json!({
                        "states": ["C", "H"], "pi": { "C": 1 }, "A": { "C": { "C": 2 }, "H": { "H": 1 } }, "m": [[0], [1]],
                        "beta": { "C": 1, "H": 2 }, "nu": { "C": 1, "H": 2 }, "S": [[1], [2]],
                    }),
                ]
            }
            _ => {
                let ice_cream = hmm::generate::IceCream.generate().unwrap();
                let matrix = json!([[0.75, 0.25], [0.5, 0.5]]);
                let normal = |covariances: Value| json!({ "pi": [1, 0], "A": matrix, "means": [[0, 1, 2], [3, -4, 5.5]], "covariances": covariances });
                let full = json!([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]]);
                vec![
                    written(&|out| hmm::io::write_to(&mut *out, hmm::io::Format::Json, &ice_cream).unwrap()),
                    normal(json!([[1, 2, 3], [4, 5, 0.5]])),
                    normal(json!([full, full])),
                    json!({
                        "pi": [1, 0], "A": [[0, 1], [1, 0]], "B": [[0.25, 0.75], [1, 0]],
                        "durations": [{ "categorical": [0.5, 0.5] }, { "geometric": { "probability": 0.25 } }],
                    }),
                    json!({
                        "pi": [1, 0, 0], "A": [[0, 1, 0], [0.5, 0, 0.5], [0.25, 0.25, 0.5]], "B": [[1], [1], [1]],
                        "states": ["a", "b", "c"], "durations": {
                            "a": { "poisson": { "rate": 1.5, "max": 3 } }, "c": null,
                            "b": { "negative-binomial": { "size": 0.5, "probability": 0.25, "max": 2 } },
                        },
                    }),
                    json!({
                        "pi": [1, 0], "A": matrix, "states": ["h", "c"], "columns": ["rain", "wet", "heat"],
                        "channels": [
                            { "family": "poisson", "columns": ["rain"], "rates": { "h": 0.5, "c": 3 }, "comment": "" },
                            { "family": "logistic", "columns": [1], "inputs": ["rain"], "coefficients": [[[1]], [[-1]]], "intercepts": [0, 1] },
                            { "family": "regression", "columns": [2], "lags": 1, "coefficients": [[[0.5]], [[0]]], "intercepts": [[1], [2]], "variances": [1, 2] },
                        ],
                    }),
                    json!({
                        "pi": [1], "A": [[1]],
                        "channels": [
                            { "family": "categorical", "columns": [0], "probs": [[0.25, 0.75]] },
                            { "family": "bernoulli", "columns": [1, 2], "probs": [[0.5, 1]] },
                            { "family": "multinomial", "columns": [3, 4], "trials": 2, "probs": [[0.5, 0.5]] },
                            { "family": "gamma", "columns": [5], "shapes": [1], "rates": [2] },
                            { "family": "exponential", "columns": [6], "rates": [2], "_": 1 },
                            { "family": "student-t", "columns": [7], "degrees": [4], "locations": [0], "scales": [1] },
                            { "family": "mixture", "columns": [8], "weights": [[1]], "means": [[[0]]], "variances": [[[1]]] },
                            { "family": "gaussian", "columns": [9, 10], "means": [[0, 1]], "covariances": [[[1, 0.5], [0.5, 1]]], "$schema": "s" },
                        ],
                    }),
                    json!({
                        "A[to][from]": [[0.75, 0.5], [0.25, 0.5]], "B[symbol][state]": [[1, 0], [0, 0.5], [0, 0.5]],
                        "pi": [0.5, 0.5], "comment": 1, "$schema": "s", "_": [],
                    }),
                    json!({
                        "states": ["h", "c"], "symbols": ["1", "2"], "classes": ["warm", ""], "pi": { "h": 1 }, "end": { "c": 0.5 },
                        "A": { "h": { "h": 0.5, "c": 0.5 }, "c": { "c": 0.5 } },
                        "B": { "h": { "1": 0.25, "2": 0.75 }, "c": { "2": 1 } },
                    }),
                ]
            }
        }
    }
}

/// Each document that differs from `document` in one place: a key removed or added, or a value replaced.
fn mutations(document: &Value) -> Vec<Value> {
    let mut places = Vec::new();
    list(document, String::new(), &mut places);
    let mut all = Vec::new();
    for place in &places {
        let mut put = |change: &dyn Fn(&mut Value)| {
            let mut changed = document.clone();
            change(changed.pointer_mut(place).unwrap());
            if changed != *document {
                all.push(changed);
            }
        };
        for new in [
            json!(null),
            json!(true),
            json!("x"),
            json!(""),
            json!(-1),
            json!(0),
            json!(1),
            json!(2),
            json!(0.5),
            json!(2.0),
            json!(-0.25),
            json!(1.5),
            json!(1e300),
            json!(4294967296u64),
            json!(u64::MAX),
            json!([]),
            json!([[]]),
            json!({}),
            json!([0.5, 0.5]),
            json!([1, "x"]),
            json!({ "x": 1 }),
        ] {
            put(&|value| *value = new.clone());
        }
        put(&|value| match value {
            Value::Array(array) => {
                array.pop();
            }
            Value::Number(number) => *value = json!(-number.as_f64().unwrap()),
            _ => {}
        });
        put(&|value| {
            if let Value::Array(array) = value
                && let Some(last) = array.last().cloned()
            {
                array.push(last);
            }
        });
        put(&|value| {
            if let Value::Array(array) = value {
                array.reverse();
            }
        });
        for key in ["zz", "gama", "_zz", "comment"] {
            put(&|value| {
                if let Value::Object(map) = value {
                    map.insert(key.to_owned(), json!({ "free": ["text"] }));
                }
            });
        }
        let keys: Vec<String> =
            document.pointer(place).unwrap().as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default();
        for key in keys {
            put(&|value| drop(value.as_object_mut().unwrap().remove(&key)));
            put(&|value| {
                let map = value.as_object_mut().unwrap();
                let old = map.remove(&key).unwrap();
                map.insert(key.to_lowercase() + "s", old);
            });
        }
    }
    all
}

/// The places of a document; of arrays, the first two and the last entry.
fn list(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                list(value, format!("{place}/{}", key.replace('~', "~0").replace('/', "~1")), places);
            }
        }
        Value::Array(array) => {
            for (index, value) in array.iter().enumerate().filter(|(index, _)| *index < 2 || index + 1 == array.len()) {
                list(value, format!("{place}/{index}"), places);
            }
        }
        _ => {}
    }
    places.push(place);
}

#[test]
fn what_a_reader_accepts_its_schema_accepts() {
    let mut faults = Vec::new();
    for class in &CLASSES {
        let (_, validator) = class.validator();
        let (mut refused, mut broken, mut accepted) = (0, 0, 0);
        let (mut used, mut unexplained, mut strict) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for document in class.corpus() {
            let text = document.to_string();
            assert_eq!((class.read)(text.as_bytes()), Ok(()), "{text}");
            if let Err(error) = validator.validate(&document) {
                panic!("{}: {error} at {} of {text}", class.name, error.instance_path());
            }
            for changed in mutations(&document) {
                let text = changed.to_string();
                match ((class.read)(text.as_bytes()), validator.is_valid(&changed)) {
                    (Ok(()), true) => accepted += 1,
                    (Ok(()), false) => {
                        let error = validator.validate(&changed).unwrap_err();
                        strict.insert(format!("{error} at {}", error.instance_path()));
                    }
                    (Err(_), false) => refused += 1,
                    (Err(message), true) => {
                        let mut rules = COMMON.iter().chain(class.rules());
                        match rules.find(|(part, _)| message.contains(part)) {
                            Some((_, rule)) => drop(used.insert(*rule)),
                            None => drop(unexplained.insert(message)),
                        }
                        broken += 1;
                    }
                }
            }
        }
        let unused: Vec<_> = class.rules().filter(|(_, rule)| !used.contains(rule)).collect();
        let few = accepted < 20 || refused < class.least[0] || broken < class.least[1];
        if !strict.is_empty() || !unexplained.is_empty() || !unused.is_empty() || few {
            faults.push(format!(
                "{}: only the schema refuses: {strict:#?}\nonly the reader refuses: {unexplained:#?}\nno document \
                 breaks: {unused:?}\n{accepted} accepted, {refused} refused, {broken} refused by the reader alone",
                class.name
            ));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A document of a corpus with one to three changes: values replaced by others of the corpus, keys and entries removed, added or doubled.
fn mutant(corpus: &[Value], values: &[Value], random: &mut ChaCha8Rng) -> Value {
    let mut below = |bound: usize| random.next_u64() as usize % bound.max(1);
    let mut document = corpus[below(corpus.len())].clone();
    for _ in 0..1 + below(3) {
        let mut places = Vec::new();
        list(&document, String::new(), &mut places);
        let Some(value) = document.pointer_mut(&places[below(places.len())]) else { continue };
        let new = values[below(values.len())].clone();
        match (below(5), value) {
            (0, Value::Array(array)) if !array.is_empty() => drop(array.remove(below(array.len()))),
            (1, Value::Array(array)) => array.insert(below(array.len() + 1), new),
            (0, Value::Object(map)) if !map.is_empty() => {
                let key = map.keys().nth(below(map.len())).cloned();
                if let Some(key) = key {
                    map.remove(&key);
                }
            }
            // A key of another document, with its value.
            (1, Value::Object(map)) => {
                let other = corpus[below(corpus.len())].as_object().into_iter().flatten();
                let entries: Vec<_> = other.collect();
                if let Some((key, value)) = entries.get(below(entries.len())) {
                    map.insert((*key).clone(), (*value).clone());
                }
            }
            (2, Value::Number(number)) => {
                let edges = [0.0, -1.0, 1.0, 1e-9, 1.00001, 1e300, 4294967295.0, 9007199254740993.0];
                *number = Number::from_f64(number.as_f64().unwrap_or_default() + edges[below(edges.len())]).unwrap();
            }
            (_, value) => *value = new,
        }
    }
    document
}

/// Many documents that are wrong in several places: the schema refuses none that the reader accepts, or in other words, the reader
/// refuses all that the schema refuses.
#[test]
fn random_mutants_agree() {
    const MUTANTS: u64 = 10_000;

    for class in &CLASSES {
        let (_, validator) = class.validator();
        let corpus = class.corpus();
        // All values below the documents.
        let mut values =
            vec![json!(null), json!(true), json!(""), json!("x"), json!([]), json!({}), json!(1e300), json!(u64::MAX)];
        for document in &corpus {
            let mut places = Vec::new();
            list(document, String::new(), &mut places);
            values.extend(places.iter().filter_map(|place| document.pointer(place)).cloned());
        }
        let outcomes: Vec<(bool, bool)> = (0..MUTANTS)
            .into_par_iter()
            .map(|seed| {
                let document = mutant(&corpus, &values, &mut ChaCha8Rng::seed_from_u64(seed));
                let text = document.to_string();
                let (read, valid) = ((class.read)(text.as_bytes()).is_ok(), validator.is_valid(&document));
                assert!(valid || !read, "{}, seed {seed}: only the schema refuses {text}", class.name);
                (read, valid)
            })
            .collect();
        let count = |outcome: (bool, bool)| outcomes.iter().filter(|found| **found == outcome).count();
        let (accepted, refused) = (count((true, true)), count((false, false)));
        assert!(accepted > 20 && refused > 2000, "{}: {accepted} accepted, {refused} refused", class.name);
    }
}

/// The corpus has every key of the schema, so that the tests above see each of them.
#[test]
fn every_key_is_described_and_tried() {
    /// Checks the descriptions below a schema, and returns the keys of its objects.
    fn keys(schema: &Value, found: &mut BTreeSet<String>) {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object)
            && schema.get("additionalProperties") == Some(&json!(false))
        {
            for (key, property) in properties {
                let words = property.get("description").and_then(Value::as_str).unwrap_or_default();
                assert!(words.len() > 8 && words.ends_with('.'), "{key}: {words:?}");
                found.insert(key.clone());
            }
        }
        match schema {
            Value::Object(map) => map.values().for_each(|value| keys(value, found)),
            Value::Array(array) => array.iter().for_each(|value| keys(value, found)),
            _ => {}
        }
    }
    fn tried(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.keys().cloned());
                map.values().for_each(|value| tried(value, found));
            }
            Value::Array(array) => array.iter().for_each(|value| tried(value, found)),
            _ => {}
        }
    }
    for class in &CLASSES {
        let (schema, _) = class.validator();
        let (mut described, mut seen) = (BTreeSet::new(), BTreeSet::new());
        keys(&schema, &mut described);
        class.corpus().iter().for_each(|document| tried(document, &mut seen));
        let missing: Vec<_> = described.difference(&seen).collect();
        assert!(described.len() > 8 && missing.is_empty(), "{}: {missing:?}", class.name);
    }
}

/// Invalid files of the tests: the schema accepts only those that break a rule for which it has no words.
#[test]
fn malformed_files_are_refused_by_both() {
    let class = &CLASSES[0];
    let (_, validator) = class.validator();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/malformed");
    let mut refused = 0;
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let json = path.extension().is_some_and(|extension| extension == "json") && !path.ends_with("expected.json");
        let Some(document) = fs::read(&path).ok().filter(|_| json) else { continue };
        let message = (class.read)(&document).unwrap_err();
        // What is no JSON, or has a key twice, no schema sees.
        let Ok(document) = serde_json::from_slice::<Value>(&document) else { continue };
        if message.contains("appears twice") {
            continue;
        }
        match validator.is_valid(&document) {
            false => refused += 1,
            true => {
                let mut rules = COMMON.iter().chain(class.rules());
                assert!(rules.any(|(part, _)| message.contains(part)), "{}: {message}", path.display());
            }
        }
    }
    assert!(refused > 8, "{refused}");
}

#[test]
fn the_command_prints_the_schemas() {
    for class in &CLASSES {
        let output = Command::new(env!("CARGO_BIN_EXE_warpkov")).args(["schema", class.name]).output().unwrap();
        assert!(output.status.success());
        let printed: Map<String, Value> = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(printed["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(output.stdout, class.schema.as_bytes());
    }
    let output = Command::new(env!("CARGO_BIN_EXE_warpkov")).args(["schema", "mpd"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
