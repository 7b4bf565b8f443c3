//! A rank of a group of GPUs that exchange data through NCCL.
//!
//! All communicators are non-blocking: a call of NCCL returns at once, and this module polls its state until it is ready,
//! has failed, or the timeout has passed. Waits for streams poll as well ([`Core::settle`]). A rank whose wait fails
//! aborts its communicator, which ends its kernels, so that the driver's own waits end too.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::rc::{Rc, Weak};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use warpkov_device::device::DeviceCopy;
use warpkov_device::launch::{Arg, Buffer};

use super::buffer::GpuBuffer;
use super::graph::Event;
use super::{Core, Gpu};
use crate::driver::{Handle, NOT_READY};
use crate::error::{CudaError, check};
use crate::nccl::{self, BYTE, Config, IN_PROGRESS, Nccl, SUCCESS, UniqueId};

/// One rank of an NCCL communicator: a group of GPUs that exchange data.
///
/// Every rank is a thread or a process with a [`Gpu`] of its own. One of them makes an identifier
/// ([`unique_id`](Self::unique_id)) and gives it to the others; then all create their communicator at the same time:
///
/// ```
/// use std::time::Duration;
/// use warpkov_cuda::{Communicator, CudaError, Gpu, Modules, Reduction};
/// use warpkov_device::launch::Device;
///
/// /// The maximum over all GPUs of the number that each has.
/// fn maximum(modules: &'static Modules, numbers: &[f64]) -> Result<Vec<f64>, CudaError> {
///     let id = Communicator::unique_id()?;
///     let rank = |rank: u32| -> Result<f64, CudaError> {
///         let gpu = Gpu::open(rank, modules)?;
///         let ranks = Communicator::new(&gpu, &id, rank, numbers.len() as u32, Duration::from_secs(60))?;
///         let mut number = gpu.upload(&[numbers[rank as usize]])?;
///         // SAFETY: all ranks reduce one f64.
///         unsafe { ranks.all_reduce(&mut number, 0..1, Reduction::Max) }?;
///         Ok(gpu.to_vec(&number)?[0])
///     };
///     std::thread::scope(|scope| {
///         let threads: Vec<_> = (0..numbers.len()).map(|at| scope.spawn(move || rank(at as u32))).collect();
///         threads.into_iter().map(|thread| thread.join().expect("a rank does not panic")).collect()
///     })
/// }
/// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
/// # assert!(maximum(&MODULES, &[1.0]).is_err());
/// ```
///
/// Ranks that are threads should be [`std::thread`]s. A worker of a thread pool may run the task of another rank inside
/// its own, and then neither rank makes progress.
///
/// # Order of operations
/// An operation executes in the order of the GPU's other operations, on all ranks together: it ends on a rank when that
/// rank's part is done. [`start`](Self::start) submits operations that overlap with later ones. Within
/// [`Device::capture`](warpkov_device::launch::Device::capture), operations are recorded; the [`Graph`](super::Graph)
/// then keeps the communicator alive.
///
/// # Failures
/// Every wait of the host for a GPU with unfinished operations of a communicator polls and has the communicator's
/// timeout, also the waits of [`Device`](warpkov_device::launch::Device)'s methods. The timeout must exceed the time by
/// which one rank may be behind another. An error, a timeout or a panic aborts the communicator of the rank: its
/// operations end, their results are undefined, and every later operation returns the same error. The other ranks wait
/// until their own timeouts. Then the contents of all buffers that took part are undefined. A new communicator may be
/// created from the same GPUs when all ranks have dropped theirs.
///
/// # Memory
/// GPUs of one process reach each other's memory, and the driver frees memory on one of them only while the others do
/// nothing. A rank that freed memory while another already waits for it would never reach the operation for which the
/// other waits. Buffers of a GPU with communicators are therefore not freed when they are dropped: later buffers of the
/// same size use their memory. The last communicator of the GPU frees the rest when it is dropped, as does an allocation
/// that finds too little memory.
pub struct Communicator {
    shared: Rc<Shared>,
}

/// A communicator, which its graphs and requests share with it.
pub(super) struct Shared {
    nccl: &'static Nccl,
    /// `ncclComm_t`; null after an abort.
    handle: Cell<Handle>,
    rank: u32,
    size: u32,
    timeout: Duration,
    /// Operations join a group: see [`Communicator::group`].
    grouped: Cell<bool>,
    /// Operations were submitted that the host has not waited for.
    pending: Cell<bool>,
    /// The error after which the communicator was aborted.
    failure: RefCell<Option<CudaError>>,
    core: Rc<Core>,
}

