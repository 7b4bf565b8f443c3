//! The border to C: pointers become references, and errors and panics become codes and texts.
//!
//! Callers guarantee what the header says: a pointer is NULL or points at memory of its type, with as many elements as its count
//! says, for as long as the call lasts; a handle comes from this library and is not freed yet. What can be checked is: NULL,
//! alignment, counts, and all numbers.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process;
use std::ptr;
use std::sync::OnceLock;

use warpkov_cli::error::{Error, message};
use warpkov_common::choice::Choice;
use warpkov_runtime::choose::{DeviceChoice, Place};

/// How a call ended. The numbers are the exit codes of the command `warpkov`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum wk_status {
    /// Done, or solved.
    WK_OK = 0,
    /// A limit came before the accuracy that was asked for: there is a solution, with the bounds that hold. Without a solution,
    /// the computation failed.
    WK_NOT_CERTIFIED = 1,
    /// An argument, a file or a model is not valid.
    WK_INVALID = 2,
    /// There is no such device, it failed, or memory is short.
    WK_DEVICE = 3,
    /// A defect of the library: please report the text of the error.
    WK_PANIC = 101,
    /// The callback or `wk_interrupt` stopped the run. The solution, if there is one, is the best so far.
    WK_INTERRUPTED = 130,
}

use wk_status::{WK_DEVICE, WK_INTERRUPTED, WK_INVALID, WK_NOT_CERTIFIED, WK_OK, WK_PANIC};

/// How a call without an error ended.
pub enum Ending {
    /// As asked.
    Complete,
    /// Earlier than asked, with a result, and the reason in words.
    Early(wk_status, String),
}

thread_local! {
    /// The text of the last error of this thread, and the last name of a device.
    static TEXTS: RefCell<[CString; 2]> = RefCell::default();
}

/// Keeps a text until the next one in the same place. Returns its address.
fn keep(place: usize, text: String) -> *const c_char {
    let kept = |texts: &RefCell<[CString; 2]>| {
        let mut texts = texts.borrow_mut();
        texts[place] = c_text(text);
        texts[place].as_ptr()
    };
    // A thread that ends has no texts any more.
    TEXTS.try_with(kept).unwrap_or(c"".as_ptr())
}

/// A text as C has it.
pub fn c_text(text: String) -> CString {
    CString::new(text).unwrap_or_else(|error| {
        let bytes: Vec<u8> = error.into_vec().into_iter().filter(|&byte| byte != 0).collect();
        CString::new(bytes).unwrap_or_default()
    })
}

/// The message of a panic.
fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("without a message"))
}

/// Checks that this process has the threads that the library has started: those of a parent do not come along by a fork.
fn check_process() -> Result<(), Error> {
    static PROCESS: OnceLock<u32> = OnceLock::new();

    match *PROCESS.get_or_init(process::id) == process::id() {
        true => Ok(()),
        false => Err(invalid("warpkov does not work in a process that was forked from one in which it has worked")),
    }
}

/// Runs `work`, and turns errors and panics into a code and a text.
fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, (wk_status, String)> {
    let found = catch_unwind(AssertUnwindSafe(|| {
        check_process().and_then(|()| work()).map_err(|error| {
            let status = match error.exit_code() {
                1 => WK_NOT_CERTIFIED,
                3 => WK_DEVICE,
                130 => WK_INTERRUPTED,
                _ => WK_INVALID,
            };
            (status, message(&error))
        })
    }));
    found.unwrap_or_else(|panic| Err((WK_PANIC, reason(&*panic))))
}

/// The body of a function that returns a code. The text of its error is that of the thread, and empty without an error.
pub fn entry(work: impl FnOnce() -> Result<Ending, Error>) -> wk_status {
    let (status, text) = match guarded(work) {
        Ok(Ending::Complete) => (WK_OK, String::new()),
        Ok(Ending::Early(status, text)) | Err((status, text)) => (status, text),
    };
    keep(0, text);
    status
}

