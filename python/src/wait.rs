//! Long work beside Python: without the interpreter lock, and until Ctrl-C.

use std::process;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread::{Builder, scope};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use warpkov_common::interrupt;

/// Time between two looks at Python's signals.
const TICK: Duration = Duration::from_millis(20);

/// Size of the stack of a thread that works, as that of a program's first thread.
const STACK: usize = 8 << 20;

/// The works under way in all threads of Python. A request to stop stops all, so it stays until none is left.
static ACTIVE: Mutex<usize> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

fn active() -> MutexGuard<'static, usize> {
    ACTIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks that this process has the threads that the library has started: those of a parent do not come along by a fork.
fn check_process() -> PyResult<()> {
    static PROCESS: OnceLock<u32> = OnceLock::new();

    if *PROCESS.get_or_init(process::id) == process::id() {
        return Ok(());
    }
    let message = "warpkov does not work in a process that was forked from one in which it has worked: start it by spawn \
                   or forkserver, as in multiprocessing.get_context(\"spawn\")";
    Err(PyRuntimeError::new_err(message))
}

/// One of the works under way.
struct Active;

impl Active {
    /// Waits until no request to stop is left of other works.
    fn start() -> Self {
        let busy = |_: &mut usize| interrupt::requested();
        let mut count = CHANGED.wait_while(active(), busy).unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        Self
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let mut count = active();
        *count -= 1;
        if *count == 0 {
            interrupt::clear();
        }
        CHANGED.notify_all();
    }
}

/// Runs `work` without the interpreter lock on this thread. For work that ends before [`detached`] would look at Python's signals, as
/// it spares the start of a thread.
pub fn brief<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    check_process()?;
    Ok(py.detach(|| {
        let _active = Active::start();
        work()
    }))
}

/// Runs `work` without the interpreter lock on a thread of its own. This thread handles Python's signals meanwhile. If a
/// handler raises an exception, as that of Ctrl-C does, the work is asked to stop, and the exception is the result.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    detached_with(py, |_| Ok(()), work)
}

/// [`detached`], and this thread calls `look` now and then during the work. An exception of `look` stops the work too.
pub fn detached_with<T: Send>(
    py: Python<'_>,
    mut look: impl FnMut(Python<'_>) -> PyResult<()> + Send,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    check_process()?;
    py.detach(|| {
        let _active = Active::start();
        let (done, finished) = mpsc::sync_channel::<()>(0);
        scope(|scope| {
            let worker = Builder::new().name("warpkov".to_owned()).stack_size(STACK).spawn_scoped(scope, move || {
                // Dropped at the end, or by a panic: the channel closes.
                let _done = done;
                work()
            });
            let worker = worker.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
            let mut raised = Ok(());
            while finished.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
                let looked = Python::attach(|py| py.check_signals().and_then(|()| look(py)));
                if let (Err(error), true) = (looked, raised.is_ok()) {
                    raised = Err(error);
                    interrupt::request();
                }
            }
            let result = worker.join();
            raised?;
            result.map_err(|panic| std::panic::resume_unwind(panic))
        })
    })
}
