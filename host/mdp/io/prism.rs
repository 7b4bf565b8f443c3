//! The explicit files of the PRISM model checker, in PRISM's and in Storm's dialect.
//!
//! `model.tra` holds the transitions: `s choice s' p [action]` for an MDP, or `s s' p [action]` for a DTMC, which has
//! one choice per state. Optional files with the same stem lie beside it: state rewards `s r`, transition rewards
//! `s choice s' r`, labels, and the values of variables. Of the last, the reader checks only the number of states.
//!
//! | | PRISM | Storm |
//! | --- | --- | --- |
//! | first line of transitions | numbers of states, choices (MDP only) and transitions | `mdp` or `dtmc` |
//! | rewards | `.srew`, `.trew`, each with a first line of counts | `.state.rew`, `.trans.rew` |
//! | `.lab` | `0="init" 1="goal"`, then `3: 1` | `#DECLARATION`, names, `#END`, then `3 goal` |
//! | `.sta` | `(x,y)`, then `3:(0,1)` | |
//!
//! PRISM exports several reward structures as `model1.srew`, `model2.srew` and so on, each named by its first line. The
//! reader takes the first unless the caller names another. The format has no discount factor: γ = 1. A state without
//! transitions is terminal. Source: <https://www.prismmodelchecker.org/manual/Appendices/ExplicitModelFiles>.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::Error;
use super::rows::{Labels, RowsBuilder, name_of, state_reward, without_ends};
use crate::model::{Mdp, MdpParts};
use warpkov_common::io::BUFFER;
use warpkov_common::io::input::{self, Input, plain_name};
use warpkov_common::io::lines::{self, Line, Lines, Put, no_place, no_reward};
use warpkov_common::io::output::atomic_write;

/// The tool whose dialect the files have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Prism,
    Storm,
}

impl Dialect {
    /// File name extensions of state rewards and of transition rewards.
    fn rewards(self) -> [&'static str; 2] {
        match self {
            Self::Prism => ["srew", "trew"],
            Self::Storm => ["state.rew", "trans.rew"],
        }
    }
}

/// Content of the first line of the transitions.
struct Head {
    dialect: Dialect,
    /// Whether lines name choices: true for an MDP, false for a DTMC.
    choices: bool,
    /// PRISM's counts of states, choices and transitions.
    counts: Option<[u64; 3]>,
}

/// Reads a model without validation from the text of its transitions, which messages call `file`. The reader looks for
/// the other files beside `path`, compressed or not.
pub fn read(
    transitions_of: impl Read,
    path: Option<&Path>,
    file: String,
    reward: Option<&str>,
) -> Result<MdpParts, Error> {
    let mut lines = Lines::new(transitions_of, file);
    let head = head(&mut lines)?;
    let mut mdp = transitions(&mut lines, &head)?;
    let Some(path) = path.map(plain_name) else {
        return match reward {
            None => Ok(mdp),
            Some(name) => Err(no_reward(lines.file(), &[], name)),
        };
    };
    if let Some(mut lines) = open(&path.with_extension("lab"))? {
        mdp.labels = labels(&mut lines, mdp.states)?;
    }
    if let Some(mut lines) = open(&path.with_extension("sta"))? {
        variables(&mut lines, mdp.states)?;
    }
    let [states, transitions] = reward_files(&path, head.dialect, reward)?;
    if let Some(mut lines) = open(&states)? {
        mdp.action_rewards = state_rewards(&mut lines, &head, &mdp)?.into();
    }
    if let Some(mut lines) = open(&transitions)? {
        mdp.rewards = transition_rewards(&mut lines, &head, &mdp)?.into_matrix(mdp.states, &mdp.choices);
    }
    Ok(mdp)
}

/// The lines of a file, or `None` if the file does not exist.
fn open(path: &Path) -> Result<Option<Lines<Input<'static>>>, Error> {
    let Some(path) = input::find(path) else { return Ok(None) };
    let input = Input::open(&path).map_err(Error::read(&path))?;
    Ok(Some(Lines::new(input, path.display().to_string())))
}

