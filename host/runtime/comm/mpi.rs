//! Ranks that an MPI launcher started.
//!
//! The library is found at run time. Three binary interfaces are known, in this order:
//!
//! | library | interface | handles |
//! | --- | --- | --- |
//! | `libmpi_abi.so` | the standard ABI of MPI 5 | numbers fixed by the standard |
//! | `libmpi.so.40` | Open MPI | addresses of global variables |
//! | `libmpi.so.12` | MPICH and its descendants | numbers of 32 bits |
//!
//! Under Open MPI's launcher its own library comes first. `WARPKOV_MPI=FILE` names a library. Besides the system's folders, the
//! `lib` folder next to the launcher's program is searched, so that `mpiexec` of a Python environment finds its library.
//!
//! Only nonblocking calls are used, and all data are bytes: a rank that waits too long can say so.

use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, process, ptr, thread};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::{Communicator, Error, Exchange, Message};

/// A handle of MPI in a register: a pointer, or a number whose upper half the callee ignores.
type Handle = usize;

/// The binary interface of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Abi {
    Standard,
    OpenMpi,
    Mpich,
}

impl Abi {
    /// Bytes of a request in an array.
    const fn request_bytes(self) -> usize {
        match self {
            Self::Standard | Self::OpenMpi => 8,
            Self::Mpich => 4,
        }
    }

    /// `MPI_THREAD_SERIALIZED`.
    const fn serialized(self) -> c_int {
        match self {
            Self::Standard => 2048,
            Self::OpenMpi | Self::Mpich => 2,
        }
    }

    /// `MPI_STATUSES_IGNORE`.
    fn statuses_ignore(self) -> *mut c_void {
        ptr::without_provenance_mut(usize::from(self == Self::Mpich))
    }
}

macro_rules! functions {
    ($($field:ident = $name:ident($($argument:ty),*);)*) => {
        /// The functions in use.
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            fn of(library: &Library, file: &str) -> Result<Self, Error> {
                Ok(Self {
                    $($field: {
                        let missing = |_| Error::NoSymbol { library: file.to_owned(), symbol: stringify!($name) };
                        // SAFETY: the MPI standard declares the function with these arguments. Handles are of 64 bits, or of
                        // 32, which both calling conventions of 64-bit Linux pass in the lower half of the same registers.
                        unsafe { *library.get(concat!(stringify!($name), "\0").as_bytes()).map_err(missing)? }
                    },)*
                })
            }
        }
    };
}

