//! The interface between typed launchers and the devices that run kernels.
//!
//! [`Device`] has two implementations: the [`Emulator`](crate::emulator::Emulator) of this crate and the GPUs of
//! `warpkov-cuda`. The launcher that `#[kernel]` generates is generic over `Device`, so one program or test serves
//! both. It packs the arguments into a `Call`; the kernel itself is compiled once, in the crate that defines it.
//!
//! ```
//! use warpkov_device::emulator::Emulator;
//! use warpkov_device::launch::{Buffer, Device};
//!
//! let device = Emulator::default();
//! let mut x = device.upload(&[1, 2, 3])?;
//! assert_eq!(x.len(), 3);
//! device.clear(&mut x)?;
//! assert_eq!(device.to_vec(&x)?, [0, 0, 0]);
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```

use core::fmt;
use core::ops::{Add, Div, Mul, Range, Rem, Sub};

use crate::device::{DeviceCopy, Offset};

/// Extent of a grid or of a block in x, y and z.
///
/// ```
/// use warpkov_device::launch::{Dim3, Shape};
///
/// let shape = Shape::new(Dim3 { x: 4, y: 3, z: 1 }, 256);
/// assert_eq!(shape.grid.count(), 12);
/// assert_eq!(shape.block, Dim3::from(256));
/// ```
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
    /// `x·y·z`.
    ///
    /// ```
    /// use warpkov_device::launch::Dim3;
    ///
    /// assert_eq!(Dim3 { x: 4, y: 3, z: 2 }.count(), 24);
    /// ```
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
///
/// ```
/// use warpkov_device::launch::Shape;
///
/// let shape = Shape::cover(1000, 256).with_shared(4096);
/// assert_eq!((shape.grid.x, shape.block.x, shape.shared_bytes), (4, 256, 4096));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Threads in a block (at most 1024).
    pub block: Dim3,
    /// Dynamic shared memory per block, in bytes.
    pub shared_bytes: u32,
    /// Limits `grid.x` to the number of blocks that are resident on the device at one time.
    pub resident: bool,
    /// Lets the grid start before the previous launch ends: see [`grid`](crate::device::grid).
    pub overlapping: bool,
}

impl Shape {
    /// `blocks` blocks of `threads` threads each, without dynamic shared memory.
    ///
    /// ```
    /// use warpkov_device::launch::{Dim3, Shape};
    ///
    /// let shape = Shape::new(8, Dim3 { x: 16, y: 16, z: 1 });
    /// assert_eq!((shape.grid.count(), shape.block.count()), (8, 256));
    /// ```
    pub fn new(blocks: impl Into<Dim3>, threads: impl Into<Dim3>) -> Self {
        Self { grid: blocks.into(), block: threads.into(), shared_bytes: 0, resident: false, overlapping: false }
    }

    /// One thread per element: ⌈`elements` / `threads`⌉ blocks of `threads` threads, at least one block.
    ///
    /// A grid has at most 2³¹ − 1 blocks in x. A launch with more fails.
    ///
    /// ```
    /// use warpkov_device::launch::Shape;
    ///
    /// assert_eq!(Shape::cover(1000, 256).grid.x, 4);
    /// assert_eq!(Shape::cover(0, 256).grid.x, 1);
    /// ```
    pub fn cover(elements: u64, threads: u32) -> Self {
        let blocks = elements.div_ceil(u64::from(threads)).max(1);
        Self::new(u32::try_from(blocks).unwrap_or(u32::MAX), threads)
    }

    /// The shape for a grid-stride loop over `elements`: [`cover`](Self::cover), limited to the blocks that are
    /// resident at one time.
    ///
    /// Blocks beyond that limit would wait for earlier ones to end. Fewer blocks with more work each pay for their
    /// start and for their reduction once.
    ///
    /// ```
    /// use warpkov_device::launch::Shape;
    ///
    /// let shape = Shape::grid_stride(1_000_000, 256);
    /// assert!(shape.resident && shape.grid.x == 3907);
    /// ```
    pub fn grid_stride(elements: u64, threads: u32) -> Self {
        Self { resident: true, ..Self::cover(elements, threads) }
    }

    /// The same shape for a grid that may start before the previous launch ends. The kernel must call
    /// [`grid::wait`](crate::device::grid::wait); its documentation then has an *Overlapping* part.
    ///
    /// ```
    /// use warpkov_device::launch::Shape;
    ///
    /// assert!(Shape::new(1, 32).overlapping().overlapping);
    /// ```
    pub fn overlapping(self) -> Self {
        Self { overlapping: true, ..self }
    }

    /// Dimensions that have an extent above 1, at least 1.
    ///
    /// ```
    /// use warpkov_device::launch::{Dim3, Shape};
    ///
    /// assert_eq!(Shape::new(8, 32).dimensions(), 1);
    /// assert_eq!(Shape::new(8, Dim3 { x: 32, y: 4, z: 1 }).dimensions(), 2);
    /// ```
    #[must_use]
    pub fn dimensions(&self) -> u32 {
        let [grid, block] = [self.grid, self.block];
        match (grid.z > 1 || block.z > 1, grid.y > 1 || block.y > 1) {
            (true, _) => 3,
            (false, true) => 2,
            (false, false) => 1,
        }
    }

