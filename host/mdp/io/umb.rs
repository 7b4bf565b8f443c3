//! UMB, the unified Markov binary format of probabilistic model checkers: a tar archive of arrays, usually compressed.
//!
//! All numbers are little-endian. `index.json` describes the model. The other files are:
//!
//! | File | Content |
//! | --- | --- |
//! | `state-to-choices.bin`, `choice-to-branches.bin` | offsets, u64 |
//! | `branch-to-target.bin` | states, u64 |
//! | `branch-to-probability.bin` | f64, or rationals: a numerator and a denominator of 64 bits each |
//! | `state-is-initial.bin`, `annotations/aps/NAME/states/values.bin` | sets of states: one bit per state, lowest bit first |
//! | `annotations/rewards/NAME/{states,choices,branches}/values.bin` | rewards |
//! | `actions/choices/{values,strings,string-mapping}.bin` | action names |
//!
//! The reader accepts what PyPI's `umbi` writes, compressed or not. The writer compresses with gzip.
//!
//! Rewards and sets of states go by their aliases, where they have any.
//!
//! Every action of a state earns the state's reward. The initial states become the label "init". The format has no
//! discount factor: γ = 1 unless the caller sets it. It does not distinguish costs from rewards: both are written
//! unchanged.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufReader, Cursor, Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::Error;
use super::rows::{RowsBuilder, without_ends};
use crate::model::{ActionNames, Mdp, MdpParts};
use warpkov_common::io::BUFFER;
use warpkov_common::io::binary::{self, Element, Encoding, Kind, invalid, of_file, within};
use warpkov_common::io::lines::no_place;

/// Byte range of the magic number in a tar header.
const TAR: std::ops::Range<usize> = 257..262;

/// Bytes that may follow an archive: the padding of its last block.
const LARGEST_REST: u64 = 1 << 26;

/// The label of initial states.
const INITIAL: &str = "init";

/// The name of the reward structure that the writer produces.
const REWARD: &str = "reward";

/// Whether a file begins like a tar archive.
pub fn sniff(start: &[u8]) -> bool {
    start.get(TAR) == Some(b"ustar")
}

/// Reads a model without validation, with the reward structure of this name or alias, or the first by name.
pub fn read(reader: impl Read, name: String, reward: Option<&str>) -> Result<MdpParts, Error> {
    Archive::read(reader, reward).and_then(|archive| archive.model(reward)).map_err(of_file(name))
}

/// The archive's files that make up a model. Large files are converted while they are read.
#[derive(Default)]
struct Archive {
    /// Whether the archive has any file.
    nonempty: bool,
    index: Value,
    /// Offsets of choices and of branches, by file name.
    offsets: HashMap<String, File<u64>>,
    targets: Option<File<u32>>,
    /// Files decoded on arrival: the index had already given their type.
    reals: HashMap<String, File<f64>>,
    /// Files still to be decoded.
    others: HashMap<String, Vec<u8>>,
}

/// Numbers and the size of their file in bytes.
struct File<T> {
    bytes: u64,
    numbers: Vec<T>,
}

const INDEX: &str = "index.json";
const STATE_CHOICES: &str = "state-to-choices.bin";
const CHOICE_BRANCHES: &str = "choice-to-branches.bin";
const TARGETS: &str = "branch-to-target.bin";
const PROBABILITIES: &str = "branch-to-probability.bin";
const INITIAL_STATES: &str = "state-is-initial.bin";

