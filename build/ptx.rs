//! Reads what this build needs to know from the text of a PTX module.

/// A PTX module.
pub struct Module<'a> {
    /// What `.version` says.
    pub version: &'a str,
    /// What `.target` says.
    pub target: &'a str,
    /// The kernels, by name.
    pub entries: Vec<Entry<'a>>,
}

/// A kernel's entry point.
pub struct Entry<'a> {
    /// Its name.
    pub name: &'a str,
    /// The sizes of its parameters, in bytes.
    pub params: Vec<usize>,
    /// Its instructions, labels and declarations, each with its line in the file, counted from 1.
    pub body: Vec<(usize, &'a str)>,
}

/// Reads a module as LLVM writes it: one statement a line, the entries one after another.
pub fn parse(text: &str) -> Result<Module<'_>, String> {
    let mut module = Module { version: "", target: "", entries: Vec::new() };
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, code(line)));
    while let Some((number, line)) = lines.next() {
        if let Some(version) = line.strip_prefix(".version ") {
            module.version = version;
        } else if let Some(target) = line.strip_prefix(".target ") {
            module.target = target.split(',').next().unwrap_or(target);
        } else if let Some((_, rest)) = line.split_once(".entry ") {
            let name = rest.split('(').next().unwrap_or(rest).trim();
            let mut entry = Entry { name, params: Vec::new(), body: Vec::new() };
            // The signature, up to the body's brace.
            for (number, line) in lines.by_ref().take_while(|(_, line)| !line.starts_with('{')) {
                if line.starts_with(".param") {
                    entry.params.push(size(line).ok_or_else(|| format!("line {number}: what size is `{line}`?"))?);
                }
            }
            // Inline assembly has braces of its own.
            let mut depth = 1;
            for (number, line) in lines.by_ref() {
                depth += line.matches('{').count();
                depth -= line.matches('}').count().min(depth);
                if depth == 0 {
                    break;
                }
                if !line.is_empty() {
                    entry.body.push((number, line));
                }
            }
            if depth > 0 {
                return Err(format!("line {number}: the entry {name} does not end"));
            }
            module.entries.push(entry);
        }
    }
    module.entries.sort_by_key(|entry| entry.name);
    Ok(module)
}

/// A line without its comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or(line).trim()
}

/// The size of what a line declares: `.param .u64 .ptr .align 1 name` has 8 bytes, `.param .b8 name[12]` has 12.
fn size(line: &str) -> Option<usize> {
    let bits: usize = line.split_whitespace().nth(1)?.get(2..)?.parse().ok()?;
    let count = line.split_once('[').map_or(Some(1), |(_, rest)| rest.split(']').next()?.parse().ok())?;
    Some(bits / 8 * count)
}
