//! The order in which blocks and threads run.

/// The order of the blocks of a grid, and of the threads of a block between two barriers.
///
/// A GPU guarantees no order. A kernel that depends on the order gives different results under different schedules.
///
/// ```
/// # use warpkov_device::device::atomic::{Ordering, Scope};
/// # use warpkov_device::device::prelude::*;
/// # use warpkov_device::emulator::*;
/// # use warpkov_device::launch::*;
/// #[kernel]
/// fn last(x: GlobalMut<u32>) {
///     atomic::store((x, 0), thread::thread_idx_x(), Ordering::Relaxed, Scope::Device);
/// }
///
/// let device = Emulator::new(Schedule::Random(7));
/// # let mut x = device.zeros(1)?;
/// // SAFETY: `x` has the elements that the kernel writes.
/// unsafe { last(&device, Shape::new(1, 32), &mut x)? };
/// // The same order again.
/// let again = Emulator::new(Schedule::Random(7));
/// let mut y = again.zeros(1)?;
/// // SAFETY: as above.
/// unsafe { last(&again, Shape::new(1, 32), &mut y)? };
/// assert_eq!(device.to_vec(&x)?, again.to_vec(&y)?);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Ascending index.
    #[default]
    RoundRobin,
    /// Descending index.
    Reversed,
    /// Ascending index, but an atomic load lets further blocks begin, up to four at a time, of which the last one runs first.
    ///
    /// A block that waits for the end of the one before it then waits long. One that needs only what the other has released
    /// before its own atomic loads (decoupled look-back) does not wait.
    YoungestFirst,
    /// A random permutation from this seed, different for each block.
    Random(u64),
    /// As `Random`, with up to four blocks at a time whose threads interleave: at random accesses of global memory, at
    /// atomic operations, and at barriers, a random thread of a random block continues.
    ///
    /// Kernels whose blocks communicate within a launch (decoupled look-back, last-block reductions, grid barriers)
    /// take different paths from seed to seed. Equal seeds repeat a run exactly.
    Interleaved(u64),
}

impl Schedule {
    /// The seed of a random schedule.
    pub(super) fn seed(self) -> u64 {
        match self {
            Self::Random(seed) | Self::Interleaved(seed) => seed,
            Self::RoundRobin | Self::Reversed | Self::YoungestFirst => 0,
        }
    }

    /// The order of `count` blocks or threads. `stream` selects an independent permutation: 0 for the blocks of a grid,
    /// and one value for the threads of each block.
    ///
    /// ```
    /// use warpkov_device::emulator::Schedule;
    ///
    /// assert_eq!(Schedule::Reversed.order(4, 0), [3, 2, 1, 0]);
    /// let mut random = Schedule::Random(7).order(100, 0);
    /// assert_ne!(random, Schedule::Random(8).order(100, 0));
    /// random.sort();
    /// assert!(random.into_iter().eq(0..100));
    /// ```
    pub fn order(self, count: u32, stream: u64) -> Vec<u32> {
        let mut order = Vec::new();
        self.fill(&mut order, count, stream);
        order
    }

    /// Fills `order` with [`order`](Self::order).
    pub(super) fn fill(self, order: &mut Vec<u32>, count: u32, stream: u64) {
        order.clear();
        order.extend(0..count);
        match self {
            Self::RoundRobin | Self::YoungestFirst => {}
            Self::Reversed => order.reverse(),
            Self::Random(seed) | Self::Interleaved(seed) => {
                let mut state = seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                for i in (1..order.len()).rev() {
                    let bits = split_mix(&mut state);
                    order.swap(i, (bits % (i as u64 + 1)) as usize);
                }
            }
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(super) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