impl Archive {
    fn read(reader: impl Read, reward: Option<&str>) -> io::Result<Self> {
        let broken = |error: io::Error| match error.kind() {
            // A failing stream keeps its error. Errors of these kinds come from the archive's content.
            io::ErrorKind::Other
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidData
            | io::ErrorKind::UnexpectedEof => io::Error::other(format!("not a UMB tar archive: {error}")),
            _ => error,
        };
        let content = |error: io::Error| match error.kind() {
            io::ErrorKind::Other => invalid(error.to_string()),
            _ => error,
        };
        let mut archive = tar::Archive::new(BufReader::with_capacity(BUFFER, reader));
        let mut files = Self::default();
        for entry in archive.entries().map_err(broken).map_err(content)? {
            let entry = entry.map_err(broken).map_err(content)?;
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            if entry.header().entry_type().is_gnu_sparse() {
                // A header of 512 bytes may declare any number of zeros.
                return Err(invalid(format!("{path} is a sparse file of tar, expected a plain one")));
            }
            let size = entry.size();
            files.add(path.trim_start_matches("./"), size, Broken(entry, broken), reward).map_err(content)?;
        }
        if !files.nonempty {
            return Err(invalid("not a UMB tar archive: it is empty"));
        }
        // The checksum of compressed data follows the archive: read on to the end to verify it.
        let mut rest = archive.into_inner().take(LARGEST_REST);
        let length = io::copy(&mut rest, &mut io::sink()).map_err(broken).map_err(content)?;
        if length == LARGEST_REST {
            return Err(invalid(format!("{LARGEST_REST} bytes or more follow the UMB tar archive")));
        }
        Ok(files)
    }

    /// Reads a file that the model needs, and skips any other.
    fn add(&mut self, path: &str, size: u64, mut entry: impl Read, reward: Option<&str>) -> io::Result<()> {
        self.nonempty = true;
        match path {
            INDEX => {
                let mut text = Vec::new();
                entry.read_to_end(&mut text)?;
                self.index = serde_json::from_slice(&text).map_err(|error| invalid(format!("index.json: {error}")))?;
            }
            STATE_CHOICES | CHOICE_BRANCHES => {
                let numbers = numbers(&mut entry, &OFFSET, size).map_err(within(path))?;
                let file = File { bytes: size, numbers };
                self.offsets.insert(path.to_owned(), file);
            }
            TARGETS => {
                let numbers = numbers(&mut entry, &OFFSET, size).map_err(within(path))?;
                self.targets = Some(File { bytes: size, numbers });
            }
            _ => {
                let kind = match path.strip_prefix("annotations/rewards/").and_then(|rest| rest.split_once('/')) {
                    // An index read earlier tells which rewards to skip.
                    Some((name, _)) if !self.index.is_null() => match self.reward(reward) {
                        Ok(Some((chosen, description))) if chosen == name => Type::parse(&description["type"]).ok(),
                        _ => return Ok(()),
                    },
                    None if path == PROBABILITIES && !self.index.is_null() => {
                        Type::parse(&self.index["transition-system"]["branch-probability-type"]).ok()
                    }
                    _ => None,
                };
                let needed = [PROBABILITIES, INITIAL_STATES].contains(&path)
                    || ["annotations/rewards/", "annotations/aps/", "actions/choices/"]
                        .iter()
                        .any(|folder| path.starts_with(folder));
                if let Some(kind) = kind {
                    let numbers = numbers(&mut entry, &kind, size).map_err(within(path))?;
                    self.reals.insert(path.to_owned(), File { bytes: size, numbers });
                } else if needed {
                    let mut bytes = Vec::new();
                    entry.read_to_end(&mut bytes)?;
                    self.others.insert(path.to_owned(), bytes);
                }
            }
        }
        Ok(())
    }

    fn bytes(&self, file: &str) -> io::Result<&[u8]> {
        self.others.get(file).map(Vec::as_slice).ok_or_else(|| missing(file))
    }

    /// The `count` real numbers of a file.
    fn reals(&mut self, file: &str, kind: &Type, count: usize) -> io::Result<Vec<f64>> {
        if let Some(read) = self.reals.remove(file) {
            return read.counted(file, kind, count);
        }
        let bytes = self.others.remove(file).ok_or_else(|| missing(file))?;
        let size = bytes.len() as u64;
        let numbers = numbers(&mut &bytes[..], kind, size).map_err(within(file))?;
        File { bytes: size, numbers }.counted(file, kind, count)
    }

