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
//! While MPI runs, only nonblocking calls are used, and all data are bytes: a rank that waits too long can say so. It then calls the
//! roll, by which ranks that wait tell each other so: the ones that do not answer are missing. MPI's own start
//! and end cannot be polled: another thread ends the process if they take too long.

use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, process, ptr, thread};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::launch::Launch;
use super::peers::{describe, limited, state};
use super::world::Lost;
use super::{Communicator, Error, Exchange, Message, gather_by_messages};

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
    /// `MPI_THREAD_SERIALIZED`.
    const fn serialized(self) -> c_int {
        match self {
            Self::Standard => 2048,
            Self::OpenMpi | Self::Mpich => 2,
        }
    }

    /// `MPI_STATUS_IGNORE`.
    fn status_ignore(self) -> *mut c_void {
        ptr::without_provenance_mut(usize::from(self == Self::Mpich))
    }

    /// `MPI_ERR_TRUNCATE`: a message was longer than its receiver expects.
    const fn truncate(self) -> c_int {
        match self {
            Self::Standard | Self::OpenMpi => 15,
            Self::Mpich => 14,
        }
    }
}

macro_rules! functions {
    ($($field:ident = $name:ident($($argument:ty),*);)*) => {
        /// The functions in use.
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            fn load(library: &Library, file: &str) -> Result<Self, Error> {
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
    iallgatherv = MPI_Iallgatherv(*const c_void, c_int, Handle, *mut c_void, *const c_int, *const c_int, Handle, Handle, *mut c_void);
    ibcast = MPI_Ibcast(*mut c_void, c_int, Handle, c_int, Handle, *mut c_void);
    ibarrier = MPI_Ibarrier(Handle, *mut c_void);
    iprobe = MPI_Iprobe(c_int, c_int, Handle, *mut c_int, *mut c_void);
    test = MPI_Test(*mut c_void, *mut c_int, *mut c_void);
    get_count = MPI_Get_count(*const c_void, Handle, *mut c_int);
    error_class = MPI_Error_class(c_int, *mut c_int);
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
        Some(Self::new(library, &file.display().to_string(), abi))
    }

    fn new(library: Library, file: &str, abi: Option<Abi>) -> Result<Self, Error> {
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
        let functions = Functions::load(&library, file)?;
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
    let mut process = process::id();
    for _ in 0..3 {
        let Some((_, parent)) = state(process) else { break };
        process = parent;
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
    launch: Launch,
    rank: u32,
    size: u32,
    timeout: Duration,
    version: String,
    lost: Lost,
    /// The number of pieces so far that went to, and that came from, each rank.
    pieces: Mutex<[Vec<u64>; 2]>,
}

/// Longest piece of a message: counts are of 31 bits.
const PIECE: usize = 1 << 30;

/// The tag of a rank that answers the roll: the largest that every library allows.
const ROLL: c_int = 32767;

/// Time between two looks whether another rank calls the roll.
const LISTEN: Duration = Duration::from_millis(50);

/// Time to answer the roll.
const ANSWER: Duration = Duration::from_millis(700);

/// Time to look for the processes of other ranks.
const LOOK: Duration = Duration::from_millis(300);

/// Time for a launcher to forward what this rank has written.
const FORWARD: Duration = Duration::from_millis(200);

/// Time to end all ranks by MPI.
const ABORT: Duration = Duration::from_secs(1);

/// The library, once MPI was started.
static STARTED: OnceLock<Loaded> = OnceLock::new();

/// The ranks, once MPI has started.
static WORLD: OnceLock<Mpi> = OnceLock::new();

/// Whether MPI has started and not ended. Locked during each call: MPI allows one at a time.
static RUNNING: Mutex<bool> = Mutex::new(false);

/// `work`, a call of MPI that cannot be polled. If it takes longer than `timeout`, another thread tells `lost`.
fn watched<R>(launch: &Launch, call: &'static str, timeout: Duration, lost: Lost, work: impl FnOnce() -> R) -> R {
    let launch = launch.clone();
    let late = move || {
        let peers = describe(&launch);
        // The other ranks look at the same time, and this one must not be missing then.
        thread::sleep(LOOK);
        lost(Error::Stuck { rank: launch.rank, call, waited: timeout, peers });
    };
    limited(timeout, late, work)
}

impl Mpi {
    /// Starts MPI. A rank waits at most `timeout` for another. If MPI does not start or end in that time, `lost` is called, which ends
    /// the process.
    ///
    /// # Errors
    /// If there is no library, if it lacks a function, if MPI was started before, or if it does not start.
    pub fn start(launch: &Launch, timeout: Duration, lost: Lost) -> Result<&'static Self, Error> {
        let mut found = Some(Loaded::find()?);
        let library = STARTED.get_or_init(|| found.take().unwrap_or_else(|| unreachable!("this is the first call")));
        if found.is_some() {
            let message = "MPI was started before".to_owned();
            return Err(Error::Mpi { rank: 0, call: "MPI_Init_thread", message });
        }
        let functions = &library.functions;
        let check = |call, code| match code {
            0 => Ok(()),
            code => Err(Error::Mpi { rank: launch.rank, call, message: library.message(code) }),
        };
        let (mut provided, mut rank, mut size) = (0, 0, 0);
        let code = watched(launch, "MPI_Init_thread", timeout, lost, || {
            // SAFETY: MPI allows null for both arguments of `main`, and writes one number to `provided`.
            unsafe {
                (functions.init_thread)(ptr::null_mut(), ptr::null_mut(), library.abi.serialized(), &mut provided)
            }
        });
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
        let pieces = Mutex::new([(); 2].map(|()| vec![0; size as usize]));
        let (rank, size) = (rank as u32, size as u32);
        Ok(WORLD.get_or_init(|| Self { library, launch: launch.clone(), rank, size, timeout, version, lost, pieces }))
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

    /// Starts to send and to receive. `tag` makes the tag of a piece from its number among those of both ranks.
    fn post(
        &self,
        sends: Vec<Message>,
        receives: &[(u32, usize)],
        tag: fn(u64) -> c_int,
    ) -> Result<Pending<'_>, Error> {
        let _running = self.running("MPI_Isend")?;
        let Loaded { functions, world, byte, .. } = self.library;
        let received = receives.iter().map(|&(_, bytes)| vec![0; bytes]).collect();
        let mut pending =
            Pending { mpi: self, requests: Vec::new(), sent: sends, received, lengths: Vec::new(), waited: false };
        let Pending { requests, sent, received, .. } = &mut pending;
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let [pieces_to, pieces_from] = &mut *pieces;
        let count = |len: usize| len.div_ceil(PIECE).max(1);
        let next = |pieces: &mut Vec<u64>, rank: u32| {
            pieces[rank as usize] += 1;
            tag(pieces[rank as usize])
        };
        for (bytes, &(from, _)) in received.iter_mut().zip(receives) {
            for piece in 0..count(bytes.len()) {
                let part = &mut bytes[piece * PIECE..];
                let expected = part.len().min(PIECE);
                let (to, tag, mut handle) = (part.as_mut_ptr().cast(), next(pieces_from, from), 0_u64);
                let request = (&raw mut handle).cast();
                // SAFETY: `pending` owns the memory and does not move it before the request has completed.
                let code =
                    unsafe { (functions.irecv)(to, expected as c_int, *byte, from as c_int, tag, *world, request) };
                self.check("MPI_Irecv", code)?;
                requests.push(Request { handle, call: "MPI_Irecv", message: Some((from, Some(expected))) });
            }
        }
        for (to, bytes) in sent.iter() {
            for piece in 0..count(bytes.len()) {
                let part = &bytes[piece * PIECE..];
                let len = part.len().min(PIECE) as c_int;
                let (source, tag, mut handle) = (part.as_ptr().cast(), next(pieces_to, *to), 0_u64);
                let request = (&raw mut handle).cast();
                // SAFETY: as above.
                let code = unsafe { (functions.isend)(source, len, *byte, *to as c_int, tag, *world, request) };
                self.check("MPI_Isend", code)?;
                requests.push(Request { handle, call: "MPI_Isend", message: Some((*to, None)) });
            }
        }
        Ok(pending)
    }

    /// Takes part in a collective operation, which `start` starts with the memory in `sent`, `received` and `lengths`. Returns `received`.
    fn collective(
        &self,
        call: &'static str,
        sent: Vec<u8>,
        received: Vec<u8>,
        lengths: Vec<c_int>,
        start: impl FnOnce(&Functions, &mut Pending<'_>, *mut c_void) -> c_int,
    ) -> Result<Vec<u8>, Error> {
        let (mut sent, mut received) = (vec![(0, sent)], vec![received]);
        for memory in [&mut sent[0].1, &mut received[0]] {
            // The address of an empty vector may be that of `MPI_IN_PLACE`.
            memory.reserve(usize::from(memory.is_empty()));
        }
        let mut pending = Pending { mpi: self, requests: Vec::new(), sent, received, lengths, waited: false };
        let mut handle = 0_u64;
        {
            let _running = self.running(call)?;
            self.check(call, start(&self.library.functions, &mut pending, (&raw mut handle).cast()))?;
        }
        pending.requests.push(Request { handle, call, message: None });
        Ok(Box::new(pending).wait()?.swap_remove(0))
    }

    /// The other ranks.
    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let rank = self.rank;
        (0..self.size).filter(move |&other| other != rank)
    }

    /// Whether another rank calls the roll.
    fn is_called(&self) -> bool {
        let Loaded { functions, world, abi, .. } = self.library;
        let Ok(_running) = self.running("MPI_Iprobe") else { return false };
        self.others().any(|other| {
            let mut found = 0;
            // SAFETY: MPI has started and not ended; the call writes one number.
            let code = unsafe { (functions.iprobe)(other as c_int, ROLL, *world, &mut found, abi.status_ignore()) };
            code == 0 && found != 0
        })
    }

    /// Tells all others that this rank waits in vain, which lets them do the same if they wait. Returns the ranks that do not.
    fn roll_call(&self) -> Vec<u32> {
        let sends = self.others().map(|other| (other, vec![1])).collect();
        let receives: Vec<_> = self.others().map(|other| (other, 1)).collect();
        let Ok(mut pending) = self.post(sends, &receives, |_| ROLL) else { return Vec::new() };
        pending.waited = true;
        let begun = Instant::now();
        while begun.elapsed() < ANSWER && pending.awaited().next().is_some() {
            // A rank that has ended may be an error.
            let _ = pending.test();
            thread::sleep(Duration::from_millis(2));
        }
        let awaited: Vec<_> = pending.awaited().collect();
        let answers = self.others().zip(&pending.received);
        answers.filter(|(other, answer)| awaited.contains(other) || answer[0] == 0).map(|(other, _)| other).collect()
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
///
/// # Errors
/// If a rank failed, or did not come in time.
pub fn finalize() -> Result<(), Error> {
    let Some(mpi) = WORLD.get().filter(|_| *running()) else { return Ok(()) };
    // Unlike the end of MPI, a barrier can name the ranks that are missing.
    mpi.barrier()?;
    let mut running = running();
    if std::mem::take(&mut *running) {
        watched(&mpi.launch, "MPI_Finalize", mpi.timeout, mpi.lost, || {
            // SAFETY: MPI has started and not ended, and `running` is locked. Later calls find that it has ended. Nobody is
            // left to tell of a failure.
            let _ = unsafe { (mpi.library.functions.finalize)() };
        });
    }
    Ok(())
}

/// Ends all ranks and this process with this exit code, if MPI was started and not ended.
pub fn abort(exit_code: u8) {
    let Some(library) = STARTED.get() else { return };
    // A rank that has ended or is stopped may keep MPI from its end.
    limited(
        FORWARD + ABORT,
        move || signal_hook::low_level::exit(exit_code.into()),
        || {
            let mut running = running();
            if std::mem::take(&mut *running) {
                // A launcher forwards what ranks have written until the first has ended.
                thread::sleep(FORWARD);
                // SAFETY: MPI has started and not ended, and `running` is locked.
                unsafe { (library.functions.abort)(library.world, exit_code.into()) };
                process::exit(exit_code.into());
            }
        },
    );
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
        Ok(Box::new(self.post(sends, receives, |number| (number % ROLL as u64) as c_int)?))
    }

    fn barrier(&self) -> Result<(), Error> {
        let world = self.library.world;
        let start = |functions: &Functions, _: &mut Pending<'_>, request| {
            // SAFETY: MPI has started and not ended.
            unsafe { (functions.ibarrier)(world, request) }
        };
        self.collective("MPI_Ibarrier", Vec::new(), Vec::new(), Vec::new(), start).map(|_| ())
    }

    fn gather_lengths(&self, own: &[u8], lengths: &[usize]) -> Result<Vec<Vec<u8>>, Error> {
        let (rank, all) = (self.rank, lengths.iter().sum::<usize>());
        if own.len() != lengths[rank as usize] {
            return Err(Error::Length { rank, found: own.len(), expected: lengths[rank as usize] });
        }
        // Counts are of 31 bits.
        if self.size == 1 || all > PIECE {
            return gather_by_messages(self, own, lengths);
        }
        let mut end = 0;
        let starts = lengths.iter().map(|length| {
            end += length;
            (end - length) as c_int
        });
        let numbers: Vec<c_int> = lengths.iter().map(|&length| length as c_int).chain(starts).collect();
        let Loaded { world, byte, .. } = *self.library;
        let start = |functions: &Functions, pending: &mut Pending<'_>, request| {
            let Pending { sent, received, lengths, .. } = pending;
            let (source, target) = (sent[0].1.as_ptr().cast(), received[0].as_mut_ptr().cast());
            let (length, lengths, starts) =
                (own.len() as c_int, lengths.as_ptr(), lengths[self.size as usize..].as_ptr());
            // SAFETY: the memory has the bytes of all ranks. `pending` owns it, and the lengths, and moves none before the request
            // has completed.
            unsafe { (functions.iallgatherv)(source, length, byte, target, lengths, starts, byte, world, request) }
        };
        let bytes = self.collective("MPI_Iallgatherv", own.to_vec(), vec![0; all], numbers, start)?;
        let mut rest = &bytes[..];
        let part = |&length: &usize| rest.split_off(..length).unwrap_or_default().to_vec();
        Ok(lengths.iter().map(part).collect())
    }

    fn broadcast(&self, root: u32, bytes: &mut [u8]) -> Result<(), Error> {
        let Loaded { world, byte, .. } = *self.library;
        for part in bytes.chunks_mut(PIECE) {
            let start = |functions: &Functions, pending: &mut Pending<'_>, request| {
                let memory = &mut pending.received[0];
                let (memory, length) = (memory.as_mut_ptr().cast(), memory.len() as c_int);
                // SAFETY: as in `gather_lengths`.
                unsafe { (functions.ibcast)(memory, length, byte, root as c_int, world, request) }
            };
            part.copy_from_slice(&self.collective("MPI_Ibcast", Vec::new(), part.to_vec(), Vec::new(), start)?);
        }
        Ok(())
    }
}

