//! Counts the allocated bytes.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::allocator::Counting;

/// Bytes allocated at present, and their maximum so far.
pub static NOW: AtomicUsize = AtomicUsize::new(0);
pub static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Calls of the allocator so far, and the bytes of all of them.
pub static CALLS: AtomicUsize = AtomicUsize::new(0);
pub static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

static ALONE: Mutex<()> = Mutex::new(());

/// A test holds this while it counts, so that it counts its own allocations alone.
pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add(bytes: usize) {
    CALLS.fetch_add(1, Relaxed);
    ALLOCATED.fetch_add(bytes, Relaxed);
    PEAK.fetch_max(NOW.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

fn subtract(bytes: usize) {
    NOW.fetch_sub(bytes, Relaxed);
}

#[global_allocator]
static ALLOCATOR: Counting = Counting { add, subtract };
