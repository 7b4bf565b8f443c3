//! Asynchronous copies from global to shared memory (`cp.async`): the data go there without a register in between, while
//! the thread does other things.
//!
//! A thread asks for copies, closes a group of them with [`commit`], and has [`wait`] tell that its older groups are there.
//! What other threads copied is there for it after the next [barrier](super::thread::sync_threads). Under emulation a copy
//! is done at once.

use super::{Global, Plain, Shared};

impl Shared<u32> {
    /// Asks for a copy of 16 bytes, from byte 16·`source` of `from` on, to the words `index … index + 3` here.
    ///
    /// *Safety*: `index` is a multiple of 4.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn copy16<T: Plain>(self, index: u32, from: Global<T>, source: usize) {
        target! {
            nvptx => {
                let (to, from) = (self.address(index), from.address16(source));
                // SAFETY: both ranges are in bounds and aligned to 16 bytes, as the launch promises.
                unsafe {
                    core::arch::asm!("cp.async.cg.shared.global [{}], [{}], 16;", in(reg32) to, in(reg64) from,
                                     options(nostack, preserves_flags));
                }
            },
            emulated => {
                let each = 16 / size_of::<T>();
                let mut bytes = Vec::with_capacity(16);
                for k in 0..each {
                    bytes.extend_from_slice(bytemuck::bytes_of(&from.get(each * source + k)));
                }
                for (k, word) in bytes.chunks(4).enumerate() {
                    self.set(index + k as u32, u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
                }
            },
        }
    }
}

/// Closes the group of the copies that this thread has asked for since the last group.
#[inline(always)]
pub fn commit() {
    target! {
        // SAFETY: this only counts the thread's own copies.
        nvptx => unsafe { core::arch::asm!("cp.async.commit_group;", options(nostack, preserves_flags)) },
        emulated => {},
    }
}

/// Waits until no more than `PENDING` of this thread's groups, the last ones, are under way.
#[inline(always)]
pub fn wait<const PENDING: u32>() {
    target! {
        nvptx => {
            // SAFETY: this only waits.
            unsafe {
                core::arch::asm!("cp.async.wait_group {};", const PENDING, options(nostack, preserves_flags));
            }
        },
        emulated => {},
    }
}
