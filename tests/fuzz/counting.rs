//! A global allocator that counts the bytes of each thread, so that readers run in parallel.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

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

struct Counting;

fn add(bytes: usize) {
    // A thread that ends has no counters.
    let _ = NOW.try_with(|now| now.set(now.get() + bytes as isize));
    let _ = PEAK.try_with(|peak| peak.set(peak.get().max(NOW.try_with(Cell::get).unwrap_or_default())));
}

fn subtract(bytes: usize) {
    let _ = NOW.try_with(|now| now.set(now.get() - bytes as isize));
}

// SAFETY: everything is passed on to the system's allocator. The counters are constants at first and have no destructors, so that they
// allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        subtract(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Counts both blocks, as if the contents were copied.
        add(size);
        subtract(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
