//! The cores of the CPU, in words.

/// All cores.
#[must_use]
pub fn all() -> String {
    of(rayon::current_num_threads())
}

/// So many cores.
#[must_use]
pub fn of(count: usize) -> String {
    format!("{count} CPU {}", if count == 1 { "core" } else { "cores" })
}
