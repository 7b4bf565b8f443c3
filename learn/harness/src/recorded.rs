//! A device that records what it is asked to do.

use std::cell::RefCell;
use std::ops::Range;

use warpkov_device::device::DeviceCopy;
use warpkov_device::launch::{Buffer, Call, Device, Shape};

/// An operation of one of several devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A launch with so many threads.
    Launch(u64),
    /// A copy of so many elements to the host, which waits for all launches before it.
    Download(usize),
    /// A copy of so many elements to the device.
    Upload(usize),
}

/// The operations of several devices, in the order in which the host submits them.
#[derive(Debug, Default)]
pub struct Record(RefCell<Vec<(usize, Operation)>>);

impl Record {
    /// The operations so far: number of the device, and operation.
    pub fn operations(&self) -> Vec<(usize, Operation)> {
        self.0.borrow().clone()
    }

    /// Forgets all operations.
    pub fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    /// Elements that devices sent to the host.
    pub fn downloaded(&self) -> usize {
        let elements = |&(_, operation): &(usize, Operation)| match operation {
            Operation::Download(elements) => elements,
            _ => 0,
        };
        self.0.borrow().iter().map(elements).sum()
    }

    /// Elements that the host sent to devices.
    pub fn uploaded(&self) -> usize {
        let elements = |&(_, operation): &(usize, Operation)| match operation {
            Operation::Upload(elements) => elements,
            _ => 0,
        };
        self.0.borrow().iter().map(elements).sum()
    }

    /// Elements that travelled between the host and devices.
    pub fn copied(&self) -> usize {
        self.downloaded() + self.uploaded()
    }

    /// Threads of the launches that were submitted while elements travelled, that is after a download and before the next
    /// upload; and threads of all launches.
    pub fn beside_travel(&self) -> (u64, u64) {
        let (mut travelling, mut beside, mut all) = (false, 0, 0);
        for &(_, operation) in self.0.borrow().iter() {
            match operation {
                Operation::Download(_) => travelling = true,
                Operation::Upload(_) => travelling = false,
                Operation::Launch(threads) => {
                    all += threads;
                    beside += if travelling { threads } else { 0 };
                }
            }
        }
        (beside, all)
    }
}

/// The blocks of a kernel, instead of those of its launches.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    /// The kernel's entry point.
    pub kernel: &'a str,
    /// Threads of a block: its width changes.
    pub threads: u32,
}

impl Blocks<'_> {
    /// The same launch in these blocks, as many as cover its threads.
    fn reshape<'a>(&self, mut call: Call<'a>) -> Call<'a> {
        let Shape { grid, block, .. } = &mut call.shape;
        if call.entry == self.kernel {
            let width = (self.threads / (block.y * block.z)).max(1);
            grid.x = (grid.x * block.x).div_ceil(width);
            block.x = width;
        }
        call
    }
}

/// A device whose launches and copies are recorded.
pub struct Recorded<'a, D: Device> {
    device: &'a D,
    number: usize,
    record: &'a Record,
    blocks: Option<Blocks<'a>>,
}

impl<'a, D: Device> Recorded<'a, D> {
    /// Device number `number` of those that share the record.
    pub fn new(device: &'a D, number: usize, record: &'a Record) -> Self {
        Self { device, number, record, blocks: None }
    }

    /// The same with other blocks of one kernel, whether or not its contract allows them. For emulators, which check every
    /// access.
    pub fn with_blocks(self, blocks: Option<Blocks<'a>>) -> Self {
        Self { blocks, ..self }
    }

    fn note(&self, operation: Operation) {
        self.record.0.borrow_mut().push((self.number, operation));
    }
}

