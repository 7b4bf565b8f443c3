//! The device code in a binary: its table, the choice of code for a GPU, and loading.

use std::ffi::{CString, c_void};
use std::io::Read;
use std::ptr;

use flate2::read::DeflateDecoder;

use crate::driver::{Driver, Handle};
use crate::error::{CudaError, check};

/// The device code in a binary. The build script writes it and [`modules!`](crate::modules) includes it.
///
/// ```
/// # use warpkov_cuda::*;
/// # // Two streams of DEFLATE with three bytes each.
/// # static DATA: &[u8] = b"\x01\x03\x00\xfc\xffptx\x01\x03\x00\xfc\xffelf";
/// # static ENTRIES: &[Entry] = &[Entry { name: "axpy_f32", params: &[4, 4, 8, 8], at: &[0, 8, 16] }];
/// # static BASELINES: &[Baseline] = &[Baseline { sm: 90, alone: false, ptx: (8, 0), machine: &[90], data: DATA, entries: ENTRIES }];
/// # static MODULES: Modules = Modules { compiler: Ok("rustc 1.96.0"), assembler: Some(("12.9.86", (12, 9))), baselines: BASELINES };
/// // `MODULES` is that of `modules!`.
/// let baselines: Vec<u32> = MODULES.baselines.iter().map(|baseline| baseline.sm).collect();
/// assert_eq!((MODULES.compiler, baselines), (Ok("rustc 1.96.0"), vec![90]));
/// # Ok::<(), CudaError>(())
/// ```
pub struct Modules {
    /// Version of the compiler that produced the device code, such as `rustc 1.96.0 (…)`; or the reason why there is
    /// none.
    pub compiler: Result<&'static str, &'static str>,
    /// CUDA release of the assembler that produced the machine code, such as `12.9.86`, and its (major, minor). `None`
    /// if there is no machine code.
    pub assembler: Option<(&'static str, (u32, u32))>,
    /// All kernels, compiled once per baseline; ascending by `sm`.
    pub baselines: &'static [Baseline],
}

/// The device code of the calling crate: an expression of type [`Modules`](crate::Modules), for a `static`.
///
/// It includes a file that the crate's build script writes through `warpkov_build`.
///
/// ```
/// # const _: &str = stringify! {
/// use warpkov_cuda::Modules;
///
/// static MODULES: Modules = warpkov_cuda::modules!();
/// # };
/// ```
#[macro_export]
macro_rules! modules {
    () => {
        include!(concat!(env!("OUT_DIR"), "/warpkov_modules.rs"))
    };
}

/// Device code for one compute capability and all higher ones.
///
/// ```
/// # use warpkov_cuda::*;
/// # // Two streams of DEFLATE with three bytes each.
/// # static DATA: &[u8] = b"\x01\x03\x00\xfc\xffptx\x01\x03\x00\xfc\xffelf";
/// # static ENTRIES: &[Entry] = &[Entry { name: "axpy_f32", params: &[4, 4, 8, 8], at: &[0, 8, 16] }];
/// # static BASELINES: &[Baseline] = &[Baseline { sm: 90, alone: false, ptx: (8, 0), machine: &[90], data: DATA, entries: ENTRIES }];
/// # static MODULES: Modules = Modules { compiler: Ok("rustc 1.96.0"), assembler: Some(("12.9.86", (12, 9))), baselines: BASELINES };
/// let baseline = &MODULES.baselines[0];
/// assert_eq!((baseline.sm, baseline.ptx, baseline.machine), (90, (8, 0), &[90][..]));
/// # Ok::<(), CudaError>(())
/// ```
pub struct Baseline {
    /// The lowest compute capability that runs the code: 10·major + minor, as in `sm_80`.
    pub sm: u32,
    /// Whether the code is for this compute capability alone: `sm_90a`. Such a baseline has other kernels than the rest.
    pub alone: bool,
    /// PTX ISA version (major, minor).
    pub ptx: (u32, u32),
    /// Compute capabilities with machine code, ascending, in the units of `sm`.
    pub machine: &'static [u32],
    /// PTX and machine code of all kernels; each piece is compressed by itself.
    #[doc(hidden)]
    pub data: &'static [u8],
    /// The kernels, sorted by name.
    pub entries: &'static [Entry],
}

/// One kernel of a [`Baseline`].
///
/// ```
/// # use warpkov_cuda::*;
/// # // Two streams of DEFLATE with three bytes each.
/// # static DATA: &[u8] = b"\x01\x03\x00\xfc\xffptx\x01\x03\x00\xfc\xffelf";
/// # static ENTRIES: &[Entry] = &[Entry { name: "axpy_f32", params: &[4, 4, 8, 8], at: &[0, 8, 16] }];
/// # static BASELINES: &[Baseline] = &[Baseline { sm: 90, alone: false, ptx: (8, 0), machine: &[90], data: DATA, entries: ENTRIES }];
/// # static MODULES: Modules = Modules { compiler: Ok("rustc 1.96.0"), assembler: Some(("12.9.86", (12, 9))), baselines: BASELINES };
/// let entry: &Entry = MODULES.baselines[0].entry("axpy_f32")?;
/// assert_eq!(entry.params, [4, 4, 8, 8]);
/// # Ok::<(), CudaError>(())
/// ```
pub struct Entry {
    /// Name of the entry point.
    pub name: &'static str,
    /// Size of each parameter in bytes.
    pub params: &'static [usize],
    /// Offsets into `Baseline::data`: the start of the PTX, the start of each machine code, and the end of the last.
    #[doc(hidden)]
    pub at: &'static [usize],
}

impl Baseline {
    /// The target of the code, such as `sm_90` or `sm_90a`.
    #[doc(hidden)]
    #[must_use]
    pub fn target(&self) -> String {
        format!("sm_{}{}", self.sm, if self.alone { "a" } else { "" })
    }

