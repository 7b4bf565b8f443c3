//! Names of states, actions and observations.

/// The name of number `index`, or the number itself if it has no name.
#[must_use]
pub fn name(names: &[String], index: u32) -> String {
    names.get(index as usize).cloned().unwrap_or_else(|| index.to_string())
}

/// The number that `text` stands for: that of a name, or else a number below `count`.
#[must_use]
pub fn index(text: &str, names: &[String], count: u32) -> Option<u32> {
    let text = text.trim();
    let named = names.iter().position(|name| name == text).and_then(|index| u32::try_from(index).ok());
    named.or_else(|| text.parse().ok().filter(|index| *index < count))
}