    /// `count` + 1 offsets that ascend from 0 to `end`. Where the file is missing and `end` is `count`, each range has
    /// one element.
    fn offsets(&mut self, file: &str, count: usize, end: usize) -> io::Result<Vec<u64>> {
        match self.offsets.remove(file) {
            Some(read) => ascending(file, read.counted(file, &OFFSET, count + 1)?, end),
            None if count == end => Ok((0..=end as u64).collect()),
            None => Err(missing(file)),
        }
    }

    /// The states whose bits are set.
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

    /// Name and description of the reward structure `wanted`, looked up by name, then by alias; by default the first by
    /// name.
    fn reward(&self, wanted: Option<&str>) -> io::Result<Option<(&str, &Value)>> {
        let mut all = self.annotations("rewards");
        let Some(wanted) = wanted else { return Ok(all.next()) };
        let by_name = self.annotations("rewards").find(|(name, _)| *name == wanted);
        let known = |(name, description): (&str, &Value)| alias(description).unwrap_or(name).to_owned();
        match by_name.or_else(|| all.find(|(_, description)| alias(description) == Some(wanted))) {
            Some(found) => Ok(Some(found)),
            None => {
                let known: Vec<_> = self.annotations("rewards").map(known).collect();
                Err(invalid(format!("found no rewards \"{wanted}\", expected one of {known:?}")))
            }
        }
    }

    fn annotations(&self, group: &str) -> impl Iterator<Item = (&str, &Value)> {
        let group = self.index["annotations"][group].as_object();
        group.into_iter().flatten().map(|(name, description)| (name.as_str(), description))
    }

    fn model(mut self, reward: Option<&str>) -> io::Result<MdpParts> {
        if self.index.is_null() {
            return Err(missing(INDEX));
        }
        let system = &self.index["transition-system"];
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
            return Err(invalid("index.json: found observations, expected a fully observable model"));
        }
        let [choices, branches] = [count("#choices")?, count("#branches")?];
        let states = u32::try_from(count("#states")?).map_err(|_| invalid("index.json: 2³² states or more"))?;
        let actions = count("#choice-actions").unwrap_or_default();
        let kind = match &system["branch-probability-type"] {
            Value::Null => None,
            found => Some(Type::parse(found)?),
        };

        let targets = self.targets.take().ok_or_else(|| missing(TARGETS))?.counted(TARGETS, &OFFSET, branches)?;
        let choice_branches = self.offsets(CHOICE_BRANCHES, choices, branches)?;
        let state_choices = self.offsets(STATE_CHOICES, states as usize, choices)?;
        let probabilities = match kind {
            None => vec![1.0; branches],
            Some(kind) => self.reals(PROBABILITIES, &kind, branches)?,
        };
        let [of_states, mut of_choices, of_branches] = self.rewards(reward, [states as usize, choices, branches])?;
        if of_states.iter().any(|&reward| reward != 0.0) {
            of_choices.resize(choices, 0.0);
            for (own, earned) in state_choices.windows(2).zip(&of_states) {
                of_choices[own[0] as usize..own[1] as usize].iter_mut().for_each(|reward| *reward += earned);
            }
        }
        let names = self.names(actions, choices)?;