    /// The kernel with this entry point.
    ///
    /// # Errors
    /// [`CudaError::NoKernel`] if there is none.
    ///
    /// # Examples
    /// ```
    /// # use warpkov_cuda::*;
    /// # // Two streams of DEFLATE with three bytes each.
    /// # static DATA: &[u8] = b"\x01\x03\x00\xfc\xffptx\x01\x03\x00\xfc\xffelf";
    /// # static ENTRIES: &[Entry] = &[Entry { name: "axpy_f32", params: &[4, 4, 8, 8], at: &[0, 8, 16] }];
    /// # static BASELINES: &[Baseline] = &[Baseline { sm: 90, alone: false, ptx: (8, 0), machine: &[90], data: DATA, entries: ENTRIES }];
    /// # static MODULES: Modules = Modules { compiler: Ok("rustc 1.96.0"), assembler: Some(("12.9.86", (12, 9))), baselines: BASELINES };
    /// let baseline = &MODULES.baselines[0];
    /// assert_eq!(baseline.entry("axpy_f32")?.name, "axpy_f32");
    /// assert!(matches!(baseline.entry("axpy_f64"), Err(CudaError::NoKernel { sm: 90, .. })));
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn entry(&self, name: &str) -> Result<&'static Entry, CudaError> {
        match self.entries.binary_search_by(|entry| entry.name.cmp(name)) {
            Ok(at) => Ok(&self.entries[at]),
            Err(_) => Err(CudaError::NoKernel { entry: name.to_owned(), sm: self.sm }),
        }
    }

    /// The PTX of a module that contains this kernel alone.
    ///
    /// # Errors
    /// [`CudaError::NoPtx`] if the binary is damaged.
    ///
    /// # Examples
    /// ```
    /// # use warpkov_cuda::*;
    /// # // Two streams of DEFLATE with three bytes each.
    /// # static DATA: &[u8] = b"\x01\x03\x00\xfc\xffptx\x01\x03\x00\xfc\xffelf";
    /// # static ENTRIES: &[Entry] = &[Entry { name: "axpy_f32", params: &[4, 4, 8, 8], at: &[0, 8, 16] }];
    /// # static BASELINES: &[Baseline] = &[Baseline { sm: 90, alone: false, ptx: (8, 0), machine: &[90], data: DATA, entries: ENTRIES }];
    /// # static MODULES: Modules = Modules { compiler: Ok("rustc 1.96.0"), assembler: Some(("12.9.86", (12, 9))), baselines: BASELINES };
    /// let baseline = &MODULES.baselines[0];
    /// assert_eq!(baseline.text(baseline.entry("axpy_f32")?)?, "ptx");
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn text(&self, entry: &Entry) -> Result<String, CudaError> {
        String::from_utf8(self.unpack(entry, 0)?).map_err(|error| damaged(entry, &error))
    }

