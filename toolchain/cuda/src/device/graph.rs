//! CUDA events and CUDA graphs.

use std::cell::Cell;
use std::ptr;
use std::rc::Rc;

use cust::stream::Stream;

use super::Core;
use super::communicator::Shared;
use crate::driver::Handle;
use crate::error::{CudaError, check, launched, unfinished};

/// A CUDA event: a point in the stream of a [`Gpu`](super::Gpu).
///
/// ```no_run
/// # use warpkov_cuda::*;
/// # use warpkov_device::launch::*;
/// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
/// let gpu = Gpu::open(0, &MODULES)?;
/// let (source, mut target) = (gpu.pin(vec![1, 2, 3])?, gpu.zeros(2)?);
/// let event: Event = gpu.record_event()?;
/// // SAFETY: no operation since the event uses `target`.
/// unsafe { gpu.stage(&source, 1..3, &mut target, &event)? };
/// assert_eq!(gpu.to_vec(&target)?, [2, 3]);
/// # Ok::<(), CudaError>(())
/// ```
pub struct Event {
    event: Handle,
    core: Rc<Core>,
}

impl Event {
    /// `CUevent`.
    pub(super) fn handle(&self) -> Handle {
        self.event
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = self.core.enter();
        // SAFETY: `event` comes from cuEventCreate, and nothing else holds it. "An event may be destroyed before it is
        // complete".
        unsafe { (self.core.context.driver.event_destroy)(self.event) };
    }
}

/// An executable CUDA graph of work captured from the stream of a [`Gpu`](super::Gpu).
///
/// ```no_run
/// # use warpkov_cuda::*;
/// # use warpkov_device::launch::*;
/// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
/// let gpu = Gpu::open(0, &MODULES)?;
/// let mut buffer = gpu.upload(&[1, 2])?;
/// let graph: Option<Graph> = gpu.capture(|| gpu.clear(&mut buffer))?;
/// if let Some(graph) = graph {
///     // SAFETY: the buffer still exists.
///     unsafe { gpu.launch_graph(&graph)? };
/// }
/// assert_eq!(gpu.to_vec(&buffer)?, [0, 0]);
/// # Ok::<(), CudaError>(())
/// ```
pub struct Graph {
    /// `CUgraphExec`.
    executable: Handle,
    /// The communicators whose operations it contains. NCCL requires that they outlive the executable graph.
    communicators: Vec<Rc<Shared>>,
    /// Its last kernels, for errors.
    kernels: Vec<&'static str>,
    core: Rc<Core>,
}

impl Drop for Graph {
    fn drop(&mut self) {
        if !self.executable.is_null() {
            let _ = self.core.enter();
            // SAFETY: `executable` comes from cuGraphInstantiateWithFlags, and nothing else holds it. "If the
            // executable graph is in-flight, it will not be terminated, but rather freed asynchronously on completion."
            unsafe { (self.core.context.driver.graph_exec_destroy)(self.executable) };
        }
    }
}

impl Core {
    /// Records an event that completes when all work submitted to `stream` so far has completed.
    pub(super) fn record_event(self: &Rc<Self>, stream: &Stream) -> Result<Event, CudaError> {
        const DISABLE_TIMING: u32 = 2;

        let mut event = ptr::null_mut();
        // SAFETY: cuEventCreate writes one handle to `event`. The context is current: all callers have entered it.
        check("cuEventCreate", unsafe { (self.context.driver.event_create)(&mut event, DISABLE_TIMING) })?;
        let owner = Event { event, core: Rc::clone(self) };
        // SAFETY: event and stream exist, and both belong to the same context, as cuEventRecord requires.
        check("cuEventRecord", unsafe { (self.context.driver.event_record)(event, stream.as_inner().cast()) })?;
        Ok(owner)
    }

    /// Submits the operations of `work` to the side stream. They wait for all operations submitted to the main stream
    /// before. Returns their end, and the result of `work`.
    pub(super) fn aside(
        self: &Rc<Self>,
        work: impl FnOnce() -> Result<(), CudaError>,
    ) -> Result<(Event, Result<(), CudaError>), CudaError> {
        /// Returns to the main stream, also when `work` panics.
        struct Reset<'a>(&'a Cell<bool>);

