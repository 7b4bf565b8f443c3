//! Variables of POMDPX, and functions of them: tables (`TBL`) and decision diagrams (`DD`).

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::fault::Fault;
use super::xml::{Element, Word};
use warpkov_common::parameters::SUM_TOLERANCE;

/// Maximum number of states.
pub const MAX_STATES: u64 = 1 << 24;
/// Maximum number of state-action pairs, of nonzeros of a matrix, and of entries of a function.
pub const MAX_ENTRIES: u64 = 1 << 28;
/// Maximum number of variables.
const MAX_VARIABLES: usize = 256;

/// A variable at one point in time.
pub struct Slot {
    pub name: String,
    pub values: Vec<String>,
}

/// All variables: actions, states before and after the transition, observations.
pub struct Variables {
    pub slots: Vec<Slot>,
    pub actions: Range<usize>,
    pub before: Range<usize>,
    pub after: Range<usize>,
    pub observed: Range<usize>,
    /// Fully observed state variables, after the transition.
    pub seen: Vec<usize>,
    by_name: HashMap<String, usize>,
}

impl Variables {
    pub fn read(root: &Element) -> Result<Self, Fault> {
        let list = root.required("Variable")?;
        let (mut before, mut after, mut actions, mut observed, mut seen) = Default::default();
        for variable in &list.children {
            let named = |name: &str| variable.required_attribute(name).map(str::to_owned);
            let slots: &mut Vec<Slot> = match &variable.name[..] {
                "StateVar" => {
                    let values = values(variable, 's')?;
                    if variable.attribute("fullyObs").is_some_and(|value| value == "true") {
                        let seen: &mut Vec<usize> = &mut seen;
                        seen.push(Vec::len(&after));
                    }
                    Vec::push(&mut before, Slot { name: named("vnamePrev")?, values: values.clone() });
                    Vec::push(&mut after, Slot { name: named("vnameCurr")?, values });
                    continue;
                }
                "ActionVar" => &mut actions,
                "ObsVar" => &mut observed,
                _ => continue,
            };
            let prefix = if variable.name == "ActionVar" { 'a' } else { 'o' };
            slots.push(Slot { name: named("vname")?, values: values(variable, prefix)? });
        }
        for (what, slots) in [("StateVar", &before), ("ActionVar", &actions)] {
            if slots.is_empty() {
                return Err(Fault::new(list.at, format!("<Variable> has no <{what}>")));
            }
        }
        let mut slots = Vec::new();
        let ranges = [actions, before, after, observed].map(|own: Vec<Slot>| {
            let first = slots.len();
            slots.extend(own);
            first..slots.len()
        });
        let [actions, before, after, observed] = ranges;
        if slots.len() > MAX_VARIABLES {
            return Err(Fault::new(list.at, format!("more than {MAX_VARIABLES} variables")));
        }
        let mut by_name = HashMap::new();
        for (i, slot) in slots.iter().enumerate() {
            if by_name.insert(slot.name.clone(), i).is_some() {
                return Err(Fault::new(list.at, format!("two variables have the name \"{}\"", slot.name)));
            }
        }
        let seen = seen.into_iter().map(|i| after.start + i).collect();
        Ok(Self { slots, actions, before, after, observed, seen, by_name })
    }

    /// Number of values of a variable.
    pub fn size(&self, slot: usize) -> usize {
        self.slots[slot].values.len()
    }

    /// The variables that `element` names; all must be in one of the ranges `allowed`.
    pub fn named(&self, element: &Element, allowed: &[&Range<usize>]) -> Result<Vec<usize>, Fault> {
        let words = element.words()?;
        if let [Word { text: "null", .. }] = words[..] {
            return Ok(Vec::new());
        }
        let named = |word: &Word| {
            let slot = self.by_name.get(word.text).copied();
            let slot = slot.filter(|slot| allowed.iter().any(|range| range.contains(slot)));
            slot.ok_or_else(|| word.unexpected("a variable that is allowed here"))
        };
        words.iter().map(named).collect()
    }