        let mut rows = RowsBuilder::default();
        let ordered = choice_branches.windows(2).all(|own| {
            let own = &targets[own[0] as usize..own[1] as usize];
            own.windows(2).all(|pair| pair[0] < pair[1])
        });
        let mut mdp = if ordered {
            rows.named_by(&names, &state_choices);
            rows.ordered(state_choices, choice_branches, targets, probabilities, of_branches, of_choices)
        } else {
            let at = |rewards: &[f64], position: usize| rewards.get(position).copied().unwrap_or_default();
            for (state, own) in (0..).zip(state_choices.windows(2)) {
                for (action, choice) in (0..).zip(own[0] as usize..own[1] as usize) {
                    rows.begin(state, action);
                    rows.earns(at(&of_choices, choice));
                    if let Some(ActionNames { names, of_row }) = &names {
                        rows.named(names.get(of_row[choice] as usize).map_or("", String::as_str));
                    }
                    for branch in choice_branches[choice] as usize..choice_branches[choice + 1] as usize {
                        rows.entry(targets[branch], probabilities[branch], at(&of_branches, branch));
                    }
                }
            }
            rows.into_model(states).map_err(|gap| invalid(gap.to_string()))?
        };
        mdp.labels = self.labels(states)?;
        Ok(mdp)
    }

    /// Rewards of states, of choices and of branches. An array is empty where the reward structure does not apply.
    fn rewards(&mut self, wanted: Option<&str>, counts: [usize; 3]) -> io::Result<[Vec<f64>; 3]> {
        let mut rewards = [Vec::new(), Vec::new(), Vec::new()];
        let Some((name, description)) = self.reward(wanted)? else { return Ok(rewards) };
        let (name, description) = (name.to_owned(), description.clone());
        for ((part, count), rewards) in ["states", "choices", "branches"].into_iter().zip(counts).zip(&mut rewards) {
            if description["applies-to"].as_array().is_some_and(|parts| parts.iter().any(|known| known == part)) {
                let file = format!("annotations/rewards/{name}/{part}/values.bin");
                *rewards = self.reals(&file, &Type::parse(&description["type"])?, count)?;
            }
        }
        Ok(rewards)
    }

    /// Sets of states by alias where aliases are unique, else by name.
    fn labels(&self, states: u32) -> io::Result<BTreeMap<String, Vec<u32>>> {
        let mut labels = BTreeMap::new();
        let sets = || {
            self.annotations("aps").filter(|(_, description)| {
                description["type"]["type"] == "bool" && description["applies-to"] == json!(["states"])
            })
        };
        for (name, description) in sets() {
            let taken = |alias: &&str| {
                let others = sets().filter(|(other, _)| *other != name);
                *alias == INITIAL
                    || others.into_iter().any(|(other, of)| other == *alias || self::alias(of) == Some(*alias))
            };
            let label = alias(description).filter(|alias| !taken(alias)).unwrap_or(name);
            let file = format!("annotations/aps/{name}/states/values.bin");
            labels.insert(label.to_owned(), self.states(&file, states)?);
        }
        if self.others.contains_key(INITIAL_STATES) {
            labels.insert(INITIAL.to_owned(), self.states(INITIAL_STATES, states)?);
        }
        Ok(labels)
    }

    fn names(&self, actions: usize, choices: usize) -> io::Result<Option<ActionNames>> {
        let [values, strings, mapping] =
            ["values", "strings", "string-mapping"].map(|file| format!("actions/choices/{file}.bin"));
        if ![&values, &mapping].iter().all(|&file| self.others.contains_key(file)) {
            return Ok(None);
        }
        let decoded = |file: &str, kind: &Type| {
            let bytes = self.bytes(file)?;
            let numbers = numbers(&mut &bytes[..], kind, bytes.len() as u64)?;
            Ok::<_, io::Error>(File::<u32> { bytes: bytes.len() as u64, numbers })
        };
        let kind = Type::Number(Encoding::little(Kind::Unsigned, 4));
        let of_row = decoded(&values, &kind)?.counted(&values, &kind, choices)?;
        let text = self.bytes(&strings)?;
        let ends = decoded(&mapping, &OFFSET)?.counted(&mapping, &OFFSET, actions + 1)?;
        let ends = ascending(&mapping, ends.into_iter().map(u64::from).collect(), text.len())?;
        let name = |ends: &[u64]| String::from_utf8_lossy(&text[ends[0] as usize..ends[1] as usize]).into_owned();
        let names = ends.windows(2).map(name).collect();
        if let Some(choice) = of_row.iter().position(|&action| action as usize >= actions) {
            return Err(invalid(format!(
                "{values}: [{choice}] is {}, expected an action below {actions}",
                of_row[choice]
            )));
        }
        Ok(Some(ActionNames { names, of_row }))
    }
}

/// The alias of an annotation, its name for people. The name proper consists of letters, digits, `_` and `-`: Storm
/// writes `energy0x4cocal` for `energyLocal`.
fn alias(description: &Value) -> Option<&str> {
    description["alias"].as_str().filter(|alias| !alias.is_empty())
}

