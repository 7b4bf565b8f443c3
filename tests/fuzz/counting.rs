//! Counts the bytes of each thread, so that readers run in parallel.

use std::cell::Cell;

use crate::allocator::Counting;

thread_local! {
    /// Bytes that this thread has allocated and not freed, and their maximum so far.
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Runs `work` and returns its result, and the maximum of the bytes that this thread allocated in it.
pub fn peak<R>(work: impl FnOnce() -> R) -> (R, usize) {
    let before = NOW.get();
    PEAK.set(before);
    let result = work();
    (result, usize::try_from(PEAK.get() - before).unwrap_or_default())
}

fn add(bytes: usize) {
    // A thread that ends has no counters.
    let _ = NOW.try_with(|now| now.set(now.get() + bytes as isize));
    let _ = PEAK.try_with(|peak| peak.set(peak.get().max(NOW.try_with(Cell::get).unwrap_or_default())));
}

fn subtract(bytes: usize) {
    let _ = NOW.try_with(|now| now.set(now.get() - bytes as isize));
}

// The counters are constants at first and have no destructors, so that they allocate nothing.
#[global_allocator]
static ALLOCATOR: Counting = Counting { add, subtract };