fn head<R: Read>(lines: &mut Lines<R>) -> Result<Head, Error> {
    const EXPECTED: &str =
        "mdp or dtmc (Storm), or the numbers of states, of choices in an MDP, and of transitions (PRISM)";
    let Some(line) = lines.next()? else { return Err(lines.ended(EXPECTED)) };
    let mut words = line;
    match words.word() {
        b"mdp" => return Ok(Head { dialect: Dialect::Storm, choices: true, counts: None }),
        b"dtmc" => return Ok(Head { dialect: Dialect::Storm, choices: false, counts: None }),
        _ => words = line,
    }
    let mut counts = Vec::new();
    while !words.rest().is_empty() {
        let word = words.word();
        counts.push(words.integer(word, EXPECTED)?);
    }
    let (choices, counts) = match counts[..] {
        [states, transitions] => (false, [states, states, transitions]),
        [states, choices, transitions] => (true, [states, choices, transitions]),
        _ => return Err(line.unexpected(line.rest(), EXPECTED)),
    };
    Ok(Head { dialect: Dialect::Prism, choices, counts: Some(counts) })
}

fn transitions<R: Read>(lines: &mut Lines<R>, head: &Head) -> Result<MdpParts, Error> {
    let limit = head.counts.map_or(u32::MAX, |counts| counts[0].try_into().unwrap_or(u32::MAX));
    let (mut rows, mut states, mut count) = (RowsBuilder::default(), 0, 0);
    while let Some(mut line) = lines.next()? {
        let (state, choice, successor) = key(&mut line, head, limit)?;
        let prob = line.word();
        let prob = line.real(prob, "a probability")?;
        if rows.begin(state, choice) && !line.rest().is_empty() {
            let name = line;
            rows.named(name.utf8(line.word())?);
        } else {
            line.word();
        }
        line.finish()?;
        rows.entry(successor, prob, 0.0);
        states = states.max(state.max(successor) + 1);
        count += 1;
    }
    let content = |message| Error::Content { file: lines.file().to_owned(), message };
    if let Some([declared, _, transitions]) = head.counts {
        if count != transitions {
            return Err(content(format!("found {count} transitions, expected {transitions}, as line 1 says")));
        }
        states = limit;
        // Keeps a short file from requesting all of the memory.
        if declared > 2 * count + 1 {
            return Err(content(format!("found {declared} states in line 1, but only {count} transitions")));
        }
    } else if u64::from(states) > 2 * count + 1 {
        return Err(content(format!("found state {}, but only {count} transitions", states - 1)));
    }
    let mdp = rows.into_model(states).map_err(|gap| content(gap.to_string()))?;
    match head.counts {
        Some([_, choices, _]) if head.choices && mdp.transitions.rows() as u64 != choices => {
            Err(content(format!("found {} choices, expected {choices}, as line 1 says", mdp.transitions.rows())))
        }
        _ => Ok(mdp),
    }
}

/// Parses state, choice and successor, the first words of a line.
#[inline]
fn key(line: &mut Line<'_>, head: &Head, states: u32) -> Result<(u32, u32, u32), Error> {
    let state = line.word();
    let state = line.state(state, states)?;
    let choice = match head.choices {
        true => {
            let choice = line.word();
            line.integer(choice, "a choice")?
        }
        false => 0,
    };
    let successor = line.word();
    Ok((state, choice, line.state(successor, states)?))
}

/// Reads the labels in either dialect.
fn labels<R: Read>(lines: &mut Lines<R>, states: u32) -> Result<BTreeMap<String, Vec<u32>>, Error> {
    let Some(mut line) = lines.next()? else { return Ok(BTreeMap::new()) };
    let mut names = Vec::new();
    let storm = line.rest() == b"#DECLARATION";
    if storm {
        loop {
            let Some(mut line) = lines.next()? else { return Err(lines.ended("#END")) };
            if line.rest() == b"#END" {
                break;
            }
            while !line.rest().is_empty() {
                let name = line.word();
                names.push(line.utf8(name)?.to_owned());
            }
        }
    } else {
        const EXPECTED: &str = "#DECLARATION (Storm), or labels such as 0=\"init\" (PRISM)";
        while !line.rest().is_empty() {
            let (whole, number) = (line, line.field(b'='));
            if lines::integer(number) != Some(names.len() as u64) || !line.rest().starts_with(b"\"") {
                return Err(whole.unexpected(whole.rest(), EXPECTED));
            }
            line.skip(1);
            let name = line.field(b'"');
            names.push(line.utf8(name)?.to_owned());
            line.skip(0);
        }
    }
    let numbers: HashMap<&[u8], usize> = names.iter().map(String::as_bytes).zip(0..).collect();
    let mut members = vec![Vec::new(); names.len()];
    while let Some(mut line) = lines.next()? {
        let state = if storm { line.word() } else { line.field(b':') };
        let state = line.state(state, states)?;
        line.skip(0);
        while !line.rest().is_empty() {
            let word = line.word();
            let label = match storm {
                true => numbers.get(word).copied(),
                false => lines::integer(word).map(|label| label as usize).filter(|&label| label < names.len()),
            };
            let expected = if storm { "a label that is declared" } else { "the number of a label in line 1" };
            members[label.ok_or_else(|| line.unexpected(word, expected))?].push(state);
        }
    }
    for members in &mut members {
        members.sort_unstable();
        members.dedup();
    }
    Ok(names.into_iter().zip(members).collect())
}

