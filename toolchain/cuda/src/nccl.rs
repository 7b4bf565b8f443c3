//! NCCL, loaded at run time.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

use crate::driver::Handle;
use crate::error::CudaError;
use crate::library::{Search, functions, mapped};

/// Where NCCL is: PyPI's `nvidia-nccl-cu12` has it in this folder of the packages.
const SEARCH: Search = Search { variable: "WARPKOV_NCCL", names: &["libnccl.so.2"], packages: &["nvidia/nccl/lib"] };

/// The oldest version with non-blocking communicators, as NCCL encodes it.
const OLDEST: u32 = 21_400;

/// `ncclSuccess`.
pub const SUCCESS: u32 = 0;

/// `ncclInProgress`: a non-blocking communicator is still at work.
pub const IN_PROGRESS: u32 = 7;

/// `ncclUint8`, the type of elements that are only moved.
pub const BYTE: c_int = 1;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UniqueId(pub [u8; 128]);

/// `ncclConfig_t` of NCCL 2.14, which later versions only append to. A library reads `size` bytes and takes its
/// defaults for all later fields, so every version from 2.14 on accepts this configuration.
#[repr(C)]
pub struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
    /// Counted in `size`. Later versions keep a field here, and set it to its default because of `version`.
    padding: c_int,
}

impl Config {
    /// The configuration of a non-blocking communicator.
    pub const NON_BLOCKING: Self =
        Self { size: size_of::<Self>(), magic: 0xcafe_beef, version: OLDEST, blocking: 0, padding: 0 };
}

/// NCCL, loaded at the first call.
///
/// # Errors
/// [`CudaError::NoNccl`] if there is none.
pub fn get() -> Result<&'static Nccl, CudaError> {
    static NCCL: OnceLock<Result<Nccl, String>> = OnceLock::new();
    let loaded = NCCL.get_or_init(|| SEARCH.load(|name| std::env::var_os(name), Nccl::resolve));
    loaded.as_ref().map_err(|why| CudaError::NoNccl { why: why.clone() })
}

/// Version and file of the NCCL library that [`Communicator`](crate::Communicator)s use:
/// `2.28.3, /usr/lib/x86_64-linux-gnu/libnccl.so.2`.
///
/// # Errors
/// [`CudaError::NoNccl`] if there is none.
///
/// # Examples
/// ```
/// # use warpkov_cuda::*;
/// match nccl_version() {
///     Ok(version) => println!("NCCL {version}"),
///     Err(error) => assert!(matches!(error, CudaError::NoNccl { .. })),
/// }
/// ```
pub fn nccl_version() -> Result<String, CudaError> {
    let nccl = get()?;
    Ok(format!("{}, {}", version_text(nccl.version), nccl.file.display()))
}

/// NCCL.
pub struct Nccl {
    functions: Functions,
    /// 10000·major + 100·minor + patch.
    pub version: u32,
    /// The file of the library.
    pub file: PathBuf,
}

impl Deref for Nccl {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.functions
    }
}

functions! {
    /// NCCL's functions; versions 2.14 to 2.32 declare the same. The doc comments list the parameters; NVIDIA's *NCCL API* describes
    /// the functions.
    Functions of "NCCL":
    /// (&version)
    get_version = ncclGetVersion(*mut c_int) -> u32;
    /// (&id)
    get_unique_id = ncclGetUniqueId(*mut UniqueId) -> u32;
    /// (&communicator, ranks, id, rank, &config)
    comm_init_rank_config = ncclCommInitRankConfig(*mut Handle, c_int, UniqueId, c_int, *mut Config) -> u32;
    /// (communicator, &state)
    comm_get_async_error = ncclCommGetAsyncError(Handle, *mut u32) -> u32;
    /// (communicator)
    comm_finalize = ncclCommFinalize(Handle) -> u32;
    /// (communicator)
    comm_destroy = ncclCommDestroy(Handle) -> u32;
    /// (communicator)
    comm_abort = ncclCommAbort(Handle) -> u32;
    /// (code)
    get_error_string = ncclGetErrorString(u32) -> *const c_char;
    /// (communicator)
    get_last_error = ncclGetLastError(Handle) -> *const c_char;
    /// ()
    group_start = ncclGroupStart() -> u32;
    /// ()
    group_end = ncclGroupEnd() -> u32;
    /// (source, elements, type, rank, communicator, stream)
    send = ncclSend(*const c_void, usize, c_int, c_int, Handle, Handle) -> u32;
    /// (target, elements, type, rank, communicator, stream)
    recv = ncclRecv(*mut c_void, usize, c_int, c_int, Handle, Handle) -> u32;
    /// (source, target, elements, type, operation, communicator, stream)
    all_reduce = ncclAllReduce(*const c_void, *mut c_void, usize, c_int, c_int, Handle, Handle) -> u32;
    /// (source, target, elements of the source, type, communicator, stream)
    all_gather = ncclAllGather(*const c_void, *mut c_void, usize, c_int, Handle, Handle) -> u32;
    /// (source, target, elements, type, root, communicator, stream)
    broadcast = ncclBroadcast(*const c_void, *mut c_void, usize, c_int, c_int, Handle, Handle) -> u32;
}