    /// The same shape with `bytes` of dynamic shared memory per block.
    ///
    /// ```
    /// use warpkov_device::launch::Shape;
    ///
    /// assert_eq!(Shape::new(8, 32).with_shared(1024).shared_bytes, 1024);
    /// ```
    pub fn with_shared(self, bytes: u32) -> Self {
        Self { shared_bytes: bytes, ..self }
    }
}

/// A kernel argument in the form that [`Device::launch`] takes.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    /// A buffer.
    Buffer {
        /// Address of the first element in the device's memory. (The emulator uses an address of its own.)
        address: u64,
        /// Number of elements.
        len: usize,
    },
    /// A scalar, passed by value.
    Scalar {
        /// The value in the first `size` bytes, little-endian.
        bytes: [u8; 8],
        /// Size in bytes: 1, 2, 4 or 8.
        size: usize,
    },
    /// A [`Tensor`].
    Tensor(TensorArg),
    /// The [`GridGroup`](crate::device::grid::GridGroup) of a cooperative launch. The device supplies its counter.
    Grid,
}

impl Arg {
    /// A scalar argument.
    pub fn scalar<T: DeviceCopy>(value: T) -> Self {
        let source = bytemuck::bytes_of(&value);
        let mut bytes = [0; 8];
        bytes[..source.len()].copy_from_slice(source);
        Self::Scalar { bytes, size: source.len() }
    }

    /// The value of a scalar argument of type `T`; 0 if the argument is not a scalar of that size.
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

    /// Size in bytes of the entry point's parameter for this argument.
    pub fn param_size(&self) -> usize {
        match self {
            Self::Buffer { .. } | Self::Grid => 8,
            Self::Scalar { size, .. } => *size,
            Self::Tensor(_) => 128,
        }
    }
}

/// The order of a tile's elements in shared memory.
///
#[doc = include_str!("device/examples/tensor.md")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Swizzle {
    /// As in a tensor of the tile's extent.
    #[default]
    None,
    /// Chunks of 16 bytes exchanged in units of 1024 bytes, without bank conflicts in columns of rows of 128 bytes: see
    /// [`swizzled`](crate::device::tensor::swizzled).
    B128,
}

/// A tensor in device memory and its tiles: the argument for [`TensorMap`](crate::device::TensorMap). The launch reads it, as it does a
/// buffer.
///
#[doc = include_str!("device/examples/tensor.md")]
#[derive(Debug)]
pub struct Tensor<'a, B, const R: usize> {
    buffer: &'a B,
    arg: TensorArg,
}

impl<B, const R: usize> Clone for Tensor<'_, B, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B, const R: usize> Copy for Tensor<'_, B, R> {}

/// A tensor map before it is encoded. Extents beyond the rank are 1.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct TensorArg {
    /// Address of the first element, as in [`Arg::Buffer`].
    pub address: u64,
    /// Bytes of an element: 1, 2, 4 or 8.
    pub element: u32,
    /// Dimensions: 1 to 3.
    pub rank: u32,
    /// Elements of the tensor.
    pub sizes: [u32; 3],
    /// Elements of a tile.
    pub tile: [u32; 3],
    /// The order of a tile's elements.
    pub swizzle: Swizzle,
}

/// Why a [`Tensor`] cannot be made.
///
#[doc = include_str!("device/examples/tensor.md")]
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// A tile is empty or too large.
    #[error("a tile has {extent} elements in dimension {dimension}, expected 1 to 256")]
    Tile {
        /// The dimension, from 0.
        dimension: usize,
        /// Elements of the tile.
        extent: u32,
    },
    /// A row of a tile has a size that the GPU cannot copy.
    #[error("a row of the tile has {bytes} bytes, expected a multiple of 16{}", if *swizzled { ", at most 128 for a swizzled tile" } else { "" })]
    Row {
        /// Bytes of a row.
        bytes: u64,
        /// Whether the tile is swizzled.
        swizzled: bool,
    },
    /// A row of the tensor begins at an address that the GPU cannot copy from.
    #[error("a row of the tensor has {bytes} bytes, expected a multiple of 16")]
    Stride {
        /// Bytes of a row.
        bytes: u64,
    },
    /// The buffer is shorter than the tensor.
    #[error("the buffer has {len} elements, and the tensor {needed}, expected as many, and at least one")]
    TooShort {
        /// Elements of the buffer.
        len: usize,
        /// Elements of the tensor.
        needed: u128,
    },
}

