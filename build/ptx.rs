//! Reading PTX: as much of it as the build needs to know.

/// A kernel's entry point.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its name.
    pub name: &'a str,
    /// The sizes of its parameters, in bytes.
    pub params: Vec<usize>,
    /// Its instructions and labels, one per line, with their line numbers in the file (from 1).
    pub body: Vec<(usize, &'a str)>,
}

/// All entry points, in the order of the file.
///
/// # Errors
/// A parameter of a type that no kernel here has.
pub fn entries(text: &str) -> Result<Vec<Entry<'_>>, String> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let mut inside = Part::Outside;
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        match inside {
            Part::Outside => {
                if let Some(rest) = line.strip_prefix(".visible .entry ").or_else(|| line.strip_prefix(".entry ")) {
                    let name = rest.split(['(', ' ']).next().unwrap_or_default();
                    entries.push(Entry { name, params: Vec::new(), body: Vec::new() });
                    inside = Part::Signature;
                }
            }
            Part::Signature => {
                if line.starts_with(".param") {
                    let size = line.split_whitespace().nth(1).and_then(size_of_type);
                    let size = size.ok_or_else(|| format!("line {number}: a parameter of unknown size: {line}"))?;
                    entries.last_mut().into_iter().for_each(|entry| entry.params.push(size));
                } else if line == "{" {
                    inside = Part::Body;
                }
            }
            Part::Body => {
                if line == "}" {
                    inside = Part::Outside;
                } else if !line.is_empty() && !line.starts_with("//") {
                    entries.last_mut().into_iter().for_each(|entry| entry.body.push((number, line)));
                }
            }
        }
    }
    Ok(entries)
}

enum Part {
    Outside,
    Signature,
    Body,
}

/// 8 for `.u64`.
fn size_of_type(ty: &str) -> Option<usize> {
    let bits: usize = ty.strip_prefix(['.'])?.strip_prefix(['u', 's', 'b', 'f'])?.parse().ok()?;
    Some(bits / 8)
}
