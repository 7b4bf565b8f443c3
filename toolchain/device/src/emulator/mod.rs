//! The emulator: runs kernels on the host, thread by thread, and reports faults that a GPU does not detect.
//!
//! The blocks of a grid run one after another. Each CUDA thread is a stackful coroutine that runs until it waits at a
//! barrier or a warp operation. Barriers, shuffles and votes have the semantics of the hardware, including partial
//! masks. The [`Schedule`] chooses the order of blocks and threads. A detected error ends the launch with a [`Fault`].

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

/// Resident blocks of the emulated device: few, so that tests run grid-stride loops more than once.
const RESIDENT_BLOCKS: u32 = 4;

/// Returns true to stop. Called before each block, and not again after it has returned true.
type Stop = Box<dyn FnMut() -> bool + Send>;

/// The emulated device. A launch has executed when the call returns.
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

    /// The same emulator, which calls `stop` before each block. When `stop` first returns true, the current launch ends
    /// with [`EmulatorError::Stopped`] after some of its writes.
    ///
    /// `stop` is not called again, so later launches run to completion. A program can thus still compute and read its
    /// results.
    #[must_use]
    pub fn until(self, stop: impl FnMut() -> bool + Send + 'static) -> Self {
        Self { stop: RefCell::new(Some(Box::new(stop))), ..self }
    }

    /// Calls `stop`, and removes it if it returns true.
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
            return refuse(format!("its block has {threads} threads; 1 to 1024 are possible"));
        }
        if grid.count() == 0 || grid.x > i32::MAX as u32 || grid.y > 65_535 || grid.z > 65_535 {
            let Dim3 { x, y, z } = grid;
            return refuse(format!("its grid is {x} × {y} × {z}; 1 to 2147483647 × 65535 × 65535 blocks are possible"));
        }
        let Ok(blocks) = u32::try_from(grid.count()) else {
            return refuse(format!("its grid has {} blocks; the emulator runs at most {}", grid.count(), u32::MAX));
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

/// An error of a launch on the emulator.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// The kernel has a fault.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
    /// No GPU accepts the shape of the launch, or it has too many blocks to emulate.
    #[error("kernel {kernel} cannot be launched: {reason}")]
    Shape {
        /// The kernel.
        kernel: &'static str,
        /// The violated limit.
        reason: String,
    },
    /// The condition of [`Emulator::until`] has stopped the launch.
    #[error("kernel {kernel}: stopped before its last block")]
    Stopped {
        /// The kernel.
        kernel: &'static str,
    },
}

/// Memory of the emulated device.
///
/// Kernels access the elements through views by address, as on a GPU, so Rust's borrow checker does not see those
/// accesses.
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
        // `UnsafeCell` permits writes through an address from a shared reference.
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
            // SAFETY: launches are synchronous, so no thread writes to the element now.
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

    /// Always `None`: the emulator executes every launch at once.
    fn capture(&self, _: impl FnOnce() -> Result<(), EmulatorError>) -> Result<Option<Infallible>, EmulatorError> {
        Ok(None)
    }

    unsafe fn launch_graph(&self, graph: &Infallible) -> Result<(), EmulatorError> {
        match *graph {}
    }

    unsafe fn launch(&self, call: Call<'_>, thread: impl Fn()) -> Result<(), EmulatorError> {
        self.run(call, &thread)
    }
}
