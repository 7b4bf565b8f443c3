//! UMB, the unified Markov binary format of probabilistic model checkers: a tar archive of arrays, mostly compressed.
//!
//! Little-endian: `index.json` says what there is; `state-to-choices.bin` and `choice-to-branches.bin` are offsets (u64),
//! `branch-to-target.bin` states (u64), `branch-to-probability.bin` probabilities (f64, or rational: numerator and
//! denominator of 64 bits each), `state-is-initial.bin` and `annotations/aps/NAME/states/values.bin` sets of states (bits,
//! the first lowest), `annotations/rewards/NAME/{states,choices,branches}/values.bin` rewards, and
//! `actions/choices/{values,strings,string-mapping}.bin` the names of actions. Read as PyPI's `umbi` writes it,
//! compressed or not; written in gzip.
//!
//! A state's reward is earned with each of its actions; the initial states are the label "init". There is no discount
//! factor: γ = 1 until it is said. Costs are written as they are, like rewards: the format does not tell them apart.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufReader, Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::binary::{self, Element, Encoding, Kind, invalid, of_file, within};
use super::rows::{Rows, without_ends};
use super::{BUFFER, Error};
use crate::mdp::model::{ActionNames, Mdp};

/// Where a tar archive says that it is one.
const TAR: std::ops::Range<usize> = 257..262;

/// The label of initial states.
const INITIAL: &str = "init";

/// The name of rewards as they are written.
const REWARD: &str = "reward";

/// Whether a file begins like an archive.
pub fn sniff(start: &[u8]) -> bool {
    start.get(TAR) == Some(b"ustar")
}

/// Reads a model, with the rewards of this name, or else the first by name. It is not yet validated.
pub fn read(reader: impl Read, name: String, reward: Option<&str>) -> Result<Mdp, Error> {
    Archive::read(reader).and_then(|archive| archive.model(reward)).map_err(of_file(name))
}

/// The files of the archive.
struct Archive(HashMap<String, Vec<u8>>);

impl Archive {
    fn read(reader: impl Read) -> io::Result<Self> {
        files(BufReader::with_capacity(BUFFER, reader)).map(Self)
    }

    fn bytes(&self, file: &str) -> io::Result<&[u8]> {
        self.0.get(file).map(Vec::as_slice).ok_or_else(|| invalid(format!("file {file} is missing")))
    }

    /// The numbers of a file, of which there must be `count`.
    fn numbers<T: Element>(&self, file: &str, kind: &Type, count: usize) -> io::Result<Vec<T>> {
        let bytes = self.bytes(file)?;
        if count.checked_mul(kind.bytes()) != Some(bytes.len()) {
            let (found, size) = (bytes.len(), kind.bytes());
            return Err(invalid(format!("{file} has {found} bytes, expected {count} numbers of {size} bytes")));
        }
        let mut numbers = Vec::new();
        match *kind {
            Type::Number(encoding) => binary::decode(bytes, encoding, &mut numbers).map_err(within(file))?,
            Type::Rational => {
                let mut parts: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
                for pair in bytes.chunks_exact(16) {
                    binary::decode(&pair[..8], Encoding::little(Kind::Signed, 8), &mut parts[0])?;
                    binary::decode(&pair[8..], Encoding::little(Kind::Unsigned, 8), &mut parts[1])?;
                }
                let fractions = parts[0].iter().zip(&parts[1]).map(|(numerator, denominator)| numerator / denominator);
                let numbers_of =
                    fractions.map(|x| T::from_float(x).ok_or_else(|| invalid(format!("{file}: found {x}"))));
                numbers = numbers_of.collect::<io::Result<_>>()?;
            }
        }
        Ok(numbers)
    }

    /// Offsets that ascend from 0 to `end`, one more than `count`.
    fn offsets(&self, file: &str, count: usize, end: usize) -> io::Result<Vec<usize>> {
        let found: Vec<u64> = self.numbers(file, &OFFSET, count + 1)?;
        if found[0] != 0 || !found.is_sorted() || found[count] != end as u64 {
            return Err(invalid(format!("{file}: expected offsets that ascend from 0 to {end}")));
        }
        Ok(found.into_iter().map(|offset| offset as usize).collect())
    }