        impl Drop for Reset<'_> {
            fn drop(&mut self) {
                self.0.set(false);
            }
        }

        self.enter()?;
        self.wait(&self.side, &self.record_event(&self.stream)?)?;
        self.on_side.set(true);
        let reset = Reset(&self.on_side);
        let submitted = work();
        drop(reset);
        self.enter()?;
        Ok((self.record_event(&self.side)?, submitted))
    }

    /// Makes all work submitted to `stream` from now on wait for `event`.
    pub(super) fn wait(&self, stream: &Stream, event: &Event) -> Result<(), CudaError> {
        // SAFETY: stream and event exist. The caller may destroy the event before it completes: cuStreamWaitEvent uses
        // "the most recently captured state at the time of the API call".
        check("cuStreamWaitEvent", unsafe {
            (self.context.driver.stream_wait_event)(stream.as_inner().cast(), event.event, 0)
        })
    }

    /// Implements [`Device::capture`](warpkov_device::launch::Device::capture).
    pub(super) fn capture(self: &Rc<Self>, work: impl FnOnce() -> Result<(), CudaError>) -> Result<Graph, CudaError> {
        /// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: restricts the calls of this thread alone.
        const THREAD_LOCAL: u32 = 1;
        /// `CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY`: kernels keep the priority of the stream that they were
        /// captured from.
        const USE_NODE_PRIORITY: u64 = 8;

        /// Ends a capture, also when its work panics.
        struct Capture<'a>(&'a Core);

        impl Drop for Capture<'_> {
            fn drop(&mut self) {
                if self.0.captured.take().is_some() && self.0.enter().is_ok() {
                    let (driver, mut captured) = (self.0.context.driver, ptr::null_mut());
                    // SAFETY: as in `capture`; cuGraphDestroy gets a graph that nothing else holds.
                    unsafe {
                        (driver.stream_end_capture)(self.0.stream(), &mut captured);
                        if !captured.is_null() {
                            (driver.graph_destroy)(captured);
                        }
                    }
                }
            }
        }

        let driver = self.context.driver;
        self.enter()?;
        let _capturing = self.context.messages.capturing();
        // SAFETY: the stream exists and its context is current.
        check("cuStreamBeginCapture", unsafe { (driver.stream_begin_capture)(self.stream(), THREAD_LOCAL) })?;
        self.captured.replace(Some(Vec::new()));
        let capture = Capture(self);
        // `and` takes its argument by value: the context is entered, and the capture ended, whatever `work` returned.
        let submitted = work().and(self.enter());
        let communicators = self.captured.take().unwrap_or_default();
        drop(capture);
        let mut captured = ptr::null_mut();
        // SAFETY: cuStreamEndCapture writes one handle to `captured`, null if the capture is invalid. "Capture must be
        // ended on the same stream in which it was initiated", and from the same thread; both hold, whatever `work`
        // returned.
        let code = unsafe { (driver.stream_end_capture)(self.stream(), &mut captured) };
        let mut graph =
            Graph { executable: ptr::null_mut(), communicators, kernels: unfinished(), core: Rc::clone(self) };
        let instantiated = submitted.and_then(|()| check("cuStreamEndCapture", code)).and_then(|()| {
            // Without exchanges, no node has a priority of its own.
            let flags = if graph.communicators.is_empty() { 0 } else { USE_NODE_PRIORITY };
            // SAFETY: cuGraphInstantiateWithFlags writes one handle to `graph.executable`. The capture succeeded, so
            // `captured` is a graph.
            let code = unsafe { (driver.graph_instantiate)(&mut graph.executable, captured, flags) };
            check("cuGraphInstantiate", code)
        });
        if !captured.is_null() {
            // SAFETY: nothing else holds `captured`, and an executable graph does not depend on its source.
            check("cuGraphDestroy", unsafe { (driver.graph_destroy)(captured) })?;
        }
        instantiated.map(|()| graph)
    }

    /// Implements [`Device::launch_graph`](warpkov_device::launch::Device::launch_graph).
    ///
    /// # Safety
    /// As for that method.
    pub(super) unsafe fn launch_graph(&self, graph: &Graph) -> Result<(), CudaError> {
        // NCCL has freed what the operations of an aborted communicator use.
        graph.communicators.iter().try_for_each(|communicator| communicator.usable())?;
        self.enter()?;
        graph.communicators.iter().for_each(|communicator| communicator.mark());
        graph.kernels.iter().for_each(|kernel| launched(kernel));
        // SAFETY: `capture` returns a `Graph` only with an instantiated executable graph, of the stream's context. The
        // caller promises that the addresses in it are still valid.
        check("cuGraphLaunch", unsafe { (self.context.driver.graph_launch)(graph.executable, self.stream()) })
    }
}
