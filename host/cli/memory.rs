//! Out of memory: a message and exit code 3, in place of an abort.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Write, stderr};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The system's allocator; a failed allocation ends the process.
struct Exiting;

#[global_allocator]
static ALLOCATOR: Exiting = Exiting;

/// Least size in bytes of the allocations that [`LARGE`] counts.
const COUNTED: usize = 1 << 16;

/// Bytes in large allocations.
static LARGE: AtomicUsize = AtomicUsize::new(0);

/// Whether a thread is ending the process.
static ENDING: AtomicBool = AtomicBool::new(false);

// SAFETY: all calls are forwarded to `System` unchanged; the counting beside them does not allocate.
unsafe impl GlobalAlloc for Exiting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps `alloc`'s contract.
        taken(unsafe { System.alloc(layout) }, layout.size(), 0)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps `alloc_zeroed`'s contract.
        taken(unsafe { System.alloc_zeroed(layout) }, layout.size(), 0)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller keeps `dealloc`'s contract, and `memory` came from `System`.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps `realloc`'s contract, and `memory` came from `System`.
        taken(unsafe { System.realloc(memory, layout, size) }, size, layout.size())
    }
}

/// Counts an allocation of `size` bytes that replaces one of `before` bytes, or ends the process if it failed.
#[inline]
fn taken(memory: *mut u8, size: usize, before: usize) -> *mut u8 {
    if memory.is_null() {
        exhausted(size);
    }
    count(size, before);
    memory
}

#[inline]
fn count(size: usize, before: usize) {
    if size >= COUNTED {
        LARGE.fetch_add(size, Ordering::Relaxed);
    }
    if before >= COUNTED {
        LARGE.fetch_sub(before, Ordering::Relaxed);
    }
}

/// Prints the size of the failed allocation and ends the process.
#[cold]
fn exhausted(size: usize) -> ! {
    if ENDING.swap(true, Ordering::SeqCst) {
        // Another thread ends the process, or its end fails to allocate, too.
        thread::sleep(Duration::from_secs(1));
        process::abort();
    }
    let (size, used) = (size as f64 / 1e6, LARGE.load(Ordering::Relaxed) as f64 / 1e6);
    // Neither formatting nor the standard error allocates. A failed write cannot be reported.
    let _ = writeln!(
        stderr(),
        "error: out of memory: {size:.1} MB more were needed, beside {used:.1} MB in use. A smaller model, a machine with \
         more memory or a higher limit (ulimit -v) may help"
    );
    process::exit(3)
}