/// Checks that the variables have values for exactly `states` states, in order.
fn variables<R: Read>(lines: &mut Lines<R>, states: u32) -> Result<(), Error> {
    let mut found = 0;
    lines.next()?;
    while let Some(mut line) = lines.next()? {
        let state = line.field(b':');
        if line.state(state, states)? != found {
            return Err(line.unexpected(state, format_args!("state {found}")));
        }
        found += 1;
    }
    if found == states { Ok(()) } else { Err(lines.ended(format_args!("state {found} of {states}"))) }
}

/// Paths of the state rewards and transition rewards of the reward structure named `reward`, or of the first one. The
/// files need not exist.
fn reward_files(path: &Path, dialect: Dialect, reward: Option<&str>) -> Result<[PathBuf; 2], Error> {
    let stem = path.file_stem().unwrap_or_default();
    let files = |number: &str| {
        dialect.rewards().map(|extension| {
            let mut name = stem.to_owned();
            name.push(format!("{number}.{extension}"));
            path.with_file_name(name)
        })
    };
    let mut candidates = vec![files("")];
    // Numbered files with transitions of their own belong to another model.
    let numbered = (1..).map(|number| number.to_string()).map(|number| files(&number));
    let exists = |file: &PathBuf| input::find(file).is_some();
    let numbered = numbered.take_while(|files| files.iter().any(exists));
    candidates.extend(numbered.filter(|[states, _]| !exists(&states.with_extension("tra"))));
    let Some(reward) = reward else {
        let first = candidates.iter().find(|files| files.iter().any(exists));
        return Ok(first.unwrap_or(&candidates[0]).clone());
    };
    let mut names = Vec::new();
    for files in candidates {
        for file in &files {
            let Some(mut lines) = open(file)? else { continue };
            let Some(mut line) = lines.next()?.filter(|line| line.rest().starts_with(b"#")) else { continue };
            line.field(b'"');
            let name = line.field(b'"');
            let name = line.utf8(name)?;
            if name == reward {
                return Ok(files);
            }
            names.push(name.to_owned());
        }
    }
    names.dedup();
    Err(no_reward(&path.display().to_string(), &names, reward))
}

/// Reads the lines of rewards. In PRISM's dialect, a first line holds `counts` and the number of rewards.
fn rewards<R: Read>(
    lines: &mut Lines<R>,
    head: &Head,
    counts: &[u64],
    mut read: impl FnMut(&mut Line<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut expected, mut found) = (None, 0u64);
    while let Some(mut line) = lines.next()? {
        if line.rest().starts_with(b"#") {
            continue;
        }
        if head.dialect == Dialect::Prism && expected.is_none() {
            for &count in counts {
                let word = line.word();
                if line.integer::<u64>(word, "a number")? != count {
                    return Err(line.unexpected(word, format_args!("{count}, as the transitions have")));
                }
            }
            let word = line.word();
            expected = Some(line.integer::<u64>(word, "the number of rewards")?);
        } else {
            read(&mut line)?;
            found += 1;
        }
        line.finish()?;
    }
    match expected {
        None if head.dialect == Dialect::Prism => Err(lines.ended("a line with numbers of states and rewards")),
        Some(expected) if expected != found => {
            let message = format!("found {found} rewards, expected {expected}, as the first line says");
            Err(Error::Content { file: lines.file().to_owned(), message })
        }
        _ => Ok(()),
    }
}

/// Action reward of each row: the reward of its state.
fn state_rewards<R: Read>(lines: &mut Lines<R>, head: &Head, mdp: &MdpParts) -> Result<Vec<f64>, Error> {
    let mut earned = vec![0.0; mdp.transitions.rows()];
    rewards(lines, head, &[mdp.states.into()], |line| {
        let state = line.word();
        let state = line.state(state, mdp.states)?;
        let reward = line.word();
        let value = line.real(reward, "a reward")?;
        let rows = mdp.choices.rows(state as usize);
        if rows.is_empty() && value != 0.0 {
            return Err(line.unexpected(reward, format_args!("0, as state {state} has no transitions")));
        }
        earned[rows].fill(value);
        Ok(())
    })?;
    Ok(earned)
}

