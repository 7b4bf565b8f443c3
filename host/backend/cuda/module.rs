//! The device code in this binary, and its way to the GPU.

use std::ffi::{CString, c_void};
use std::ptr;

use super::driver::{Driver, Handle};
use super::error::{CudaError, check};

/// Device code for one generation of GPUs and all later ones.
pub struct Baseline {
    /// The least compute capability, as in `sm_80`: ten times the major plus the minor number.
    pub sm: u32,
    /// PTX ISA version of `text` (major, minor).
    pub ptx: (u32, u32),
    /// The PTX.
    pub text: &'static str,
    /// The kernels in `text`, sorted by name.
    pub entries: &'static [Entry],
}

/// One kernel of a [`Baseline`].
pub struct Entry {
    /// Name of the entry point.
    pub name: &'static str,
    /// Size of each parameter in bytes.
    pub params: &'static [usize],
}

impl Baseline {
    /// The kernel of that name.
    pub fn entry(&self, name: &str) -> Result<&'static Entry, CudaError> {
        match self.entries.binary_search_by(|entry| entry.name.cmp(name)) {
            Ok(at) => Ok(&self.entries[at]),
            Err(_) => Err(CudaError::NoKernel { entry: name.to_owned(), sm: self.sm }),
        }
    }
}

// `BASELINES` (ascending `sm`), `NO_PTX` (why there are none) and `DEVICE_COMPILER`, written by the build script.
include!(concat!(env!("OUT_DIR"), "/ptx_table.rs"));

/// The device code in this binary, ascending by `sm`.
#[must_use]
pub fn baselines() -> &'static [Baseline] {
    BASELINES
}

/// The environment variable that forces a baseline, to test the older ones on a newer GPU: `80`, `90`, …
const FORCE: &str = "WARPKOV_PTX";

/// The device code for a GPU of compute capability `cc` under a driver for CUDA `driver`.
pub fn choose(cc: (u32, u32), driver: (u32, u32)) -> Result<&'static Baseline, CudaError> {
    if let Some(reason) = NO_PTX {
        return Err(CudaError::NoPtx { reason: reason.to_owned() });
    }
    let forced = std::env::var_os(FORCE).map(|value| value.to_string_lossy().into_owned());
    choose_from(BASELINES, cc, driver, forced.as_deref())
}

/// The newest of `baselines` that the GPU can run and the driver can read.
fn choose_from<'a>(
    baselines: &'a [Baseline],
    cc: (u32, u32),
    driver: (u32, u32),
    forced: Option<&str>,
) -> Result<&'a Baseline, CudaError> {
    let asked: Vec<&Baseline> =
        baselines.iter().filter(|baseline| forced.is_none_or(|sm| sm == baseline.sm.to_string())).collect();
    let Some(oldest) = asked.first() else {
        return Err(match forced {
            Some(asked) if !baselines.is_empty() => {
                let have: Vec<String> = baselines.iter().map(|baseline| baseline.sm.to_string()).collect();
                CudaError::NoSuchBaseline { asked: asked.to_owned(), have: have.join(", ") }
            }
            _ => CudaError::NoPtx { reason: "the build made none".to_owned() },
        });
    };
    let runs: Vec<&Baseline> = asked.iter().copied().filter(|b| b.sm <= 10 * cc.0 + cc.1).collect();
    let Some(least) = runs.iter().map(|baseline| cuda_for(baseline.ptx)).min() else {
        return Err(CudaError::DeviceTooOld { cc, needs: (oldest.sm / 10, oldest.sm % 10) });
    };
    let read = runs.into_iter().rfind(|baseline| cuda_for(baseline.ptx) <= driver);
    read.ok_or(CudaError::DriverTooOld { driver, needs: least, cc })
}

/// The first CUDA version whose driver reads PTX of version `ptx` (7.0 and later).
///
/// Source: PTX ISA, *Release Notes*: 7.y came with CUDA 11.y, 8.0 to 8.5 with 12.0 to 12.5, 8.6 to 8.8 with 12.7 to
/// 12.9 (CUDA 12.6 kept 8.5), and 9.y with 13.y.
fn cuda_for((major, minor): (u32, u32)) -> (u32, u32) {
    match (major, minor) {
        (8, 6..) => (12, minor + 1),
        _ => (major + 4, minor),
    }
}