    /// The machine code of a module that contains this kernel alone, for the GPU `self.machine[at]`.
    ///
    /// # Errors
    /// [`CudaError::NoPtx`] if the binary is damaged.
    ///
    /// # Panics
    /// If `at ≥ self.machine.len()`.
    ///
    /// # Examples
    /// ```
    /// # use warpkov_cuda::*;
    /// # // Two streams of DEFLATE with three bytes each.
    /// # static DATA: &[u8] = b"\x01\x03\x00\xfc\xffptx\x01\x03\x00\xfc\xffelf";
    /// # static ENTRIES: &[Entry] = &[Entry { name: "axpy_f32", params: &[4, 4, 8, 8], at: &[0, 8, 16] }];
    /// # static BASELINES: &[Baseline] = &[Baseline { sm: 90, alone: false, ptx: (8, 0), machine: &[90], data: DATA, entries: ENTRIES }];
    /// # static MODULES: Modules = Modules { compiler: Ok("rustc 1.96.0"), assembler: Some(("12.9.86", (12, 9))), baselines: BASELINES };
    /// let baseline = &MODULES.baselines[0];
    /// assert_eq!(baseline.machine_code(baseline.entry("axpy_f32")?, 0)?, b"elf");
    /// # Ok::<(), CudaError>(())
    /// ```
    pub fn machine_code(&self, entry: &Entry, at: usize) -> Result<Vec<u8>, CudaError> {
        self.unpack(entry, 1 + at)
    }

    fn unpack(&self, entry: &Entry, at: usize) -> Result<Vec<u8>, CudaError> {
        let mut bytes = Vec::new();
        let packed = &self.data[entry.at[at]..entry.at[at + 1]];
        DeflateDecoder::new(packed).read_to_end(&mut bytes).map_err(|error| damaged(entry, &error))?;
        Ok(bytes)
    }
}

impl Modules {
    /// Registers per thread of the kernel `entry` in its machine code for GPUs of compute capability `sm` (10·major +
    /// minor). `None` if there is no such kernel or machine code.
    ///
    /// ```
    /// # use warpkov_cuda::*;
    /// # // Two streams of DEFLATE with three bytes each.
    /// # static DATA: &[u8] = b"\x01\x03\x00\xfc\xffptx\x01\x03\x00\xfc\xffelf";
    /// # static ENTRIES: &[Entry] = &[Entry { name: "axpy_f32", params: &[4, 4, 8, 8], at: &[0, 8, 16] }];
    /// # static BASELINES: &[Baseline] = &[Baseline { sm: 90, alone: false, ptx: (8, 0), machine: &[90], data: DATA, entries: ENTRIES }];
    /// # static MODULES: Modules = Modules { compiler: Ok("rustc 1.96.0"), assembler: Some(("12.9.86", (12, 9))), baselines: BASELINES };
    /// assert_eq!(MODULES.registers("axpy_f32", 80), None, "there is no machine code for `sm_80`");
    /// # Ok::<(), CudaError>(())
    /// ```
    #[must_use]
    pub fn registers(&self, entry: &str, sm: u32) -> Option<u32> {
        self.attribute(entry, sm, 0x2f)
    }

    /// Bytes of stack per thread of the kernel `entry` in its machine code for GPUs of compute capability `sm`: arrays
    /// in local memory, and spilled registers. `None` if there is no such kernel or machine code.
    ///
    /// ```
    /// # use warpkov_cuda::*;
    /// # // Two streams of DEFLATE with three bytes each.
    /// # static DATA: &[u8] = b"\x01\x03\x00\xfc\xffptx\x01\x03\x00\xfc\xffelf";
    /// # static ENTRIES: &[Entry] = &[Entry { name: "axpy_f32", params: &[4, 4, 8, 8], at: &[0, 8, 16] }];
    /// # static BASELINES: &[Baseline] = &[Baseline { sm: 90, alone: false, ptx: (8, 0), machine: &[90], data: DATA, entries: ENTRIES }];
    /// # static MODULES: Modules = Modules { compiler: Ok("rustc 1.96.0"), assembler: Some(("12.9.86", (12, 9))), baselines: BASELINES };
    /// assert_eq!(MODULES.stack_bytes("axpy_f32", 80), None, "there is no machine code for `sm_80`");
    /// # Ok::<(), CudaError>(())
    /// ```
    #[must_use]
    pub fn stack_bytes(&self, entry: &str, sm: u32) -> Option<u32> {
        self.attribute(entry, sm, 0x11)
    }

