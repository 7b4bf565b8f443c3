//! The emulator: runs kernels on the host, thread by thread, and reports what a GPU would let pass.
//!
//! A grid runs block by block. Each CUDA thread is a stackful coroutine that runs until it waits for others, at a barrier
//! or at a warp operation; barriers, shuffles and votes have exactly the semantics of the hardware, with partial masks.
//! The [`Schedule`] says who runs first. What it finds is a [`Fault`].

mod block;
pub mod fault;
mod schedule;
mod shared;
pub mod thread;

use std::cell::RefCell;
use std::convert::Infallible;
use std::ops::Range;

pub use fault::Fault;
pub use schedule::Schedule;

use crate::device::DeviceCopy;
use crate::launch::{Arg, Buffer, Call, Device, Dim3, Shape};

/// Blocks that the emulated device holds at one time: few, so that grid-stride loops have something to do.
const RESIDENT_BLOCKS: u32 = 4;

/// Asked again and again, and once it says yes, it is over.
type Stop = Box<dyn FnMut() -> bool + Send>;

/// The emulated device. Launches are done when they return.
#[derive(Default)]
pub struct Emulator {
    schedule: Schedule,
    stacks: RefCell<block::Stacks>,
    stop: RefCell<Option<Stop>>,
}

impl Emulator {
    /// An emulator that runs blocks and threads in the order of `schedule`.
    #[must_use]
    pub fn new(schedule: Schedule) -> Self {
        Self { schedule, ..Self::default() }
    }

    /// The same emulator, where a launch that is in hand when `stop` says yes ends with [`EmulatorError::Stopped`]: `stop` is asked
    /// before each block. What such a launch would have written is there in part. Later launches run to their ends, so that
    /// what was found before can be fetched.
    #[must_use]
    pub fn until(self, stop: impl FnMut() -> bool + Send + 'static) -> Self {
        Self { stop: RefCell::new(Some(Box::new(stop))), ..self }
    }

    /// Whether it is to stop, which is asked no more afterwards.
    fn stopped(&self) -> bool {
        let mut stop = self.stop.borrow_mut();
        let stopped = stop.as_mut().is_some_and(|stop| stop());
        stop.take_if(|_| stopped).is_some()
    }

    fn run(&self, call: Call<'_>, thread: &dyn Fn()) -> Result<(), EmulatorError> {
        let refuse = |reason| Err(EmulatorError::Shape { kernel: call.kernel, reason });
        let (mut grid, threads) = (call.shape.grid, call.shape.block.count());
        if call.shape.resident {
            grid.x = grid.x.min(RESIDENT_BLOCKS);
        }
        let call = Call { shape: Shape { grid, ..call.shape }, ..call };
        if threads == 0 || threads > 1024 {
            return refuse(format!("a block of {threads} threads; there can be 1 to 1024"));
        }
        if grid.count() == 0 || grid.x > i32::MAX as u32 || grid.y > 65_535 || grid.z > 65_535 {
            return refuse(format!("a grid of {} × {} × {} blocks", grid.x, grid.y, grid.z));
        }
        let Ok(blocks) = u32::try_from(grid.count()) else {
            return refuse(format!("{} blocks are too many to emulate", grid.count()));
        };
        let mut stacks = self.stacks.borrow_mut();
        for id in self.schedule.order(blocks, 0) {
            if self.stopped() {
                return Err(EmulatorError::Stopped { kernel: call.kernel });
            }
            let index = Dim3 { x: id % grid.x, y: id / grid.x % grid.y, z: id / (grid.x * grid.y) };
            block::run(&call, thread, index, self.schedule, &mut stacks)?;
        }
        Ok(())
    }
}

/// What a launch on the emulator can end with.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// The kernel did what it must not.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
    /// The launch has a shape that no GPU takes.
    #[error("kernel {kernel}: {reason}")]
    Shape {
        /// The kernel.
        kernel: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The launch was given up, as [`Emulator::until`] asked for.
    #[error("kernel {kernel}: stopped before its last block")]
    Stopped {
        /// The kernel.
        kernel: &'static str,
    },
}

