//! NCCL, loaded at run time.
//!
//! The library is searched for in this order; the first file found is used:
//! 1. the file that `WARPKOV_NCCL` names, and no other if the variable is set;
//! 2. `libnccl.so.2`, as the dynamic loader finds it;
//! 3. `nvidia/nccl/lib/libnccl.so.2` in the packages of the Python environments `VIRTUAL_ENV` and `CONDA_PREFIX`, of
//!    the first `python3` in `PATH`, and of the user ([`candidates`]).

use std::ffi::{CStr, OsString, c_char, c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

use crate::driver::{Handle, reason};
use crate::error::CudaError;

/// The environment variable that names the library's file.
const FILE: &str = "WARPKOV_NCCL";

/// The name of the library.
const NAME: &str = "libnccl.so.2";

/// The library's folder in the packages of a Python environment, as PyPI's `nvidia-nccl-cu12` installs it.
const PACKAGE: &str = "nvidia/nccl/lib";

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
    let loaded = NCCL.get_or_init(|| load(|name| std::env::var_os(name)));
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

macro_rules! nccl {
    ($($(#[$doc:meta])* $field:ident = $symbol:ident($($arg:ty),*) -> $result:ty;)*) => {
        /// NCCL's functions. The doc comments list the parameters; NVIDIA's *NCCL API* describes the functions.
        pub struct Nccl {
            $($(#[$doc])* pub $field: unsafe extern "C" fn($($arg),*) -> $result,)*
            /// 10000·major + 100·minor + patch.
            pub version: u32,
            /// The file of the library.
            pub file: PathBuf,
        }

        impl Nccl {
            /// The functions of `library`, which was opened as `name` and is never unloaded.
            fn resolve(library: &Library, name: &Path) -> Result<Self, String> {
                let mut nccl = Self {
                    $(
                        // SAFETY: the type is the prototype that nccl.h declares for this symbol, with enumerations as
                        // integers of their size and handles as pointers; versions 2.14 to 2.32 declare the same. The
                        // library is never unloaded.
                        $field: *unsafe { library.get(stringify!($symbol)) }
                            .map_err(|_| format!("it lacks {}: it is not NCCL, or too old", stringify!($symbol)))?,
                    )*
                    version: 0,
                    file: PathBuf::new(),
                };
                let mut version = 0;
                // SAFETY: ncclGetVersion writes one integer.
                let code = unsafe { (nccl.get_version)(&mut version) };
                nccl.version = version.unsigned_abs();
                if code != SUCCESS || nccl.version < OLDEST {
                    return Err(format!("it is NCCL {}, and 2.14 or newer is needed", version_text(nccl.version)));
                }
                nccl.file = mapped(nccl.get_version as usize).unwrap_or_else(|| name.to_owned());
                Ok(nccl)
            }
        }
    };
}

nccl! {
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

/// Loads NCCL. `variable` reads environment variables.
fn load(variable: impl Fn(&str) -> Option<OsString>) -> Result<Nccl, String> {
    let mut tried = Vec::new();
    let names = match variable(FILE) {
        Some(file) => vec![PathBuf::from(file)],
        None => [PathBuf::from(NAME)].into_iter().chain(candidates(variable)).collect(),
    };
    for name in &names {
        match open(name) {
            Ok(nccl) => return Ok(nccl),
            Err(why) => tried.push(format!("{}: {why}", name.display())),
        }
    }
    Err(format!("tried {}", tried.join("; ")))
}

/// Loads the library `name`: a path, or a name that the dynamic loader searches for.
fn open(name: &Path) -> Result<Nccl, String> {
    // SAFETY: NCCL's initialisers have no preconditions. The user vouches for a file that WARPKOV_NCCL names, as for
    // every file in the search paths of the dynamic loader.
    let library = unsafe { Library::new(name) }.map_err(|error| reason(&error))?;
    let nccl = Nccl::resolve(&library, name);
    // Never unloaded, as `Nccl` requires; and NCCL's threads may run its code until the process ends.
    std::mem::forget(library);
    nccl
}

/// The existing files `nvidia/nccl/lib/libnccl.so.2` in the packages of Python environments, in the order of the search.
/// No process is started.
fn candidates(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(&variable).map(Into::into).collect();
    let path = variable("PATH").unwrap_or_default();
    if let Some(python) = std::env::split_paths(&path).map(|bin| bin.join("python3")).find(|python| python.is_file()) {
        // An environment's interpreter may be a link to that of the installation, which has packages of its own.
        for python in [Some(python.clone()), fs::canonicalize(python).ok()].into_iter().flatten() {
            roots.extend(python.ancestors().nth(2).map(Path::to_owned));
        }
    }
    if let Some(home) = variable("HOME") {
        roots.push(Path::new(&home).join(".local"));
    }
    let mut found = Vec::new();
    for lib in roots.iter().flat_map(|root| ["lib", "lib64", "local/lib"].map(|lib| root.join(lib))) {
        for python in pythons(&lib) {
            for packages in ["site-packages", "dist-packages"] {
                let file = python.join(packages).join(PACKAGE).join(NAME);
                if file.is_file() && !found.contains(&file) {
                    found.push(file);
                }
            }
        }
    }
    found
}

/// The folders `python3*` in `lib`, the newest version first.
fn pythons(lib: &Path) -> Vec<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir(lib)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let minor = name.strip_prefix("python3")?.trim_start_matches('.');
            Some((minor.parse().unwrap_or_default(), entry.path()))
        })
        .collect();
    versions.sort_by(|one, other| other.cmp(one));
    versions.into_iter().map(|(_, path)| path).collect()
}

/// The file whose mapping in this process contains `address`.
fn mapped(address: usize) -> Option<PathBuf> {
    fs::read_to_string("/proc/self/maps").ok()?.lines().find_map(|line| {
        // "start-end permissions offset device inode   path", addresses in hexadecimal.
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).ok());
        (start?..end?).contains(&address).then(|| rest.find('/').map(|at| PathBuf::from(&rest[at..])))?
    })
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

    /// An environment with these variables.
    fn environment<'a>(variables: &'a [(&str, &Path)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |asked| variables.iter().find(|(name, _)| *name == asked).map(|(_, value)| value.into())
    }

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "no library").unwrap();
    }

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
    fn the_named_file_is_the_only_one_tried() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing.so");
        let why = load(environment(&[(FILE, &missing), ("VIRTUAL_ENV", folder.path())])).err().unwrap();
        assert!(why.starts_with(&format!("tried {}: ", missing.display())), "{why}");
        assert!(!why.contains(NAME) && !why.contains(';'), "{why}");
        let error = CudaError::NoNccl { why }.to_string();
        assert!(error.contains("missing.so") && error.contains(FILE), "{error}");

        let wrong = folder.path().join("wrong.so");
        touch(&wrong);
        let why = load(environment(&[(FILE, &wrong)])).err().unwrap();
        assert!(why.contains("wrong.so: "), "{why}");
    }

    #[test]
    fn a_library_without_the_functions_is_no_nccl() {
        let why = load(environment(&[(FILE, Path::new("libc.so.6"))])).err().unwrap();
        assert_eq!(why, "tried libc.so.6: it lacks ncclGetVersion: it is not NCCL, or too old");
    }

    #[test]
    fn python_environments_are_searched_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let root = |name: &str| folder.path().join(name);
        let library = |packages: &str| root(packages).join(PACKAGE).join(NAME);
        let expected = [
            library("venv/lib/python3.12/site-packages"),
            library("venv/lib/python3.9/site-packages"),
            library("conda/lib/python3.11/site-packages"),
            library("usr/lib64/python3.12/site-packages"),
            library("usr/local/lib/python3.12/dist-packages"),
            library("home/.local/lib/python3.12/site-packages"),
        ];
        expected.iter().for_each(|file| touch(file));
        touch(&library("other/lib/python3.12/site-packages"));
        touch(&library("usr/lib/python2.7/site-packages"));
        for bin in ["usr/bin", "other/bin"] {
            touch(&root(bin).join("python3"));
        }
        let path = std::env::join_paths([root("empty"), root("usr/bin"), root("other/bin")]).unwrap();
        let (venv, conda, home) = (root("venv"), root("conda"), root("home"));
        let variables =
            [("VIRTUAL_ENV", &*venv), ("CONDA_PREFIX", &*conda), ("PATH", Path::new(&path)), ("HOME", &*home)];
        assert_eq!(candidates(environment(&variables)), expected);
        assert_eq!(candidates(environment(&[])), <[PathBuf; 0]>::default());

        // The message names every file tried, in this order.
        let Err(why) = load(environment(&variables)) else { return };
        let at: Vec<usize> = expected.iter().map(|file| why.find(&*file.to_string_lossy()).unwrap()).collect();
        assert!(why.starts_with("tried libnccl.so.2: ") && at.is_sorted(), "{why}");
    }

    #[test]
    fn the_file_of_a_function_is_known() {
        let own = std::env::current_exe().and_then(fs::canonicalize).unwrap();
        assert_eq!(mapped(version_text as fn(u32) -> String as usize), Some(own));
        assert_eq!(mapped(1), None);
    }

    #[test]
    fn a_library_that_is_there_has_a_version_and_an_error_text() {
        let Ok(nccl) = get() else { return };
        assert!(nccl.version >= OLDEST && nccl.file.is_absolute());
        assert!(nccl_version().is_ok_and(|text| text.contains(".so")));
        assert!(nccl.describe(5).contains("(code 5)"), "{}", nccl.describe(5));
    }
}