    /// The value of an attribute of the machine code.
    fn attribute(&self, entry: &str, sm: u32, attribute: u8) -> Option<u32> {
        let has = |baseline: &Baseline| {
            Some((baseline.machine.iter().position(|&known| known == sm)?, baseline.entry(entry).ok()?))
        };
        let (baseline, (at, entry)) = self.baselines.iter().find_map(|baseline| Some((baseline, has(baseline)?)))?;
        attribute_of(&baseline.machine_code(entry, at).ok()?, attribute)
    }
}

/// What machine code (an ELF file with one kernel) states in its section `.nv.info`: attribute 0x2f, `EIATTR_REGCOUNT`, the
/// registers per thread; 0x11, `EIATTR_FRAME_SIZE`, the bytes of stack.
fn attribute_of(code: &[u8], attribute: u8) -> Option<u32> {
    fn number<const BYTES: usize>(code: &[u8], at: usize) -> Option<[u8; BYTES]> {
        code.get(at..)?.first_chunk().copied()
    }
    let short = |at| number(code, at).map(u16::from_le_bytes).map(usize::from);
    let word = |at| number(code, at).map(u32::from_le_bytes);
    let long = |at| usize::try_from(u64::from_le_bytes(number(code, at)?)).ok();
    let (sections, size, count) = (long(0x28)?, short(0x3a)?, short(0x3c)?);
    let names = long(sections + size * short(0x3e)? + 0x18)?;
    let named = |section: &usize| {
        let name = word(*section).and_then(|name| code.get(names + name as usize..));
        name.is_some_and(|name| name.starts_with(b".nv.info\0"))
    };
    let section = (0..count).map(|i| sections + size * i).find(named)?;
    let mut at = long(section + 0x18)?;
    let end = at + long(section + 0x20)?;
    while at < end {
        // A format, an attribute, and two bytes: a value, or in format 4 the size of what follows.
        let (kind, value) = (number::<2>(code, at)?, short(at + 2)?);
        if kind == [4, attribute] {
            return word(at + 8);
        }
        at += 4 + if kind[0] == 4 { value } else { 0 };
    }
    None
}

fn damaged(entry: &Entry, error: &dyn std::error::Error) -> CudaError {
    CudaError::NoPtx { reason: format!("its copy of kernel {} is damaged: {error}", entry.name) }
}

/// The environment variable that forces a baseline (`80`, `90`, …), to test an older one on a newer GPU.
const FORCE: &str = "WARPKOV_PTX";

/// The environment variable that forces `machine` code or `ptx`, to test the code that other GPUs run.
const FORCE_CODE: &str = "WARPKOV_CODE";

/// The device code that a GPU runs: machine code of a baseline, or its PTX, which the driver compiles.
#[derive(Clone, Copy)]
pub struct Code {
    /// The baseline.
    pub baseline: &'static Baseline,
    /// Index into the baseline's machine codes; `None` for PTX.
    machine: Option<usize>,
    /// Whether the PTX replaces machine code that the driver rejects.
    pub replaceable: bool,
}

impl Code {
    /// The target of the machine code; `None` if the GPU runs PTX.
    pub fn machine(&self) -> Option<u32> {
        self.machine.map(|at| self.baseline.machine[at])
    }

    /// The PTX that replaces rejected machine code; `None` if this is PTX already or machine code is forced.
    pub fn as_ptx(self) -> Option<Self> {
        (self.machine.is_some() && self.replaceable).then_some(Self { machine: None, ..self })
    }

    /// Loads a kernel into the current context, and never unloads it.
    pub fn load(&self, driver: &Driver, entry: &Entry) -> Result<Loaded, CudaError> {
        let (image, lines) = match self.machine {
            Some(at) => (self.baseline.machine_code(entry, at)?, false),
            None => {
                let text = self.baseline.text(entry)?;
                let lines = text.contains("\t.loc\t");
                (CString::new(text).map_err(|error| damaged(entry, &error))?.into_bytes_with_nul(), lines)
            }
        };
        load(driver, &image, entry.name, lines)
    }
}

