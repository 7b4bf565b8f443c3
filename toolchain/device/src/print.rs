//! Text from kernels: [`device_println!`](crate::device_println) and [`device_assert!`](crate::device_assert).
//!
//! ```
//! use warpkov_device::device::safe::{In, Len, Out};
//! use warpkov_device::device::{device_assert, device_println, kernel};
//! use warpkov_device::emulator::Emulator;
//! use warpkov_device::launch::{Device, Shape};
//! use warpkov_device::print;
//!
//! /// y = √x.
//! #[kernel(safe)]
//! fn roots<'n>(n: Len<'n>, x: In<'n, f32>, y: Out<'n, f32>) {
//!     for i in n.elements() {
//!         let x = x.get(&i);
//!         device_assert!(x >= 0.0, "element {} is {}", i.index().get(), x);
//!         if x > 3.0 {
//!             device_println!("x = {:.2}, {:#x}", x, x.to_bits());
//!         }
//!         y.set(&i, x.sqrt());
//!     }
//! }
//!
//! let device = Emulator::default();
//! let x = device.upload(&[1.0, 4.0])?;
//! let mut y = device.zeros(2)?;
//! let (result, text) = print::captured(|| roots(&device, Shape::new(1, 32), 2, &x, &mut y));
//! result?;
//! assert_eq!(text, "x = 4.00, 0x40800000\n");
//!
//! let x = device.upload(&[-1.0, 4.0])?;
//! let error = roots(&device, Shape::new(1, 32), 2, &x, &mut y).unwrap_err().to_string();
//! assert!(error.contains("kernel roots, block (0, 0, 0), thread 0: assertion failed: element 0 is -1"), "{error}");
//! # Ok::<(), warpkov_device::emulator::EmulatorError>(())
//! ```
//!
//! The emulator prints at once. On a GPU, a message goes to page-locked memory of the host, which reads it when it next waits for the GPU:
//! the lines of one thread are in order, those of different threads are in any order. If there is no room for a message, it is lost, and the
//! host says how many were. A failed assertion stops the kernel. The launch is then an error that names kernel, thread and line, and as after every
//! fault of a kernel, the GPU cannot be used any more by this process.
//!
//! The macros cost nothing in kernels that do not use them.
//!
//! # Formats
//!
//! `{}` or `{0}`, and `{:…}` with fill, alignment, `+`, `#`, `0`, width, `.` precision, and one of `?`, `x`, `X`, `o`, `b`, `e` and `E`, as in
//! [`std::fmt`]. Values are [`Printed`]. A name or a `$` in the braces does not compile, nor does a number of values other than the format's.

/// A value that a kernel can print: a number, a `bool` or a `char`.
///
/// ```
/// # use warpkov_device::device::{prelude::*, safe::*};
/// # use warpkov_device::{emulator::Emulator, launch::*, print};
/// fn show(value: impl print::Printed) {
///     device_println!("{}", value);
/// }
///
/// #[kernel(safe)]
/// fn tell(x: Slice<u32>) {
///     show(x.get(0));
/// }
///
/// # let device = Emulator::default();
/// let x = device.upload(&[7_u32])?;
/// let (result, text) = print::captured(|| tell(&device, Shape::new(1, 32), &x));
/// result?;
/// assert_eq!(text.lines().next(), Some("7"));
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
pub trait Printed: Copy {
    /// The value as it is written to a message.
    #[doc(hidden)]
    fn value(self) -> Value;
}

/// A value in a message.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    kind: u32,
    bits: u64,
}

/// Kinds of values.
const UNSIGNED: u32 = 0;
const SIGNED: u32 = 1;
const F32: u32 = 2;
const F64: u32 = 3;
const BOOL: u32 = 4;
const CHAR: u32 = 5;

macro_rules! printed {
    ($($ty:ty => $kind:expr, |$value:ident| $bits:expr;)*) => {$(
        impl Printed for $ty {
            #[inline(always)]
            fn value(self) -> Value {
                let $value = self;
                // The width of an integer, for negative numbers in base 2, 8 and 16.
                Value { kind: $kind | (size_of::<$ty>() as u32) << 8, bits: $bits }
            }
        }
    )*};
}
printed! {
    u8 => UNSIGNED, |v| u64::from(v);
    u16 => UNSIGNED, |v| u64::from(v);
    u32 => UNSIGNED, |v| u64::from(v);
    u64 => UNSIGNED, |v| v;
    usize => UNSIGNED, |v| v as u64;
    i8 => SIGNED, |v| i64::from(v) as u64;
    i16 => SIGNED, |v| i64::from(v) as u64;
    i32 => SIGNED, |v| i64::from(v) as u64;
    i64 => SIGNED, |v| v as u64;
    isize => SIGNED, |v| v as u64;
    f32 => F32, |v| u64::from(v.to_bits());
    f64 => F64, |v| v.to_bits();
    bool => BOOL, |v| u64::from(v);
    char => CHAR, |v| u64::from(u32::from(v));
}

