//! Coroutines whose stacks the processor switches.

use std::any::Any;
use std::io;
use std::panic::resume_unwind;

use corosensei::stack::DefaultStack;
use corosensei::trap::CoroutineTrapHandler;
use corosensei::{Coroutine, CoroutineResult};

/// What ends a coroutine early: a fault of its thread.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Maximum local memory of a thread on every GPU: 512 KiB.
pub(crate) const LOCAL_LIMIT: usize = 512 * 1024;

/// Suspends the coroutine that owns it. It is at the start of the coroutine's stack, which grows towards lower addresses.
pub(crate) type Yielder = corosensei::Yielder<(), ()>;

/// The memory of a stack, for reuse.
pub(crate) struct Stack(DefaultStack);

impl Stack {
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        DefaultStack::new(bytes).map(Self)
    }
}

/// The addresses of a stack.
pub(crate) type Bounds = CoroutineTrapHandler<()>;

/// A coroutine.
pub(crate) struct Routine(Coroutine<(), (), (), DefaultStack>);

impl Routine {
    #[inline]
    pub(crate) fn new(stack: Stack, body: impl FnOnce(&Yielder) + 'static) -> Self {
        Self(Coroutine::with_stack(stack.0, move |yielder: &Yielder, ()| body(yielder)))
    }

    /// Runs it until it suspends (true) or ends (false). A panic within it goes on here.
    #[inline]
    pub(crate) fn resume(&mut self) -> Result<bool, Payload> {
        Ok(matches!(self.0.resume(()), CoroutineResult::Yield(())))
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.0.trap_handler()
    }

    /// The stack of a coroutine that has ended.
    pub(crate) fn into_stack(self) -> Stack {
        Stack(self.0.into_stack())
    }
}

/// Ends the coroutine that runs: its caller gets the fault, by a panic.
pub(crate) fn abandon<F: Any + Send>(fault: F, _: impl FnOnce(&F) -> String) -> ! {
    // `resume_unwind` does not call the panic hook, which would print. The launch returns the fault as an error.
    resume_unwind(Box::new(fault))
}
