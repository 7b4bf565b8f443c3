//! Reads what a build needs to know from the text of a PTX module, links it, and takes it apart.

use std::collections::{BTreeMap, BTreeSet};

/// A PTX module.
#[derive(Default)]
pub struct Module<'a> {
    /// What `.version` says.
    pub version: &'a str,
    /// What `.target` says.
    pub target: &'a str,
    /// The kernels, by name.
    pub entries: Vec<Entry<'a>>,
    /// The lines that every module begins with.
    header: Vec<&'a str>,
    /// Variables, functions and kernels, in the order of the text.
    items: Vec<Item<'a>>,
    /// Those of each name that kernels refer to: a function may be declared before it is there.
    by_name: BTreeMap<&'a str, Vec<usize>>,
}

/// A kernel's entry point.
pub struct Entry<'a> {
    /// Its name.
    pub name: &'a str,
    /// The sizes of its parameters, in bytes.
    pub params: Vec<usize>,
    /// Its instructions, labels and declarations, each with its line in the file, counted from 1.
    pub body: Vec<(usize, &'a str)>,
    /// Where it is among the items.
    at: usize,
}

/// What stands at a module's top level.
struct Item<'a> {
    text: &'a str,
    /// The number of its first line, from 1.
    line: usize,
}

/// Reads a module as LLVM writes it: one statement a line, the items one after another.
pub fn parse(text: &str) -> Result<Module<'_>, String> {
    let mut module = Module::default();
    // Where the item that is being read starts, its first line, whether it is a function, and how many brackets are open.
    let mut open: Option<(usize, usize, bool)> = None;
    let (mut depth, mut end) = (0_usize, 0);
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        let (start, line) = (end, code(raw));
        end += raw.len();
        if line.is_empty() {
            continue;
        }
        if open.is_none() {
            match line.split_whitespace().next() {
                Some(".version") => module.version = rest(line),
                Some(".target") => module.target = rest(line).split(',').next().unwrap_or_default(),
                Some(".address_size") => {}
                _ => open = Some((start, index + 1, false)),
            }
        }
        let Some((start, first, function)) = &mut open else {
            module.header.push(line);
            continue;
        };
        *function |= line.split_whitespace().any(|word| matches!(word, ".entry" | ".func"));
        // Inline assembly has braces of its own.
        depth += line.matches(['{', '(']).count();
        depth -= line.matches(['}', ')']).count().min(depth);
        if depth == 0 && (line.ends_with(';') || *function && line.ends_with('}')) {
            module.add(Item { text: &text[*start..end], line: *first })?;
            open = None;
        }
    }
    if let Some((_, first, _)) = open {
        return Err(format!("line {first}: what begins here does not end"));
    }
    module.entries.sort_by_key(|entry| entry.name);
    Ok(module)
}