/// Operations in progress on the side stream of a GPU: see [`Communicator::start`].
///
/// Dropping it without a call of [`wait`](Self::wait) has the same effect.
///
/// ```no_run
/// # use warpkov_cuda::*;
/// # use warpkov_device::launch::*;
/// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
/// let mut sums = gpu.upload(&[0.5, 1.5])?;
/// // SAFETY: all ranks do the same, and nothing else uses the buffer until the end of the wait.
/// let request: Request = unsafe { ranks.start(|| ranks.all_reduce(&mut sums, 0..2, Reduction::Sum)) }?;
/// // Other operations of the GPU overlap with the exchange until here.
/// request.wait()?;
/// println!("{:?}", gpu.to_vec(&sums)?);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Request {
    shared: Rc<Shared>,
    /// The end of the operations; `None` once the main stream waits for it.
    event: Option<Event>,
}

/// An operation that combines the numbers of all ranks, element by element.
///
/// ```no_run
/// # use warpkov_cuda::*;
/// # use warpkov_device::launch::*;
/// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
/// let mut number = gpu.upload(&[ranks.rank()])?;
/// // SAFETY: all ranks reduce one number.
/// unsafe { ranks.all_reduce(&mut number, 0..1, Reduction::Max) }?;
/// assert_eq!(gpu.to_vec(&number)?, [ranks.size() - 1]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The sum, in an order of NCCL's choice: floating-point sums are the same on all ranks and may differ between
    /// numbers of ranks and versions of NCCL.
    Sum,
    /// The maximum. Whether a NaN is ignored is NCCL's choice.
    Max,
    /// The minimum. Whether a NaN is ignored is NCCL's choice.
    Min,
}

impl Reduction {
    /// `ncclRedOp_t`.
    fn code(self) -> c_int {
        match self {
            Self::Sum => 0,
            Self::Max => 2,
            Self::Min => 3,
        }
    }
}

mod sealed {
    pub trait Sealed {
        /// `ncclDataType_t`.
        const TYPE: std::ffi::c_int;
    }
}

/// Numbers that [`Communicator::all_reduce`] combines: `f32`, `f64`, `i32`, `i64`, `u32`, `u64`.
///
/// ```no_run
/// # use warpkov_cuda::*;
/// /// The sum of one number of each rank.
/// fn sum<T: Reducible>(ranks: &Communicator, number: &mut GpuBuffer<T>) -> Result<(), CudaError> {
///     // SAFETY: all ranks reduce one number.
///     unsafe { ranks.all_reduce(number, 0..1, Reduction::Sum) }
/// }
/// ```
pub trait Reducible: DeviceCopy + sealed::Sealed {}

macro_rules! reducible {
    ($($number:ty = $code:literal),*) => {$(
        impl sealed::Sealed for $number {
            const TYPE: c_int = $code;
        }
        impl Reducible for $number {}
    )*};
}

reducible!(i32 = 2, u32 = 3, i64 = 4, u64 = 5, f32 = 7, f64 = 8);

impl Communicator {
    /// A new identifier of a communicator. One rank calls this, and all ranks pass the result to [`new`](Self::new).
    ///
    /// The process that calls this opens a network port, at which the ranks meet; it must live until all ranks have
    /// created their communicator.
    ///
    /// # Errors
    /// There is no NCCL library, or it finds no network interface.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// match Communicator::unique_id() {
    ///     Ok(id) => println!("for the other ranks: {id:02x?}"),
    ///     Err(error) => println!("{error}"),
    /// }
    /// ```
    pub fn unique_id() -> Result<[u8; 128], CudaError> {
        let nccl = nccl::get()?;
        let mut id = UniqueId([0; 128]);
        // SAFETY: ncclGetUniqueId writes one identifier.
        match unsafe { (nccl.get_unique_id)(&mut id) } {
            SUCCESS => Ok(id.0),
            code => Err(CudaError::Nccl { rank: 0, size: 1, call: "ncclGetUniqueId", text: nccl.describe(code) }),
        }
    }