impl<'a, B, const R: usize> Tensor<'a, B, R> {
    /// The tensor of extent `sizes`, dimension 0 varying fastest, at the start of `buffer`, which a kernel loads in tiles of extent
    /// `tile`.
    ///
    /// # Errors
    /// The buffer is too short, or the tile or the rows have a size that no GPU copies.
    ///
    #[doc = include_str!("device/examples/tensor.md")]
    pub fn new<T: DeviceCopy>(
        buffer: &'a B,
        sizes: [u32; R],
        tile: [u32; R],
        swizzle: Swizzle,
    ) -> Result<Self, TensorError>
    where
        B: Buffer<T>,
    {
        const { assert!(1 <= R && R <= 3, "a tensor has one to three dimensions") };
        let (element, len) = (size_of::<T>() as u64, buffer.len());
        if let Some(dimension) = (0..R).find(|&dimension| !(1..=256).contains(&tile[dimension])) {
            return Err(TensorError::Tile { dimension, extent: tile[dimension] });
        }
        let (row, swizzled) = (u64::from(tile[0]) * element, swizzle == Swizzle::B128);
        if !row.is_multiple_of(16) || swizzled && row > 128 {
            return Err(TensorError::Row { bytes: row, swizzled });
        }
        let stride = u64::from(sizes[0]) * element;
        if R > 1 && !stride.is_multiple_of(16) {
            return Err(TensorError::Stride { bytes: stride });
        }
        let needed: u128 = sizes.iter().map(|&size| u128::from(size)).product();
        if needed == 0 || needed > len as u128 {
            return Err(TensorError::TooShort { len, needed });
        }
        let address = match buffer.arg() {
            Arg::Buffer { address, .. } => address,
            Arg::Scalar { .. } | Arg::Tensor(_) | Arg::Grid => unreachable!("the argument of a buffer"),
        };
        let all = |extents: [u32; R]| core::array::from_fn(|axis| extents.get(axis).copied().unwrap_or(1));
        let (element, rank) = (element as u32, R as u32);
        Ok(Self { buffer, arg: TensorArg { address, element, rank, sizes: all(sizes), tile: all(tile), swizzle } })
    }

    /// The buffer.
    #[doc(hidden)]
    pub fn buffer(&self) -> &'a B {
        self.buffer
    }

    /// The tensor as a kernel argument.
    #[doc(hidden)]
    pub fn arg(&self) -> Arg {
        Arg::Tensor(self.arg)
    }
}

/// A number in a kernel's contract: the length of a buffer, a scalar argument, or the extent of a launch. Operations neither wrap nor
/// panic: results are within 0 and 2¹²⁸ − 1.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent(pub u128);

impl Extent {
    /// The number.
    pub fn of<N: Number>(number: N) -> Self {
        Self(number.extent())
    }

    /// ⌈`self` / `other`⌉.
    #[must_use]
    pub fn div_ceil(self, other: Self) -> Self {
        Self(if other.0 == 0 { u128::MAX } else { self.0.div_ceil(other.0) })
    }

    /// The smallest power of two that is at least `self`.
    #[must_use]
    pub fn next_power_of_two(self) -> Self {
        Self(self.0.checked_next_power_of_two().unwrap_or(u128::MAX))
    }

    /// The smallest multiple of `other` that is at least `self`.
    #[must_use]
    pub fn next_multiple_of(self, other: Self) -> Self {
        self.div_ceil(other) * other
    }
}

impl Add for Extent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Extent {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul for Extent {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self(self.0.saturating_mul(other.0))
    }
}

impl Div for Extent {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        Self(self.0.checked_div(other.0).unwrap_or(u128::MAX))
    }
}

impl Rem for Extent {
    type Output = Self;

    fn rem(self, other: Self) -> Self {
        Self(self.0.checked_rem(other.0).unwrap_or(self.0))
    }
}

/// A type that a contract may count with.
#[doc(hidden)]
pub trait Number: Copy {
    /// The number; 0 in place of a negative one.
    fn extent(self) -> u128;
}

impl Number for Extent {
    fn extent(self) -> u128 {
        self.0
    }
}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            #[allow(clippy::cast_lossless)]
            fn extent(self) -> u128 {
                u128::try_from(self).unwrap_or(0)
            }
        }
    )*};
}
numbers!(u8 i8 u16 i16 u32 i32 u64 i64 usize);

impl Number for bool {
    fn extent(self) -> u128 {
        self.into()
    }
}

/// A requirement of a kernel's contract that a launch does not meet.
///
/// ```
/// use warpkov_device::device::prelude::*;
/// use warpkov_device::emulator::{Emulator, EmulatorError};
/// use warpkov_device::launch::{Device, Shape};
///
/// #[kernel(requires(x.len() >= n))]
/// fn fill(n: u32, x: GlobalMut<u32>) {
///     let i = thread::index_1d();
///     if i < u64::from(n) {
///         x.set(i, 7);
///     }
/// }
///
/// let device = Emulator::default();
/// let mut x = device.zeros(3)?;
/// // SAFETY: the launcher compares the length.
/// let result = unsafe { fill(&device, Shape::cover(4, 32), 4, &mut x) };
/// let Err(EmulatorError::Unmet(unmet)) = result else { panic!("the buffer is too short") };
/// assert_eq!((unmet.kernel, unmet.requirement.as_str()), ("fill", "x.len() >= n"));
/// assert_eq!(unmet.sides, [("x.len()".to_owned(), 3), ("n".to_owned(), 4)]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// The kernel.
    pub kernel: &'static str,
    /// The requirement, as the kernel declares it.
    pub requirement: String,
    /// The texts and the values of the requirement's two sides.
    pub sides: Vec<(String, u128)>,
}