functions! {
    init_thread = MPI_Init_thread(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    finalize = MPI_Finalize();
    abort = MPI_Abort(Handle, c_int);
    comm_rank = MPI_Comm_rank(Handle, *mut c_int);
    comm_size = MPI_Comm_size(Handle, *mut c_int);
    set_errhandler = MPI_Comm_set_errhandler(Handle, Handle);
    isend = MPI_Isend(*const c_void, c_int, Handle, c_int, c_int, Handle, *mut c_void);
    irecv = MPI_Irecv(*mut c_void, c_int, Handle, c_int, c_int, Handle, *mut c_void);
    testall = MPI_Testall(c_int, *mut c_void, *mut c_int, *mut c_void);
    error_string = MPI_Error_string(c_int, *mut c_char, *mut c_int);
    library_version = MPI_Get_library_version(*mut c_char, *mut c_int);
}

/// An MPI library.
struct Loaded {
    abi: Abi,
    functions: Functions,
    world: Handle,
    byte: Handle,
    errors_return: Handle,
    file: String,
    /// Stays loaded: its threads outlive `MPI_Finalize`.
    _library: Library,
}

impl Loaded {
    fn open(file: &Path, abi: Option<Abi>) -> Option<Result<Self, Error>> {
        // SAFETY: the initialisers of an MPI library have no preconditions. Open MPI's plugins need its symbols globally.
        let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_GLOBAL) }.ok()?;
        Some(Self::of(library, &file.display().to_string(), abi))
    }

    fn of(library: Library, file: &str, abi: Option<Abi>) -> Result<Self, Error> {
        let variable = |symbol: &'static str| {
            let missing = |_| Error::NoSymbol { library: file.to_owned(), symbol };
            // SAFETY: only the address of the variable is used.
            unsafe { library.get::<*mut c_void>(symbol.as_bytes()) }
                .map(|found| found.into_raw().addr())
                .map_err(missing)
        };
        let abi = match abi {
            Some(abi) => abi,
            None if variable("ompi_mpi_comm_world").is_ok() => Abi::OpenMpi,
            None if Path::new(file).file_name().is_some_and(|name| name.to_string_lossy().contains("abi")) => {
                Abi::Standard
            }
            None => Abi::Mpich,
        };
        let [world, byte, errors_return] = match abi {
            Abi::Standard => [0x101, 0x247, 0x143],
            Abi::Mpich => [0x4400_0000, 0x4c00_010d, 0x5400_0001],
            Abi::OpenMpi => {
                [variable("ompi_mpi_comm_world")?, variable("ompi_mpi_byte")?, variable("ompi_mpi_errors_return")?]
            }
        };
        let functions = Functions::of(&library, file)?;
        Ok(Self { abi, functions, world, byte, errors_return, file: file.to_owned(), _library: library })
    }

    /// The first library that is there.
    fn find() -> Result<Self, Error> {
        if let Some(file) = env::var_os("WARPKOV_MPI") {
            let tried = Error::NoLibrary { tried: file.to_string_lossy().into_owned() };
            return Self::open(Path::new(&file), None).unwrap_or(Err(tried));
        }
        let mut known = [
            ("libmpi_abi.so.1", Abi::Standard),
            ("libmpi_abi.so.0", Abi::Standard),
            ("libmpi_abi.so", Abi::Standard),
            ("libmpi.so.40", Abi::OpenMpi),
            ("libmpi.so.12", Abi::Mpich),
        ];
        if env::var_os("OMPI_COMM_WORLD_SIZE").is_some() {
            known.sort_by_key(|&(_, abi)| abi != Abi::OpenMpi);
        }
        let folders: Vec<PathBuf> = beside_launcher().into_iter().chain([PathBuf::new()]).collect();
        let files = || folders.iter().flat_map(|folder| known.iter().map(move |&(name, abi)| (folder.join(name), abi)));
        match files().find_map(|(file, abi)| Self::open(&file, Some(abi))) {
            Some(loaded) => loaded,
            None => Err(Error::NoLibrary { tried: known.map(|(name, _)| name).join(", ") }),
        }
    }

    /// The library's name and version, which may be asked before MPI has started.
    fn version(&self) -> Result<String, c_int> {
        let (mut text, mut length) = ([0_u8; 8192], 0);
        // SAFETY: the text has room for MPI_MAX_LIBRARY_VERSION_STRING bytes, which are at most 8192 in the known libraries.
        match unsafe { (self.functions.library_version)(text.as_mut_ptr().cast(), &mut length) } {
            0 => {
                let version = String::from_utf8_lossy(&text[..length.clamp(0, 8191) as usize]);
                let first = version.lines().next().unwrap_or_default();
                Ok(first.split(", package").next().unwrap_or_default().trim().to_owned())
            }
            code => Err(code),
        }
    }

    /// The library's text for a code.
    fn message(&self, code: c_int) -> String {
        let mut text = [0_u8; 8192];
        let mut length = 0;
        // SAFETY: the text has room for MPI_MAX_ERROR_STRING bytes, which are at most 512 in the known libraries.
        if unsafe { (self.functions.error_string)(code, text.as_mut_ptr().cast(), &mut length) } != 0 {
            return format!("error {code}");
        }
        String::from_utf8_lossy(&text[..length.clamp(0, 8191) as usize]).into_owned()
    }
}

/// The `lib` folders next to the programs that started this process: the launcher's daemon is the parent, or its parent.
fn beside_launcher() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut process = process::id().to_string();
    for _ in 0..3 {
        // The parent is the second field behind the name, which stands in parentheses.
        let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { break };
        let Some(parent) = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) else { break };
        process = parent.to_owned();
        if let Ok(program) = fs::read_link(format!("/proc/{process}/exe"))
            && let Some(prefix) = program.parent().and_then(Path::parent)
        {
            folders.extend([prefix.join("lib"), prefix.join("lib64")]);
        }
    }
    folders
}

/// All ranks of `MPI_COMM_WORLD`. MPI can be started once in a process, so there is one.
pub struct Mpi {
    library: &'static Loaded,
    rank: u32,
    size: u32,
    timeout: Duration,
    version: String,
}

/// Longest piece of a message: counts are of 31 bits.
const PIECE: usize = 1 << 30;