    /// Joins the communicator `id` of `size` ranks as `rank`, from 0, and waits for the other ranks to do so.
    ///
    /// No two ranks may be on the same GPU. `timeout` limits this call and every later wait for other ranks.
    ///
    /// # Errors
    /// There is no NCCL library; the ranks have not met within `timeout`; or NCCL cannot connect the GPUs.
    ///
    /// # Panics
    /// If `rank ≥ size`, or `size` exceeds `i32::MAX`.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
    /// let gpu = Gpu::open(0, &MODULES)?;
    /// let id = Communicator::unique_id()?;
    /// let alone = Communicator::new(&gpu, &id, 0, 1, std::time::Duration::from_secs(60))?;
    /// assert_eq!((alone.rank(), alone.size()), (0, 1));
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn new(gpu: &Gpu, id: &[u8; 128], rank: u32, size: u32, timeout: Duration) -> Result<Self, CudaError> {
        assert!(rank < size && i32::try_from(size).is_ok(), "rank {rank} of {size}");
        let nccl = nccl::get()?;
        let core = &gpu.core;
        core.settle()?;
        core.enter()?;
        let shared = Rc::new(Shared {
            nccl,
            handle: Cell::new(ptr::null_mut()),
            rank,
            size,
            timeout,
            grouped: Cell::new(false),
            pending: Cell::new(false),
            failure: RefCell::default(),
            core: Rc::clone(core),
        });
        let (mut handle, mut config) = (ptr::null_mut(), Config::NON_BLOCKING);
        // SAFETY: ncclCommInitRankConfig copies the identifier, writes one handle, and reads the bytes of `config` that
        // its first field counts. "The rank is associated to a CUDA device, which has to be set before": the context of
        // the GPU is current, and the CUDA runtime inside NCCL takes its device from it.
        let code = unsafe {
            (nccl.comm_init_rank_config)(&mut handle, size as c_int, UniqueId(*id), rank as c_int, &mut config)
        };
        shared.handle.set(handle);
        let call = "ncclCommInitRankConfig";
        shared.check(call, code).and_then(|()| shared.ready(call)).map_err(|error| shared.fail(error))?;
        let mut all = core.communicators.borrow_mut();
        all.retain(|other| other.strong_count() > 0);
        all.push(Rc::downgrade(&shared));
        drop(all);
        Ok(Self { shared })
    }