impl Unmet {
    /// An error, unless the requirement `holds`. `texts` are those of the requirement and of its two sides.
    #[doc(hidden)]
    pub fn unless(
        holds: bool,
        kernel: &'static str,
        [requirement, left, right]: [&str; 3],
        values: [u128; 2],
    ) -> Result<(), Self> {
        if holds {
            return Ok(());
        }
        let sides = [left, right].map(str::to_owned).into_iter().zip(values).collect();
        Err(Self { kernel, requirement: requirement.to_owned(), sides })
    }

    /// An error, unless all `blocks` of a cooperative launch fit on the device, where `resident` are at one time.
    #[doc(hidden)]
    pub fn unless_resident(kernel: &'static str, blocks: u64, resident: u64) -> Result<(), Self> {
        let texts = ["shape.grid <= resident blocks", "shape.grid", "resident blocks"];
        Self::unless(blocks <= resident, kernel, texts, [blocks.into(), resident.into()])
    }

    /// The requirement of a struct at `path`. The derive writes `__self` for the struct.
    #[doc(hidden)]
    #[must_use]
    pub fn at(mut self, path: &str) -> Self {
        let place = format!("{path}.");
        for text in self.sides.iter_mut().map(|(text, _)| text).chain([&mut self.requirement]) {
            *text = text.replace("__self.", &place);
        }
        self
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {} cannot be launched: it requires {}", self.kernel, self.requirement)?;
        // A number says its value itself.
        let values = self.sides.iter().filter(|(text, value)| text.parse() != Ok(*value));
        for (at, (text, value)) in values.enumerate() {
            write!(f, "{} {text} is {value}", if at == 0 { ", and" } else { "," })?;
        }
        Ok(())
    }
}

impl std::error::Error for Unmet {}

/// A launch, as a typed launcher passes it to [`Device::launch`].
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Name of the kernel in the source, such as `axpy`.
    pub kernel: &'static str,
    /// Name of the instance's entry point in the PTX, such as `axpy_f32`.
    pub entry: &'static str,
    /// Grid, block and shared memory.
    pub shape: Shape,
    /// The arguments in the order of the entry point's parameters; a struct is flattened into its fields.
    pub args: &'a [Arg],
    /// Blocks of a cluster, consecutive in x; 1 without clusters.
    pub cluster: u32,
    /// The instance's function on the host.
    pub thread: Thread,
}

impl Call<'_> {
    /// Whether the blocks meet: all of them must be resident at one time.
    #[must_use]
    pub fn is_cooperative(&self) -> bool {
        self.args.iter().any(|arg| matches!(arg, Arg::Grid))
    }
}

/// Runs one CUDA thread of a kernel's instance on the host, for the emulator. Takes the arguments of the launch.
///
/// # Safety
/// The arguments are those of a launch of this instance. Its buffers are in host memory and outlive the call.
#[doc(hidden)]
pub type Thread = unsafe fn(&[Arg]);

/// Device memory: `len` elements of `T`.
///
/// ```
/// # use warpkov_device::emulator::Emulator;
/// # use warpkov_device::launch::*;
/// let device = Emulator::default();
/// let buffer = device.zeros::<f32>(3)?;
/// assert_eq!(buffer.len(), 3);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub trait Buffer<T: DeviceCopy> {
    /// Number of elements.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// assert_eq!(device.zeros::<f32>(3)?.len(), 3);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    fn len(&self) -> usize;
    /// Whether the buffer has no elements.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// assert!(device.zeros::<f32>(0)?.is_empty());
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The buffer as a kernel argument.
    #[doc(hidden)]
    fn arg(&self) -> Arg;
}

/// Indices below a bound, in device memory: the argument for [`Indices`](crate::device::safe::Indices).
///
/// ```
/// # use warpkov_device::emulator::Emulator;
/// # use warpkov_device::launch::*;
/// let device = Emulator::default();
/// let indices = IndexBuffer::upload(&device, &[2, 0, 1], 3)?;
/// assert_eq!((indices.len(), indices.below()), (3, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IndexBuffer<B> {
    buffer: B,
    below: u32,
}

/// Why an [`IndexBuffer`] cannot be made.
///
/// ```
/// # use warpkov_device::emulator::Emulator;
/// # use warpkov_device::launch::*;
/// let device = Emulator::default();
/// let error = IndexBuffer::upload(&device, &[2, 3], 3).err();
/// assert_eq!(error.map(|error| error.to_string()).as_deref(), Some("index 1 is 3, expected a number below 3"));
/// ```
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError<E> {
    /// An index is not below the bound.
    #[error("index {position} is {index}, expected a number below {below}")]
    TooLarge {
        /// Position of the index, from 0.
        position: usize,
        /// The index.
        index: u32,
        /// The bound.
        below: u32,
    },
    /// The upload has failed.
    #[error(transparent)]
    Device(#[from] E),
}

impl<B: Buffer<u32>> IndexBuffer<B> {
    /// A buffer that holds a copy of `indices`, all of which must be below `below`.
    ///
    /// # Errors
    /// An index is not, or the device fails.
    ///
    /// # Examples
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// assert!(IndexBuffer::upload(&device, &[2, 0, 1], 3).is_ok());
    /// assert!(IndexBuffer::upload(&device, &[2, 3], 3).is_err());
    /// ```
    pub fn upload<D: Device<Buffer<u32> = B>>(
        device: &D,
        indices: &[u32],
        below: u32,
    ) -> Result<Self, IndexError<D::Error>> {
        if let Some(position) = indices.iter().position(|&index| index >= below) {
            return Err(IndexError::TooLarge { position, index: indices[position], below });
        }
        Ok(Self { buffer: device.upload(indices)?, below })
    }

    /// Number of indices.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// assert_eq!(IndexBuffer::upload(&device, &[2, 0], 3)?.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether there is no index.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// assert!(IndexBuffer::upload(&device, &[], 3)?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bound.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// assert_eq!(IndexBuffer::upload(&device, &[2, 0], 3)?.below(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn below(&self) -> u32 {
        self.below
    }

    /// The buffer as a kernel argument.
    #[doc(hidden)]
    pub fn arg(&self) -> Arg {
        self.buffer.arg()
    }
}