/// The annotation name that Storm derives from this alias.
fn name_of(alias: &str) -> String {
    let plain = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    alias.chars().map(|c| if plain(&c) { c.to_string() } else { format!("0x{:x}", u32::from(c)) }).collect()
}

fn missing(file: &str) -> io::Error {
    invalid(format!("file {file} is missing"))
}

/// A reader that maps errors of `R` by `F`, to mark them as errors of the archive.
struct Broken<R, F>(R, F);

impl<R: Read, F: Fn(io::Error) -> io::Error> Read for Broken<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(&self.1)
    }
}

impl<T> File<T> {
    /// The numbers, after a check that the file held `count` of them.
    fn counted(self, file: &str, kind: &Type, count: usize) -> io::Result<Vec<T>> {
        let (found, size) = (self.bytes, kind.bytes());
        match count.checked_mul(size).is_some_and(|bytes| bytes as u64 == found) {
            true => Ok(self.numbers),
            false => Err(invalid(format!("{file} has {found} bytes, expected {count} numbers of {size} bytes"))),
        }
    }
}

/// Checks that offsets ascend from 0 to `end`.
fn ascending(file: &str, offsets: Vec<u64>, end: usize) -> io::Result<Vec<u64>> {
    match offsets.first() == Some(&0) && offsets.is_sorted() && offsets.last() == Some(&(end as u64)) {
        true => Ok(offsets),
        false => Err(invalid(format!("{file}: expected offsets that ascend from 0 to {end}"))),
    }
}

/// Decodes the numbers of a file of `size` bytes.
fn numbers<T: Element>(reader: &mut impl Read, kind: &Type, size: u64) -> io::Result<Vec<T>> {
    let count = usize::try_from(size).map_err(|_| invalid("is too large"))? / kind.bytes();
    let Type::Number(encoding) = *kind else {
        let [mut numerator, mut denominator] = [Vec::new(), Vec::new()];
        let (mut pair, mut found) = ([0; 16], Vec::new());
        for _ in 0..count {
            reader.read_exact(&mut pair)?;
            numerator.clear();
            denominator.clear();
            binary::decode::<f64>(&pair[..8], Encoding::little(Kind::Signed, 8), &mut numerator)?;
            binary::decode::<f64>(&pair[8..], Encoding::little(Kind::Unsigned, 8), &mut denominator)?;
            let number = numerator[0] / denominator[0];
            found.push(T::from_float(number).ok_or_else(|| invalid(format!("found {number}")))?);
        }
        return Ok(found);
    };
    binary::elements(reader, encoding, count)
}

/// Number type of a file.
enum Type {
    Number(Encoding),
    Rational,
}

const OFFSET: Type = Type::Number(Encoding::little(Kind::Unsigned, 8));