    /// The rank, in 0..size.
    ///
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
    /// println!("rank {} of {}", ranks.rank(), ranks.size());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.shared.rank
    }

    /// The number of ranks.
    ///
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
    /// assert!(ranks.rank() < ranks.size());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn size(&self) -> u32 {
        self.shared.size
    }

    /// The longest wait for other ranks.
    ///
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
    /// println!("waits of at most {:?}", ranks.timeout());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.shared.timeout
    }

    /// Sends ranges of `source` and receives ranges of `target`. Each entry of `sends` and `receives` is the other rank
    /// and the elements.
    ///
    /// All transfers proceed together, in no order. The sends of rank a to rank b match the receives of b from a, in
    /// the order of their lists. A rank may send to itself. Empty ranges are ignored.
    ///
    /// # Errors
    /// The communicator has failed, or fails now.
    ///
    /// # Panics
    /// If a range is not within its buffer, two of the `receives` overlap, or there is no such rank.
    ///
    /// # Safety
    /// The other ranks take part with the same operation, as their next one: to every send belongs a receive with the
    /// same number of bytes. Both buffers belong to the communicator's GPU.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
    /// let (next, previous) = ((ranks.rank() + 1) % ranks.size(), (ranks.rank() + ranks.size() - 1) % ranks.size());
    /// let (mine, mut theirs) = (gpu.upload(&[ranks.rank()])?, gpu.zeros(1)?);
    /// // SAFETY: each rank sends one number to the next, and receives one from the previous.
    /// unsafe { ranks.exchange(&mine, &[(next, 0..1)], &mut theirs, &[(previous, 0..1)]) }?;
    /// assert_eq!(gpu.to_vec(&theirs)?, [previous]);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn exchange<T: DeviceCopy>(
        &self,
        source: &GpuBuffer<T>,
        sends: &[(u32, Range<usize>)],
        target: &mut GpuBuffer<T>,
        receives: &[(u32, Range<usize>)],
    ) -> Result<(), CudaError> {
        check_disjoint(receives.iter().map(|(_, range)| range));
        // SAFETY: the caller's promise; a mutable borrow does not share memory with `source`.
        unsafe { self.shared.transfer(source, sends, target, receives) }
    }

    /// [`exchange`](Self::exchange) within one buffer.
    ///
    /// # Errors
    /// As for `exchange`.
    ///
    /// # Panics
    /// As for `exchange`, or if a range of `sends` overlaps with one of `receives`.
    ///
    /// # Safety
    /// As for `exchange`.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
    /// let (next, previous) = ((ranks.rank() + 1) % ranks.size(), (ranks.rank() + ranks.size() - 1) % ranks.size());
    /// let mut numbers = gpu.upload(&[ranks.rank(), 0])?;
    /// // SAFETY: each rank sends one number to the next, and receives one from the previous.
    /// unsafe { ranks.exchange_in_place(&mut numbers, &[(next, 0..1)], &[(previous, 1..2)]) }?;
    /// assert_eq!(gpu.to_vec(&numbers)?, [ranks.rank(), previous]);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn exchange_in_place<T: DeviceCopy>(
        &self,
        buffer: &mut GpuBuffer<T>,
        sends: &[(u32, Range<usize>)],
        receives: &[(u32, Range<usize>)],
    ) -> Result<(), CudaError> {
        check_disjoint(receives.iter().map(|(_, range)| range));
        for (_, sent) in sends {
            // Sends may overlap with each other.
            check_disjoint(receives.iter().map(|(_, range)| range).chain([sent]));
        }
        // SAFETY: the caller's promise, and the ranges that are read are disjoint from those that are written.
        unsafe { self.shared.transfer(buffer, sends, buffer, receives) }
    }

    /// Combines the elements `range` of all ranks, element by element, and writes the results to all of them.
    ///
    /// # Errors
    /// The communicator has failed, or fails now.
    ///
    /// # Panics
    /// If `range` is not within `buffer`.
    ///
    /// # Safety
    /// All ranks call this as their next operation with the same type, length and reduction. The buffer belongs to the
    /// communicator's GPU.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
    /// let mut number = gpu.upload(&[ranks.rank()])?;
    /// // SAFETY: all ranks reduce one number.
    /// unsafe { ranks.all_reduce(&mut number, 0..1, Reduction::Max) }?;
    /// assert_eq!(gpu.to_vec(&number)?, [ranks.size() - 1]);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn all_reduce<T: Reducible>(
        &self,
        buffer: &mut GpuBuffer<T>,
        range: Range<usize>,
        reduction: Reduction,
    ) -> Result<(), CudaError> {
        let (data, count) = (address(buffer, &range), range.len());
        self.shared.submit(count == 0, |shared, stream| {
            // SAFETY: the address is that of `count` elements of the buffer's memory (`address`), in place: "In-place
            // operation will happen if sendbuff == recvbuff". The memory lives until the operation ends: freeing it
            // waits for the GPU (`GpuBuffer::drop`). The other ranks' parts are the caller's promise.
            let code = unsafe {
                let (handle, operation) = (shared.handle.get(), reduction.code());
                (shared.nccl.all_reduce)(data, data, count, T::TYPE, operation, handle, stream)
            };
            shared.check("ncclAllReduce", code)
        })
    }

    /// Gives all ranks the parts of all ranks. Element `start + r·part + i` of `buffer` is element i of the part of
    /// rank r. Each rank has written its own part; the operation writes the others.
    ///
    /// # Errors
    /// The communicator has failed, or fails now.
    ///
    /// # Panics
    /// If the `size·part` elements from `start` on are not within `buffer`.
    ///
    /// # Safety
    /// All ranks call this as their next operation with the same type and `part`. The buffer belongs to the
    /// communicator's GPU.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
    /// let mut numbers = vec![0; ranks.size() as usize];
    /// numbers[ranks.rank() as usize] = 10 * ranks.rank();
    /// let mut buffer = gpu.upload(&numbers)?;
    /// // SAFETY: all ranks have one number.
    /// unsafe { ranks.all_gather(&mut buffer, 0, 1) }?;
    /// assert!(gpu.to_vec(&buffer)?.into_iter().eq((0..ranks.size()).map(|rank| 10 * rank)));
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn all_gather<T: DeviceCopy>(
        &self,
        buffer: &mut GpuBuffer<T>,
        start: usize,
        part: usize,
    ) -> Result<(), CudaError> {
        let end = part.saturating_mul(self.size() as usize).saturating_add(start);
        let all = address(buffer, &(start..end));
        let own = all.wrapping_byte_add(self.rank() as usize * part * size_of::<T>());
        let bytes = part * size_of::<T>();
        self.shared.submit(bytes == 0, |shared, stream| {
            // SAFETY: the addresses are those of `size·part` elements of the buffer, and of this rank's part of them:
            // "In-place operations will happen if sendbuff == recvbuff + rank * sendcount". The rest as in
            // `all_reduce`.
            let code = unsafe { (shared.nccl.all_gather)(own, all, bytes, BYTE, shared.handle.get(), stream) };
            shared.check("ncclAllGather", code)
        })
    }

    /// Copies the elements `range` of rank `root` to all ranks.
    ///
    /// # Errors
    /// The communicator has failed, or fails now.
    ///
    /// # Panics
    /// If `range` is not within `buffer`, or there is no rank `root`.
    ///
    /// # Safety
    /// All ranks call this as their next operation with the same type, length and root. The buffer belongs to the
    /// communicator's GPU.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
    /// let mut number = gpu.upload(&[ranks.rank()])?;
    /// // SAFETY: all ranks have one number, and the same root.
    /// unsafe { ranks.broadcast(&mut number, 0..1, 0) }?;
    /// assert_eq!(gpu.to_vec(&number)?, [0]);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn broadcast<T: DeviceCopy>(
        &self,
        buffer: &mut GpuBuffer<T>,
        range: Range<usize>,
        root: u32,
    ) -> Result<(), CudaError> {
        let (data, bytes, root) = (address(buffer, &range), range.len() * size_of::<T>(), self.shared.peer(root));
        self.shared.submit(bytes == 0, |shared, stream| {
            // SAFETY: as in `all_reduce`.
            let code = unsafe { (shared.nccl.broadcast)(data, data, bytes, BYTE, root, shared.handle.get(), stream) };
            shared.check("ncclBroadcast", code)
        })
    }

    /// Submits the operations of `work` to a second stream, where they overlap with the GPU's operations until
    /// [`Request::wait`].
    ///
    /// They wait for all operations submitted before this call. Requests wait for each other in the order of their
    /// submission.
    ///
    /// # Errors
    /// Errors of `work`, or a driver call fails.
    ///
    /// # Safety
    /// Until the request is waited for, or dropped, no other operation writes the memory that `work` sends, and none
    /// reads or writes the memory that it receives. A request that is forgotten counts as never waited for.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
    /// let mut sums = gpu.upload(&[0.5, 1.5])?;
    /// // SAFETY: all ranks do the same, and nothing else uses the buffer until the end of the wait.
    /// let request = unsafe { ranks.start(|| ranks.all_reduce(&mut sums, 0..2, Reduction::Sum)) }?;
    /// // Other operations of the GPU overlap with the exchange until here.
    /// request.wait()?;
    /// println!("{:?}", gpu.to_vec(&sums)?);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn start(&self, work: impl FnOnce() -> Result<(), CudaError>) -> Result<Request, CudaError> {
        self.shared.usable()?;
        let (event, submitted) = self.shared.core.aside(work)?;
        // A failure of `work` joins the streams again, too: a capture in progress requires it.
        let request = Request { shared: Rc::clone(&self.shared), event: Some(event) };
        submitted.map(|()| request)
    }

    /// Submits the operations of this communicator that `work` calls as one, which takes less time than one after the
    /// other. They proceed together, in no order.
    ///
    /// # Errors
    /// Errors of `work`, or the communicator has failed, or fails now.
    ///
    /// # Safety
    /// No operation of `work` writes memory that another one of them reads or writes. All ranks call this as their next
    /// operation, with operations that match.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
    /// let (mut sum, mut largest) = (gpu.upload(&[0.5])?, gpu.upload(&[ranks.rank()])?);
    /// // SAFETY: the operations use different buffers, and all ranks do the same.
    /// unsafe {
    ///     ranks.group(|| {
    ///         ranks.all_reduce(&mut sum, 0..1, Reduction::Sum)?;
    ///         ranks.all_reduce(&mut largest, 0..1, Reduction::Max)
    ///     })?;
    /// }
    /// assert_eq!(gpu.to_vec(&largest)?, [ranks.size() - 1]);
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn group(&self, work: impl FnOnce() -> Result<(), CudaError>) -> Result<(), CudaError> {
        /// Ends the group, also when `work` panics.
        struct Reset<'a>(&'a Cell<bool>);

        impl Drop for Reset<'_> {
            fn drop(&mut self) {
                self.0.set(false);
            }
        }

        self.shared.submit(false, |shared, _| {
            shared.grouped.set(true);
            let reset = Reset(&shared.grouped);
            let submitted = work();
            drop(reset);
            submitted
        })
    }

    /// Waits until all operations submitted to the GPU so far have executed, those of requests included.
    ///
    /// # Errors
    /// The wait took longer than the timeout; the communicator has failed; or the GPU failed while it executed the
    /// operations. The communicator is then aborted.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
    /// ranks.synchronize()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.shared.usable()?;
        self.shared.core.enter()?;
        self.shared.wait()
    }

    /// Waits until `event` completes, for at most `timeout`.
    ///
    /// # Errors
    /// As for [`synchronize`](Self::synchronize).
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
    /// let event = gpu.record_event()?;
    /// ranks.wait_event(&event, std::time::Duration::from_secs(1))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_event(&self, event: &Event, timeout: Duration) -> Result<(), CudaError> {
        let Shared { core, .. } = &*self.shared;
        self.shared.usable()?;
        core.enter()?;
        let polled = self.shared.poll("an event", timeout, || {
            // SAFETY: the event exists.
            match unsafe { (core.context.driver.event_query)(event.handle()) } {
                NOT_READY => Ok(false),
                code => check("cuEventQuery", code).map(|()| true),
            }
        });
        polled.map_err(|error| self.shared.fail(error))
    }

    /// Asks NCCL whether the communicator has failed, without waiting.
    ///
    /// # Errors
    /// It has failed. It is then aborted.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
    /// if let Err(error) = ranks.check() {
    ///     println!("the communicator was aborted: {error}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self) -> Result<(), CudaError> {
        self.shared.usable()?;
        self.shared.state("ncclCommGetAsyncError").map(drop).map_err(|error| self.shared.fail(error))
    }

    /// Ends the communicator at once: operations in progress end with undefined results, and later ones return
    /// [`CudaError::Aborted`]. The other ranks learn of it by their timeouts.
    ///
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
    /// ranks.abort();
    /// assert!(matches!(ranks.check(), Err(CudaError::Aborted { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn abort(&self) {
        if self.shared.usable().is_ok() {
            self.shared.fail(CudaError::Aborted { rank: self.rank(), size: self.size() });
        }
    }
}