impl<D: Device> Device for Recorded<'_, D> {
    type Error = D::Error;
    type Buffer<T: DeviceCopy> = D::Buffer<T>;
    type Pinned<T: DeviceCopy> = D::Pinned<T>;
    type Event = D::Event;
    type Graph = D::Graph;

    fn zeros<T: DeviceCopy>(&self, len: usize) -> Result<D::Buffer<T>, D::Error> {
        self.device.zeros(len)
    }

    fn uninitialised<T: DeviceCopy>(&self, len: usize) -> Result<D::Buffer<T>, D::Error> {
        self.device.uninitialised(len)
    }

    fn upload<T: DeviceCopy>(&self, source: &[T]) -> Result<D::Buffer<T>, D::Error> {
        self.note(Operation::Upload(source.len()));
        self.device.upload(source)
    }

    fn write<T: DeviceCopy>(&self, target: &mut D::Buffer<T>, source: &[T]) -> Result<(), D::Error> {
        self.note(Operation::Upload(source.len()));
        self.device.write(target, source)
    }

    fn clear<T: DeviceCopy>(&self, buffer: &mut D::Buffer<T>) -> Result<(), D::Error> {
        self.device.clear(buffer)
    }

    fn download<T: DeviceCopy>(&self, buffer: &D::Buffer<T>, target: &mut [T]) -> Result<(), D::Error> {
        self.note(Operation::Download(target.len()));
        self.device.download(buffer, target)
    }

    fn synchronize(&self) -> Result<(), D::Error> {
        self.device.synchronize()
    }

    fn pin<T: DeviceCopy>(&self, source: Vec<T>) -> Result<D::Pinned<T>, D::Error> {
        self.device.pin(source)
    }

    fn record_event(&self) -> Result<D::Event, D::Error> {
        self.device.record_event()
    }

    unsafe fn stage<T: DeviceCopy>(
        &self,
        source: &D::Pinned<T>,
        range: Range<usize>,
        target: &mut D::Buffer<T>,
        after: &D::Event,
    ) -> Result<(), D::Error> {
        self.note(Operation::Upload(range.len()));
        // SAFETY: the caller's promise is the device's.
        unsafe { self.device.stage(source, range, target, after) }
    }

    unsafe fn beside<C>(
        &self,
        context: &mut C,
        side: impl FnOnce(&mut C) -> Result<(), D::Error>,
        main: impl FnOnce(&mut C) -> Result<(), D::Error>,
    ) -> Result<(), D::Error> {
        // SAFETY: the caller's promise is the device's.
        unsafe { self.device.beside(context, side, main) }
    }

    unsafe fn launch(&self, call: Call<'_>) -> Result<(), D::Error> {
        self.note(Operation::Launch(call.shape.grid.count() * call.shape.block.count()));
        let call = match &self.blocks {
            Some(blocks) => blocks.reshape(call),
            None => call,
        };
        // SAFETY: the caller's promise is the device's; `with_blocks` is for emulators, which check what depends on the shape.
        unsafe { self.device.launch(call) }
    }

    fn capture(&self, work: impl FnOnce() -> Result<(), D::Error>) -> Result<Option<D::Graph>, D::Error> {
        self.device.capture(work)
    }

    unsafe fn launch_graph(&self, graph: &D::Graph) -> Result<(), D::Error> {
        // SAFETY: the caller's promise is the device's.
        unsafe { self.device.launch_graph(graph) }
    }

    fn to_vec<T: DeviceCopy>(&self, buffer: &D::Buffer<T>) -> Result<Vec<T>, D::Error> {
        self.note(Operation::Download(buffer.len()));
        self.device.to_vec(buffer)
    }
}

#[cfg(test)]
mod tests {
    use warpkov_device::emulator::Emulator;

    use super::*;

    #[test]
    fn records_copies_in_order() {
        let (device, record) = (Emulator::default(), Record::default());
        let devices = [0, 1].map(|number| Recorded::new(&device, number, &record));
        let mut buffer = devices[1].upload(&[1.0_f32, 2.0]).expect("a buffer");
        devices[1].write(&mut buffer, &[3.0, 4.0]).expect("a copy");
        assert_eq!(devices[0].to_vec(&buffer).expect("a copy"), [3.0, 4.0]);
        let expected = [(1, Operation::Upload(2)), (1, Operation::Upload(2)), (0, Operation::Download(2))];
        assert_eq!(record.operations(), expected);
        assert_eq!((record.downloaded(), record.uploaded(), record.copied()), (2, 4, 6));
        assert_eq!(record.beside_travel(), (0, 0));
    }
}