/// A sparse matrix in compressed rows in device memory: the argument for [`SparseRows`](crate::device::safe::SparseRows). Its upload has
/// checked it, and nothing can write it later. The parameters are the types of its buffers: of row pointers, columns and values.
///
/// ```
/// # use warpkov_device::emulator::Emulator;
/// # use warpkov_device::launch::*;
/// let device = Emulator::default();
/// // The rows are (1, 0, 0, 2) and (0, 4, 0, 0).
/// let matrix = SparseBuffer::upload(&device, &[0_u32, 2, 3], &[0, 3, 1], &[1.0, 2.0, 4.0], 4)?;
/// assert_eq!((matrix.rows(), matrix.columns(), matrix.value().len()), (2, 4, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SparseBuffer<P, C, V> {
    ptr: P,
    col: C,
    value: V,
    rows: usize,
    columns: u32,
}

/// Why a [`SparseBuffer`] cannot be made.
///
/// ```
/// # use warpkov_device::emulator::Emulator;
/// # use warpkov_device::launch::*;
/// let device = Emulator::default();
/// let result = SparseBuffer::upload(&device, &[0_u32, 2, 3], &[0, 4, 1], &[1.0, 2.0, 4.0], 4);
/// assert!(matches!(result, Err(SparseError::Column { entry: 1, column: 4, columns: 4 })));
/// ```
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SparseError<E> {
    /// There are no row pointers.
    #[error("a matrix has one row pointer more than rows, expected at least one")]
    NoPointer,
    /// A row ends before it begins.
    #[error("row pointer {row} is {start}, and the next is {end}, expected one that is no smaller")]
    Descending {
        /// The row.
        row: usize,
        /// Its row pointer.
        start: usize,
        /// The next row pointer.
        end: usize,
    },
    /// The last row ends behind the last entry.
    #[error("the last row pointer is {last}, expected at most the number of entries, {entries}")]
    TooFew {
        /// The last row pointer.
        last: usize,
        /// Number of entries.
        entries: usize,
    },
    /// There are not as many values as columns.
    #[error("there are {columns} columns and {values} values, expected as many")]
    Lengths {
        /// Number of columns.
        columns: usize,
        /// Number of values.
        values: usize,
    },
    /// A column is not below the number of columns.
    #[error("the column of entry {entry} is {column}, expected a number below {columns}")]
    Column {
        /// The entry, from 0.
        entry: usize,
        /// Its column.
        column: u32,
        /// Number of columns.
        columns: u32,
    },
    /// The upload has failed.
    #[error(transparent)]
    Device(#[from] E),
}

impl SparseBuffer<(), (), ()> {
    /// A buffer that holds a copy of a matrix with `columns` columns: row r has the entries `ptr[r]..ptr[r + 1]`, each with its column and
    /// its value.
    ///
    /// # Errors
    /// `ptr` is empty, descends, or ends behind the last entry; a column is not below `columns`; there are not as many values as
    /// columns; or the device fails.
    ///
    /// # Examples
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// // The rows are (1, 0, 0, 2) and (0, 4, 0, 0).
    /// let matrix = SparseBuffer::upload(&device, &[0_u32, 2, 3], &[0, 3, 1], &[1.0, 2.0, 4.0], 4)?;
    /// assert_eq!(device.to_vec(matrix.col())?, [0, 3, 1]);
    /// assert!(SparseBuffer::upload(&device, &[0_u32, 2, 1], &[0, 3, 1], &[1.0, 2.0, 4.0], 4).is_err(), "row 1 ends before it begins");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[allow(
        clippy::new_ret_no_self,
        clippy::type_complexity,
        reason = "the type of the buffers follows from the device"
    )]
    pub fn upload<D: Device, T: DeviceCopy, O: Offset>(
        device: &D,
        ptr: &[O],
        col: &[u32],
        value: &[T],
        columns: u32,
    ) -> Result<SparseBuffer<D::Buffer<O>, D::Buffer<u32>, D::Buffer<T>>, SparseError<D::Error>> {
        let last = ptr.last().ok_or(SparseError::NoPointer)?.to_usize();
        if let Some(row) = ptr.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(SparseError::Descending { row, start: ptr[row].to_usize(), end: ptr[row + 1].to_usize() });
        }
        if col.len() != value.len() {
            return Err(SparseError::Lengths { columns: col.len(), values: value.len() });
        }
        if last > col.len() {
            return Err(SparseError::TooFew { last, entries: col.len() });
        }
        if let Some(entry) = col.iter().position(|&column| column >= columns) {
            return Err(SparseError::Column { entry, column: col[entry], columns });
        }
        let (ptr, rows) = (device.upload(ptr)?, ptr.len() - 1);
        Ok(SparseBuffer { ptr, col: device.upload(col)?, value: device.upload(value)?, rows, columns })
    }
}