impl Nccl {
    /// The functions of `library`, which was opened as `name` and is never unloaded.
    fn resolve(library: &Library, name: &Path) -> Result<Self, String> {
        let functions = Functions::resolve(library)?;
        let mut version = 0;
        // SAFETY: ncclGetVersion writes one integer.
        let code = unsafe { (functions.get_version)(&mut version) };
        let version = version.unsigned_abs();
        if code != SUCCESS || version < OLDEST {
            return Err(format!("it is NCCL {}, and 2.14 or newer is needed", version_text(version)));
        }
        let file = mapped(functions.get_version as usize).unwrap_or_else(|| name.to_owned());
        Ok(Self { functions, version, file })
    }

    /// NCCL's description of `code`, with its last message if there is one.
    pub fn describe(&self, code: u32) -> String {
        // SAFETY: ncclGetErrorString returns a string literal for every code. ncclGetLastError does not use its
        // argument, and returns a NUL-terminated buffer of the library; both live as long as the library.
        let [text, last] =
            unsafe { [(self.get_error_string)(code), (self.get_last_error)(std::ptr::null_mut())] }.map(|text| {
                // SAFETY: as above; null is checked for.
                if text.is_null() { String::new() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy().into() }
            });
        match last.trim() {
            "" => format!("{text} (code {code})"),
            last => format!("{text} (code {code}); its last error: {last}"),
        }
    }
}

/// `2.28.3` for 22803.
fn version_text(version: u32) -> String {
    // Up to 2.8, the factors were 1000 and 100.
    let major = if version < 10_000 { 1000 } else { 10_000 };
    format!("{}.{}.{}", version / major, version % major / 100, version % 100)
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn the_configuration_has_the_layout_of_nccl_2_14() {
        assert_eq!(size_of::<Config>(), 24);
        let Config { size, magic, version, blocking, .. } = Config::NON_BLOCKING;
        assert_eq!((size, magic, version, blocking), (24, 0xcafe_beef, 21_400, 0));
        assert_eq!([offset_of!(Config, magic), offset_of!(Config, version), offset_of!(Config, blocking)], [8, 12, 16]);
        assert_eq!((size_of::<UniqueId>(), align_of::<UniqueId>()), (128, 1));
    }

    #[test]
    fn versions_are_decoded() {
        for (code, text) in [(22_803, "2.28.3"), (21_400, "2.14.0"), (2_708, "2.7.8"), (20_902, "2.9.2")] {
            assert_eq!(version_text(code), text);
        }
    }

    #[test]
    fn a_library_without_the_functions_is_no_nccl() {
        let named = |_: &str| Some("libc.so.6".into());
        let why = SEARCH.load(named, Nccl::resolve).err().unwrap();
        assert_eq!(why, "tried libc.so.6: it lacks ncclGetVersion: it is not NCCL, or too old");
        let error = CudaError::NoNccl { why }.to_string();
        assert!(error.contains("libc.so.6") && error.contains(SEARCH.variable), "{error}");
    }

    #[test]
    fn a_library_that_is_there_has_a_version_and_an_error_text() {
        let Ok(nccl) = get() else { return };
        assert!(nccl.version >= OLDEST && nccl.file.is_absolute());
        assert!(nccl_version().is_ok_and(|text| text.contains(".so")));
        assert!(nccl.describe(5).contains("(code 5)"), "{}", nccl.describe(5));
    }
}