impl Request {
    /// Makes all operations submitted to the GPU from now on wait for those of the request. The host does not wait.
    ///
    /// # Errors
    /// A driver call fails.
    ///
    /// # Examples
    /// ```no_run
    /// # use warpkov_cuda::*;
    /// # use warpkov_device::launch::*;
    /// # fn part(gpu: &Gpu, ranks: &Communicator) -> Result<(), CudaError> {
    /// let mut sums = gpu.upload(&[0.5, 1.5])?;
    /// // SAFETY: all ranks do the same, and nothing else uses the buffer until the end of the wait.
    /// let request = unsafe { ranks.start(|| ranks.all_reduce(&mut sums, 0..2, Reduction::Sum)) }?;
    /// // Other operations of the GPU overlap with the exchange until here.
    /// request.wait()?;
    /// println!("{:?}", gpu.to_vec(&sums)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self) -> Result<(), CudaError> {
        self.join()
    }

    fn join(&mut self) -> Result<(), CudaError> {
        let Some(event) = self.event.take() else { return Ok(()) };
        let core = &self.shared.core;
        core.enter()?;
        core.wait(&core.stream, &event)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // A destructor cannot report a failure; later calls of the driver will.
        let _ = self.join();
    }
}

/// The address of the elements `range` of `buffer`.
fn address<T: DeviceCopy>(buffer: &GpuBuffer<T>, range: &Range<usize>) -> *mut c_void {
    let len = buffer.len();
    assert!(range.start <= range.end && range.end <= len, "elements {range:?} of a buffer of {len}");
    let Arg::Buffer { address, .. } = buffer.arg() else { unreachable!("the argument of a buffer") };
    ptr::without_provenance_mut((address as usize).wrapping_add(range.start * size_of::<T>()))
}