/// Prints a line from a kernel: `device_println!("x[{}] is {:.3}", i, x)`. See [`print`](crate::print).
///
/// ```
/// # use warpkov_device::device::{prelude::*, safe::*};
/// # use warpkov_device::{emulator::Emulator, launch::*, print};
/// #[kernel(safe)]
/// fn tell(x: Slice<u32>) {
///     device_println!("x[0] is {:03}, {:#x}", x.get(0), x.get(0));
/// }
///
/// # let device = Emulator::default();
/// let x = device.upload(&[7_u32])?;
/// let (result, text) = print::captured(|| tell(&device, Shape::new(1, 32), &x));
/// result?;
/// assert_eq!(text.lines().next(), Some("x[0] is 007, 0x7"));
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[macro_export]
macro_rules! device_println {
    ($format:literal $(, $value:expr)* $(,)?) => {{
        const _: () = $crate::print::check($format, <[&str]>::len(&[$(stringify!($value)),*]));
        $crate::print::line(file!(), line!(), $format, &[$($crate::print::Printed::value($value)),*]);
    }};
}

/// Stops the kernel unless a condition holds: `device_assert!(i < n)`, or `device_assert!(i < n, "i is {}", i)`. The launch is an error
/// that names kernel, block, thread, line and message. See [`print`](crate::print).
///
/// ```
/// # use warpkov_device::device::{prelude::*, safe::*};
/// # use warpkov_device::{emulator::Emulator, launch::*, print};
/// #[kernel(safe)]
/// fn tell(x: Slice<u32>) {
///     device_assert!(x.get(0) < 7, "it is {}", x.get(0));
/// }
///
/// # let device = Emulator::default();
/// let x = device.upload(&[7_u32])?;
/// let error = tell(&device, Shape::new(1, 32), &x).unwrap_err().to_string();
/// assert!(error.contains("assertion failed: it is 7"), "{error}");
/// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
/// ```
#[macro_export]
macro_rules! device_assert {
    ($condition:expr $(,)?) => {
        if !$condition {
            $crate::print::fail(file!(), line!(), stringify!($condition), None);
        }
    };
    ($condition:expr, $format:literal $(, $value:expr)* $(,)?) => {{
        const _: () = $crate::print::check($format, <[&str]>::len(&[$(stringify!($value)),*]));
        if !$condition {
            $crate::print::fail(file!(), line!(), $format, Some(&[$($crate::print::Printed::value($value)),*]));
        }
    }};
}

/// Checks a format with so many values at compile time.
#[doc(hidden)]
pub const fn check(format: &str, values: usize) {
    let text = format.as_bytes();
    let (mut at, mut next, mut used) = (0, 0, 0_u64);
    if values > 64 {
        panic!("a message has at most 64 values");
    }
    while at < text.len() {
        let doubled = at + 1 < text.len() && text[at + 1] == text[at];
        match text[at] {
            b'{' | b'}' if doubled => at += 1,
            b'}' => panic!("a single brace in the format of a message: write it twice"),
            b'{' => {
                let mut number = None;
                at += 1;
                while at < text.len() && text[at].is_ascii_digit() {
                    let before = match number {
                        Some(number) => number,
                        None => 0,
                    };
                    if before >= 64 {
                        panic!("a message has at most 64 values");
                    }
                    number = Some(10 * before + (text[at] - b'0') as usize);
                    at += 1;
                }
                let value = match number {
                    Some(number) => number,
                    None => {
                        next += 1;
                        next - 1
                    }
                };
                if at == text.len() || !matches!(text[at], b':' | b'}') {
                    panic!(
                        "the braces of a message hold a number or nothing before the colon: a name cannot stand there"
                    );
                }
                if value >= values {
                    panic!("the format of a message has more braces than there are values");
                }
                used |= 1 << value;
                if text[at] == b':' {
                    at = after_spec(text, at + 1);
                }
                if at == text.len() || text[at] != b'}' {
                    panic!(
                        "after the colon of a message come fill and alignment, +, #, 0, width, . precision, and a type, in this order and all optional"
                    );
                }
            }
            _ => {}
        }
        at += 1;
    }
    if used.count_ones() as usize != values {
        panic!("the format of a message does not use all values");
    }
}