/// The library, once MPI was started.
static STARTED: OnceLock<Loaded> = OnceLock::new();

/// Whether MPI has started and not ended. Locked during each call: MPI allows one at a time.
static RUNNING: Mutex<bool> = Mutex::new(false);

impl Mpi {
    /// Starts MPI. A rank waits at most `timeout` for another.
    ///
    /// # Errors
    /// If there is no library, if it lacks a function, if MPI was started before, or if it does not start.
    pub fn start(timeout: Duration) -> Result<Self, Error> {
        let mut found = Some(Loaded::find()?);
        let library = STARTED.get_or_init(|| found.take().unwrap_or_else(|| unreachable!("this is the first call")));
        if found.is_some() {
            let message = "MPI was started before".to_owned();
            return Err(Error::Mpi { rank: 0, call: "MPI_Init_thread", message });
        }
        let functions = &library.functions;
        let check = |call, code| match code {
            0 => Ok(()),
            code => Err(Error::Mpi { rank: 0, call, message: library.message(code) }),
        };
        let (mut provided, mut rank, mut size) = (0, 0, 0);
        // SAFETY: MPI allows null for both arguments of `main`, and writes one number to `provided`.
        let code = unsafe {
            (functions.init_thread)(ptr::null_mut(), ptr::null_mut(), library.abi.serialized(), &mut provided)
        };
        check("MPI_Init_thread", code)?;
        *running() = true;
        // SAFETY: MPI has started, and both handles are predefined.
        check("MPI_Comm_set_errhandler", unsafe { (functions.set_errhandler)(library.world, library.errors_return) })?;
        // SAFETY: as above; each call writes one number.
        check("MPI_Comm_rank", unsafe { (functions.comm_rank)(library.world, &mut rank) })?;
        // SAFETY: as above.
        check("MPI_Comm_size", unsafe { (functions.comm_size)(library.world, &mut size) })?;
        let version =
            library.version().or_else(|code| check("MPI_Get_library_version", code).map(|()| String::new()))?;
        Ok(Self { rank: rank as u32, size: size as u32, timeout, version, library })
    }

    /// The file of the library.
    #[must_use]
    pub fn library(&self) -> &str {
        &self.library.file
    }

    /// The library's name and version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The right to call MPI.
    fn running(&self, call: &'static str) -> Result<MutexGuard<'static, bool>, Error> {
        let running = running();
        match *running {
            true => Ok(running),
            false => Err(Error::Mpi { rank: self.rank, call, message: "MPI has ended".to_owned() }),
        }
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), Error> {
        match code {
            0 => Ok(()),
            code => Err(Error::Mpi { rank: self.rank, call, message: self.library.message(code) }),
        }
    }
}

/// Name, version and file of the MPI library that [`Mpi::start`] would load. Does not start MPI.
///
/// # Errors
/// If there is none, or if it lacks a function.
pub fn installed() -> Result<String, Error> {
    let library = Loaded::find()?;
    let version = library.version().unwrap_or_else(|code| format!("unknown version (error {code})"));
    let text = format!("{version}, {}", library.file);
    // Its destructors may expect that MPI was started.
    std::mem::forget(library);
    Ok(text)
}

fn running() -> MutexGuard<'static, bool> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends MPI, if it was started: waits for all other ranks to do so. [`Mpi`] is of no use afterwards.
pub fn finalize() {
    let mut running = running();
    if let (Some(library), true) = (STARTED.get(), std::mem::take(&mut *running)) {
        // SAFETY: MPI has started and not ended, and `running` is locked. Later calls find that it has ended. Nobody is
        // left to tell of a failure.
        let _ = unsafe { (library.functions.finalize)() };
    }
}

/// Ends all ranks and this process with this exit code, if MPI was started and not ended.
pub fn abort(exit_code: u8) {
    let mut running = running();
    if let (Some(library), true) = (STARTED.get(), std::mem::take(&mut *running)) {
        // SAFETY: MPI has started and not ended, and `running` is locked.
        unsafe { (library.functions.abort)(library.world, exit_code.into()) };
        process::exit(exit_code.into());
    }
}

impl Communicator for Mpi {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn exchange<'a>(&'a self, sends: Vec<Message>, receives: &[(u32, usize)]) -> Result<Box<dyn Exchange + 'a>, Error> {
        let _running = self.running("MPI_Isend")?;
        let Loaded { abi, functions, world, byte, .. } = self.library;
        let received = receives.iter().map(|&(_, bytes)| vec![0; bytes]).collect();
        let mut pending = Box::new(Pending {
            mpi: self,
            requests: Vec::new(),
            sent: sends,
            received,
            ranks: receives.to_vec(),
            count: 0,
            waited: false,
        });
        let Pending { requests, sent, received, count, .. } = &mut *pending;
        let pieces = |len: usize| len.div_ceil(PIECE).max(1);
        let all: usize = sent.iter().map(|(_, bytes)| pieces(bytes.len())).sum::<usize>()
            + received.iter().map(|bytes| pieces(bytes.len())).sum::<usize>();
        // Requests of 4 bytes fill half of it.
        requests.resize(all, 0_u64);
        let base: *mut u8 = requests.as_mut_ptr().cast();
        let mut next = || {
            // SAFETY: fewer than `all` requests were started before, and each takes at most 8 bytes.
            let request = unsafe { base.add(*count * abi.request_bytes()) };
            *count += 1;
            request.cast()
        };
        for (bytes, &(from, _)) in received.iter_mut().zip(receives) {
            for piece in 0..pieces(bytes.len()) {
                let part = &mut bytes[piece * PIECE..];
                let len = part.len().min(PIECE) as c_int;
                let (to, request) = (part.as_mut_ptr().cast(), next());
                // SAFETY: `pending` owns the memory and does not move it before the request has completed.
                let code = unsafe { (functions.irecv)(to, len, *byte, from as c_int, 0, *world, request) };
                self.check("MPI_Irecv", code)?;
            }
        }
        for (to, bytes) in sent.iter() {
            for piece in 0..pieces(bytes.len()) {
                let part = &bytes[piece * PIECE..];
                let len = part.len().min(PIECE) as c_int;
                let (source, request) = (part.as_ptr().cast(), next());
                // SAFETY: as above.
                let code = unsafe { (functions.isend)(source, len, *byte, *to as c_int, 0, *world, request) };
                self.check("MPI_Isend", code)?;
            }
        }
        Ok(pending)
    }
}