/// Device code on the GPU, unloaded when dropped.
pub struct Module {
    handle: Handle,
    driver: &'static Driver,
}

impl Module {
    /// Has the driver compile `baseline` into the current context.
    pub fn load(driver: &'static Driver, baseline: &Baseline) -> Result<Self, CudaError> {
        const LOG_BYTES: usize = 16 * 1024;
        const ERROR_LOG_BUFFER: u32 = 5;
        const ERROR_LOG_BUFFER_SIZE_BYTES: u32 = 6;

        let image = CString::new(baseline.text)
            .map_err(|_| CudaError::NoPtx { reason: "the device code holds a NUL byte".to_owned() })?;
        let mut log = vec![0_u8; LOG_BYTES];
        let mut kinds = [ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), ptr::without_provenance_mut(LOG_BYTES)];
        let mut handle = ptr::null_mut();
        // SAFETY: cuModuleLoadDataEx takes a NUL-terminated PTX image and arrays of two options with their values: a
        // pointer to a buffer, and its size cast to a pointer. It writes at most that size, and the size that it filled
        // into the second value. A context is current.
        let code = unsafe {
            (driver.module_load_data_ex)(
                &mut handle,
                image.as_ptr().cast(),
                kinds.len() as u32,
                kinds.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        match code {
            0 => Ok(Self { handle, driver }),
            // No image for this GPU, no valid PTX, no compiler, a PTX version or a feature that it does not have.
            200 | 209 | 218 | 221..=223 | 300 => {
                let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
                let log = String::from_utf8_lossy(&log[..end]).trim().to_owned();
                let log = if log.is_empty() { "nothing".to_owned() } else { log };
                Err(CudaError::Jit { code, text: super::driver::describe(code), log })
            }
            _ => Err(CudaError::driver("cuModuleLoadDataEx", code)),
        }
    }

    /// The handle of the kernel of that name.
    pub fn function(&self, name: &str) -> Result<Handle, CudaError> {
        let missing = || CudaError::driver("cuModuleGetFunction", 500);
        let name = CString::new(name).map_err(|_| missing())?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is loaded, the name is NUL-terminated, and `function` has room for the handle.
        let code = unsafe { (self.driver.module_get_function)(&mut function, self.handle, name.as_ptr()) };
        check("cuModuleGetFunction", code)?;
        Ok(function)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the handle came from cuModuleLoadDataEx and is unloaded once. There is nobody to tell of a failure.
        unsafe { (self.driver.module_unload)(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ENTRIES: &[Entry] = &[Entry { name: "a_f32", params: &[8, 4] }, Entry { name: "b_f64", params: &[8] }];
    static BASELINES: &[Baseline] = &[
        Baseline { sm: 80, ptx: (7, 4), text: "", entries: ENTRIES },
        Baseline { sm: 90, ptx: (8, 0), text: "", entries: ENTRIES },
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
    fn what_is_too_old_is_said() {
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
    fn what_is_not_there_is_said() {
        assert_eq!(
            chosen((9, 0), (13, 0), Some("sm_90")),
            Err(CudaError::NoSuchBaseline { asked: "sm_90".into(), have: "80, 90".into() })
        );
        assert!(matches!(choose_from(&[], (9, 0), (13, 0), Some("90")), Err(CudaError::NoPtx { .. })));
        assert_eq!(BASELINES[1].entry("b_f64").map(|entry| entry.params), Ok(&[8_usize][..]));
        assert_eq!(BASELINES[1].entry("c").map(|_| ()), Err(CudaError::NoKernel { entry: "c".into(), sm: 90 }));
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
    fn the_table_of_this_build_is_in_order() {
        assert_eq!(NO_PTX.is_some(), BASELINES.is_empty());
        assert!(BASELINES.windows(2).all(|pair| pair[0].sm < pair[1].sm));
        for baseline in BASELINES {
            assert!(baseline.entries.windows(2).all(|pair| pair[0].name < pair[1].name), "sm_{}", baseline.sm);
        }
    }
}