/// The end of what follows the colon.
const fn after_spec(text: &[u8], mut at: usize) -> usize {
    /// Skips one of `bytes`.
    const fn one(text: &[u8], at: usize, bytes: &[u8]) -> usize {
        let mut i = 0;
        while i < bytes.len() {
            if at < text.len() && text[at] == bytes[i] {
                return at + 1;
            }
            i += 1;
        }
        at
    }
    const fn digits(text: &[u8], mut at: usize) -> usize {
        while at < text.len() && text[at].is_ascii_digit() {
            at += 1;
        }
        at
    }
    // A fill has one byte here, and may be a brace.
    let aligned = one(text, at + 1, b"<^>");
    at = if aligned > at + 1 { aligned } else { one(text, at, b"<^>") };
    at = one(text, one(text, one(text, at, b"+"), b"#"), b"0");
    at = digits(text, at);
    let point = one(text, at, b".");
    if point > at {
        at = digits(text, point);
        if at == point {
            panic!("a precision of a message is a number");
        }
    }
    one(text, at, b"?xXobeE")
}

/// Words of a message before its texts: the number of its words, the kernel, kind, line, block (3), thread (3), bytes of the file's name, bytes
/// of the format, and the number of values. The name, the format and the values follow.
const HEAD: usize = 13;

/// Words of a value: its kind, and its bits.
const VALUE: usize = 3;

/// Kinds of messages: a line, an assertion with a format, and one with a text.
const LINE: u32 = 0;
const FAILED: u32 = 1;
const FAILED_PLAINLY: u32 = 2;
/// An index that is not below a length, without texts: the two are the values.
const BEYOND: u32 = 3;

/// Prints a line: for [`device_println!`](crate::device_println).
#[doc(hidden)]
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub fn line(file: &'static str, line: u32, format: &'static str, values: &[Value]) {
    gpu::send(LINE, file, line, format, values);
}

/// Ends the kernel: for [`device_assert!`](crate::device_assert).
#[doc(hidden)]
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub fn fail(file: &'static str, line: u32, format: &'static str, values: Option<&[Value]>) -> ! {
    match values {
        Some(values) => gpu::send(FAILED, file, line, format, values),
        None => gpu::send(FAILED_PLAINLY, file, line, format, &[]),
    }
    trap()
}

/// Ends the kernel: an index is not below a length.
#[doc(hidden)]
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub fn beyond(line: u32, index: u64, length: u64) -> ! {
    gpu::send_beyond(line, index, length);
    trap()
}

/// Ends the kernel. Inlined, so that the audit of the PTX sees that a way ends here.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn trap() -> ! {
    // SAFETY: the instruction ends the kernel.
    unsafe { core::arch::asm!("trap;", options(noreturn)) }
}

#[cfg(target_arch = "nvptx64")]
mod gpu {
    use core::arch::{asm, global_asm};

    use super::{BEYOND, HEAD, LINE, UNSIGNED, VALUE, Value};
    use crate::device::thread;

    // What the host writes when it loads a kernel: the address of the memory for messages, its words, the address of two counters, and the
    // number of the kernel. Each kernel is a module with a copy of its own. Not 0, so that the variable has an initial value.
    global_asm!(".visible .global .align 8 .u64 warpkov_print[4] = {{1, 0, 0, 0}};");

    /// Element `N` / 8 of the variable.
    #[inline(always)]
    fn place<const N: u32>() -> u64 {
        let value;
        // SAFETY: the variable has four elements.
        unsafe { asm!("ld.volatile.global.u64 {}, [warpkov_print+{}];", out(reg64) value, const N, options(nostack)) };
        value
    }

    /// Puts an index and the length that it is not below into the memory for messages. This function is in every kernel that checks an
    /// index, and has no texts so that it needs few registers.
    #[cold]
    #[inline(never)]
    pub fn send_beyond(line: u32, index: u64, length: u64) {
        const COUNT: u64 = (HEAD + 2 * VALUE) as u64;

        let start: u64;
        // SAFETY: as in `send`.
        let words = unsafe {
            let counters = place::<16>();
            if counters == 0 {
                return;
            }
            asm!("atom.relaxed.gpu.add.u64 {}, [{}], {};", out(reg64) start, in(reg64) counters, in(reg64) COUNT, options(nostack));
            if start + COUNT > place::<8>() {
                return;
            }
            (place::<0>() as *mut u32).add(start as usize)
        };
        // SAFETY: `at` is below `COUNT`.
        let put = |at: usize, word: u32| unsafe { words.add(at).write_volatile(word) };
        put(1, place::<24>() as u32);
        put(2, BEYOND);
        put(3, line);
        put(4, thread::block_idx_x());
        put(5, thread::block_idx_y());
        put(6, thread::block_idx_z());
        put(7, thread::thread_idx_x());
        put(8, thread::thread_idx_y());
        put(9, thread::thread_idx_z());
        put(10, 0);
        put(11, 0);
        put(12, 2);
        put(HEAD, UNSIGNED | 8 << 8);
        put(HEAD + 1, index as u32);
        put(HEAD + 2, (index >> 32) as u32);
        put(HEAD + 3, UNSIGNED | 8 << 8);
        put(HEAD + 4, length as u32);
        put(HEAD + 5, (length >> 32) as u32);
        // SAFETY: fences access no memory. The host reads the message once its first word is not 0; the kernel ends next.
        unsafe { asm!("fence.acq_rel.sys;", options(nostack)) };
        put(0, COUNT as u32);
        // SAFETY: as above.
        unsafe { asm!("fence.acq_rel.sys;", options(nostack)) };
    }

