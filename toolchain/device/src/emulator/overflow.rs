//! Stack overflows of emulated threads, on Linux: a fault of the launch instead of the end of the process.
//!
//! A thread that leaves its stack touches the guard page below it. The handler of the signal recognises the page, and makes
//! the coroutine go on with a panic from the start of its stack.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use libc::{c_int, c_void, siginfo_t, ucontext_t};

use super::block::STACK_BYTES;
use super::fault::Raised;
use super::thread::overflowing;

/// The handler before this one, which gets all other signals. `None` until this one is installed.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// Installs the handler, once in a process.
pub fn catch() {
    BEFORE.get_or_init(|| {
        let mut before = MaybeUninit::uninit();
        // SAFETY: the call only reads the present handler.
        if unsafe { libc::sigaction(libc::SIGSEGV, ptr::null(), before.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: the call has succeeded, so it has written the handler.
        let before = unsafe { before.assume_init() };
        let mut action = before;
        action.sa_sigaction = handle as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
        // The handler needs a stack of its own, which Rust's library gives to each of its threads.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: `handle` has the signature that `SA_SIGINFO` requires, and calls async-signal-safe functions only.
        let installed = unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()) } == 0;
        installed.then_some(before)
    });
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes the address of the signal and the interrupted context, which nothing else uses now.
    let (address, registers) = unsafe { ((*info).si_addr().addr(), &mut *context.cast::<ucontext_t>()) };
    let stack = overflowing(address).filter(|stack| stack.stack_ptr_in_bounds(stack_pointer(registers)));
    let Some(stack) = stack else { return pass_on(signal, info, context) };
    let raise = || Raised::local_memory(STACK_BYTES, None).raise();
    // SAFETY: the stack pointer is within the coroutine's stack, all frames of which are gone without their destructors.
    // They are the kernel's, which needs none: functions of the emulator that allocate memory end the thread by a fault when
    // half of the stack is used. A borrow that never ends makes later ones panic. Shared memory is written through cells.
    set_registers(registers, unsafe { stack.setup_trap_handler(raise) });
}

/// Does what would have happened without this handler.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let before = BEFORE.get().copied().flatten();
    let Some(before) = before.filter(|before| !matches!(before.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)) else {
        // SAFETY: the default action needs no function. The interrupted instruction raises the signal again.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    };
    if before.sa_flags & libc::SA_SIGINFO != 0 {
        type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
        // SAFETY: with this flag, it is the address of such a function.
        let handler = unsafe { std::mem::transmute::<usize, Handler>(before.sa_sigaction) };
        handler(signal, info, context);
    } else {
        // SAFETY: without the flag, it is the address of such a function.
        let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(before.sa_sigaction) };
        handler(signal);
    }
}

#[cfg(target_arch = "x86_64")]
fn stack_pointer(context: &ucontext_t) -> usize {
    context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize
}

#[cfg(target_arch = "x86_64")]
fn set_registers(context: &mut ucontext_t, values: corosensei::trap::TrapHandlerRegs) {
    let corosensei::trap::TrapHandlerRegs { rip, rsp, rbp, rdi, rsi } = values;
    let registers = [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP, libc::REG_RDI, libc::REG_RSI];
    for (register, value) in registers.into_iter().zip([rip, rsp, rbp, rdi, rsi]) {
        context.uc_mcontext.gregs[register as usize] = value.cast_signed();
    }
}

#[cfg(target_arch = "aarch64")]
fn stack_pointer(context: &ucontext_t) -> usize {
    context.uc_mcontext.sp as usize
}

#[cfg(target_arch = "aarch64")]
fn set_registers(context: &mut ucontext_t, values: corosensei::trap::TrapHandlerRegs) {
    let corosensei::trap::TrapHandlerRegs { pc, sp, x0, x1, x29, lr } = values;
    let machine = &mut context.uc_mcontext;
    (machine.pc, machine.sp) = (pc, sp);
    for (register, value) in [(0, x0), (1, x1), (29, x29), (30, lr)] {
        machine.regs[register] = value;
    }
}
