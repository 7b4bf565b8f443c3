//! Coroutines in WebAssembly, where code cannot switch stacks. Binaryen's pass Asyncify rewrites the functions of the module: a
//! suspended one has returned, after it has saved its local variables in the memory of the coroutine, and a resumed one
//! begins again and takes them from there. Variables whose addresses are taken are on a second stack, in linear memory.
//! `book/emulator.js` sets its pointer, which Rust cannot.
//!
//! Panics do not unwind here, so a fault suspends its coroutine, which nobody resumes.

use std::any::Any;
use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;

/// What ends a coroutine early: a fault of its thread.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Room for the local variables of all functions that a suspended coroutine has called: a dozen of some hundred bytes. Asyncify
/// stops the program if they do not fit.
const SAVED_BYTES: usize = 16 << 10;

/// Local memory that a thread may have here: browsers limit the memory of a page, and a thousand threads may wait.
pub(crate) const LOCAL_LIMIT: usize = 24 << 10;

#[link(wasm_import_module = "stack")]
unsafe extern "C" {
    /// Calls [`warpkov_run`] with the coroutine's stack. Returns 1 when it suspends, and 0 when it ends.
    fn resume(fiber: *mut c_void, begun: bool) -> u32;
    /// Returns from all functions of the coroutine that runs, and from here when it is resumed.
    fn suspend(fiber: *mut c_void);
}

/// What a coroutine's memory begins with.
#[repr(C, align(16))]
struct Fiber {
    /// Asyncify's: where it saves next, and the end of its memory.
    next: usize,
    end: usize,
    /// The pointer to its stack.
    stack: usize,
    /// What it runs first.
    body: Option<Box<dyn FnOnce(&Yielder)>>,
}

thread_local! {
    /// The coroutine that runs.
    static RUNNING: Cell<*mut Fiber> = const { Cell::new(std::ptr::null_mut()) };
    /// The fault of the coroutine that has been suspended last.
    static FAULT: Cell<Option<Payload>> = const { Cell::new(None) };
}

/// Begins a coroutine, or goes on with it.
#[unsafe(no_mangle)]
extern "C" fn warpkov_run(fiber: *mut c_void) {
    let fiber = fiber.cast::<Fiber>();
    // SAFETY: `resume` passes the pointer of `Routine::resume`, whose `Routine` has the memory.
    let body = unsafe { (*fiber).body.take() };
    let Some(body) = body else { return };
    body(&Yielder(fiber));
}

/// Suspends the coroutine that owns it. It is at the start of the coroutine's stack, which grows towards lower addresses.
pub(crate) struct Yielder(*mut Fiber);

impl Yielder {
    /// Returns when the coroutine is resumed.
    pub(crate) fn suspend(&self, (): ()) {
        // SAFETY: the coroutine's own memory, and it runs: it makes this call.
        unsafe { suspend(self.0.cast()) };
    }
}

/// The memory of a coroutine, for reuse.
pub(crate) struct Stack(Box<[MaybeUninit<u128>]>);

impl Stack {
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere the system may refuse")]
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        Ok(Self(Box::new_uninit_slice((size_of::<Fiber>() + SAVED_BYTES + bytes) / size_of::<u128>())))
    }
}

/// The addresses of a stack: nothing needs them, because there are no signals.
pub(crate) type Bounds = ();

/// A coroutine.
pub(crate) struct Routine {
    stack: Stack,
    begun: bool,
}

impl Routine {
    pub(crate) fn new(mut stack: Stack, body: impl FnOnce(&Yielder) + 'static) -> Self {
        let range = stack.0.as_mut_ptr_range();
        let fiber = range.start.cast::<Fiber>();
        let saved = fiber.addr() + size_of::<Fiber>();
        let first =
            Fiber { next: saved, end: saved + SAVED_BYTES, stack: range.end.addr(), body: Some(Box::new(body)) };
        const { assert!(align_of::<u128>() >= align_of::<Fiber>(), "the memory of a stack is aligned") };
        // SAFETY: `Stack::new` has made room for it, aligned as u128 is.
        unsafe { fiber.write(first) };
        Self { stack, begun: false }
    }

    /// Runs it until it suspends (true) or ends (false), or has a fault.
    pub(crate) fn resume(&mut self) -> Result<bool, Payload> {
        let fiber = self.stack.0.as_mut_ptr().cast::<Fiber>();
        let before = RUNNING.replace(fiber);
        let begun = std::mem::replace(&mut self.begun, true);
        // SAFETY: the memory of this coroutine, which `new` has prepared, and which has not ended: the caller keeps only those.
        let suspended = unsafe { resume(fiber.cast(), begun) } == 1;
        RUNNING.set(before);
        match FAULT.take() {
            Some(fault) => Err(fault),
            None => Ok(suspended),
        }
    }

    #[expect(clippy::unused_self, reason = "elsewhere it has them")]
    pub(crate) fn bounds(&self) -> Bounds {}

    /// The stack of a coroutine that has ended.
    pub(crate) fn into_stack(self) -> Stack {
        self.stack
    }
}

/// Ends the coroutine that runs: its caller gets the fault. Panics with its description if no coroutine runs.
pub(crate) fn abandon<F: Any + Send>(fault: F, describe: impl FnOnce(&F) -> String) -> ! {
    let fiber = RUNNING.get();
    assert!(!fiber.is_null(), "{}", describe(&fault));
    FAULT.set(Some(Box::new(fault)));
    // SAFETY: the memory of the coroutine that runs, as `RUNNING` says.
    unsafe { suspend(fiber.cast()) };
    unreachable!("a coroutine with a fault was resumed")
}
