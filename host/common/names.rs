//! Names of states, actions and observations.

/// What number `index` is called, or the number where it has no name.
#[must_use]
pub fn name(names: &[String], index: u32) -> String {
    names.get(index as usize).cloned().unwrap_or_else(|| index.to_string())
}
