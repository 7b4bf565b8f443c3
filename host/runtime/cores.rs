//! The description of the CPU in reports: "16 CPU cores".

/// The number of threads in rayon's pool, as "16 CPU cores".
#[must_use]
pub fn all() -> String {
    text(rayon::current_num_threads())
}

/// `count`, as "1 CPU core" or "16 CPU cores".
#[must_use]
pub fn text(count: usize) -> String {
    format!("{count} CPU {}", if count == 1 { "core" } else { "cores" })
}
