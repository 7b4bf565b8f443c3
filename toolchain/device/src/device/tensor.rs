//! Tensor maps: copies of tiles of a tensor to shared memory (`cp.async.bulk.tensor`, `sm_90` and later).
//!
//! A [`TensorMap`] is a kernel's parameter for a tensor in global memory, of one to three dimensions; dimension 0 varies fastest. The
//! launch says what it holds, by a [`Tensor`](crate::launch::Tensor): the buffer, its extent, that of a tile, and the order of the tile's
//! elements in shared memory. One thread starts the copy of a tile, which may reach beyond the tensor: elements outside of it are 0. All
//! bytes of the tile count for a [`Mbarrier`], those outside of the tensor, too.
//!
//! With [`Swizzle::None`](crate::launch::Swizzle) the tile lies in shared memory as a tensor of its own. Threads that read a column of
//! it then wait for each other, as all its elements are in the same banks. [`Swizzle::B128`](crate::launch::Swizzle) exchanges chunks of 16
//! bytes so that they do not: the byte at `offset` is at [`swizzled(offset)`](swizzled), from a multiple of 1024 bytes on. Products of
//! [warp groups](super::wgmma) read such tiles.
//!
#![doc = include_str!("examples/tensor.md")]

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;
use core::marker::PhantomData;

use super::mbarrier::Mbarrier;
use super::{AnyIndex, Element, Shared};
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::{bulk::Tile, thread as emulated};

/// A tensor of `R` dimensions, 1 to 3, which no thread writes during the launch.
///
#[doc = include_str!("examples/tensor.md")]
#[derive(Clone, Copy)]
pub struct TensorMap<T, const R: usize> {
    /// The address of the map.
    #[cfg(target_arch = "nvptx64")]
    map: u64,
    #[cfg(not(target_arch = "nvptx64"))]
    tile: Tile,
    element: PhantomData<T>,
}

impl<T: Element, const R: usize> TensorMap<T, R> {
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(super) fn new(map: u64) -> Self {
        Self { map, element: PhantomData }
    }

    #[cfg(not(target_arch = "nvptx64"))]
    pub(super) fn new(tile: Tile) -> Self {
        Self { tile, element: PhantomData }
    }

    /// Starts a copy of the tile whose first element is `at`, to the elements of `to` from `index` on. Its bytes count for the phase
    /// of `barrier` that runs. In dimension 0 the tile begins at a multiple of 16 bytes, in the others anywhere.
    ///
    /// *Safety*: the address of the first element is a multiple of 128 bytes, or of 1024 for a swizzled tile: see
    /// [`Shared::aligned`]. The tile fits.
    ///
    #[doc = include_str!("examples/tensor.md")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn load(self, to: Shared<T>, index: impl AnyIndex, at: [i32; R], barrier: Mbarrier) {
        let index = index.narrow();
        const { assert!(1 <= R && R <= 3, "a tensor has one to three dimensions") };
        target! {
            nvptx => {
                let (to, map, barrier) = (to.address(index), self.map, barrier.address());
                // SAFETY: the driver has made the map of the launch's argument; the tile fits, as the *Safety* section asks.
                unsafe {
                    match R {
                        1 => asm!("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [{}], [{}, {{{}}}], [{}];",
                                  in(reg32) to, in(reg64) map, in(reg32) at[0], in(reg32) barrier,
                                  options(nostack, preserves_flags)),
                        2 => asm!("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [{}], [{}, {{{}, {}}}], \
                                   [{}];",
                                  in(reg32) to, in(reg64) map, in(reg32) at[0], in(reg32) at[1 % R], in(reg32) barrier,
                                  options(nostack, preserves_flags)),
                        _ => asm!("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [{}], [{}, {{{}, {}, \
                                   {}}}], [{}];",
                                  in(reg32) to, in(reg64) map, in(reg32) at[0], in(reg32) at[1 % R], in(reg32) at[2 % R],
                                  in(reg32) barrier, options(nostack, preserves_flags)),
                    }
                }
            },
            emulated => {
                let mut place = [0; 3];
                place[..R].copy_from_slice(&at);
                emulated::current().load_tile(to.chunk(index, self.tile.elements()), &self.tile, place, barrier.address(), None);
            },
        }
    }

    /// The same copy to several blocks of a [cluster](super::cluster) at once, those of the ranks whose bits are set in `blocks`: to the same
    /// place of their shared memory, where its bytes count for their barriers in the place of `barrier` (`.multicast::cluster`). The tile is
    /// read once.
    ///
    /// *Safety*: as for [`load`](Self::load). All these blocks have begun, their barriers are initialised, and they wait for the phase before
    /// they end. The tensor has two dimensions.
    ///
    #[doc = include_str!("examples/multicast.md")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn load_to_blocks(self, to: Shared<T>, index: impl AnyIndex, at: [i32; R], barrier: Mbarrier, blocks: u16) {
        let index = index.narrow();
        const { assert!(R == 2, "copies to several blocks are of two dimensions") };
        target! {
            nvptx => {
                let (to, map, barrier) = (to.address(index), self.map, barrier.address());
                // SAFETY: as in `load`.
                unsafe {
                    asm!("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [{}], [{}, \
                          {{{}, {}}}], [{}], {};",
                         in(reg32) to, in(reg64) map, in(reg32) at[0], in(reg32) at[1], in(reg32) barrier, in(reg16) blocks,
                         options(nostack, preserves_flags));
                }
            },
            emulated => {
                let to = to.chunk(index, self.tile.elements());
                emulated::current().load_tile(to, &self.tile, [at[0], at[1], 0], barrier.address(), Some(blocks));
            },
        }
    }
}

/// The place of the byte `offset` of a tile with [`Swizzle::B128`](crate::launch::Swizzle): bits 4 to 6 are exchanged for their
/// exclusive or with bits 7 to 9.
///
#[doc = include_str!("examples/wgmma.md")]
#[inline(always)]
#[must_use]
pub fn swizzled(offset: u32) -> u32 {
    offset ^ (offset >> 3 & 0x70)
}