    /// The index of the value `name` of a variable.
    fn value(&self, slot: usize, name: &str) -> Option<usize> {
        self.slots[slot].values.iter().position(|value| value == name)
    }
}

/// The values of a variable.
fn values(variable: &Element, prefix: char) -> Result<Vec<String>, Fault> {
    if let Some(count) = variable.child("NumValues") {
        let word = count.word()?;
        let count: u32 = word.text.parse().unwrap_or(0);
        if !(1..=MAX_STATES).contains(&count.into()) {
            return Err(word.unexpected(&format!("a number from 1 to {MAX_STATES}")));
        }
        return Ok((0..count).map(|i| format!("{prefix}{i}")).collect());
    }
    let list = variable.required("ValueEnum")?;
    let values: Vec<String> = list.words()?.iter().map(|word| word.text.to_owned()).collect();
    if values.is_empty() {
        return Err(Fault::new(list.at, "<ValueEnum> is empty, expected names of values"));
    }
    Ok(values)
}

/// A function of some variables: a number per combination of their values, the last variable varying fastest.
pub struct Function {
    pub at: usize,
    pub slots: Vec<usize>,
    numbers: Vec<f64>,
}

impl Function {
    /// Reads the table, or the decision diagram, of `element` over `slots`. Later entries of a table override earlier ones; missing entries, and
    /// what no edge leads to, are 0.
    pub fn read(element: &Element, slots: Vec<usize>, variables: &Variables, leaf: &str) -> Result<Self, Fault> {
        let size = slots.iter().try_fold(1, |size: u64, &slot| size.checked_mul(variables.size(slot) as u64));
        let Some(size) = size.filter(|&size| size <= MAX_ENTRIES) else {
            return Err(Fault::new(element.at, format!("a table of more than {MAX_ENTRIES} entries")));
        };
        let mut table = Self { at: element.at, numbers: vec![0.0; size as usize], slots };
        let parameter = element.required("Parameter")?;
        match parameter.attribute("type").unwrap_or("TBL") {
            "TBL" => parameter.all("Entry").try_for_each(|entry| table.entry(entry, variables, leaf))?,
            "DD" => {
                let fixed = vec![None; table.slots.len()];
                Diagram { parameter, variables, table: &mut table, fixed }.fill(parameter.required("DAG")?)?;
            }
            kind => {
                let message = format!("a parameter of type \"{kind}\", expected \"TBL\" or \"DD\"");
                return Err(Fault::new(parameter.at, message));
            }
        }
        Ok(table)
    }

    fn entry(&mut self, entry: &Element, variables: &Variables, leaf: &str) -> Result<(), Fault> {
        let instance = entry.required("Instance")?;
        let words = instance.words()?;
        if words.len() != self.slots.len() {
            let (found, expected) = (words.len(), self.slots.len());
            return Err(Fault::new(instance.at, format!("<Instance> has {found} words, expected {expected}")));
        }
        let numbers = entry.required(leaf)?;
        let mut given = numbers.words()?;
        let mut axes = Vec::new();
        let (mut stride, mut step) = (1, 1);
        let mut first = 0;
        let mut listed = Vec::new();
        for (&slot, word) in self.slots.iter().zip(&words).rev() {
            let size = variables.size(slot);
            match word.text {
                "*" => axes.push((size, stride, 0)),
                "-" => {
                    axes.push((size, stride, step));
                    step *= size;
                    listed.push(size);
                }
                name => {
                    let value = variables.value(slot, name).ok_or_else(|| {
                        word.unexpected(&format!("a value of {}, `*` or `-`", variables.slots[slot].name))
                    })?;
                    first += value * stride;
                }
            }
            stride *= size;
        }
        let mut parsed = Vec::new();
        match (&given[..], &listed[..]) {
            ([Word { text: "uniform", .. }], [size, ..]) => parsed = vec![1.0 / *size as f64; step],
            ([Word { text: "identity", .. }], &[columns, rows]) if rows == columns => {
                parsed = (0..step).map(|i| f64::from(u8::from(i % columns == i / columns))).collect();
            }
            _ if given.len() != step => {
                let (name, found) = (&numbers.name, given.len());
                return Err(Fault::new(numbers.at, format!("<{name}> has {found} numbers, expected {step}")));
            }
            _ => {
                for word in given.drain(..) {
                    parsed.push(word.real()?);
                }
            }
        }
        self.spread(first, &axes, &parsed);
        Ok(())
    }