/// Chooses the code of `modules` for a GPU of compute capability `cc` with a driver for CUDA version `driver`.
pub fn choose(modules: &'static Modules, cc: (u32, u32), driver: (u32, u32)) -> Result<Code, CudaError> {
    if let Err(reason) = modules.compiler {
        return Err(CudaError::NoPtx { reason: reason.to_owned() });
    }
    let baseline = choose_from(modules.baselines, cc, driver, variable(FORCE).as_deref())?;
    code_of(modules, baseline, cc, driver)
}

/// The code for a kernel of a baseline for one compute capability alone, if the GPU has that, and the driver reads it.
pub fn choose_alone(
    modules: &'static Modules,
    entry: &str,
    cc: (u32, u32),
    driver: (u32, u32),
) -> Option<(Code, &'static Entry)> {
    let fits = |baseline: &&Baseline| {
        baseline.alone
            && baseline.sm == 10 * cc.0 + cc.1
            && cuda_for(baseline.ptx) <= driver
            && baseline.entry(entry).is_ok()
    };
    let baseline = modules.baselines.iter().find(fits)?;
    Some((code_of(modules, baseline, cc, driver).ok()?, baseline.entry(entry).ok()?))
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// The machine code or the PTX of a baseline.
fn code_of(
    modules: &Modules,
    baseline: &'static Baseline,
    cc: (u32, u32),
    driver: (u32, u32),
) -> Result<Code, CudaError> {
    // Machine code loads with drivers of the assembler's major CUDA version and later ones.
    let current = modules.assembler.is_some_and(|(_, (major, _))| major <= driver.0);
    let machine = machine_for(baseline.machine, cc).filter(|_| current);
    match variable(FORCE_CODE).as_deref() {
        None => Ok(Code { baseline, machine, replaceable: true }),
        Some("ptx") => Ok(Code { baseline, machine: None, replaceable: false }),
        Some("machine") if machine.is_some() => Ok(Code { baseline, machine, replaceable: false }),
        Some("machine") => Err(CudaError::NoMachineCode { cc, driver }),
        Some(asked) => Err(CudaError::NoSuchCode { asked: asked.to_owned() }),
    }
}

/// The index of the machine code for a GPU: the highest minor version, at most the GPU's, of the same major version.
fn machine_for(machine: &[u32], (major, minor): (u32, u32)) -> Option<usize> {
    machine.iter().rposition(|sm| sm / 10 == major && sm % 10 <= minor)
}

/// The newest of `baselines` that the GPU runs and the driver reads.
fn choose_from<'a>(
    baselines: &'a [Baseline],
    cc: (u32, u32),
    driver: (u32, u32),
    forced: Option<&str>,
) -> Result<&'a Baseline, CudaError> {
    let asked: Vec<&Baseline> = baselines
        .iter()
        .filter(|baseline| !baseline.alone && forced.is_none_or(|sm| sm == baseline.sm.to_string()))
        .collect();
    let Some(oldest) = asked.first() else {
        return Err(match forced {
            Some(asked) if !baselines.is_empty() => {
                let have: Vec<String> = baselines.iter().map(|baseline| baseline.sm.to_string()).collect();
                CudaError::NoSuchBaseline { asked: asked.to_owned(), have: have.join(", ") }
            }
            _ => CudaError::NoPtx { reason: "the build produced none".to_owned() },
        });
    };
    let runs: Vec<&Baseline> = asked.iter().copied().filter(|b| b.sm <= 10 * cc.0 + cc.1).collect();
    let Some(least) = runs.iter().map(|baseline| cuda_for(baseline.ptx)).min() else {
        return Err(CudaError::DeviceTooOld { cc, needs: (oldest.sm / 10, oldest.sm % 10) });
    };
    let read = runs.into_iter().rfind(|baseline| cuda_for(baseline.ptx) <= driver);
    read.ok_or(CudaError::DriverTooOld { driver, needs: least, cc })
}

/// The first CUDA version whose driver reads PTX of this ISA version (7.0 and later).
///
/// Source: PTX ISA, *Release Notes*: 7.y appeared in CUDA 11.y, 8.0 to 8.5 in 12.0 to 12.5, 8.6 to 8.8 in 12.7 to 12.9
/// (CUDA 12.6 has 8.5), and 9.y in 13.y.
fn cuda_for((major, minor): (u32, u32)) -> (u32, u32) {
    match (major, minor) {
        (8, 6..) => (12, minor + 1),
        _ => (major + 4, minor),
    }
}

