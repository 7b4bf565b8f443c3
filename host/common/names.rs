//! Names of states, actions and observations.

/// The name of number `index`, or the number itself if it has no name.
#[must_use]
pub fn name(names: &[String], index: u32) -> String {
    names.get(index as usize).cloned().unwrap_or_else(|| index.to_string())
}