fn transition_rewards<R: Read>(lines: &mut Lines<R>, head: &Head, mdp: &MdpParts) -> Result<RowsBuilder, Error> {
    let mut rows = RowsBuilder::default();
    let counts = [mdp.states.into(), mdp.transitions.rows() as u64];
    rewards(lines, head, if head.choices { &counts } else { &counts[..1] }, |line| {
        let (state, choice, successor) = key(line, head, mdp.states)?;
        let choices = mdp.choices.count(state as usize);
        if choice as usize >= choices {
            return Err(line.error(format!("found choice {choice} of state {state}, which has {choices}")));
        }
        let reward = line.word();
        let reward = line.real(reward, "a reward")?;
        rows.begin(state, choice);
        rows.entry(successor, reward, 0.0);
        Ok(())
    })?;
    Ok(rows)
}

/// The files beside the transitions that [`write()`] creates or removes.
pub fn beside(path: &Path, dialect: Dialect) -> impl Iterator<Item = PathBuf> {
    let [states, transitions] = dialect.rewards();
    [states, transitions, "lab", "sta"].into_iter().map(|extension| path.with_extension(extension))
}

/// Writes a model: transitions to `path`, rewards and labels, if any, beside it. Removes stale files of the same stem,
/// which a read would combine with this model.
pub fn write(path: &Path, mdp: &Mdp, dialect: Dialect) -> Result<(), Error> {
    let mdp = &*without_ends(mdp);
    check(mdp, dialect).map_err(Error::write(path))?;
    let rewards = Rewards::new(mdp);
    let [states, transitions] = dialect.rewards();
    let file = |extension: &str, content: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
        let path = path.with_extension(extension);
        let buffered = |out: &mut dyn Write| {
            let mut out = BufWriter::with_capacity(BUFFER, out);
            content(&mut out)?;
            out.flush()
        };
        atomic_write(&path, buffered).map_err(Error::write(&path))
    };
    let mut written = Vec::new();
    if !mdp.labels().is_empty() {
        file("lab", &|out| write_labels(out, mdp, dialect))?;
        written.push("lab");
    }
    if rewards.states > 0 {
        file(states, &|out| rewards.write_states(out, dialect))?;
        written.push(states);
    }
    if rewards.transitions > 0 {
        file(transitions, &|out| rewards.write_transitions(out, dialect))?;
        written.push(transitions);
    }
    for stale in [states, transitions, "lab", "sta"].iter().filter(|extension| !written.contains(extension)) {
        let path = path.with_extension(stale);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done.map_err(Error::write(&path))?,
        }
    }
    let name = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    file(name, &|out| write_transitions(out, mdp, dialect))
}

/// Checks, before any file is written, that the dialect can store all names.
fn check(mdp: &Mdp, dialect: Dialect) -> io::Result<()> {
    let wrong = |label: &&str| match dialect {
        Dialect::Prism => label.contains(['"', '\n', '\r']),
        Dialect::Storm => label.is_empty() || label.contains(char::is_whitespace),
    };
    if let Some(label) = Labels::new(mdp).names().find(wrong) {
        return Err(no_place(format!("there is no place for the label {label:?}")));
    }
    let mut names = (0..mdp.rows()).filter_map(|row| name_of(mdp, row));
    match names.find(|name| name.contains(char::is_whitespace)) {
        Some(name) => Err(no_place(format!("there is no place for white space in the action's name {name:?}"))),
        None => Ok(()),
    }
}

fn write_transitions(mut out: &mut dyn Write, mdp: &Mdp, dialect: Dialect) -> io::Result<()> {
    match dialect {
        Dialect::Prism => writeln!(out, "{} {} {}", mdp.states(), mdp.rows(), mdp.transitions().nnz())?,
        Dialect::Storm => out.text("mdp\n")?,
    }
    for state in 0..mdp.states() {
        for (choice, row) in mdp.choices().rows(state as usize).enumerate() {
            let name = name_of(mdp, row).unwrap_or_default();
            let (successors, probs) = mdp.transitions().row(row);
            for (&successor, &prob) in successors.iter().zip(probs) {
                write_entry(&mut out, state, choice, successor, prob)?;
                if !name.is_empty() {
                    out.text(" ")?;
                    out.text(name)?;
                }
                out.text("\n")?;
            }
        }
    }
    // Storm infers the number of states from the transitions, so the last state must occur in one.
    let last = mdp.states() - 1;
    if dialect == Dialect::Storm && mdp.choices().count(last as usize) == 0 && !mdp.transitions().col().contains(&last)
    {
        write_entry(&mut out, last, 0, last, 1.0)?;
        out.text("\n")?;
    }
    Ok(())
}