/// A request of MPI.
struct Request {
    /// Handles of 4 bytes fill half of it.
    handle: u64,
    call: &'static str,
    /// Of a message: the other rank, and the bytes that come from it, if any do. `None` for a collective operation.
    message: Option<(u32, Option<usize>)>,
}

/// Requests under way, with their memory.
struct Pending<'a> {
    mpi: &'a Mpi,
    /// Those that have not completed.
    requests: Vec<Request>,
    sent: Vec<Message>,
    received: Vec<Vec<u8>>,
    lengths: Vec<c_int>,
    /// Whether [`wait`](Exchange::wait) has ended, perhaps without success.
    waited: bool,
}

impl Pending<'_> {
    /// The ranks whose messages have not come.
    fn awaited(&self) -> impl Iterator<Item = u32> {
        self.requests
            .iter()
            .filter_map(|request| request.message.filter(|message| message.1.is_some()).map(|(rank, _)| rank))
    }

    /// Forgets the requests that have completed.
    fn test(&mut self) -> Result<(), Error> {
        let mpi = self.mpi;
        let Loaded { functions, abi, byte, .. } = mpi.library;
        let _running = mpi.running("MPI_Test")?;
        let mut failed = None;
        self.requests.retain_mut(|Request { handle, call, message }| {
            // Of 20 to 32 bytes.
            let (mut done, mut status) = (0, [0_u64; 8]);
            // SAFETY: `running` is locked, and the request was started and has not completed.
            let code = unsafe { (functions.test)(ptr::from_mut(handle).cast(), &mut done, status.as_mut_ptr().cast()) };
            let (mut class, mut found) = (0, 0);
            if code == 0
                && done != 0
                && let Some((rank, Some(expected))) = *message
            {
                // SAFETY: the status is that of a receive that has completed.
                let counted = unsafe { (functions.get_count)(status.as_ptr().cast(), *byte, &mut found) };
                if counted == 0 && found as usize != expected {
                    failed.get_or_insert(Error::Length { rank, found: found as usize, expected });
                }
            } else if code != 0 {
                // SAFETY: the call writes one number.
                unsafe { (functions.error_class)(code, &mut class) };
                failed.get_or_insert(match *message {
                    Some((rank, Some(expected))) if class == abi.truncate() => Error::TooLong { rank, expected },
                    _ => Error::Mpi { rank: mpi.rank, call, message: mpi.library.message(code) },
                });
            }
            code == 0 && done == 0
        });
        failed.map_or(Ok(()), Err)
    }

    /// Waits until all have completed.
    fn complete(&mut self) -> Result<(), Error> {
        let Mpi { rank, timeout, .. } = *self.mpi;
        let start = Instant::now();
        let mut listened = start;
        loop {
            self.test()?;
            if self.requests.is_empty() {
                return Ok(());
            }
            let waited = start.elapsed();
            let called = listened.elapsed() > LISTEN && {
                listened = Instant::now();
                self.mpi.is_called()
            };
            if called || waited > timeout {
                let mut others = self.mpi.roll_call();
                if others.is_empty() {
                    others = self.awaited().collect();
                    others.dedup();
                }
                let waited = timeout.min(Duration::from_millis(waited.as_millis() as u64));
                return Err(Error::Timeout { rank, others, waited });
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
        self.waited = true;
        self.complete()?;
        Ok(std::mem::take(&mut self.received))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.requests.is_empty() && (self.waited || self.complete().is_err()) {
            // MPI may still write to the memory.
            std::mem::forget((
                std::mem::take(&mut self.sent),
                std::mem::take(&mut self.received),
                std::mem::take(&mut self.lengths),
            ));
        }
    }
}
