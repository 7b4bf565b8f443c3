//! The PTX that this binary holds, and which of it a GPU gets.

use std::ffi::{CString, c_int, c_void};

use super::driver::{Driver, driver};
use super::error::{CudaError, error_text};

/// The device code, compiled for one generation of GPUs and all later ones.
pub struct Baseline {
    /// The oldest compute capability it runs on: 80 for 8.0.
    pub sm: u32,
    /// The version of the PTX language it is written in.
    pub ptx: (u32, u32),
    /// The PTX.
    pub text: &'static str,
    /// Its kernels, by name.
    pub entries: &'static [Entry],
}

/// A kernel's entry point.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// The sizes of its parameters, in bytes.
    pub params: &'static [usize],
}

// What build.rs made: BASELINES in ascending order, NO_PTX where it made none, and DEVICE_COMPILER.
include!(concat!(env!("OUT_DIR"), "/ptx_table.rs"));

/// The device code of this binary, for the oldest GPUs first.
#[must_use]
pub fn baselines() -> &'static [Baseline] {
    BASELINES
}

/// The newest PTX version that a driver for this version of CUDA compiles, as the PTX documentation lists them.
fn newest_ptx((major, minor): (u32, u32)) -> (u32, u32) {
    match (major, minor) {
        (..=10, _) => (6, 5),
        (11, minor) => (7, minor.min(8)),
        (12, ..=5) => (8, minor),
        (12, 6..=8) => (8, minor - 1),
        (12, _) => (8, 8),
        // 13.0 has 9.0, and later ones at least that.
        _ => (9, minor),
    }
}

/// The newest baseline that runs on a GPU of `capability` with a driver for CUDA `version`.
///
/// `forced` is the value of `WARPKOV_PTX`, which limits the choice to one baseline.
pub fn choose<'a>(
    baselines: &'a [Baseline],
    capability: (u32, u32),
    version: (u32, u32),
    forced: Option<&str>,
) -> Result<&'a Baseline, CudaError> {
    if let Some(why) = NO_PTX.filter(|_| baselines.is_empty()) {
        return Err(CudaError::NoPtx { why: why.to_owned() });
    }
    let fits = |baseline: &&Baseline| {
        baseline.sm <= 10 * capability.0 + capability.1
            && baseline.ptx <= newest_ptx(version)
            && forced.is_none_or(|forced| forced == baseline.sm.to_string())
    };
    baselines.iter().rev().find(fits).ok_or_else(|| {
        let offers: Vec<_> = baselines
            .iter()
            .filter(|baseline| forced.is_none_or(|forced| forced == baseline.sm.to_string()))
            .map(|baseline| {
                format!(
                    "compute capability {}.{} and PTX {}.{}",
                    baseline.sm / 10,
                    baseline.sm % 10,
                    baseline.ptx.0,
                    baseline.ptx.1
                )
            })
            .collect();
        let needs = match (offers.is_empty(), forced) {
            (true, Some(forced)) => format!("WARPKOV_PTX asks for {forced}, which it does not hold"),
            _ => format!("it needs {}", offers.join(", or ")),
        };
        CudaError::Unsupported { capability, driver: version, needs }
    })
}

/// A baseline, compiled and loaded into a context.
pub struct Module {
    handle: *mut c_void,
    driver: &'static Driver,
    pub baseline: &'static Baseline,
}

impl Module {
    /// Compiles and loads a baseline into the current context.
    pub fn load(baseline: &'static Baseline) -> Result<Self, CudaError> {
        const ERROR_LOG: c_int = 5;
        const ERROR_LOG_BYTES: c_int = 6;
        let driver = driver().map_err(|why| CudaError::NoDriver { why: why.to_owned() })?;
        let Ok(text) = CString::new(baseline.text) else {
            return Err(CudaError::NoPtx { why: "its PTX is damaged".to_owned() });
        };
        let mut log = vec![0u8; 16 * 1024];
        let mut options = [ERROR_LOG, ERROR_LOG_BYTES];
        // An option's value is passed in the pointer itself where it is a number.
        let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
        let mut handle = std::ptr::null_mut();
        // SAFETY: the image ends with a zero; the options are those that the two values belong to, and the log outlives
        // the call.
        let code = unsafe {
            (driver.cuModuleLoadDataEx)(
                &mut handle,
                text.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        if code != 0 {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
            let log = String::from_utf8_lossy(&log[..end]).into_owned();
            return Err(CudaError::Jit { text: error_text(code), log });
        }
        Ok(Self { handle, driver, baseline })
    }

    /// The kernel of this name, with the sizes of its parameters.
    pub fn function(&self, name: &'static str) -> Result<(*mut c_void, &'static [usize]), CudaError> {
        let missing = || CudaError::Launch { entry: name, reason: "the device code has no such entry".to_owned() };
        let index = self.baseline.entries.binary_search_by(|entry| entry.name.cmp(name)).map_err(|_| missing())?;
        let text = CString::new(name).map_err(|_| missing())?;
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded, and the name ends with a zero.
        let code = unsafe { (self.driver.cuModuleGetFunction)(&mut function, self.handle, text.as_ptr()) };
        CudaError::check("cuModuleGetFunction", code)?;
        Ok((function, self.baseline.entries[index].params))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the module is loaded, and its functions are gone with the device that held them. An error leaves
        // nothing to do.
        unsafe { (self.driver.cuModuleUnload)(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[Baseline] = &[
        Baseline { sm: 80, ptx: (7, 4), text: "", entries: &[] },
        Baseline { sm: 90, ptx: (8, 0), text: "", entries: &[] },
    ];

    #[test]
    fn the_newest_that_fits_is_chosen() {
        let sm = |capability, version| choose(TWO, capability, version, None).map(|baseline| baseline.sm);
        assert_eq!(sm((9, 0), (12, 0)), Ok(90));
        assert_eq!(sm((10, 0), (13, 0)), Ok(90));
        assert_eq!(sm((8, 9), (13, 0)), Ok(80));
        assert_eq!(sm((8, 0), (11, 4)), Ok(80));
        // An old driver on a new GPU: what it compiles, though it be for older ones.
        assert_eq!(sm((9, 0), (11, 8)), Ok(80));
        assert!(matches!(sm((7, 5), (13, 0)), Err(CudaError::Unsupported { capability: (7, 5), .. })));
        assert!(matches!(sm((8, 0), (11, 3)), Err(CudaError::Unsupported { .. })));
    }

    #[test]
    fn one_can_be_forced() {
        assert_eq!(choose(TWO, (9, 0), (13, 0), Some("80")).map(|baseline| baseline.sm), Ok(80));
        let error = choose(TWO, (9, 0), (13, 0), Some("75")).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("WARPKOV_PTX asks for 75")));
    }

    #[test]
    fn ptx_versions_are_those_of_the_documentation() {
        let pairs = [((11, 0), (7, 0)), ((11, 8), (7, 8)), ((12, 0), (8, 0)), ((12, 5), (8, 5)), ((12, 6), (8, 5))];
        let later = [((12, 7), (8, 6)), ((12, 8), (8, 7)), ((12, 9), (8, 8)), ((13, 0), (9, 0))];
        for (cuda, ptx) in pairs.into_iter().chain(later) {
            assert_eq!(newest_ptx(cuda), ptx, "CUDA {cuda:?}");
        }
    }
}