impl<P, C, V> SparseBuffer<P, C, V> {
    /// Number of rows.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// // The rows are (1, 0, 0, 2) and (0, 4, 0, 0).
    /// let matrix = SparseBuffer::upload(&device, &[0_u32, 2, 3], &[0, 3, 1], &[1.0, 2.0, 4.0], 4)?;
    /// assert_eq!(matrix.rows(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// // The rows are (1, 0, 0, 2) and (0, 4, 0, 0).
    /// let matrix = SparseBuffer::upload(&device, &[0_u32, 2, 3], &[0, 3, 1], &[1.0, 2.0, 4.0], 4)?;
    /// assert_eq!(matrix.columns(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Row pointers.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// // The rows are (1, 0, 0, 2) and (0, 4, 0, 0).
    /// let matrix = SparseBuffer::upload(&device, &[0_u32, 2, 3], &[0, 3, 1], &[1.0, 2.0, 4.0], 4)?;
    /// assert_eq!(device.to_vec(matrix.ptr())?, [0, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ptr(&self) -> &P {
        &self.ptr
    }

    /// Column of each entry.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// // The rows are (1, 0, 0, 2) and (0, 4, 0, 0).
    /// let matrix = SparseBuffer::upload(&device, &[0_u32, 2, 3], &[0, 3, 1], &[1.0, 2.0, 4.0], 4)?;
    /// assert_eq!(device.to_vec(matrix.col())?, [0, 3, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn col(&self) -> &C {
        &self.col
    }

    /// Value of each entry.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// // The rows are (1, 0, 0, 2) and (0, 4, 0, 0).
    /// let matrix = SparseBuffer::upload(&device, &[0_u32, 2, 3], &[0, 3, 1], &[1.0, 2.0, 4.0], 4)?;
    /// assert_eq!(device.to_vec(matrix.value())?, [1.0, 2.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn value(&self) -> &V {
        &self.value
    }
}

