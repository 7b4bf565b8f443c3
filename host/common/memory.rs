//! The memory of the process, as the system sees it.

/// Makes large allocations return to the system as soon as they are freed, and grow without copies: glibc otherwise takes more
/// and more of them from its heap.
pub fn keep_tight() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const M_MMAP_THRESHOLD: i32 = -3;
        const BYTES: i32 = 128 << 10;
        // SAFETY: glibc permits calls of mallopt at any time; the threshold is within its range.
        unsafe { glibc::mallopt(M_MMAP_THRESHOLD, BYTES) };
    }
}

/// Returns freed memory to the system.
pub fn release() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim is safe for threads, and frees no memory in use.
    unsafe {
        glibc::malloc_trim(0)
    };
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    unsafe extern "C" {
        pub fn mallopt(parameter: i32, value: i32) -> i32;
        pub fn malloc_trim(pad: usize) -> i32;
    }
}