/// Messages under way, with their memory.
struct Pending<'a> {
    mpi: &'a Mpi,
    /// Room for all requests; the first `count` were started.
    requests: Vec<u64>,
    count: usize,
    sent: Vec<Message>,
    received: Vec<Vec<u8>>,
    ranks: Vec<(u32, usize)>,
    /// Whether [`wait`](Exchange::wait) has ended, perhaps without success.
    waited: bool,
}

impl Pending<'_> {
    /// Waits until all have completed.
    fn complete(&mut self) -> Result<(), Error> {
        let Mpi { library, rank, timeout, .. } = self.mpi;
        let start = Instant::now();
        let mut done = 0;
        loop {
            let requests = self.requests.as_mut_ptr().cast();
            let running = self.mpi.running("MPI_Testall")?;
            // SAFETY: `running` is locked. The first `count` requests were started; completed ones become null requests, which may be tested again.
            let code = unsafe {
                (library.functions.testall)(self.count as c_int, requests, &mut done, library.abi.statuses_ignore())
            };
            drop(running);
            self.mpi.check("MPI_Testall", code)?;
            if done != 0 {
                self.count = 0;
                return Ok(());
            }
            let waited = start.elapsed();
            if waited > *timeout {
                let other = self.ranks.first().map(|&(from, _)| from).or(self.sent.first().map(|&(to, _)| to));
                return Err(Error::Timeout { rank: *rank, other: other.unwrap_or(*rank), waited: *timeout });
            }
            match waited {
                waited if waited < Duration::from_micros(100) => std::hint::spin_loop(),
                waited if waited < Duration::from_millis(10) => thread::yield_now(),
                _ => thread::sleep(Duration::from_micros(50)),
            }
        }
    }
}

impl Exchange for Pending<'_> {
    fn wait(mut self: Box<Self>) -> Result<Vec<Vec<u8>>, Error> {
        let completed = self.complete();
        self.waited = true;
        completed.map(|()| std::mem::take(&mut self.received))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.count > 0 && (self.waited || self.complete().is_err()) {
            // MPI may still write to the memory.
            std::mem::forget((
                std::mem::take(&mut self.requests),
                std::mem::take(&mut self.sent),
                std::mem::take(&mut self.received),
            ));
        }
    }
}