    /// Sets the entries of all combinations along some axes, from entry `first` on. An axis has a number of values, a stride in the table, and one
    /// among the `numbers`.
    fn spread(&mut self, first: usize, axes: &[(usize, usize, usize)], numbers: &[f64]) {
        // The innermost axis fastest.
        let mut counters = vec![0; axes.len()];
        let (mut target, mut source) = (first, 0);
        loop {
            self.numbers[target] = numbers[source];
            let mut axis = 0;
            loop {
                let Some(&(size, stride, step)) = axes.get(axis) else { return };
                counters[axis] += 1;
                if counters[axis] < size {
                    (target, source) = (target + stride, source + step);
                    break;
                }
                (target, source) = (target - (size - 1) * stride, source - (size - 1) * step);
                counters[axis] = 0;
                axis += 1;
            }
        }
    }

    fn index(&self, slots: &[usize], values: &[usize], variables: &Variables) -> usize {
        slots.iter().fold(0, |index, &slot| index * variables.size(slot) + values[slot])
    }

    /// The entry for these values of all variables.
    pub fn number(&self, values: &[usize], variables: &Variables) -> f64 {
        self.numbers[self.index(&self.slots, values, variables)]
    }

    /// The last variable.
    pub fn target(&self) -> usize {
        self.slots[self.slots.len() - 1]
    }

    /// The conditional distribution of the last variable.
    pub fn distribution(&self, values: &[usize], variables: &Variables) -> Result<&[f64], Fault> {
        let size = variables.size(self.target());
        let parents = &self.slots[..self.slots.len() - 1];
        let first = self.index(parents, values, variables) * size;
        let distribution = &self.numbers[first..first + size];
        let sum: f64 = distribution.iter().sum();
        if (sum - 1.0).abs() <= SUM_TOLERANCE
            && distribution.iter().all(|prob| (0.0..=1.0 + SUM_TOLERANCE).contains(prob))
        {
            return Ok(distribution);
        }
        let name = |slot: usize| &variables.slots[slot].name;
        let given: Vec<String> = parents
            .iter()
            .map(|&slot| format!("{} = {}", name(slot), variables.slots[slot].values[values[slot]]))
            .collect();
        let given = if given.is_empty() { String::new() } else { format!(" given {}", given.join(", ")) };
        Err(Fault::new(
            self.at,
            format!("the probabilities of {}{given} are {distribution:?}, expected a sum of 1", name(self.target())),
        ))
    }
}

/// A decision diagram: a graph of nodes, each of which branches on a variable, down to numbers.
struct Diagram<'e, 't> {
    parameter: &'e Element<'t>,
    variables: &'e Variables,
    table: &'e mut Function,
    /// The value of each variable of the table on the path to here.
    fixed: Vec<Option<usize>>,
}

impl<'e, 't> Diagram<'e, 't> {
    /// Sets all entries on the path to what is inside `parent`.
    fn fill(&mut self, parent: &'e Element<'t>) -> Result<(), Fault> {
        let [part] = &parent.children[..] else {
            let (name, found) = (&parent.name, parent.children.len());
            let message = format!("<{name}> has {found} elements, expected a <Node>, a <Terminal> or a <SubDAG>");
            return Err(Fault::new(parent.at, message));
        };
        match &part.name[..] {
            "Terminal" => {
                let number = part.word()?.real()?;
                self.set(number);
                Ok(())
            }
            "Node" => self.node(part),
            "SubDAG" => self.shorthand(part),
            name => Err(Fault::new(part.at, format!("found <{name}>, expected a <Node>, a <Terminal> or a <SubDAG>"))),
        }
    }