/// A kernel and its module, which exist as long as the context.
#[derive(Clone, Copy)]
pub struct Loaded {
    /// The module, which has no other kernel.
    pub module: Handle,
    /// The kernel.
    pub function: Handle,
    /// Whether the kernel may print.
    pub prints: bool,
}

/// The variable of kernels that print, in which the host tells them where.
pub const PRINT: &std::ffi::CStr = c"warpkov_print";

/// Loads a module with the kernel `name` into the current context. With `lines`, the driver keeps the lines that the PTX names.
fn load(driver: &Driver, image: &[u8], name: &str, lines: bool) -> Result<Loaded, CudaError> {
    const LOG_BYTES: usize = 16 * 1024;
    const ERROR_LOG_BUFFER: u32 = 5;
    const ERROR_LOG_BUFFER_SIZE_BYTES: u32 = 6;
    const GENERATE_LINE_INFO: u32 = 13;

    let name = CString::new(name).map_err(|_| CudaError::driver("cuModuleGetFunction", 500))?;
    let mut log = vec![0_u8; LOG_BYTES];
    let mut kinds = [ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE_BYTES, GENERATE_LINE_INFO];
    let mut values =
        [log.as_mut_ptr().cast::<c_void>(), ptr::without_provenance_mut(LOG_BYTES), ptr::without_provenance_mut(1)];
    let mut module = ptr::null_mut();
    // SAFETY: `image` is a cubin as the assembler wrote it, or NUL-terminated PTX (`Code::load`). The first two
    // options are those of cuModuleLoadDataEx for an error log: a pointer to a buffer, and its size cast to a pointer.
    // The driver writes at most that size to the buffer, and the filled size to the second value. The third option is
    // an integer cast to a pointer. The caller has made a context current.
    let code = unsafe {
        (driver.module_load_data_ex)(
            &mut module,
            image.as_ptr().cast(),
            if lines { 3 } else { 2 },
            kinds.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    match code {
        0 => {}
        // CUDA_ERROR_INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX, JIT_COMPILER_NOT_FOUND, UNSUPPORTED_PTX_VERSION,
        // JIT_COMPILATION_DISABLED, INVALID_SOURCE.
        200 | 209 | 218 | 221..=223 | 300 => {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
            let log = String::from_utf8_lossy(&log[..end]).trim().to_owned();
            let log = if log.is_empty() { "empty".to_owned() } else { log };
            return Err(CudaError::Jit { code, text: crate::driver::describe(code), log });
        }
        _ => return Err(CudaError::driver("cuModuleLoadDataEx", code)),
    }
    let mut function = ptr::null_mut();
    // SAFETY: the module is loaded, the name is NUL-terminated, and cuModuleGetFunction writes one handle to
    // `function`.
    check("cuModuleGetFunction", unsafe { (driver.module_get_function)(&mut function, module, name.as_ptr()) })?;
    let prints = image.windows(PRINT.count_bytes()).any(|window| window == PRINT.to_bytes());
    Ok(Loaded { module, function, prints })
}

#[cfg(test)]
mod tests {
    use super::*;

    static ENTRIES: &[Entry] =
        &[Entry { name: "a_f32", params: &[8, 4], at: &[] }, Entry { name: "b_f64", params: &[8], at: &[] }];
    static BASELINES: &[Baseline] = &[
        Baseline { sm: 80, alone: false, ptx: (7, 4), machine: &[80, 86, 89], data: &[], entries: ENTRIES },
        Baseline { sm: 90, alone: false, ptx: (8, 0), machine: &[90, 100, 120], data: &[], entries: ENTRIES },
    ];

    fn chosen(cc: (u32, u32), driver: (u32, u32), forced: Option<&str>) -> Result<u32, CudaError> {
        choose_from(BASELINES, cc, driver, forced).map(|baseline| baseline.sm)
    }

    #[test]
    fn the_newest_usable_baseline_is_chosen() {
        assert_eq!(chosen((9, 0), (13, 0), None), Ok(90));
        assert_eq!(chosen((12, 1), (14, 2), None), Ok(90));
        assert_eq!(chosen((8, 9), (12, 4), None), Ok(80));
        assert_eq!(chosen((9, 0), (11, 8), None), Ok(80));
        assert_eq!(chosen((9, 0), (13, 0), Some("80")), Ok(80));
    }

    #[test]
    fn old_gpus_and_drivers_are_reported() {
        assert_eq!(chosen((7, 5), (13, 0), None), Err(CudaError::DeviceTooOld { cc: (7, 5), needs: (8, 0) }));
        assert_eq!(
            chosen((9, 0), (11, 3), None),
            Err(CudaError::DriverTooOld { driver: (11, 3), needs: (11, 4), cc: (9, 0) })
        );
        assert_eq!(chosen((8, 0), (13, 0), Some("90")), Err(CudaError::DeviceTooOld { cc: (8, 0), needs: (9, 0) }));
        assert_eq!(
            chosen((9, 0), (11, 8), Some("90")),
            Err(CudaError::DriverTooOld { driver: (11, 8), needs: (12, 0), cc: (9, 0) })
        );
    }

    #[test]
    fn missing_baselines_and_kernels_are_reported() {
        assert_eq!(
            chosen((9, 0), (13, 0), Some("sm_90")),
            Err(CudaError::NoSuchBaseline { asked: "sm_90".into(), have: "80, 90".into() })
        );
        assert!(matches!(choose_from(&[], (9, 0), (13, 0), Some("90")), Err(CudaError::NoPtx { .. })));
        assert_eq!(BASELINES[1].entry("b_f64").map(|entry| entry.params), Ok(&[8_usize][..]));
        assert_eq!(BASELINES[1].entry("c").map(|_| ()), Err(CudaError::NoKernel { entry: "c".into(), sm: 90 }));
    }

    #[test]
    fn a_baseline_for_one_compute_capability_serves_no_other() {
        static ALONE: &[Entry] = &[Entry { name: "c", params: &[], at: &[] }];
        static WITH: Modules = Modules {
            compiler: Ok("a test"),
            assembler: None,
            baselines: &[
                Baseline { sm: 80, alone: false, ptx: (7, 4), machine: &[], data: &[], entries: ENTRIES },
                Baseline { sm: 90, alone: false, ptx: (8, 0), machine: &[], data: &[], entries: ENTRIES },
                Baseline { sm: 90, alone: true, ptx: (8, 0), machine: &[], data: &[], entries: ALONE },
            ],
        };
        let chosen =
            |cc, driver| choose_alone(&WITH, "c", cc, driver).map(|(code, entry)| (code.baseline.target(), entry.name));
        assert_eq!(chosen((9, 0), (12, 0)), Some(("sm_90a".to_owned(), "c")));
        assert_eq!([chosen((9, 0), (11, 8)), chosen((8, 9), (12, 0)), chosen((10, 0), (13, 0))], [None, None, None]);
        assert_eq!(choose_from(WITH.baselines, (10, 0), (13, 0), None).map(|code| code.alone), Ok(false));
        assert!(choose_alone(&WITH, "a_f32", (9, 0), (12, 0)).is_none());
    }

    #[test]
    fn ptx_versions_follow_cuda() {
        for (ptx, cuda) in [
            ((7, 0), (11, 0)),
            ((7, 8), (11, 8)),
            ((8, 0), (12, 0)),
            ((8, 5), (12, 5)),
            ((8, 6), (12, 7)),
            ((8, 8), (12, 9)),
            ((9, 0), (13, 0)),
        ] {
            assert_eq!(cuda_for(ptx), cuda);
        }
    }

    #[test]
    fn machine_code_runs_within_a_major_version() {
        let chosen = |cc| machine_for(&[80, 86, 89], cc);
        assert_eq!([(8, 0), (8, 6), (8, 7), (8, 9)].map(chosen), [Some(0), Some(1), Some(1), Some(2)]);
        assert_eq!([(7, 5), (9, 0), (10, 0)].map(chosen), [None; 3]);
        let chosen = |cc| machine_for(&[90, 100, 120], cc);
        assert_eq!([(9, 0), (10, 0), (10, 3), (12, 1)].map(chosen), [Some(0), Some(1), Some(1), Some(2)]);
        assert_eq!([(8, 9), (11, 0), (13, 0)].map(chosen), [None; 3]);
    }

    #[test]
    fn ptx_replaces_machine_code_once() {
        let code = Code { baseline: &BASELINES[1], machine: Some(1), replaceable: true };
        assert_eq!(code.machine(), Some(100));
        let ptx = code.as_ptx().expect("there is PTX");
        assert!(ptx.machine().is_none() && ptx.as_ptx().is_none());
        assert!(Code { replaceable: false, ..code }.as_ptx().is_none());
    }
}