    /// The states whose bit is set.
    fn states(&self, file: &str, states: u32) -> io::Result<Vec<u32>> {
        let bytes = self.bytes(file)?;
        if bytes.len() < (states as usize).div_ceil(8) {
            return Err(invalid(format!(
                "{file} has {} bytes, expected a bit for each of {states} states",
                bytes.len()
            )));
        }
        Ok((0..states).filter(|&state| bytes[state as usize / 8] >> (state % 8) & 1 == 1).collect())
    }

    fn model(&self, reward: Option<&str>) -> io::Result<Mdp> {
        let index: Value = serde_json::from_slice(self.bytes("index.json")?)
            .map_err(|error| invalid(format!("index.json: {error}")))?;
        let system = &index["transition-system"];
        let count = |key: &str| {
            let message =
                || invalid(format!("index.json: transition-system.{key} is {}, expected a count", system[key]));
            system[key]
                .as_u64()
                .and_then(|count| usize::try_from(count).ok())
                .filter(|&c| c < usize::MAX)
                .ok_or_else(message)
        };
        if system["time"] != "discrete" {
            return Err(invalid(format!("index.json: time is {}, expected \"discrete\"", system["time"])));
        }
        if count("#players")? > 1 {
            return Err(invalid(format!("index.json: found {} players, expected 1", count("#players")?)));
        }
        if count("#observations").is_ok_and(|observations| observations > 0) {
            return Err(invalid("index.json: found observations, expected a model whose states are seen"));
        }
        let [choices, branches] = [count("#choices")?, count("#branches")?];
        let states = u32::try_from(count("#states")?).map_err(|_| invalid("index.json: 2³² states or more"))?;

        let targets: Vec<u32> = self.numbers("branch-to-target.bin", &OFFSET, branches)?;
        // Each array is as long as a file says, or as one before it.
        let choice_branches = match self.0.contains_key("choice-to-branches.bin") {
            true => self.offsets("choice-to-branches.bin", choices, branches)?,
            false if branches == choices => (0..=branches).collect(),
            false => return Err(invalid("file choice-to-branches.bin is missing")),
        };
        let state_choices = match self.0.contains_key("state-to-choices.bin") {
            true => self.offsets("state-to-choices.bin", states as usize, choices)?,
            false if choices == states as usize => (0..=choices).collect(),
            false => return Err(invalid("file state-to-choices.bin is missing")),
        };
        let probabilities = match &system["branch-probability-type"] {
            Value::Null => vec![1.0; branches],
            found => self.numbers("branch-to-probability.bin", &Type::of(found)?, branches)?,
        };

        let annotations = |group: &str| index["annotations"][group].as_object().into_iter().flatten();
        let mut named = annotations("rewards").filter(|(name, _)| reward.is_none_or(|wanted| wanted == *name));
        let (of_states, of_choices, of_branches) = match (named.next(), reward) {
            (None, None) => Default::default(),
            (None, Some(wanted)) => {
                let known: Vec<_> = annotations("rewards").map(|(name, _)| name.as_str()).collect();
                return Err(invalid(format!("found no rewards \"{wanted}\", expected one of {known:?}")));
            }
            (Some((name, description)), _) => {
                let rewards = |part: &str, count: usize| match &description["applies-to"] {
                    Value::Array(parts) if parts.iter().any(|known| known == part) => {
                        let file = format!("annotations/rewards/{name}/{part}/values.bin");
                        self.numbers::<f64>(&file, &Type::of(&description["type"])?, count)
                    }
                    _ => Ok(Vec::new()),
                };
                (rewards("states", states as usize)?, rewards("choices", choices)?, rewards("branches", branches)?)
            }
        };
        let at = |rewards: &[f64], position: usize| rewards.get(position).copied().unwrap_or_default();

        let names = self.names(count("#choice-actions").unwrap_or_default(), choices)?;
        let mut rows = Rows::default();
        for state in 0..states {
            let own = state_choices[state as usize]..state_choices[state as usize + 1];
            for (action, choice) in (0..).zip(own) {
                rows.begin(state, action);
                rows.earns(at(&of_states, state as usize) + at(&of_choices, choice));
                if let Some(ActionNames { names, of_row }) = &names {
                    rows.named(names.get(of_row[choice] as usize).map_or("", String::as_str));
                }
                for branch in choice_branches[choice]..choice_branches[choice + 1] {
                    rows.entry(targets[branch], probabilities[branch], at(&of_branches, branch));
                }
            }
        }
        let mut mdp = rows.into_model(states).map_err(|gap| invalid(gap.to_string()))?;

        for (name, description) in annotations("aps") {
            if description["type"]["type"] == "bool" && description["applies-to"] == json!(["states"]) {
                mdp.labels
                    .insert(name.clone(), self.states(&format!("annotations/aps/{name}/states/values.bin"), states)?);
            }
        }
        if self.0.contains_key("state-is-initial.bin") {
            mdp.labels.insert(INITIAL.to_owned(), self.states("state-is-initial.bin", states)?);
        }
        Ok(mdp)
    }