/// The body of a function that returns a value: `otherwise` after an error, whose text is that of the thread. Without an error, the
/// text stays.
pub fn look<T>(otherwise: T, work: impl FnOnce() -> Result<T, Error>) -> T {
    guarded(work).unwrap_or_else(|(_, text)| {
        keep(0, text);
        otherwise
    })
}

/// An error of the caller.
pub fn invalid(text: impl ToString) -> Error {
    Error::Usage(text.to_string())
}

/// An address that is not NULL and that fits `T`.
fn checked<T>(pointer: *const T, name: &str) -> Result<*const T, Error> {
    match () {
        () if pointer.is_null() => Err(invalid(format!("{name} is NULL"))),
        () if !pointer.is_aligned() => {
            Err(invalid(format!("{name} is {pointer:p}, expected a multiple of {}", align_of::<T>())))
        }
        () => Ok(pointer),
    }
}

/// A reference to what `pointer` points at.
///
/// # Safety
/// Unless it is NULL or unaligned, `pointer` points at a `T` that nobody changes while `'a` lasts.
pub unsafe fn shared<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Error> {
    let pointer = checked(pointer, name)?;
    // SAFETY: the pointer is aligned and not null, and the caller guarantees the rest.
    Ok(unsafe { &*pointer })
}

/// As [`shared`], for a value that the call changes.
///
/// # Safety
/// Unless it is NULL or unaligned, `pointer` points at a `T` that nobody else uses while `'a` lasts.
pub unsafe fn unique<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Error> {
    checked(pointer, name)?;
    // SAFETY: the pointer is aligned and not null, and the caller guarantees the rest.
    Ok(unsafe { &mut *pointer })
}

/// Whether memory can hold this many elements of `T`.
fn fits<T>(count: usize, name: &str) -> Result<(), Error> {
    match count.checked_mul(size_of::<T>()).is_some_and(|bytes| isize::try_from(bytes).is_ok()) {
        true => Ok(()),
        false => Err(invalid(format!("{name} has {count} elements, more than the address space"))),
    }
}

/// `count` elements; none may have any address.
///
/// # Safety
/// Unless it is NULL or unaligned, `pointer` points at `count` elements that nobody changes while `'a` lasts.
pub unsafe fn elements<'a, T>(pointer: *const T, count: usize, name: &str) -> Result<&'a [T], Error> {
    if count == 0 {
        return Ok(&[]);
    }
    let pointer = checked(pointer, name)?;
    fits::<T>(count, name)?;
    // SAFETY: the pointer is aligned and not null, the bytes fit into an `isize`, and the caller guarantees the rest.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Copies `found` to an array of the caller, which must have as many elements.
///
/// # Safety
/// Unless it is NULL or unaligned, `pointer` points at `count` elements that nobody else uses.
pub unsafe fn fill<T: Copy>(pointer: *mut T, count: usize, found: &[T], name: &str) -> Result<(), Error> {
    if count != found.len() {
        return Err(invalid(format!("{name} has {count} elements, expected {}", found.len())));
    }
    if count > 0 {
        checked(pointer, name)?;
        // SAFETY: both have `count` elements, by the caller's guarantee and by the comparison; `found` is not the caller's.
        unsafe { ptr::copy_nonoverlapping(found.as_ptr(), pointer, count) };
    }
    Ok(())
}

/// A text of C.
///
/// # Safety
/// Unless it is NULL, `pointer` points at bytes that end with 0 and that nobody changes while `'a` lasts.
pub unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Error> {
    let pointer = checked(pointer, name)?;
    // SAFETY: not null; the caller guarantees the rest.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| invalid(format!("{name} is not UTF-8")))
}

/// The name of a file.
///
/// # Safety
/// That of [`text`].
pub unsafe fn file_path<'a>(pointer: *const c_char) -> Result<&'a Path, Error> {
    let pointer = checked(pointer, "path")?;
    // SAFETY: not null; the caller guarantees the rest.
    let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// A format by name; none for NULL.
///
/// # Safety
/// That of [`text`].
pub unsafe fn file_format<F: Choice>(pointer: *const c_char) -> Result<Option<F>, Error> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's guarantee.
    let name = unsafe { text(pointer, "format") }?;
    F::of_name(name).map(Some).ok_or_else(|| invalid(format!("format is '{name}', {}", F::expected())))
}

/// The words of a text: a family of models and its options.
///
/// # Safety
/// That of [`text`].
pub unsafe fn words<'a>(pointer: *const c_char) -> Result<impl Iterator<Item = &'a str>, Error> {
    // SAFETY: the caller's guarantee.
    Ok(unsafe { text(pointer, "family") }?.split_whitespace())
}

/// Where a new handle goes. It is NULL unless the call puts one there.
pub struct Out<T>(*mut *mut T);

impl<T> Out<T> {
    /// # Safety
    /// Unless it is NULL or unaligned, `pointer` points at memory for a handle, which nobody else uses during the call.
    pub unsafe fn new(pointer: *mut *mut T, name: &str) -> Result<Self, Error> {
        checked(pointer, name)?;
        // SAFETY: not null and aligned; the caller guarantees the rest. The memory need not be initialised.
        unsafe { pointer.write(ptr::null_mut()) };
        Ok(Self(pointer))
    }

    /// Gives a value away: the caller frees it.
    pub fn put(self, value: T) {
        // SAFETY: `new` has written to the same address.
        unsafe { self.0.write(Box::into_raw(Box::new(value))) };
    }
}

/// Takes a handle back and drops it; NULL is nothing.
///
/// # Safety
/// `handle` is NULL or comes from [`Out::put`], and is not used any more.
pub unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        look((), || {
            // SAFETY: the handle comes from a box, and the caller gives it back.
            drop(unsafe { Box::from_raw(handle) });
            Ok(())
        });
    }
}

