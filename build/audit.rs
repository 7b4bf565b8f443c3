//! What device code must not contain, and what it must.

use crate::compile::Target;
use crate::ptx::Entry;

/// Everything that is wrong with the PTX, each in one line.
#[must_use]
pub fn audit(text: &str, entries: &[Entry<'_>], target: &Target, expected: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    let has = |line: &str| text.lines().any(|other| other.trim() == line);
    let (major, minor) = target.ptx;
    for directive in [format!(".version {major}.{minor}"), format!(".target sm_{}", target.sm)] {
        if !has(&directive) {
            faults.push(format!("it does not say {directive}"));
        }
    }
    for line in text.lines().map(str::trim) {
        if line.starts_with(".extern .func") {
            faults.push(format!("an unresolved function: {line}"));
        }
        if line.starts_with("call") && line.contains("panic") {
            faults.push(format!("a call of a panic function: {line}"));
        }
    }
    let mut found: Vec<&str> = entries.iter().map(|entry| entry.name).collect();
    found.sort_unstable();
    for name in expected.iter().filter(|name| found.binary_search(&name.as_str()).is_err()) {
        faults.push(format!("the kernel {name} is missing"));
    }
    for name in found.iter().filter(|name| !expected.iter().any(|expected| expected == *name)) {
        faults.push(format!("no #[kernel] declares the entry {name}"));
    }
    let mut shared: Vec<&str> = text.lines().filter_map(shared_symbol).collect();
    shared.sort_unstable();
    for pair in shared.windows(2).filter(|pair| pair[0] == pair[1]) {
        faults.push(format!("two shared arrays are called {}", pair[0]));
    }
    faults
}

/// `tile_3_7` of `.shared .align 16 .b8 tile_3_7[256];`.
fn shared_symbol(line: &str) -> Option<&str> {
    let rest = line.trim().strip_prefix(".shared ")?;
    rest.split_whitespace().last()?.split('[').next()
}
