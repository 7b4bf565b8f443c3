//! Primary contexts and the kernels loaded into them.
//!
//! Both live until the process ends or [`Gpu::stop`](super::Gpu::stop) is called, so that opening a GPU again is quick.

use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use cust::context::{Context, CurrentContext};
use cust::device::{Device as CudaDevice, DeviceAttribute};

use super::Gpu;
use super::info::{attribute, compute_capability, cuda_device};
use super::launch::Function;
use super::messages::Messages;
use crate::driver::{self, Driver, Handle};
use crate::error::{CudaError, check, from_cust};
use crate::module::{Baseline, Code, Entry, Loaded, Modules, choose, choose_alone};

/// A GPU's primary context and the programs loaded into it.
pub(super) struct PrimaryContext {
    pub(super) ordinal: u32,
    pub(super) driver: &'static Driver,
    pub(super) device: CudaDevice,
    pub(super) context: Context,
    pub(super) multiprocessors: u32,
    pub(super) messages: Messages,
    programs: Mutex<Vec<Arc<Program>>>,
}

/// Device code in a context.
pub(super) struct Program {
    modules: &'static Modules,
    state: Mutex<State>,
}

/// The mutable part of a [`Program`].
struct State {
    code: Code,
    functions: HashMap<&'static str, Arc<Function>>,
}

/// All contexts created so far and not released by [`PrimaryContext::take_all`].
static CONTEXTS: Mutex<Vec<Arc<Slot>>> = Mutex::new(Vec::new());

/// The place of a GPU's context. Threads that open the same GPU wait for each other; those that open different GPUs do
/// not.
pub(super) struct Slot {
    ordinal: u32,
    context: Mutex<Option<Arc<PrimaryContext>>>,
}

/// A thread that creates or destroys contexts. Dropping this value joins the thread, so that the process does not exit
/// while the driver is at work.
///
/// ```no_run
/// # use warpkov_cuda::*;
/// # static MODULES: Modules = Modules { compiler: Err("an example"), assembler: None, baselines: &[] };
/// let starting: Background = Gpu::start(0, &MODULES);
/// // The program reads its input meanwhile.
/// let gpu = Gpu::open(0, &MODULES)?;
/// drop(starting);
/// # Ok::<(), CudaError>(())
/// ```
#[must_use]
pub struct Background(Option<JoinHandle<()>>);

impl Background {
    /// Runs `work` on a new thread. Does nothing if the thread cannot be created.
    pub(super) fn new(work: impl FnOnce() + Send + 'static) -> Self {
        Self(thread::Builder::new().name("cuda".to_owned()).spawn(work).ok())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // The panic hook has printed a panic of the thread. `Gpu::open` repeats a failed step and reports its
            // error.
            let _ = thread.join();
        }
    }
}

impl PrimaryContext {
    /// The context of GPU `ordinal`, created if necessary, and `modules` in it. Fails if the GPU cannot run `modules`.
    pub(super) fn open(ordinal: u32, modules: &'static Modules) -> Result<(Arc<Self>, Arc<Program>), CudaError> {
        let code = choose(modules, compute_capability(cuda_device(ordinal)?)?, Gpu::driver_version()?)?;
        let context = Self::of(ordinal)?;
        let mut programs = context.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = programs.iter().find(|program| ptr::eq(program.modules, modules));
        let program = known.map(Arc::clone).unwrap_or_else(|| {
            let state = Mutex::new(State { code, functions: HashMap::new() });
            let program = Arc::new(Program { modules, state });
            programs.push(Arc::clone(&program));
            program
        });
        drop(programs);
        Ok((context, program))
    }

    /// The context of GPU `ordinal`, created if necessary.
    pub(super) fn of(ordinal: u32) -> Result<Arc<Self>, CudaError> {
        let device = cuda_device(ordinal)?;
        let mut all = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().find(|slot| slot.ordinal == ordinal).map(Arc::clone);
        let slot = known.unwrap_or_else(|| {
            let slot = Arc::new(Slot { ordinal, context: Mutex::default() });
            all.push(Arc::clone(&slot));
            slot
        });
        drop(all);
        let mut place = slot.context.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*place {
            return Ok(Arc::clone(known));
        }
        let driver = driver::get()?;
        let multiprocessors = attribute(device, DeviceAttribute::MultiprocessorCount)?;
        let context = Context::new(device).map_err(from_cust("cuDevicePrimaryCtxRetain"))?;
        let created = Arc::new(Self {
            ordinal,
            driver,
            device,
            context,
            multiprocessors,
            messages: Messages::default(),
            programs: Mutex::default(),
        });
        *place = Some(Arc::clone(&created));
        Ok(created)
    }