/// Checks that no two ranges share an element.
fn check_disjoint<'a>(ranges: impl Iterator<Item = &'a Range<usize>>) {
    let mut sorted: Vec<&Range<usize>> = ranges.filter(|range| !range.is_empty()).collect();
    sorted.sort_by_key(|range| range.start);
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0].end > pair[1].start) {
        panic!("elements {:?} and {:?} overlap, and at least one is received", pair[0], pair[1]);
    }
}

/// Lets other threads run, the longer after `start` the longer.
fn pause(start: Instant) {
    match start.elapsed().as_micros() {
        ..200 => std::hint::spin_loop(),
        200..2000 => thread::yield_now(),
        _ => thread::sleep(Duration::from_micros(50)),
    }
}

impl Shared {
    /// Reports the error after which the communicator was aborted.
    pub(super) fn usable(&self) -> Result<(), CudaError> {
        self.failure.borrow().clone().map_or(Ok(()), Err)
    }

    /// Marks operations as submitted that the host has not waited for.
    pub(super) fn mark(&self) {
        self.pending.set(true);
    }

    /// `rank` as NCCL takes it.
    fn peer(&self, rank: u32) -> c_int {
        assert!(rank < self.size, "there is no rank {rank} of {}", self.size);
        rank as c_int
    }

    /// Converts a code that NCCL returned into a result.
    fn check(&self, call: &'static str, code: u32) -> Result<(), CudaError> {
        match code {
            SUCCESS | IN_PROGRESS => Ok(()),
            _ => Err(CudaError::Nccl { rank: self.rank, size: self.size, call, text: self.nccl.describe(code) }),
        }
    }

    /// Whether the communicator is ready for the next operation. An error is that of `call`.
    fn state(&self, call: &'static str) -> Result<bool, CudaError> {
        let mut state = SUCCESS;
        // SAFETY: the handle is not null, since the communicator has not failed (`usable`), and ncclCommGetAsyncError
        // writes one code.
        let code = unsafe { (self.nccl.comm_get_async_error)(self.handle.get(), &mut state) };
        self.check("ncclCommGetAsyncError", code)?;
        self.check(call, state)?;
        Ok(state == SUCCESS)
    }

    /// Calls `done` until it returns true, an error, or `timeout` has passed.
    fn poll(
        &self,
        call: &'static str,
        timeout: Duration,
        mut done: impl FnMut() -> Result<bool, CudaError>,
    ) -> Result<(), CudaError> {
        let start = Instant::now();
        loop {
            let ready = self.state(call)?;
            if done()? && ready {
                return Ok(());
            }
            // While a thread panics, its communicator is of no use, and the other ranks should not wait for it.
            if start.elapsed() >= timeout || thread::panicking() {
                return Err(CudaError::RankTimeout { rank: self.rank, size: self.size, call, waited: timeout });
            }
            pause(start);
        }
    }