    fn names(&self, actions: usize, choices: usize) -> io::Result<Option<ActionNames>> {
        let [values, strings, mapping] =
            ["values", "strings", "string-mapping"].map(|file| format!("actions/choices/{file}.bin"));
        if ![&values, &mapping].iter().all(|&file| self.0.contains_key(file)) {
            return Ok(None);
        }
        let of_row: Vec<u32> = self.numbers(&values, &Type::Number(Encoding::little(Kind::Unsigned, 4)), choices)?;
        let text = self.bytes(&strings)?;
        let ends = self.offsets(&mapping, actions, text.len())?;
        let names = ends.windows(2).map(|ends| String::from_utf8_lossy(&text[ends[0]..ends[1]]).into_owned()).collect();
        if let Some(choice) = of_row.iter().position(|&action| action as usize >= actions) {
            return Err(invalid(format!(
                "{values}: [{choice}] is {}, expected an action below {actions}",
                of_row[choice]
            )));
        }
        Ok(Some(ActionNames { names, of_row }))
    }
}

/// Unpacks the files.
fn files(reader: impl Read) -> io::Result<HashMap<String, Vec<u8>>> {
    let broken = |error: io::Error| match error.kind() {
        // A stream that fails keeps its reason; what comes of the content is the archive's fault.
        io::ErrorKind::Other
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::InvalidData
        | io::ErrorKind::UnexpectedEof => invalid(format!("no tar archive of UMB: {error}")),
        _ => error,
    };
    let mut archive = tar::Archive::new(reader);
    let mut files = HashMap::new();
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(broken)?;
        bytes.shrink_to_fit();
        files.insert(path.trim_start_matches("./").to_owned(), bytes);
    }
    if files.is_empty() {
        return Err(invalid("no tar archive of UMB: it is empty"));
    }
    Ok(files)
}

/// The type of the numbers of a file.
enum Type {
    Number(Encoding),
    Rational,
}

const OFFSET: Type = Type::Number(Encoding::little(Kind::Unsigned, 8));

impl Type {
    fn of(description: &Value) -> io::Result<Self> {
        let size = description["size"].as_u64();
        let encoding = |kind, bits: u64| {
            matches!(bits, 8 | 16 | 32 | 64).then(|| Self::Number(Encoding::little(kind, bits as usize / 8)))
        };
        let found = match description["type"].as_str() {
            Some("double") if size.is_none_or(|bits| bits == 64) => encoding(Kind::Float, 64),
            Some("int") => encoding(Kind::Signed, size.unwrap_or(64)),
            Some("uint") => encoding(Kind::Unsigned, size.unwrap_or(64)),
            Some("rational") if size.is_none_or(|bits| bits == 128) => Some(Self::Rational),
            _ => None,
        };
        let message = || {
            format!(
                "index.json: found numbers of type {description}, expected double, rational of 128 bits, int or uint"
            )
        };
        found.ok_or_else(|| invalid(message()))
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Number(encoding) => encoding.size,
            Self::Rational => 16,
        }
    }
}