    /// Empties the list of contexts. A context that no open [`Gpu`] shares is released when the result is dropped.
    pub(super) fn take_all() -> Vec<Arc<Slot>> {
        std::mem::take(&mut *CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the context current on the calling thread.
    pub(super) fn enter(&self) -> Result<(), CudaError> {
        CurrentContext::set_current(&self.context).map_err(from_cust("cuCtxSetCurrent"))
    }

    /// Loads a kernel. If the driver rejects the machine code, loads the PTX and sets `code` to it.
    fn load(&self, code: &mut Code, entry: &Entry) -> Result<Handle, CudaError> {
        /// `CU_STREAM_CAPTURE_MODE_RELAXED`.
        const RELAXED: u32 = 2;

        self.enter()?;
        // A capture may be in progress on this thread, and its mode forbids calls that may synchronise. Loading a
        // kernel depends on no captured work, so the relaxed mode is right.
        let mut mode = RELAXED;
        // SAFETY: `mode` is a valid place for one mode. Each call swaps it with the mode of this thread, so the second
        // call restores the former mode.
        let mut exchange = || unsafe { (self.driver.thread_exchange_capture_mode)(&mut mode) };
        check("cuThreadExchangeStreamCaptureMode", exchange())?;
        let loaded = code.load(self.driver, entry).or_else(|error| match (error, code.as_ptx()) {
            (CudaError::Jit { .. }, Some(ptx)) => {
                *code = ptx;
                code.load(self.driver, entry)
            }
            (error, _) => Err(error),
        });
        let handle = loaded.and_then(|Loaded { module, function, prints }| {
            if prints {
                self.messages.connect(module, entry.name)?;
            }
            Ok(function)
        });
        check("cuThreadExchangeStreamCaptureMode", exchange())?;
        handle
    }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        // The messages' memory is freed in the context. A destructor cannot report a failure.
        let _ = self.enter();
        self.messages.free();
    }
}

impl Program {
    /// The reason why this GPU has no code of a kernel: it is in that for others. Otherwise, `error`.
    fn why_missing(&self, entry: &str, cc: (u32, u32), error: CudaError) -> CudaError {
        match self.modules.baselines.iter().find(|baseline| baseline.entry(entry).is_ok()) {
            Some(&Baseline { sm, alone, .. }) => {
                CudaError::KernelNeeds { entry: entry.to_owned(), needs: (sm / 10, sm % 10), alone, cc }
            }
            None => error,
        }
    }

    /// The device code in use.
    pub(super) fn code(&self) -> Code {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).code
    }

    /// Whether a baseline has a kernel with this entry point.
    pub(super) fn has(&self, entry: &str) -> bool {
        self.modules.baselines.iter().any(|baseline| baseline.entry(entry).is_ok())
    }

    /// A kernel that another program has, too.
    pub(super) fn shared_with(&self, other: &Self) -> Option<&'static str> {
        let entries = other.modules.baselines.iter().flat_map(|baseline| baseline.entries);
        entries.map(|entry| entry.name).find(|name| self.has(name))
    }

    /// The kernel with this entry point, loaded if necessary.
    pub(super) fn function(&self, context: &PrimaryContext, entry: &str) -> Result<Arc<Function>, CudaError> {
        let state = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = state.functions.get(entry) {
            return Ok(Arc::clone(function));
        }
        let (handle, entry) = match state.code.baseline.entry(entry) {
            Ok(entry) => (context.load(&mut state.code, entry)?, entry),
            Err(error) => {
                let (cc, driver) = (compute_capability(context.device)?, Gpu::driver_version()?);
                let Some((mut code, entry)) = choose_alone(self.modules, entry, cc, driver) else {
                    return Err(self.why_missing(entry, cc, error));
                };
                (context.load(&mut code, entry)?, entry)
            }
        };
        let function = Arc::new(Function::new(context.driver, handle, entry.params)?);
        state.functions.insert(entry.name, Arc::clone(&function));
        Ok(function)
    }
}

#[cfg(test)]
mod tests {
    use warpkov_device::launch::Device;

    use super::*;

    /// Device code for the first GPU: an empty kernel as PTX and as machine code that every driver rejects.
    fn modules() -> Option<&'static Modules> {
        let (major, minor) = compute_capability(cuda_device(0).ok()?).ok()?;
        let text = b".version 7.4\n.target sm_80\n.address_size 64\n.visible .entry nothing()\n{\n\tret;\n}\n";
        let mut data = Vec::new();
        let mut ends = vec![0];
        for code in [text.as_slice(), b"\x7fELF"] {
            let mut encoder = flate2::write::DeflateEncoder::new(&mut data, flate2::Compression::default());
            std::io::Write::write_all(&mut encoder, code).and_then(|()| encoder.finish().map(drop)).unwrap();
            ends.push(data.len());
        }
        let entries = vec![Entry { name: "nothing", params: &[], at: ends.leak() }].leak();
        let machine = vec![10 * major + minor].leak();
        let baselines =
            vec![Baseline { sm: 80, alone: false, ptx: (7, 4), machine, data: data.leak(), entries }].leak();
        Some(Box::leak(Box::new(Modules { compiler: Ok("a test"), assembler: Some(("12.0", (12, 0))), baselines })))
    }

    #[test]
    fn a_driver_that_rejects_the_machine_code_gets_ptx() {
        let Some(modules) = modules() else { return };
        let (context, program) = PrimaryContext::open(0, modules).unwrap();
        let entry = &modules.baselines[0].entries[0];
        let (mut code, mut forced) = (program.code(), program.code());
        assert!(code.machine().is_some());
        assert!(context.load(&mut code, entry).is_ok_and(|function| !function.is_null()));
        assert!(code.machine().is_none());
        forced.replaceable = false;
        assert!(matches!(context.load(&mut forced, entry), Err(CudaError::Jit { .. })));
    }

    #[test]
    fn open_gpus_outlive_a_stop() {
        let Some(modules) = modules() else { return };
        let gpu = Gpu::open(0, modules).unwrap();
        let buffer = gpu.upload(&[1_u32, 2, 3]).unwrap();
        drop(Gpu::stop());
        assert_eq!(gpu.to_vec(&buffer).unwrap(), [1, 2, 3]);
        drop((buffer, gpu));
        // The context is released by now: this opens a new one.
        assert!(Gpu::open(0, modules).is_ok_and(|gpu| gpu.upload(&[4_u32]).is_ok()));
    }
}