    /// Puts a message into the memory for messages.
    #[cold]
    #[inline(never)]
    pub fn send(kind: u32, file: &'static str, line: u32, format: &'static str, values: &[Value]) {
        let (words, room, counters) = (place::<0>(), place::<8>(), place::<16>());
        if room == 0 {
            return;
        }
        let count = HEAD + file.len().div_ceil(4) + format.len().div_ceil(4) + VALUE * values.len();
        let start: u64;
        // SAFETY: the host has written the addresses of memory that lives as long as the context: `room` words, the number of words in use,
        // and the number of lost messages. The addition reserves the message's words for this thread.
        let words = unsafe {
            asm!("atom.relaxed.gpu.add.u64 {}, [{}], {};", out(reg64) start, in(reg64) counters, in(reg64) count as u64, options(nostack));
            if start + count as u64 > room {
                asm!("red.relaxed.gpu.add.u64 [{}], 1;", in(reg64) counters + 8, options(nostack));
                return;
            }
            (words as *mut u32).add(start as usize)
        };
        // SAFETY: `at` is below `count`.
        let put = |at: usize, word: u32| unsafe { words.add(at).write_volatile(word) };
        let put_text = |at: usize, text: &str| {
            let (mut byte, mut word) = (0, 0);
            while byte < text.len() {
                // SAFETY: `byte` is below the length.
                word |= u32::from(unsafe { text.as_ptr().add(byte).read() }) << (8 * (byte % 4));
                byte += 1;
                if byte % 4 == 0 || byte == text.len() {
                    put(at + (byte - 1) / 4, word);
                    word = 0;
                }
            }
            at + text.len().div_ceil(4)
        };
        let (block, own) = (
            [thread::block_idx_x(), thread::block_idx_y(), thread::block_idx_z()],
            [thread::thread_idx_x(), thread::thread_idx_y(), thread::thread_idx_z()],
        );
        put(1, place::<24>() as u32);
        put(2, kind);
        put(3, line);
        let mut axis = 0;
        for (block, own) in block.into_iter().zip(own) {
            put(4 + axis, block);
            put(7 + axis, own);
            axis += 1;
        }
        put(10, file.len() as u32);
        put(11, format.len() as u32);
        put(12, values.len() as u32);
        let at = put_text(HEAD, file);
        let mut at = put_text(at, format);
        let mut value = 0;
        while value < values.len() {
            // SAFETY: `value` is below the length.
            let Value { kind, bits } = unsafe { values.as_ptr().add(value).read() };
            put(at, kind);
            put(at + 1, bits as u32);
            put(at + 2, (bits >> 32) as u32);
            at += VALUE;
            value += 1;
        }
        // SAFETY: fences access no memory. The host reads the message once its first word is not 0.
        unsafe { asm!("fence.acq_rel.sys;", options(nostack)) };
        put(0, count as u32);
        if kind != LINE {
            // The kernel ends next.
            // SAFETY: as above.
            unsafe { asm!("fence.acq_rel.sys;", options(nostack)) };
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub use host::*;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use std::cell::RefCell;
    use std::fmt::{self, Write as _};
    use std::io::Write as _;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::{BEYOND, BOOL, CHAR, F32, F64, FAILED, FAILED_PLAINLY, HEAD, LINE, SIGNED, VALUE, Value};
    use crate::emulator::fault::{self, Kind};
    use crate::launch::Dim3;

    thread_local! {
        static CAPTURED: RefCell<Option<String>> = const { RefCell::new(None) };
    }

    /// Calls `work`, and returns what kernels print meanwhile to this thread in place of the standard output.
    ///
    /// ```
    /// # use warpkov_device::device::{prelude::*, safe::*};
    /// # use warpkov_device::{emulator::Emulator, launch::*, print};
    /// #[kernel(safe)]
    /// fn tell(x: Slice<u32>) {
    ///     device_println!("{}", x.get(0));
    /// }
    ///
    /// # let device = Emulator::default();
    /// let x = device.upload(&[7_u32])?;
    /// let (result, text) = print::captured(|| tell(&device, Shape::new(1, 32), &x));
    /// result?;
    /// assert_eq!(text.lines().next(), Some("7"));
    /// # Ok::<(), warpkov_device::emulator::EmulatorError>(())
    /// ```
    pub fn captured<R>(work: impl FnOnce() -> R) -> (R, String) {
        /// Restores what was there, also if `work` panics.
        struct Restore(Option<String>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CAPTURED.set(self.0.take());
            }
        }
        let before = Restore(CAPTURED.replace(Some(String::new())));
        let result = work();
        let text = CAPTURED.take().unwrap_or_default();
        drop(before);
        (result, text)
    }

    /// Prints a line of a kernel.
    fn show(text: &str) {
        CAPTURED.with_borrow_mut(|captured| match captured {
            Some(captured) => {
                captured.push_str(text);
                captured.push('\n');
            }
            // A closed standard output is no reason to stop.
            None => drop(writeln!(std::io::stdout(), "{text}")),
        });
    }

    /// Prints a line: for [`device_println!`](crate::device_println).
    #[doc(hidden)]
    pub fn line(_: &'static str, _: u32, format: &'static str, values: &[Value]) {
        show(&formatted(format, values));
    }

    /// Ends the kernel: for [`device_assert!`](crate::device_assert).
    #[doc(hidden)]
    #[cold]
    #[track_caller]
    pub fn fail(_: &'static str, _: u32, format: &'static str, values: Option<&[Value]>) -> ! {
        let message = values.map_or_else(|| format.to_owned(), |values| formatted(format, values));
        fault::raise(Kind::Assertion { message })
    }

    /// A failed assertion of a kernel on a GPU.
    ///
    /// ```
    /// use warpkov_device::launch::Dim3;
    /// use warpkov_device::print::Failed;
    ///
    /// let at = |x| Dim3 { x, y: 0, z: 0 };
    /// let (file, message) = ("kernels.rs".to_owned(), "i < n".to_owned());
    /// let failed = Failed { kernel: 0, block: at(2), thread: at(5), file, line: 7, message };
    /// assert_eq!(failed.to_string(), "block (2, 0, 0), thread (5, 0, 0): assertion failed: i < n, at kernels.rs:7");
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Failed {
        /// Number of the kernel, as the host has written it.
        pub kernel: u32,
        /// Index of the block in the grid.
        pub block: Dim3,
        /// Index of the thread in the block.
        pub thread: Dim3,
        /// Source file; empty for an index of a safe kernel, which names its line only.
        pub file: String,
        /// Line in the file.
        pub line: u32,
        /// The message, or the condition.
        pub message: String,
    }

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let Self { block, thread, file, line, message, .. } = self;
            let triple = |at: &Dim3| format!("({}, {}, {})", at.x, at.y, at.z);
            write!(f, "block {}, thread {}: ", triple(block), triple(thread))?;
            match file.as_str() {
                "" => write!(f, "{message}, at line {line}"),
                file => write!(f, "assertion failed: {message}, at {file}:{line}"),
            }
        }
    }

    /// Prints the lines among the messages in `words`, from word `read` on, and returns the first failed assertion. `read` is the first
    /// word after them then.
    #[doc(hidden)]
    pub fn receive(words: &[AtomicU32], read: &mut usize) -> Option<Failed> {
        let mut failed = None;
        while let Some(message) = Message::next(words, *read) {
            *read += message.0.len();
            match message.0[2] {
                FAILED | FAILED_PLAINLY | BEYOND => failed = failed.or_else(|| Some(message.failed())),
                LINE => show(&message.text()),
                _ => {}
            }
        }
        failed
    }

    /// Says that `count` messages did not fit into `words` words.
    #[doc(hidden)]
    pub fn tell_lost(count: u64, words: usize) {
        let room = words >> 8;
        show(&format!("({count} lines of kernels were lost: more than {room} KiB came between two waits for the GPU)"));
    }

    /// The words of a message.
    struct Message(Vec<u32>);

    impl Message {
        /// The message from word `start` on, if it is complete. Clears its words.
        fn next(words: &[AtomicU32], start: usize) -> Option<Self> {
            let count = words.get(start)?.load(Ordering::Acquire) as usize;
            let words = words.get(start..start + count).filter(|words| words.len() >= HEAD)?;
            let message = Self(words.iter().map(|word| word.swap(0, Ordering::Relaxed)).collect());
            let [file, format, values] = [10, 11, 12].map(|at| message.0[at] as usize);
            (HEAD + file.div_ceil(4) + format.div_ceil(4) + VALUE * values == count).then_some(message)
        }

        /// The file's name, the format and the values.
        fn parts(&self) -> (String, String, Vec<Value>) {
            let (file, format) = (self.0[10] as usize, self.0[11] as usize);
            let bytes: Vec<u8> = self.0[HEAD..].iter().flat_map(|word| word.to_le_bytes()).collect();
            let text = |at: usize, length| String::from_utf8_lossy(&bytes[at..at + length]).into_owned();
            let values = HEAD + file.div_ceil(4) + format.div_ceil(4);
            let value = |words: &[u32]| Value { kind: words[0], bits: u64::from(words[1]) | u64::from(words[2]) << 32 };
            (
                text(0, file),
                text(4 * file.div_ceil(4), format),
                self.0[values..].chunks_exact(VALUE).map(value).collect(),
            )
        }

        fn text(&self) -> String {
            let (_, format, values) = self.parts();
            match self.0[2] {
                FAILED_PLAINLY => format,
                BEYOND => formatted("index {} is not below {}", &values),
                _ => formatted(&format, &values),
            }
        }

        fn failed(&self) -> Failed {
            let at = |first: usize| Dim3 { x: self.0[first], y: self.0[first + 1], z: self.0[first + 2] };
            let (kernel, line, (file, ..)) = (self.0[1], self.0[3], self.parts());
            Failed { kernel, block: at(4), thread: at(7), file, line, message: self.text() }
        }
    }

    /// What stands in the braces of a format.
    #[derive(Clone, Copy, Default)]
    struct Spec {
        fill: Option<char>,
        align: Option<char>,
        plus: bool,
        alternate: bool,
        zeros: bool,
        width: usize,
        precision: Option<usize>,
        kind: char,
    }

    /// The text of a format that [`check`](super::check) has checked.
    #[must_use]
    pub(super) fn formatted(format: &str, values: &[Value]) -> String {
        let (mut text, mut next, mut rest) = (String::new(), 0, format);
        while let Some(at) = rest.find(['{', '}']) {
            text.push_str(&rest[..at]);
            let brace = rest.as_bytes()[at];
            rest = &rest[at + 1..];
            if rest.as_bytes().first() == Some(&brace) {
                text.push(char::from(brace));
                rest = &rest[1..];
                continue;
            }
            let (number, spec, after) = Spec::parse(rest);
            let value = number.unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            if let Some(value) = values.get(value) {
                spec.write(*value, &mut text);
            }
            rest = after;
        }
        text + rest
    }

    impl Spec {
        /// The number of the value, the rest of the braces, and what follows them.
        fn parse(text: &str) -> (Option<usize>, Self, &str) {
            let mut spec = Self { kind: ' ', ..Self::default() };
            let digits = |text: &mut &str| {
                let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
                let number = text[..end].parse().ok();
                *text = &text[end..];
                number
            };
            let skip = |text: &mut &str, c: char| {
                let found = text.strip_prefix(c);
                *text = found.unwrap_or(text);
                found.is_some()
            };
            let mut rest = text;
            let number = digits(&mut rest);
            if skip(&mut rest, ':') {
                let mut chars = rest.chars();
                let (first, second) = (chars.next(), chars.next());
                let is_align = |c: &char| "<^>".contains(*c);
                if let (Some(fill), Some(align)) = (first, second.filter(is_align)) {
                    (spec.fill, spec.align) = (Some(fill), Some(align));
                    rest = chars.as_str();
                } else if let Some(align) = first.filter(is_align) {
                    spec.align = Some(align);
                    rest = &rest[1..];
                }
                spec.plus = skip(&mut rest, '+');
                spec.alternate = skip(&mut rest, '#');
                spec.zeros = skip(&mut rest, '0');
                spec.width = digits(&mut rest).unwrap_or(0);
                if skip(&mut rest, '.') {
                    spec.precision = digits(&mut rest);
                }
                if let Some(kind) = rest.chars().next().filter(|&kind| kind != '}') {
                    spec.kind = kind;
                    rest = &rest[1..];
                }
            }
            skip(&mut rest, '}');
            (number, spec, rest)
        }

        /// Appends a value.
        fn write(self, value: Value, text: &mut String) {
            let (sign, prefix, digits) = self.parts(value);
            let length = sign.len() + prefix.len() + digits.chars().count();
            let missing = self.width.saturating_sub(length);
            let number = !matches!(value.kind & 0xff, BOOL | CHAR);
            if self.zeros && number {
                let _ = write!(text, "{sign}{prefix}{:0>1$}", digits, digits.chars().count() + missing);
                return;
            }
            let left = match (self.align, number) {
                (Some('<'), _) | (None, false) => 0,
                (Some('^'), _) => missing / 2,
                _ => missing,
            };
            let fill = self.fill.unwrap_or(' ');
            text.extend(std::iter::repeat_n(fill, left));
            let _ = write!(text, "{sign}{prefix}{digits}");
            text.extend(std::iter::repeat_n(fill, missing - left));
        }

        /// The sign, the prefix of the base, and the digits of a value.
        fn parts(self, Value { kind, bits }: Value) -> (&'static str, &'static str, String) {
            let sign = |negative: bool| match (negative, self.plus) {
                (true, _) => "-",
                (false, true) => "+",
                _ => "",
            };
            match kind & 0xff {
                BOOL => return ("", "", (bits != 0).to_string()),
                CHAR if self.kind == '?' => {
                    let c = char::from_u32(bits as u32).unwrap_or(char::REPLACEMENT_CHARACTER);
                    return ("", "", format!("{c:?}"));
                }
                CHAR => {
                    return ("", "", char::from_u32(bits as u32).unwrap_or(char::REPLACEMENT_CHARACTER).to_string());
                }
                F32 => return self.float(f32::from_bits(bits as u32), sign),
                F64 => return self.float(f64::from_bits(bits), sign),
                _ => {}
            }
            let signed = kind & 0xff == SIGNED;
            let magnitude = if signed { bits.cast_signed().unsigned_abs() } else { bits };
            // In a base of a power of two, a negative number is its two's complement in the width of its type.
            let pattern = bits & u64::MAX >> (64 - 8 * (kind >> 8).clamp(1, 8));
            let prefix = |prefix| if self.alternate { prefix } else { "" };
            let plus = sign(false);
            match self.kind {
                'x' => (plus, prefix("0x"), format!("{pattern:x}")),
                'X' => (plus, prefix("0x"), format!("{pattern:X}")),
                'o' => (plus, prefix("0o"), format!("{pattern:o}")),
                'b' => (plus, prefix("0b"), format!("{pattern:b}")),
                'e' | 'E' => {
                    let text = self.precision.map_or_else(|| format!("{magnitude:e}"), |p| format!("{magnitude:.p$e}"));
                    let text = if self.kind == 'E' { text.to_uppercase() } else { text };
                    (sign(signed && bits.cast_signed() < 0), "", text)
                }
                _ => (sign(signed && bits.cast_signed() < 0), "", magnitude.to_string()),
            }
        }

        /// The sign and the digits of a number.
        fn float<T>(self, value: T, sign: impl Fn(bool) -> &'static str) -> (&'static str, &'static str, String)
        where
            T: Copy + Into<f64> + fmt::Display + fmt::Debug + fmt::LowerExp + fmt::UpperExp,
        {
            let text = match (self.kind, self.precision) {
                ('e', None) => format!("{value:e}"),
                ('e', Some(p)) => format!("{value:.p$e}"),
                ('E', None) => format!("{value:E}"),
                ('E', Some(p)) => format!("{value:.p$E}"),
                ('?', None) => format!("{value:?}"),
                ('?', Some(p)) => format!("{value:.p$?}"),
                (_, None) => value.to_string(),
                (_, Some(p)) => format!("{value:.p$}"),
            };
            let is_nan = value.into().is_nan();
            let digits = text.strip_prefix('-').unwrap_or(&text).to_owned();
            (if is_nan { "" } else { sign(text.starts_with('-')) }, "", digits)
        }
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Compares with the standard library.
    macro_rules! same {
        ($($format:literal: $($value:expr),+;)*) => {$(
            const _: () = check($format, <[&str]>::len(&[$(stringify!($value)),+]));
            assert_eq!(host::formatted($format, &[$($value.value()),+]), format!($format, $($value),+));
        )*};
    }

    #[test]
    fn formats_are_those_of_the_standard_library() {
        for v in [0, 7, -7, i32::MAX, i32::MIN] {
            same! {
                "{}": v; "a {} b": v; "{:5}|": v; "{:<5}|": v; "{:^6}|": v; "{:>5}|": v; "{:*^7}|": v; "{:+}": v; "{:05}": v; "{:+05}": v;
                "{:x}": v; "{:#x}": v; "{:#X}": v; "{:#010x}": v; "{:b}": v; "{:#o}": v; "{:e}": v; "{:E}": v; "{:?}": v; "{{}} {}": v;
                "{0} {0:x}": v; "{:}<4}|": v; "{:.2e}": v; "{:+x}": v; "{:<05}|": v;
            }
            let (a, b, c, d) = (v as i8, v as u16, i64::from(v) * 1_000_000_007, v as usize);
            same! { "{} {} {} {}": a, b, c, d; "{:x} {:b} {:o} {:#x}": a, b, c, d; "{2} {0} {1} {3:>30}": a, b, c, d; }
        }
        for v in
            [0.0, -0.0, 1.0, -1.5, 0.1, 1e300, -1e-300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e16, 123_456.789]
        {
            let f = v as f32;
            same! {
                "{}": v; "{:?}": v; "{:e}": v; "{:E}": v; "{:.3}": v; "{:10.3}|": v; "{:<10.3}|": v; "{:+.1}": v; "{:.2e}": v; "{:010.2}": v;
                "{:.0}": v; "{:+}": v; "{:-^12.1}|": v; "{:.3?}": v; "{}": f; "{:?}": f; "{:e}": f; "{:.3}": f; "{:012.4}": f;
            }
        }
        same! {
            "{} {}": true, false; "{:>7}|{:<7}|{:7}|": true, false, true; "{}{:3}|": 'x', 'ß'; "{:?} {:?}": 'x', true; "{:05}|{:^5}|": true, 'y';
        }
    }

    #[test]
    fn random_numbers_print_alike() {
        let mut state = 1_u64;
        for _ in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (v, f) = (f64::from_bits(state), f32::from_bits((state >> 32) as u32));
            let (i, u) = (state.cast_signed() >> (state % 60), state >> (state % 60));
            same! { "{} {} {} {}": v, f, i, u; "{:?} {:e} {:+} {:#x}": v, f, i, u; "{:.4e} {:14.6?} {:x} {:^30}": v, f, i, u; }
        }
    }

    /// Writes a message as a GPU does, from word `next` on.
    fn send(words: &[AtomicU32], next: &mut usize, kind: u32, (file, format): (&str, &str), values: &[Value]) {
        let count = HEAD + file.len().div_ceil(4) + format.len().div_ceil(4) + VALUE * values.len();
        let text = |text: &str| {
            let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
            text.as_bytes().chunks(4).map(word).collect::<Vec<_>>()
        };
        let lengths = [file.len() as u32, format.len() as u32, values.len() as u32];
        let head = [count as u32, 3, kind, 17, 1, 2, 0, 31, 0, 5].into_iter().chain(lengths);
        let values = values.iter().flat_map(|value| [value.kind, value.bits as u32, (value.bits >> 32) as u32]);
        for word in head.chain(text(file)).chain(text(format)).chain(values) {
            words[*next].store(word, Ordering::Relaxed);
            *next += 1;
        }
    }

    #[test]
    fn messages_pass_through_memory() {
        let words: Vec<AtomicU32> = (0..1000).map(|_| AtomicU32::new(0)).collect();
        let (mut next, mut read) = (0, 0);
        assert_eq!(captured(|| receive(&words, &mut read)), (None, String::new()));
        for i in 0_u64..20 {
            send(&words, &mut next, LINE, ("src/k.rs", "{} and {:.1}"), &[i.value(), (-0.5 * i as f64).value()]);
            if i % 3 == 0 {
                send(&words, &mut next, LINE, ("a", "ä {:?}"), &['ß'.value()]);
            }
            let expected = format!("{i} and {:.1}\n{}", -0.5 * i as f64, if i % 3 == 0 { "ä 'ß'\n" } else { "" });
            assert_eq!(captured(|| receive(&words, &mut read)), (None, expected));
            assert_eq!(read, next);
        }
        send(&words, &mut next, FAILED, ("src/k.rs", "i is {}"), &[7_u8.value()]);
        send(&words, &mut next, FAILED_PLAINLY, ("src/k.rs", "matches!(i, A { .. })"), &[]);
        let failed = receive(&words, &mut read).unwrap();
        assert_eq!(failed.to_string(), "block (1, 2, 0), thread (31, 0, 5): assertion failed: i is 7, at src/k.rs:17");
        assert_eq!((failed.kernel, read), (3, next));
        send(&words, &mut next, FAILED_PLAINLY, ("src/k.rs", "matches!(i, A { .. })"), &[]);
        assert_eq!(receive(&words, &mut read).unwrap().message, "matches!(i, A { .. })");
        send(&words, &mut next, BEYOND, ("", ""), &[9_u64.value(), 8_u64.value()]);
        let failed = receive(&words, &mut read).unwrap().to_string();
        assert_eq!(failed, "block (1, 2, 0), thread (31, 0, 5): index 9 is not below 8, at line 17");
        // What is no message is left alone.
        for word in [1, 13, 5000] {
            words[next].store(word, Ordering::Relaxed);
            words[next + 10].store(7, Ordering::Relaxed);
            assert_eq!(captured(|| receive(&words, &mut read)), (None, String::new()));
        }
        assert!(captured(|| tell_lost(3, 1 << 18)).1.starts_with("(3 lines of kernels were lost: more than 1024 KiB"));
    }
}