    fn node(&mut self, node: &'e Element<'t>) -> Result<(), Fault> {
        let place = self.free(node)?;
        let mut given = HashSet::new();
        for edge in node.all("Edge") {
            let value = self.value(edge, place)?;
            if !given.insert(value) {
                return Err(Fault::new(edge.at, "a second edge of this value"));
            }
            self.fixed[place] = Some(value);
            self.fill(edge)?;
        }
        self.fixed[place] = None;
        Ok(())
    }

    /// A part that is named instead of drawn.
    fn shorthand(&mut self, part: &'e Element<'t>) -> Result<(), Fault> {
        match part.required_attribute("type")? {
            "uniform" => {
                let place = self.free(part)?;
                self.set(1.0 / self.variables.size(self.table.slots[place]) as f64);
            }
            "deterministic" => {
                let place = self.free(part)?;
                self.fixed[place] = Some(self.value(part, place)?);
                self.set(1.0);
                self.fixed[place] = None;
            }
            "persistent" => self.persist(part)?,
            "template" => {
                let name = part.required_attribute("idref")?;
                let mut templates = self.parameter.all("SubDAGTemplate");
                let found = templates.find(|template| template.attribute("id") == Some(name));
                let missing = || Fault::new(part.at, format!("no <SubDAGTemplate> has the id \"{name}\""));
                // A node takes a variable, so templates that refer to each other end.
                self.node(found.ok_or_else(missing)?.required("Node")?)?;
            }
            kind => {
                let expected = "\"deterministic\", \"persistent\", \"uniform\" or \"template\"";
                return Err(Fault::new(part.at, format!("a <SubDAG> of type \"{kind}\", expected {expected}")));
            }
        }
        Ok(())
    }

    /// The state variable keeps the value that it had before.
    fn persist(&mut self, part: &Element) -> Result<(), Fault> {
        let Variables { before, after, .. } = self.variables;
        let place = self.free(part)?;
        let slot = self.table.slots[place];
        let earlier = after.contains(&slot).then(|| slot - after.start + before.start);
        let earlier = earlier.and_then(|slot| self.table.slots.iter().position(|other| *other == slot));
        let Some(earlier) = earlier else {
            let message = "only a state variable whose previous value is among the parents can be persistent";
            return Err(Fault::new(part.at, message));
        };
        let known = self.fixed[earlier];
        for value in 0..self.variables.size(slot) {
            if known.is_none_or(|known| known == value) {
                (self.fixed[earlier], self.fixed[place]) = (Some(value), Some(value));
                self.set(1.0);
            }
        }
        (self.fixed[earlier], self.fixed[place]) = (known, None);
        Ok(())
    }

    /// Sets all entries on the path to a number.
    fn set(&mut self, number: f64) {
        let (mut first, mut stride, mut axes) = (0, 1, Vec::new());
        for (&slot, value) in self.table.slots.iter().zip(&self.fixed).rev() {
            let size = self.variables.size(slot);
            match value {
                Some(value) => first += value * stride,
                None => axes.push((size, stride, 0)),
            }
            stride *= size;
        }
        self.table.spread(first, &axes, &[number]);
    }

    /// The place in the table of the variable of `part`, which the path has not taken.
    fn free(&self, part: &Element) -> Result<usize, Fault> {
        let name = part.required_attribute("var")?;
        let slot = self.variables.by_name.get(name);
        let place = slot.and_then(|slot| self.table.slots.iter().position(|other| other == slot));
        match place {
            None => Err(Fault::new(part.at, format!("{name} is neither <Var> nor a <Parent>"))),
            Some(place) if self.fixed[place].is_some() => {
                Err(Fault::new(part.at, format!("a path meets {name} twice")))
            }
            Some(place) => Ok(place),
        }
    }

    /// The value `val` of the variable at a place in the table.
    fn value(&self, part: &Element, place: usize) -> Result<usize, Fault> {
        let (name, slot) = (part.required_attribute("val")?, self.table.slots[place]);
        let of = &self.variables.slots[slot].name;
        self.variables.value(slot, name).ok_or_else(|| Fault::new(part.at, format!("\"{name}\" is no value of {of}")))
    }
}