fn write_entry(out: &mut impl Write, state: u32, choice: usize, successor: u32, value: f64) -> io::Result<()> {
    for number in [u64::from(state), choice as u64, u64::from(successor)] {
        out.integer(number)?;
        out.text(" ")?;
    }
    out.real(value)
}

fn write_labels(out: &mut dyn Write, mdp: &Mdp, dialect: Dialect) -> io::Result<()> {
    let mut labels = Labels::new(mdp);
    match dialect {
        Dialect::Prism => {
            let names: Vec<_> = labels.names().enumerate().map(|(i, name)| format!("{i}=\"{name}\"")).collect();
            writeln!(out, "{}", names.join(" "))?;
        }
        Dialect::Storm => {
            writeln!(out, "#DECLARATION\n{}\n#END", labels.names().collect::<Vec<_>>().join(" "))?;
        }
    }
    for state in 0..mdp.states() {
        let mut first = true;
        for (number, name) in labels.next(state) {
            if std::mem::take(&mut first) {
                out.integer(state.into())?;
                out.text(if dialect == Dialect::Prism { ":" } else { "" })?;
            }
            match dialect {
                Dialect::Prism => write!(out, " {number}")?,
                Dialect::Storm => write!(out, " {name}")?,
            }
        }
        if !first {
            out.text("\n")?;
        }
    }
    Ok(())
}

/// The model's rewards, split into state rewards and transition rewards. A reward that all actions of a state share is
/// a state reward. Any other action reward is added to each transition of the action.
struct Rewards<'m> {
    mdp: &'m Mdp,
    /// Number of nonzero state rewards.
    states: usize,
    /// Number of nonzero transition rewards.
    transitions: usize,
}

impl<'m> Rewards<'m> {
    fn new(mdp: &'m Mdp) -> Self {
        let mut rewards = Self { mdp, states: 0, transitions: 0 };
        for state in 0..mdp.states() as usize {
            rewards.states += usize::from(state_reward(mdp, state) != 0.0);
            rewards.transitions += rewards.of_transitions(state).count();
        }
        rewards
    }

    /// Choice, successor and reward of each transition of a state whose reward is not 0.
    fn of_transitions(&self, state: usize) -> impl Iterator<Item = (usize, u32, f64)> {
        let (mdp, reward) = (self.mdp, state_reward(self.mdp, state));
        mdp.choices()
            .rows(state)
            .enumerate()
            .flat_map(move |(choice, row)| {
                let earned = mdp.action_reward(row) - reward;
                let rewards = mdp.rewards_of(row).map(move |reward| reward + earned);
                mdp.transitions()
                    .row(row)
                    .0
                    .iter()
                    .zip(rewards)
                    .map(move |(&successor, reward)| (choice, successor, reward))
            })
            .filter(|entry| entry.2 != 0.0)
    }

    fn write_states(&self, out: &mut dyn Write, dialect: Dialect) -> io::Result<()> {
        if dialect == Dialect::Prism {
            writeln!(out, "{} {}", self.mdp.states(), self.states)?;
        }
        for state in 0..self.mdp.states() {
            let reward = state_reward(self.mdp, state as usize);
            if reward != 0.0 {
                out.integer(state.into())?;
                out.text(" ")?;
                out.real(reward)?;
                out.text("\n")?;
            }
        }
        Ok(())
    }

    fn write_transitions(&self, mut out: &mut dyn Write, dialect: Dialect) -> io::Result<()> {
        if dialect == Dialect::Prism {
            writeln!(out, "{} {} {}", self.mdp.states(), self.mdp.rows(), self.transitions)?;
        }
        for state in 0..self.mdp.states() {
            for (choice, successor, reward) in self.of_transitions(state as usize) {
                write_entry(&mut out, state, choice, successor, reward)?;
                out.text("\n")?;
            }
        }
        Ok(())
    }
}