/// The elements of an array that a handle keeps: their address, NULL without elements, and their number, which goes to `count`
/// unless that is NULL.
///
/// # Safety
/// Unless it is NULL, `count` points at memory for a number, which nobody else uses during the call.
pub unsafe fn view<T>(count: *mut usize, found: Result<&[T], Error>) -> *const T {
    let slice = look(&[][..], || found);
    if !count.is_null() && count.is_aligned() {
        // SAFETY: not null and aligned; the caller guarantees the rest.
        unsafe { count.write(slice.len()) };
    }
    if slice.is_empty() { ptr::null() } else { slice.as_ptr() }
}

/// The version of the library, such as "0.1.0". The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn wk_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

    look(c"".as_ptr(), || Ok(VERSION.as_ptr().cast()))
}

/// The text of the last error in this thread: what was found, and what was expected. It is empty if the last call that returns a status
/// succeeded, never NULL, and stays until the next call of the library in the same thread.
#[unsafe(no_mangle)]
pub extern "C" fn wk_last_error() -> *const c_char {
    TEXTS.try_with(|texts| texts.borrow()[0].as_ptr()).unwrap_or(c"".as_ptr())
}

/// Starts a device, so that no solve has to wait for it: "auto", "cpu", "cuda:0" (or another number) or "emulated". No solve
/// needs this call. Writes the name of the device to `name` unless it is NULL: "NVIDIA H100 (cuda:0)", "16 CPU cores". The text
/// stays until the next such call in the same thread.
///
/// \return WK_DEVICE if there is no such device, or it cannot be used
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wk_start_device(device: *const c_char, name: *mut *const c_char) -> wk_status {
    entry(|| {
        // SAFETY: the caller guarantees what the header says.
        let device = unsafe { text(device, "device") }?;
        let choice: DeviceChoice = device.parse().map_err(|error| invalid(format!("device is '{device}', {error}")))?;
        let (place, _) = Place::open(choice, None)?;
        let found = keep(1, place.name());
        if !name.is_null() {
            // SAFETY: not null; the caller guarantees the rest.
            unsafe { name.write(found) };
        }
        Ok(Ending::Complete)
    })
}