    /// Waits until the communicator is ready for the next operation.
    fn ready(&self, call: &'static str) -> Result<(), CudaError> {
        self.poll(call, self.timeout, || Ok(true))
    }

    /// Whether operations were submitted that the host has not waited for.
    pub(super) fn is_pending(&self) -> bool {
        self.pending.get()
    }

    /// Waits for both streams. A failure aborts the communicator. The context is current.
    pub(super) fn wait(&self) -> Result<(), CudaError> {
        let streams = [&self.core.stream, &self.core.side].map(|stream| stream.as_inner().cast());
        let waited = streams.into_iter().try_for_each(|stream| {
            self.poll("the operations of the GPU", self.timeout, || {
                // SAFETY: the stream exists, and belongs to the current context.
                match unsafe { (self.core.context.driver.stream_query)(stream) } {
                    NOT_READY => Ok(false),
                    code => check("cuStreamQuery", code).map(|()| true),
                }
            })
        });
        waited.map(|()| self.pending.set(false)).map_err(|error| self.fail(error))
    }

    /// Calls `enqueue` for the present stream, within a group of NCCL calls, and waits until NCCL has submitted the
    /// group. Does nothing if the group is `empty`.
    fn submit(
        self: &Rc<Self>,
        empty: bool,
        enqueue: impl FnOnce(&Self, Handle) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        self.usable()?;
        if empty {
            return Ok(());
        }
        self.core.enter()?;
        let stream = self.core.stream();
        if self.grouped.get() {
            return enqueue(self, stream);
        }
        // SAFETY: ncclGroupStart has no preconditions; the call below ends the group whatever `enqueue` returns.
        let submitted = self.check("ncclGroupStart", unsafe { (self.nccl.group_start)() }).and_then(|()| {
            let enqueued = enqueue(self, stream);
            // SAFETY: a group has been started on this thread. What the group's calls require, their callers assure.
            enqueued.and(self.check("ncclGroupEnd", unsafe { (self.nccl.group_end)() }))
        });
        let submitted = submitted.and_then(|()| self.ready("ncclGroupEnd"));
        match &mut *self.core.captured.borrow_mut() {
            // A graph executes the operations later, and must not outlive the communicator.
            Some(captured) if captured.iter().any(|other| Rc::ptr_eq(other, self)) => {}
            Some(captured) => captured.push(Rc::clone(self)),
            None => self.mark(),
        }
        submitted.map_err(|error| self.fail(error))
    }

    /// Implements [`Communicator::exchange`]: the buffers may be the same.
    ///
    /// # Safety
    /// As for that method; ranges received share no element with each other or with those sent.
    unsafe fn transfer<T: DeviceCopy>(
        self: &Rc<Self>,
        source: &GpuBuffer<T>,
        sends: &[(u32, Range<usize>)],
        target: &GpuBuffer<T>,
        receives: &[(u32, Range<usize>)],
    ) -> Result<(), CudaError> {
        let places = |buffer: &GpuBuffer<T>, parts: &[(u32, Range<usize>)]| -> Vec<(c_int, *mut c_void, usize)> {
            let place = |(rank, range): &(u32, Range<usize>)| {
                (self.peer(*rank), address(buffer, range), range.len() * size_of::<T>())
            };
            parts.iter().map(place).filter(|&(_, _, bytes)| bytes > 0).collect()
        };
        let (sends, receives) = (places(source, sends), places(target, receives));
        self.submit(sends.is_empty() && receives.is_empty(), |shared, stream| {
            let (nccl, handle) = (shared.nccl, shared.handle.get());
            for (peer, data, bytes) in sends {
                // SAFETY: the address is that of `bytes` bytes of the buffer's memory (`address`), which lives until the
                // operation ends: freeing it waits for the GPU (`GpuBuffer::drop`). The other ranks' parts are the
                // caller's promise.
                shared.check("ncclSend", unsafe { (nccl.send)(data, bytes, BYTE, peer, handle, stream) })?;
            }
            for (peer, data, bytes) in receives {
                // SAFETY: as above; no other operation uses the elements received, by the caller's promise.
                shared.check("ncclRecv", unsafe { (nccl.recv)(data, bytes, BYTE, peer, handle, stream) })?;
            }
            Ok(())
        })
    }

    /// Aborts the communicator for `error`, which every later operation returns.
    fn fail(&self, error: CudaError) -> CudaError {
        self.failure.borrow_mut().get_or_insert_with(|| error.clone());
        self.pending.set(false);
        // SAFETY: nothing uses the handle after this call, which sets it to null. ncclCommAbort "frees resources
        // associated with communicator object and aborts any operations that might still be running on the device".
        unsafe { self.retire(self.nccl.comm_abort) };
        error
    }