/// A device that runs kernels.
///
/// Operations on one `Device` execute in the order of their submission, as in a CUDA stream; only those of
/// [`stage`](Device::stage) and [`beside`](Device::beside) overlap with others. Launches and copies to the device may return before they have
/// executed. [`download`](Device::download) and [`synchronize`](Device::synchronize) wait for all operations submitted
/// before.
///
/// ```
/// use warpkov_device::emulator::Emulator;
/// use warpkov_device::launch::{Device, Shape};
/// use warpkov_device::device::{Global, GlobalMut, kernel, thread};
///
/// #[kernel]
/// fn double(x: Global<f32>, y: GlobalMut<f32>) {
///     let i = thread::index_1d();
///     y.set(i, 2.0 * x.get(i));
/// }
///
/// /// 2x, on any device.
/// fn doubled<D: Device>(device: &D, x: &[f32]) -> Result<Vec<f32>, D::Error> {
///     let (x_there, mut y) = (device.upload(x)?, device.zeros(x.len())?);
///     // SAFETY: both buffers have one element per thread.
///     unsafe { double(device, Shape::new(x.len() as u32, 1), &x_there, &mut y)? };
///     device.to_vec(&y)
/// }
///
/// assert_eq!(doubled(&Emulator::default(), &[1.0, 2.5])?, [2.0, 5.0]);
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub trait Device {
    /// Errors of this device. An error of a launch may be returned by a later call.
    type Error: std::error::Error + From<Unmet> + Send + Sync + 'static;
    /// Memory of this device.
    type Buffer<T: DeviceCopy>: Buffer<T> + 'static;
    /// Host memory from which [`stage`](Device::stage) copies.
    type Pinned<T: DeviceCopy>;
    /// A point in the order of operations.
    type Event;
    /// Recorded operations.
    type Graph;

    /// A buffer of `len` elements, all bytes zero.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// assert_eq!(device.to_vec(&device.zeros::<f32>(2)?)?, [0.0, 0.0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    fn zeros<T: DeviceCopy>(&self, len: usize) -> Result<Self::Buffer<T>, Self::Error>;

    /// A buffer of `len` elements of unspecified value, which a kernel writes before one reads them. By default, all
    /// bytes are zero.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// let mut x = device.uninitialised(2)?;
    /// device.write(&mut x, &[1, 2])?;
    /// assert_eq!(device.to_vec(&x)?, [1, 2]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    fn uninitialised<T: DeviceCopy>(&self, len: usize) -> Result<Self::Buffer<T>, Self::Error> {
        self.zeros(len)
    }

    /// A buffer that holds a copy of `source`.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// assert_eq!(device.to_vec(&device.upload(&[1, 2])?)?, [1, 2]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    fn upload<T: DeviceCopy>(&self, source: &[T]) -> Result<Self::Buffer<T>, Self::Error>;

    /// A buffer of `ends.last()` elements, filled piece by piece: the host fills a piece while the device copies the
    /// one before.
    ///
    /// Piece i consists of the elements `ends[i − 1]..ends[i]` of the buffer; piece 0 begins at element 0. `fill`
    /// receives i and the elements of piece i, and must write all of them.
    ///
    /// # Panics
    /// If `ends` is not ascending.
    ///
    /// # Examples
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// let x = device.upload_pieces(&[2, 5], |piece, elements| elements.fill(piece as u32))?;
    /// assert_eq!(device.to_vec(&x)?, [0, 0, 1, 1, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
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

    /// Copies `source` to the first elements of `target`.
    ///
    /// # Panics
    /// If `source` is longer than `target`.
    ///
    /// # Examples
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// let mut x = device.zeros(3)?;
    /// device.write(&mut x, &[1, 2])?;
    /// assert_eq!(device.to_vec(&x)?, [1, 2, 0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    fn write<T: DeviceCopy>(&self, target: &mut Self::Buffer<T>, source: &[T]) -> Result<(), Self::Error>;

    /// Sets every byte of `buffer` to zero.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// let mut x = device.upload(&[1, 2])?;
    /// device.clear(&mut x)?;
    /// assert_eq!(device.to_vec(&x)?, [0, 0]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    fn clear<T: DeviceCopy>(&self, buffer: &mut Self::Buffer<T>) -> Result<(), Self::Error>;

    /// Copies the first `target.len()` elements of `buffer` to the host.
    ///
    /// # Panics
    /// If `target` is longer than `buffer`.
    ///
    /// # Examples
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// let (x, mut first) = (device.upload(&[1, 2, 3])?, [0; 2]);
    /// device.download(&x, &mut first)?;
    /// assert_eq!(first, [1, 2]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    fn download<T: DeviceCopy>(&self, buffer: &Self::Buffer<T>, target: &mut [T]) -> Result<(), Self::Error>;

    /// Waits until all operations submitted so far have executed.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// # use warpkov_device::device::{GlobalMut, kernel, thread};
    /// #[kernel]
    /// fn increment(x: GlobalMut<u32>) {
    ///     let i = thread::index_1d();
    ///     x.set(i, x.get(i) + 1);
    /// }
    ///
    /// let device = Emulator::default();
    /// let mut x = device.zeros(2)?;
    /// // SAFETY: `x` has one element per thread.
    /// unsafe { increment(&device, Shape::new(1, 2), &mut x)? };
    /// device.synchronize()?;
    /// // The kernel has ended.
    /// assert_eq!(device.to_vec(&x)?, [1, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    fn synchronize(&self) -> Result<(), Self::Error>;

    /// Moves `source` to memory from which [`stage`](Device::stage) copies.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// let (source, mut x) = (device.pin(vec![1, 2, 3])?, device.zeros(2)?);
    /// let event = device.record_event()?;
    /// // SAFETY: no operation since the event uses `x`.
    /// unsafe { device.stage(&source, 1..3, &mut x, &event)? };
    /// assert_eq!(device.to_vec(&x)?, [2, 3]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    fn pin<T: DeviceCopy>(&self, source: Vec<T>) -> Result<Self::Pinned<T>, Self::Error>;

    /// An event that completes when all operations submitted so far have executed.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// let (source, mut x) = (device.pin(vec![1, 2, 3])?, device.zeros(2)?);
    /// let event = device.record_event()?;
    /// // SAFETY: no operation since the event uses `x`.
    /// unsafe { device.stage(&source, 1..3, &mut x, &event)? };
    /// assert_eq!(device.to_vec(&x)?, [2, 3]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    fn record_event(&self) -> Result<Self::Event, Self::Error>;

    /// Copies the elements `range` of `source` to the start of `target`, concurrently with operations submitted since
    /// `after`.
    ///
    /// The copy waits for `after` and for earlier calls of `stage`. Operations submitted after this call wait for the
    /// copy.
    ///
    /// # Panics
    /// If `range` is not within `source`, or is longer than `target`.
    ///
    /// # Safety
    /// No operation submitted between `after` and this call uses `target`.
    ///
    /// # Examples
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// let (source, mut x) = (device.pin(vec![1, 2, 3])?, device.zeros(2)?);
    /// let event = device.record_event()?;
    /// // SAFETY: no operation since the event uses `x`.
    /// unsafe { device.stage(&source, 1..3, &mut x, &event)? };
    /// assert_eq!(device.to_vec(&x)?, [2, 3]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    unsafe fn stage<T: DeviceCopy>(
        &self,
        source: &Self::Pinned<T>,
        range: Range<usize>,
        target: &mut Self::Buffer<T>,
        after: &Self::Event,
    ) -> Result<(), Self::Error>;

    /// Submits the operations of `side`, and those of `main` to run at the same time. Both follow all operations
    /// submitted before, and all later ones follow both. Both closures get `context`, `side` first.
    ///
    /// Where multiprocessors are scarce, the operations of `side` come first. A device that cannot overlap operations
    /// executes one after the other.
    ///
    /// # Safety
    /// No operation of one closure writes memory that the other reads or writes, but for atomic operations of both. The
    /// closures submit launches, [`clear`](Self::clear), copies, and exchanges with other devices, but do not call
    /// [`stage`](Self::stage) or this method.
    ///
    /// # Examples
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// # use warpkov_device::device::{GlobalMut, kernel, thread};
    /// #[kernel]
    /// fn increment(x: GlobalMut<u32>) {
    ///     let i = thread::index_1d();
    ///     x.set(i, x.get(i) + 1);
    /// }
    ///
    /// let device = Emulator::default();
    /// let mut buffers = (device.zeros(2)?, device.zeros(2)?);
    /// let shape = Shape::new(1, 2);
    /// // SAFETY: each part has a buffer of its own, with one element per thread.
    /// unsafe {
    ///     device.beside(
    ///         &mut buffers,
    ///         |(x, _)| increment(&device, shape, x),
    ///         |(_, y)| increment(&device, shape, y),
    ///     )?;
    /// }
    /// assert_eq!((device.to_vec(&buffers.0)?, device.to_vec(&buffers.1)?), (vec![1, 1], vec![1, 1]));
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    unsafe fn beside<C>(
        &self,
        context: &mut C,
        side: impl FnOnce(&mut C) -> Result<(), Self::Error>,
        main: impl FnOnce(&mut C) -> Result<(), Self::Error>,
    ) -> Result<(), Self::Error> {
        side(context)?;
        main(context)
    }

    /// Launches a kernel. Typed launchers call this; other code should not.
    ///
    /// The emulator calls `call.thread` once per CUDA thread. A GPU runs the entry point.
    ///
    /// # Safety
    /// `call.args` match the parameters of `call.entry` and `call.thread`, every buffer belongs to this device, and the
    /// kernel's own *Safety* section holds for these arguments.
    #[doc(hidden)]
    unsafe fn launch(&self, call: Call<'_>) -> Result<(), Self::Error>;

    /// Records the operations that `work` submits, without executing them. `work` may call [`launch`](Self::launch) and
    /// [`clear`](Self::clear) only.
    ///
    /// The host needs more time to submit a launch than a small kernel needs to run; it submits a graph at once. A
    /// device that cannot record returns `None` without calling `work`.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// # use warpkov_device::device::{GlobalMut, kernel, thread};
    /// #[kernel]
    /// fn increment(x: GlobalMut<u32>) {
    ///     let i = thread::index_1d();
    ///     x.set(i, x.get(i) + 1);
    /// }
    ///
    /// let device = Emulator::default();
    /// let mut x = device.zeros(2)?;
    /// // SAFETY: `x` has one element per thread.
    /// let mut work = || unsafe { increment(&device, Shape::new(1, 2), &mut x) };
    /// match device.capture(&mut work)? {
    ///     // SAFETY: `x` still exists.
    ///     Some(graph) => unsafe { device.launch_graph(&graph)? },
    ///     // The emulator records nothing.
    ///     None => work()?,
    /// }
    /// assert_eq!(device.to_vec(&x)?, [1, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    fn capture(&self, work: impl FnOnce() -> Result<(), Self::Error>) -> Result<Option<Self::Graph>, Self::Error>;

    /// Submits the recorded operations.
    ///
    /// # Safety
    /// All recorded buffers still exist, and the safety conditions of the recorded launches hold again.
    ///
    /// # Examples
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// # use warpkov_device::device::{GlobalMut, kernel, thread};
    /// #[kernel]
    /// fn increment(x: GlobalMut<u32>) {
    ///     let i = thread::index_1d();
    ///     x.set(i, x.get(i) + 1);
    /// }
    ///
    /// let device = Emulator::default();
    /// let mut x = device.zeros(2)?;
    /// // SAFETY: `x` has one element per thread.
    /// let mut work = || unsafe { increment(&device, Shape::new(1, 2), &mut x) };
    /// match device.capture(&mut work)? {
    ///     // SAFETY: `x` still exists.
    ///     Some(graph) => unsafe { device.launch_graph(&graph)? },
    ///     // The emulator records nothing.
    ///     None => work()?,
    /// }
    /// assert_eq!(device.to_vec(&x)?, [1, 1]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    unsafe fn launch_graph(&self, graph: &Self::Graph) -> Result<(), Self::Error>;

    /// Copies all of `buffer` to a new vector.
    ///
    /// ```
    /// # use warpkov_device::emulator::Emulator;
    /// # use warpkov_device::launch::*;
    /// let device = Emulator::default();
    /// let x = device.upload(&[0.5, 1.5])?;
    /// assert_eq!(device.to_vec(&x)?, [0.5, 1.5]);
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    fn to_vec<T: DeviceCopy>(&self, buffer: &Self::Buffer<T>) -> Result<Vec<T>, Self::Error> {
        let mut target = vec![T::zeroed(); buffer.len()];
        self.download(buffer, &mut target)?;
        Ok(target)
    }
}
