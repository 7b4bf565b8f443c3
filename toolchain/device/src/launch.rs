//! How a kernel is launched: the one interface between typed launchers and the places that kernels run.
//!
//! [`Device`] is implemented twice: by the [`Emulator`](crate::emulator::Emulator) of this crate, and by the GPUs of
//! `warpkov-cuda`. The launcher that `#[kernel]` generates is generic over it, so programs and tests are written once.

use core::ops::Range;

use crate::device::DeviceCopy;

/// Extent of a grid or of a block in x, y and z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim3 {
    /// Extent in x, the fastest-varying dimension.
    pub x: u32,
    /// Extent in y.
    pub y: u32,
    /// Extent in z.
    pub z: u32,
}

impl Dim3 {
    /// Number of elements: `x·y·z`.
    pub fn count(self) -> u64 {
        u64::from(self.x) * u64::from(self.y) * u64::from(self.z)
    }
}

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Self { x, y: 1, z: 1 }
    }
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Threads in a block (at most 1024).
    pub block: Dim3,
    /// Dynamic shared memory per block, in bytes.
    pub shared_bytes: u32,
    /// The device may take fewer blocks in x: as many as it holds at one time.
    pub resident: bool,
    /// The grid may begin before what was asked for before it is done: see [`grid`](crate::device::grid).
    pub overlapping: bool,
}

impl Shape {
    /// `blocks` blocks of `threads` threads each, without dynamic shared memory.
    pub fn new(blocks: impl Into<Dim3>, threads: impl Into<Dim3>) -> Self {
        Self { grid: blocks.into(), block: threads.into(), shared_bytes: 0, resident: false, overlapping: false }
    }

    /// Enough blocks of `threads` threads to have one thread for each of `elements` (at least one block).
    ///
    /// Grids hold up to 2³¹ − 1 blocks in x, so `elements / threads` must not exceed that.
    pub fn cover(elements: u64, threads: u32) -> Self {
        let blocks = elements.div_ceil(u64::from(threads)).max(1);
        Self::new(u32::try_from(blocks).unwrap_or(u32::MAX), threads)
    }

    /// The shape for a grid-stride loop over `elements`, a thread each as long as the device holds all blocks at one time.
    ///
    /// Blocks beyond that would wait for the first to end. Fewer of them that do more each start once, and reduce once.
    pub fn grid_stride(elements: u64, threads: u32) -> Self {
        Self { resident: true, ..Self::cover(elements, threads) }
    }

    /// The same shape for a grid that may begin before the launch before it is done. The kernel has to [wait](crate::device::grid::wait)
    /// itself; the documentation of those that do has an *Overlapping* part.
    pub fn overlapping(self) -> Self {
        Self { overlapping: true, ..self }
    }

    /// The same shape with `bytes` of dynamic shared memory per block.
    pub fn with_shared(self, bytes: u32) -> Self {
        Self { shared_bytes: bytes, ..self }
    }
}

/// One kernel argument, as it is handed to a [`Device`].
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    /// A buffer: its address in the device's memory and its length in elements.
    Buffer {
        /// Address of the first element.
        address: u64,
        /// Number of elements.
        len: usize,
    },
    /// A scalar passed by value: its bytes (little-endian, as in memory) and its size in bytes.
    Scalar {
        /// The value, in the first `size` bytes.
        bytes: [u8; 8],
        /// 1, 2, 4 or 8.
        size: usize,
    },
}

impl Arg {
    /// A scalar argument.
    pub fn scalar<T: DeviceCopy>(value: T) -> Self {
        let source = bytemuck::bytes_of(&value);
        let mut bytes = [0; 8];
        bytes[..source.len()].copy_from_slice(source);
        Self::Scalar { bytes, size: source.len() }
    }

    /// The value of a scalar argument of type `T`; 0 of anything else.
    pub(crate) fn value<T: DeviceCopy>(&self) -> T {
        let mut value = T::zeroed();
        let target = bytemuck::bytes_of_mut(&mut value);
        if let Self::Scalar { bytes, size } = self
            && *size == target.len()
        {
            target.copy_from_slice(&bytes[..*size]);
        }
        value
    }

    /// The size in bytes of the parameter that the device entry declares for this argument.
    pub fn param_size(&self) -> usize {
        match self {
            Self::Buffer { .. } => 8,
            Self::Scalar { size, .. } => *size,
        }
    }
}

/// A launch, complete: what [`Device::launch`] is given by a typed launcher.
pub struct Call<'a> {
    /// Name of the kernel as declared in the source, without the suffix of its instance.
    pub kernel: &'static str,
    /// Name of the entry point in the PTX, with the suffix of its instance.
    pub entry: &'static str,
    /// Grid, block and shared memory.
    pub shape: Shape,
    /// The arguments in the order of declaration.
    pub args: &'a [Arg],
}

/// Memory of a device: `len` elements of `T`.
pub trait Buffer<T: DeviceCopy> {
    /// Number of elements.
    fn len(&self) -> usize;
    /// Whether the buffer holds no element.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The buffer as a kernel argument.
    fn arg(&self) -> Arg;
}