impl Type {
    fn parse(description: &Value) -> io::Result<Self> {
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
    if mdp.labels().contains_key("") {
        return Err(no_place("UMB has no place for the label \"\"".to_owned()));
    }
    let (states, p) = (mdp.states() as usize, mdp.transitions());
    let mut files: Vec<Member> = Vec::new();
    let bits = |members: &[u32]| {
        // umbi pads bit sets to whole 64-bit words.
        let mut bytes = vec![0u8; states.div_ceil(64) * 8];
        members.iter().for_each(|&state| bytes[state as usize / 8] |= 1 << (state % 8));
        bytes
    };
    let initial = mdp.labels().get(INITIAL).map_or(&[][..], Vec::as_slice);
    files.push(Member::owned("state-is-initial.bin", bits(initial)));
    let offsets = (0..=states).map(|state| mdp.choices().first(state) as u64);
    files.push(Member::numbers("state-to-choices.bin", states + 1, offsets));
    files.push(Member::stored("choice-to-branches.bin", bytemuck::cast_slice(p.row_ptr())));
    files.push(Member::numbers("branch-to-target.bin", p.nnz(), p.col().iter().map(|&target| target.into())));
    files.push(Member::stored("branch-to-probability.bin", bytemuck::cast_slice(p.val())));
    if let Some(ActionNames { names, of_row }) = mdp.action_names() {
        let ends = names.iter().scan(0, |end, name| {
            *end += name.len() as u64;
            Some(*end)
        });
        files.push(Member::stored("actions/choices/values.bin", bytemuck::cast_slice(of_row)));
        files.push(Member::owned("actions/choices/strings.bin", names.concat().into_bytes()));
        files.push(Member::numbers("actions/choices/string-mapping.bin", names.len() + 1, [0].into_iter().chain(ends)));
    }
    let double = json!({ "type": "double", "size": 64 });
    let mut annotations = serde_json::Map::new();
    let mut rewarded = Vec::new();
    let file = |part: &str| format!("annotations/rewards/{REWARD}/{part}/values.bin");
    if mdp.action_rewards().iter().any(|&reward| reward != 0.0) {
        files.push(Member::stored(&file("choices"), bytemuck::cast_slice(mdp.action_rewards())));
        rewarded.push("choices");
    }
    if mdp.rewards().val().iter().any(|&reward| reward != 0.0) {
        let rewards = (0..mdp.rows()).flat_map(|row| mdp.rewards_of(row)).map(f64::to_bits);
        files.push(Member::numbers(&file("branches"), p.nnz(), rewards));
        rewarded.push("branches");
    }
    if !rewarded.is_empty() {
        annotations.insert("rewards".into(), json!({ REWARD: { "applies-to": rewarded, "type": double } }));
    }
    let mut sets = serde_json::Map::new();
    for (label, members) in mdp.labels().iter().filter(|(label, _)| *label != INITIAL) {
        let mut name = name_of(label);
        while sets.contains_key(&name) {
            name.push('_');
        }
        files.push(Member::owned(&format!("annotations/aps/{name}/states/values.bin"), bits(members)));
        let mut set = json!({ "applies-to": ["states"], "type": { "type": "bool", "size": 1 } });
        if name != *label {
            set["alias"] = json!(label);
        }
        sets.insert(name, set);
    }
    if !sets.is_empty() {
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
            "#choice-actions": mdp.action_names().map_or(0, |names| names.names.len()),
            "#branches": p.nnz(),
            "#branch-actions": 0,
            "#observations": 0,
            "branch-probability-type": double,
        },
        "annotations": annotations,
    });

    let mut archive = tar::Builder::new(GzEncoder::new(out, Compression::fast()));
    let index = Member::owned(INDEX, serde_json::to_vec_pretty(&index)?);
    for Member { name, size, content } in [index].into_iter().chain(files) {
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, content)?;
    }
    archive.into_inner()?.finish().map(|_| ())
}

/// A file of the archive whose content is produced while it is written.
struct Member<'m> {
    name: String,
    /// In bytes.
    size: u64,
    content: Box<dyn Read + 'm>,
}

impl<'m> Member<'m> {
    /// A file of borrowed bytes.
    fn stored(name: &str, bytes: &'m [u8]) -> Self {
        Self { name: name.to_owned(), size: bytes.len() as u64, content: Box::new(bytes) }
    }

    fn owned(name: &str, bytes: Vec<u8>) -> Self {
        Self { name: name.to_owned(), size: bytes.len() as u64, content: Box::new(Cursor::new(bytes)) }
    }

    /// A file of `count` numbers of 64 bits each.
    fn numbers(name: &str, count: usize, numbers: impl Iterator<Item = u64> + 'm) -> Self {
        let content = Numbers { numbers, block: Cursor::default() };
        Self { name: name.to_owned(), size: 8 * count as u64, content: Box::new(content) }
    }
}

/// A reader of 64-bit numbers as little-endian bytes.
struct Numbers<I> {
    numbers: I,
    block: Cursor<Vec<u8>>,
}

impl<I: Iterator<Item = u64>> Read for Numbers<I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        /// Numbers per block.
        const BLOCK: usize = 1 << 12;
        if self.block.position() == self.block.get_ref().len() as u64 {
            self.block.set_position(0);
            let block = self.block.get_mut();
            block.clear();
            block.extend(self.numbers.by_ref().take(BLOCK).flat_map(u64::to_le_bytes));
        }
        self.block.read(buffer)
    }
}