/// Memory of the emulated device.
///
/// Its elements are reached through views by address, as on a GPU; the type says nothing of who writes them.
pub struct EmulatedBuffer<T> {
    elements: Box<[std::cell::UnsafeCell<T>]>,
}

impl<T: DeviceCopy> EmulatedBuffer<T> {
    fn new(elements: impl Iterator<Item = T>) -> Self {
        Self { elements: elements.map(std::cell::UnsafeCell::new).collect() }
    }
}

impl<T: DeviceCopy> Buffer<T> for EmulatedBuffer<T> {
    fn len(&self) -> usize {
        self.elements.len()
    }

    fn arg(&self) -> Arg {
        // `UnsafeCell` allows writes through an address that was taken from a shared reference.
        Arg::Buffer { address: self.elements.as_ptr() as usize as u64, len: self.elements.len() }
    }
}

impl Device for Emulator {
    type Error = EmulatorError;
    type Buffer<T: DeviceCopy> = EmulatedBuffer<T>;
    type Pinned<T: DeviceCopy> = Vec<T>;
    type Event = ();
    type Graph = Infallible;

    fn zeros<T: DeviceCopy>(&self, len: usize) -> Result<EmulatedBuffer<T>, EmulatorError> {
        Ok(EmulatedBuffer::new((0..len).map(|_| T::zeroed())))
    }

    fn upload<T: DeviceCopy>(&self, source: &[T]) -> Result<EmulatedBuffer<T>, EmulatorError> {
        Ok(EmulatedBuffer::new(source.iter().copied()))
    }

    fn write<T: DeviceCopy>(&self, target: &mut EmulatedBuffer<T>, source: &[T]) -> Result<(), EmulatorError> {
        assert_eq!(target.elements.len(), source.len(), "elements");
        for (element, &value) in target.elements.iter_mut().zip(source) {
            *element.get_mut() = value;
        }
        Ok(())
    }

    fn clear<T: DeviceCopy>(&self, buffer: &mut EmulatedBuffer<T>) -> Result<(), EmulatorError> {
        buffer.elements.iter_mut().for_each(|element| *element.get_mut() = T::zeroed());
        Ok(())
    }

    fn download<T: DeviceCopy>(&self, buffer: &EmulatedBuffer<T>, target: &mut [T]) -> Result<(), EmulatorError> {
        let source = &buffer.elements[..target.len()];
        for (target, element) in target.iter_mut().zip(source) {
            // SAFETY: no launch is running, so nobody writes.
            *target = unsafe { *element.get() };
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<(), EmulatorError> {
        Ok(())
    }

    fn pin<T: DeviceCopy>(&self, source: Vec<T>) -> Result<Vec<T>, EmulatorError> {
        Ok(source)
    }

    fn record_event(&self) -> Result<(), EmulatorError> {
        Ok(())
    }

    unsafe fn stage<T: DeviceCopy>(
        &self,
        source: &Vec<T>,
        range: Range<usize>,
        target: &mut EmulatedBuffer<T>,
        (): &(),
    ) -> Result<(), EmulatorError> {
        let source = &source[range];
        for (element, &value) in target.elements[..source.len()].iter_mut().zip(source) {
            *element.get_mut() = value;
        }
        Ok(())
    }

    /// A launch runs what belongs to it at once, and keeps none of it.
    fn capture(&self, _: impl FnOnce() -> Result<(), EmulatorError>) -> Result<Option<Infallible>, EmulatorError> {
        Ok(None)
    }

    unsafe fn launch_graph(&self, recording: &Infallible) -> Result<(), EmulatorError> {
        match *recording {}
    }

    unsafe fn launch(&self, call: Call<'_>, thread: impl Fn()) -> Result<(), EmulatorError> {
        self.run(call, &thread)
    }
}