/// Writes a model.
pub fn write(out: &mut dyn Write, mdp: &Mdp) -> io::Result<()> {
    let mdp = &*without_ends(mdp);
    let (states, p) = (mdp.states as usize, &mdp.transitions);
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |file: &str, bytes: Vec<u8>| files.push((file.to_owned(), bytes));
    let bits = |members: &[u32]| {
        // As umbi pads them.
        let mut bytes = vec![0u8; states.div_ceil(64) * 8];
        members.iter().for_each(|&state| bytes[state as usize / 8] |= 1 << (state % 8));
        bytes
    };
    let initial = mdp.labels.get(INITIAL).map_or(&[][..], Vec::as_slice);
    add("state-is-initial.bin", bits(initial));
    let offsets = (0..=states).map(|state| mdp.choices.first(state) as u64);
    add("state-to-choices.bin", offsets.flat_map(u64::to_le_bytes).collect());
    add("choice-to-branches.bin", bytemuck::cast_slice(&p.row_ptr).to_vec());
    add("branch-to-target.bin", p.col.iter().flat_map(|&target| u64::from(target).to_le_bytes()).collect());
    add("branch-to-probability.bin", bytemuck::cast_slice(&p.val).to_vec());
    if let Some(ActionNames { names, of_row }) = &mdp.action_names {
        let ends = names.iter().scan(0, |end, name| {
            *end += name.len() as u64;
            Some(*end)
        });
        add("actions/choices/values.bin", bytemuck::cast_slice(of_row).to_vec());
        add("actions/choices/strings.bin", names.concat().into_bytes());
        add("actions/choices/string-mapping.bin", [0].into_iter().chain(ends).flat_map(u64::to_le_bytes).collect());
    }
    let double = json!({ "type": "double", "size": 64 });
    let mut annotations = serde_json::Map::new();
    let mut rewarded = Vec::new();
    for (part, rewards) in [("choices", mdp.action_rewards.to_vec()), ("branches", mdp.transition_rewards())] {
        if rewards.iter().any(|&reward| reward != 0.0) {
            add(&format!("annotations/rewards/{REWARD}/{part}/values.bin"), bytemuck::cast_slice(&rewards).to_vec());
            rewarded.push(part);
        }
    }
    if !rewarded.is_empty() {
        annotations.insert("rewards".into(), json!({ REWARD: { "applies-to": rewarded, "type": double } }));
    }
    let labels: BTreeMap<_, _> = mdp.labels.iter().filter(|(label, _)| *label != INITIAL).collect();
    for (label, members) in &labels {
        add(&format!("annotations/aps/{label}/states/values.bin"), bits(members));
    }
    if !labels.is_empty() {
        let set = json!({ "applies-to": ["states"], "type": { "type": "bool", "size": 1 } });
        let sets: serde_json::Map<_, _> = labels.keys().map(|&label| (label.clone(), set.clone())).collect();
        annotations.insert("aps".into(), sets.into());
    }
    let index = json!({
        "format-version": 0,
        "format-revision": 1,
        "file-data": { "tool": "warpkov", "tool-version": env!("CARGO_PKG_VERSION") },
        "transition-system": {
            "time": "discrete",
            "#players": 1,
            "#states": states,
            "#initial-states": initial.len(),
            "#choices": p.rows(),
            "#choice-actions": mdp.action_names.as_ref().map_or(0, |names| names.names.len()),
            "#branches": p.nnz(),
            "#branch-actions": 0,
            "#observations": 0,
            "branch-probability-type": double,
        },
        "annotations": annotations,
    });

    let mut archive = tar::Builder::new(GzEncoder::new(out, Compression::fast()));
    let index = ("index.json".to_owned(), serde_json::to_vec_pretty(&index)?);
    for (file, bytes) in [index].into_iter().chain(files) {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, file, &bytes[..])?;
    }
    archive.into_inner()?.finish().map(|_| ())
}