/// A place where kernels run.
///
/// Everything on one `Device` happens in the order in which it was asked for, as in one CUDA stream. Launches and copies
/// to the device may return before they are done; [`download`](Device::download) and
/// [`synchronize`](Device::synchronize) wait.
pub trait Device {
    /// What can go wrong.
    type Error: std::error::Error + Send + Sync + 'static;
    /// Memory of this device.
    type Buffer<T: DeviceCopy>: Buffer<T> + 'static;
    /// Memory of the host that this device copies from while it does other things.
    type Pinned<T: DeviceCopy>;
    /// A point in the order of what was asked for.
    type Event;
    /// Launches to be made again, all at once.
    type Graph;

    /// A buffer of `len` elements, all bytes zero.
    fn zeros<T: DeviceCopy>(&self, len: usize) -> Result<Self::Buffer<T>, Self::Error>;

    /// A buffer that holds a copy of `source`.
    fn upload<T: DeviceCopy>(&self, source: &[T]) -> Result<Self::Buffer<T>, Self::Error>;

    /// A buffer that is made piece by piece, so that one is copied while the next is made: `fill` is given the number of a
    /// piece and its elements, `ends[piece − 1]..ends[piece]` of the buffer, and writes all of them.
    ///
    /// # Panics
    /// If `ends` do not ascend.
    fn upload_pieces<T: DeviceCopy>(
        &self,
        ends: &[usize],
        mut fill: impl FnMut(usize, &mut [T]),
    ) -> Result<Self::Buffer<T>, Self::Error> {
        let mut all = vec![T::zeroed(); ends.last().copied().unwrap_or_default()];
        let mut start = 0;
        for (piece, &end) in ends.iter().enumerate() {
            fill(piece, &mut all[start..end]);
            start = end;
        }
        self.upload(&all)
    }

    /// Copies `source` to all of `target`.
    ///
    /// # Panics
    /// If they differ in length.
    fn write<T: DeviceCopy>(&self, target: &mut Self::Buffer<T>, source: &[T]) -> Result<(), Self::Error>;

    /// Sets every byte of `buffer` to zero.
    fn clear<T: DeviceCopy>(&self, buffer: &mut Self::Buffer<T>) -> Result<(), Self::Error>;

    /// Copies the first `target.len()` elements of `buffer` to the host.
    ///
    /// # Panics
    /// If `target` is longer than `buffer`.
    fn download<T: DeviceCopy>(&self, buffer: &Self::Buffer<T>, target: &mut [T]) -> Result<(), Self::Error>;

    /// Waits until everything asked for so far is done.
    fn synchronize(&self) -> Result<(), Self::Error>;

    /// Keeps `source` where [`stage`](Device::stage) copies from.
    fn pin<T: DeviceCopy>(&self, source: Vec<T>) -> Result<Self::Pinned<T>, Self::Error>;

    /// The point at which everything asked for so far is done.
    fn record_event(&self) -> Result<Self::Event, Self::Error>;

    /// Copies elements `range` of `source` to the first of `target`, out of order: the copy waits for `after` and for
    /// earlier copies of this kind, and all that is asked for from now on waits for the copy.
    ///
    /// # Panics
    /// If `range` is not in `source` or is longer than `target`.
    ///
    /// # Safety
    /// Nothing that was asked for since `after` may use `target`.
    unsafe fn stage<T: DeviceCopy>(
        &self,
        source: &Self::Pinned<T>,
        range: Range<usize>,
        target: &mut Self::Buffer<T>,
        after: &Self::Event,
    ) -> Result<(), Self::Error>;

    /// Launches a kernel, of which a thread does what `thread` does. Typed launchers call this; other code has no reason to.
    ///
    /// A GPU has the kernel as PTX and never calls `thread`, so that the host's code for it is built for the emulator alone.
    ///
    /// # Safety
    /// `call.args` must agree with the parameters of `call.entry`, every buffer must belong to this device, and the
    /// kernel's own *Safety* section must hold for these arguments.
    unsafe fn launch(&self, call: Call<'_>, thread: impl Fn()) -> Result<(), Self::Error>;

    /// Records the launches and clearings that `work` asks for, in place of doing them; it may ask for nothing else. `None`,
    /// without calling `work`, where nothing can be recorded: then the work is to be asked for every time.
    ///
    /// A launch takes the host longer to ask for than small kernels run. A recording is asked for once.
    fn capture(&self, work: impl FnOnce() -> Result<(), Self::Error>) -> Result<Option<Self::Graph>, Self::Error>;

    /// Does what was recorded.
    ///
    /// # Safety
    /// All buffers that were recorded are still there, and what the recorded launches promised holds again.
    unsafe fn launch_graph(&self, recording: &Self::Graph) -> Result<(), Self::Error>;

    /// Copies all of `buffer` to a new vector.
    fn to_vec<T: DeviceCopy>(&self, buffer: &Self::Buffer<T>) -> Result<Vec<T>, Self::Error> {
        let mut target = vec![T::zeroed(); buffer.len()];
        self.download(buffer, &mut target)?;
        Ok(target)
    }
}