/// The module `text` with what it refers to and does not hold, where `library` holds it.
///
/// Functions are inlined from one crate into another, but the shared memory that they use is declared in the PTX of their own
/// crate alone. This is as `ld` does it, on text: one library, only what is needed.
///
/// # Errors
/// One of the modules cannot be read.
pub fn link(text: &str, library: &str) -> Result<String, String> {
    let (module, library) = (parse(text)?, parse(library)?);
    let defines = |items: &[Item<'_>], at: &[usize]| at.iter().any(|&at| items[at].is_definition());
    let here = |name: &str| module.by_name.get(name).is_some_and(|at| defines(&module.items, at));
    let there = |name: &str| library.by_name.get(name).filter(|at| defines(&library.items, at));
    let (mut needed, mut names) = (BTreeSet::new(), BTreeSet::new());
    let mut open: Vec<&str> = module.items.iter().map(|item| item.text).collect();
    while let Some(text) = open.pop() {
        for word in words(text).filter(|word| !here(word)) {
            for &at in there(word).into_iter().flatten() {
                names.insert(word);
                if needed.insert(at) {
                    open.push(library.items[at].text);
                }
            }
        }
    }
    let header = module.header.iter().flat_map(|line| [line, "\n"]);
    let linked = needed.iter().map(|&at| library.items[at].text);
    // What was only declared is defined now.
    let declared: BTreeSet<usize> =
        names.iter().filter_map(|name| module.by_name.get(name)).flatten().copied().collect();
    let own = module.items.iter().enumerate().filter(|(at, _)| !declared.contains(at)).map(|(_, item)| item.text);
    Ok(header.chain(linked).chain(own).collect())
}

impl<'a> Module<'a> {
    fn add(&mut self, item: Item<'a>) -> Result<(), String> {
        let at = self.items.len();
        let first = item.lines().map(|(_, line)| line).find(|line| !line.is_empty()).unwrap_or_default();
        if first.split_whitespace().any(|word| word == ".entry") {
            self.entries.push(item.entry(at)?);
        } else {
            let name = declared(first).ok_or_else(|| format!("line {}: what does `{first}` declare?", item.line))?;
            self.by_name.entry(name).or_default().push(at);
        }
        self.items.push(item);
        Ok(())
    }

    /// A module of one kernel: the kernel, and the variables and functions that it needs.
    pub fn alone(&self, entry: &Entry<'_>) -> String {
        let lines = self.header.iter().flat_map(|line| [line, "\n"]);
        lines.chain(self.needs(entry).iter().map(|&at| self.items[at].text)).collect()
    }

    /// The items that a kernel is made of, itself among them.
    fn needs(&self, entry: &Entry<'_>) -> BTreeSet<usize> {
        let (mut needed, mut open) = (BTreeSet::from([entry.at]), vec![entry.at]);
        while let Some(at) = open.pop() {
            for word in words(self.items[at].text) {
                let named = self.by_name.get(word).into_iter().flatten().copied();
                open.extend(named.filter(|&other| needed.insert(other)));
            }
        }
        needed
    }

    /// Variables in global memory that several kernels may write to see each other's values, with two of these kernels. A
    /// variable without a first value is no constant.
    pub fn shared_variables(&self) -> Vec<(&'a str, [&'a str; 2])> {
        let mut users: BTreeMap<usize, Vec<&'a str>> = BTreeMap::new();
        for entry in &self.entries {
            for at in self.needs(entry) {
                users.entry(at).or_default().push(entry.name);
            }
        }
        let variables = self.by_name.iter().flat_map(|(name, items)| items.iter().map(move |at| (*name, at)));
        let shared = variables.filter_map(|(name, at)| {
            let text = self.items[*at].text;
            let variable = words(text).any(|word| word == ".global") && !text.contains('=') && !text.contains(".func");
            match users.get(at).map(Vec::as_slice) {
                Some([one, other, ..]) if variable => Some((name, [*one, *other])),
                _ => None,
            }
        });
        shared.collect()
    }
}

impl<'a> Item<'a> {
    /// Whether it is more than a declaration. Dynamic shared memory is never more than `.extern`, and nobody else has it.
    fn is_definition(&self) -> bool {
        let function = words(self.text).any(|word| word == ".func");
        let external =
            words(self.text).any(|word| word == ".extern") && !words(self.text).any(|word| word == ".shared");
        if function { self.text.contains('{') } else { !external }
    }

    /// Its lines without comments, each with its number.
    fn lines(&self) -> impl Iterator<Item = (usize, &'a str)> + use<'a> {
        let first = self.line;
        self.text.lines().enumerate().map(move |(index, line)| (first + index, code(line)))
    }

    fn entry(&self, at: usize) -> Result<Entry<'a>, String> {
        let mut lines = self.lines().filter(|(_, line)| !line.is_empty());
        let name = lines.next().and_then(|(_, line)| Some(line.split_once(".entry")?.1.split('(').next()?.trim()));
        let name = name.unwrap_or_default();
        let mut entry = Entry { name, params: Vec::new(), body: Vec::new(), at };
        // The signature, up to the body's brace.
        for (number, line) in lines.by_ref().take_while(|(_, line)| !line.starts_with('{')) {
            if line.starts_with(".param") {
                entry.params.push(size(line).ok_or_else(|| format!("line {number}: what size is `{line}`?"))?);
            }
        }
        entry.body = lines.collect();
        // The brace at the end.
        entry.body.pop();
        Ok(entry)
    }
}

/// What follows a directive on its line.
fn rest(line: &str) -> &str {
    line.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim())
}

/// A line without its comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or(line).trim()
}

/// The name in the first line of a variable, `.shared .align 16 .b8 name[256];`, or of a function, `.func (result) name(`.
fn declared(line: &str) -> Option<&str> {
    let text = match line.split_once(".func") {
        Some((_, function)) => match function.trim_start().strip_prefix('(') {
            Some(results) => results.split_once(')')?.1,
            None => function,
        },
        None => line.split(['=', '[', ';']).next()?.split_whitespace().next_back()?,
    };
    let name = text.trim().split(['(', ';', ' ', '\t']).next()?;
    (!name.is_empty() && !name.starts_with('.')).then_some(name)
}

/// The words of a text that may be names, and directives.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "_$%.".contains(c)))
}

/// The size of what a line declares: `.param .u64 .ptr .align 1 name` has 8 bytes, `.param .b8 name[12]` has 12.
fn size(line: &str) -> Option<usize> {
    let bits: usize = line.split_whitespace().nth(1)?.get(2..)?.parse().ok()?;
    let count = line.split_once('[').map_or(Some(1), |(_, rest)| rest.split(']').next()?.parse().ok())?;
    Some(bits / 8 * count)
}