    /// Calls `end`, which frees the communicator, on a thread of its own, and waits for it for a limited time: NCCL
    /// waits for graphs that contain operations of the communicator, and the abort of the last rank of a process for
    /// all of its ranks. The operations on the GPU are told to end in any case.
    ///
    /// # Safety
    /// `end` is ncclCommAbort or ncclCommDestroy, with its conditions.
    unsafe fn retire(&self, end: unsafe extern "C" fn(Handle) -> u32) {
        const PATIENCE: Duration = Duration::from_secs(2);

        let handle = self.handle.replace(ptr::null_mut());
        if handle.is_null() {
            return;
        }
        let (done, finished) = mpsc::channel::<()>();
        let exposed = handle.expose_provenance();
        let thread = thread::Builder::new().name("nccl".to_owned()).spawn(move || {
            // SAFETY: the caller's promise. The functions of NCCL may be called from every thread, and set the device.
            // The result does not matter: there is nothing left to do with the communicator.
            unsafe { end(ptr::with_exposed_provenance_mut(exposed)) };
            drop(done);
        });
        if let Ok(thread) = thread {
            // An error in any case: the thread has done its work, or needs longer.
            if finished.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Disconnected) {
                // The destructors of the thread's variables of NCCL and CUDA must not run beside those of the process.
                let _ = thread.join();
            }
        } else {
            // SAFETY: as above.
            unsafe { end(handle) };
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.end();
        if !self.core.has_communicators() {
            self.core.free_spare();
        }
    }
}

impl Shared {
    /// Ends the communicator: properly, or by an abort if that fails.
    fn end(&self) {
        if self.handle.get().is_null() || self.core.enter().is_err() {
            return;
        }
        if thread::panicking() {
            self.fail(CudaError::Aborted { rank: self.rank, size: self.size });
            return;
        }
        let finished = self.wait().and_then(|()| {
            // SAFETY: no operation is in progress, and no graph contains any: graphs share this value.
            let code = unsafe { (self.nccl.comm_finalize)(self.handle.get()) };
            let finalized = self.check("ncclCommFinalize", code).and_then(|()| self.ready("ncclCommFinalize"));
            finalized.map_err(|error| self.fail(error))
        });
        if finished.is_ok() {
            // SAFETY: the communicator is finalised, and nothing uses the handle after this call.
            unsafe { self.retire(self.nccl.comm_destroy) };
        }
    }
}

impl Core {
    /// Whether a communicator of this GPU exists.
    pub(super) fn has_communicators(&self) -> bool {
        self.communicators.borrow().iter().any(|communicator| communicator.strong_count() > 0)
    }

    /// Waits for all unfinished operations of communicators, with their timeouts. Everything by which the driver may
    /// wait for the GPU without limit calls this first, because the GPU may wait for a rank that has ended. Does nothing
    /// during a capture, which has no unfinished operations.
    ///
    /// # Errors
    /// A communicator has failed during this call. Its operations on the GPU have been told to end.
    pub(super) fn settle(&self) -> Result<(), CudaError> {
        if self.communicators.borrow().is_empty() || self.captured.borrow().is_some() {
            return Ok(());
        }
        let all: Vec<Rc<Shared>> = self.communicators.borrow().iter().filter_map(Weak::upgrade).collect();
        let pending = || all.iter().filter(|communicator| communicator.is_pending());
        if pending().next().is_some() {
            self.enter()?;
        }
        // All of them, so that none is left that the driver could wait for.
        pending().map(|communicator| communicator.wait()).fold(Ok(()), Result::and)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlap(ranges: &[Range<usize>]) -> bool {
        std::panic::catch_unwind(|| check_disjoint(ranges.iter())).is_err()
    }

    #[test]
    fn received_ranges_are_disjoint() {
        assert!(!overlap(&[]));
        assert!(!overlap(&[4..6, 0..4, 6..7]));
        assert!(!overlap(&[0..10, 5..5, 10..11]));
        assert!(overlap(&[4..6, 0..5]));
        assert!(overlap(&[0..10, 3..4]));
        assert!(overlap(&[3..4, 3..4]));
    }

    #[test]
    fn an_identifier_needs_the_library() {
        match (nccl::get(), Communicator::unique_id()) {
            (Err(error), Err(other)) => assert_eq!(error, other),
            (Ok(_), Err(error)) => assert!(matches!(error, CudaError::Nccl { call: "ncclGetUniqueId", .. }), "{error}"),
            (Ok(_), Ok(id)) => assert_ne!(id, [0; 128]),
            (Err(error), Ok(_)) => panic!("an identifier without a library ({error})"),
        }
    }
}
