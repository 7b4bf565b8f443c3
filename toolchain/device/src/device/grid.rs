//! Launches that overlap: a grid that begins before the one before it is done (*programmatic dependent launch*, from sm_90 on).
//!
//! Of many short launches, each of which needs what the last one made, much of the time is the end of one and the start of the next. A
//! launch with [`Shape::overlapping`](crate::launch::Shape::overlapping) starts as soon as all blocks of the one before have called
//! [`launch_dependents`] or are done: indices, and whatever nothing changes any more, can be loaded until then. Before it touches what
//! the launch before has written, or writes what that one reads, *every* thread calls [`wait`].
//!
//! Whoever calls [`launch_dependents`] after its own [`wait`] lets no grid begin before all but the last one are done. So a kernel may read
//! before it waits what launches before the last have written, and nothing else.
//!
//! Without such a launch, on older GPUs and under emulation both do nothing: launches come one after the other. The emulator cannot see
//! that something was read too early.

/// Waits until all launches before this one are done, and what they wrote is visible (`griddepcontrol.wait`).
#[inline(always)]
pub fn wait() {
    #[cfg(all(target_arch = "nvptx64", warpkov_sm = "90"))]
    // SAFETY: the instruction only waits. It is a barrier to the compiler, too, which may not move accesses across it.
    unsafe {
        core::arch::asm!("griddepcontrol.wait;", options(nostack, preserves_flags));
    }
}

/// Lets the next launch begin, once all blocks have said so or are done (`griddepcontrol.launch_dependents`).
#[inline(always)]
pub fn launch_dependents() {
    #[cfg(all(target_arch = "nvptx64", warpkov_sm = "90"))]
    // SAFETY: the instruction changes nothing that this grid sees.
    unsafe {
        core::arch::asm!("griddepcontrol.launch_dependents;", options(nostack, preserves_flags));
    }
}
