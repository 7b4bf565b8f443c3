//! Assembles the kernels to machine code with NVIDIA's `ptxas`.
//!
//! Each kernel is assembled separately. The file name in the target folder contains a hash of all inputs, so a build
//! assembles changed kernels only, in every profile. The log of the assembler, with registers and spills, is saved next
//! to the machine code.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use crate::Baseline;

/// An assembler of PTX.
pub struct Assembler {
    path: PathBuf,
    /// CUDA release, such as `12.9.86`.
    pub version: String,
    /// CUDA version (major, minor).
    pub cuda: (u32, u32),
    /// Output of `--help`, which lists the supported GPUs.
    help: String,
}

/// The result of the search for an assembler.
pub enum Search {
    /// An assembler.
    Found(Assembler),
    /// There is none: the reason, and advice.
    Missing(String),
}

/// One kernel for one GPU.
pub struct Job<'a> {
    /// The target after `sm_`: the GPU's compute capability, as in "86" for 8.6, or "90a".
    pub target: String,
    /// The kernel's name.
    pub name: &'a str,
    /// PTX of a module that contains this kernel alone.
    pub text: &'a str,
}

/// Finds an assembler: the one that `WARPKOV_PTXAS` names, otherwise one in `ptxas-venv` in the target folder,
/// otherwise one on the `PATH`.
pub fn find(target: &Path) -> Result<Search, String> {
    println!("cargo::rerun-if-env-changed=WARPKOV_PTXAS");
    if let Some(path) = env::var_os("WARPKOV_PTXAS").filter(|value| !value.is_empty()) {
        if path == "none" {
            return Ok(missing("WARPKOV_PTXAS is `none`"));
        }
        return Assembler::at(path.into()).map(Search::Found).map_err(|why| format!("WARPKOV_PTXAS: {why}"));
    }
    let libraries = fs::read_dir(target.join("ptxas-venv/lib")).into_iter().flatten().flatten();
    let installed = libraries.map(|library| library.path().join("site-packages/nvidia/cuda_nvcc/bin/ptxas"));
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|folder| folder.join("ptxas"));
    match installed.chain(on_path).find(|path| path.is_file()) {
        Some(path) => Assembler::at(path).map(Search::Found),
        None => Ok(missing("no ptxas in WARPKOV_PTXAS or on the PATH (`make setup` of warpkov installs one)")),
    }
}

/// The compute capabilities that get machine code, ascending: of those in the baselines, the ones that `WARPKOV_GPUS`
/// names; by default those that fit the GPUs in this machine, or all if machine code is required. Assembling every kernel for
/// all of them takes minutes.
///
/// # Errors
/// If the variable names one that no baseline has.
pub fn gpus(baselines: &[Baseline]) -> Result<Vec<u32>, String> {
    println!("cargo::rerun-if-env-changed=WARPKOV_GPUS");
    let all: BTreeSet<u32> = baselines.iter().flat_map(|baseline| baseline.machine.iter().copied()).collect();
    let all: Vec<u32> = all.into_iter().collect();
    let required = env::var("WARPKOV_REQUIRE_CUBIN").is_ok_and(|value| value == "1");
    match env::var("WARPKOV_GPUS").as_deref() {
        Ok("all") => Ok(all),
        Ok("none") => Ok(Vec::new()),
        Ok(list) if !list.is_empty() => {
            let number = |text: &str| text.trim().parse().ok().filter(|sm| all.contains(sm));
            let listed: Option<BTreeSet<u32>> = list.split(',').map(number).collect();
            let listed = listed.ok_or_else(|| {
                format!(
                    "WARPKOV_GPUS is {list:?}, expected `all`, `none`, or numbers of {all:?} with commas between them"
                )
            })?;
            Ok(listed.into_iter().collect())
        }
        _ if required => Ok(all),
        _ => Ok(fitting(&all, &present())),
    }
}

/// For each GPU of a compute capability in `present`, the newest of `all` whose machine code it runs: of the same major
/// version, and not newer.
fn fitting(all: &[u32], present: &[u32]) -> Vec<u32> {
    let best = |&gpu: &u32| all.iter().copied().filter(|sm| sm / 10 == gpu / 10 && *sm <= gpu).max();
    present.iter().filter_map(best).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The compute capabilities of the GPUs in this machine, as the driver's `nvidia-smi` lists them. Empty without a driver.
fn present() -> Vec<u32> {
    let output = Command::new("nvidia-smi").args(["--query-gpu=compute_cap", "--format=csv,noheader"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().replace('.', "").parse().ok()).collect()
}

fn missing(why: &str) -> Search {
    Search::Missing(format!("{why}, so the NVIDIA driver compiles each kernel at its first launch"))
}

impl Assembler {
    fn at(path: PathBuf) -> Result<Self, String> {
        let says = |option| {
            let output = Command::new(&path).arg(option).output();
            let output = output.map_err(|error| format!("cannot run {}: {error}", path.display()))?;
            Ok::<_, String>(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let (about, help) = (says("--version")?, says("--help")?);
        let (version, cuda) =
            parse_version(&about).ok_or_else(|| format!("{} is not ptxas: {:?}", path.display(), about.trim()))?;
        println!("cargo::rerun-if-changed={}", path.display());
        Ok(Self { path, version, cuda, help })
    }

    /// Whether it supports GPUs of this compute capability.
    pub fn knows(&self, sm: u32) -> bool {
        self.help.contains(&format!("'sm_{sm}'"))
    }

    /// The machine code of every job, in the order of the jobs, assembled by `NUM_JOBS` threads. `folder` caches it;
    /// files of other jobs for the same GPUs are deleted.
    pub fn all(&self, jobs: &[Job<'_>], folder: &Path) -> Result<Vec<Vec<u8>>, String> {
        let targets: BTreeSet<&str> = jobs.iter().map(|job| job.target.as_str()).collect();
        for target in &targets {
            let folder = folder.join(format!("sm_{target}"));
            fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let files: Vec<PathBuf> = jobs.iter().map(|job| folder.join(self.file(job))).collect();
        let next = Mutex::new(jobs.iter().zip(&files).enumerate());
        let work = || -> Result<Vec<(usize, Vec<u8>)>, String> {
            let mut done = Vec::new();
            loop {
                // This statement also releases the lock.
                let taken = next.lock().map_err(|_| "a thread panicked")?.next();
                let Some((at, (job, file))) = taken else { return Ok(done) };
                done.push((at, self.assemble(job, file)?));
            }
        };
        let threads = env::var("NUM_JOBS").ok().and_then(|number| number.parse().ok()).unwrap_or(1);
        let mut done = thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let mut all = Vec::new();
            for thread in running {
                all.append(&mut thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))?);
            }
            Ok::<_, String>(all)
        })?;
        done.sort_by_key(|&(at, _)| at);
        let current: BTreeSet<PathBuf> = files.iter().flat_map(|file| [file.clone(), log(file)]).collect();
        for target in targets {
            for old in fs::read_dir(folder.join(format!("sm_{target}"))).into_iter().flatten().flatten() {
                if !current.contains(&old.path()) {
                    // Fails if a concurrent build has deleted the file.
                    let _ = fs::remove_file(old.path());
                }
            }
        }
        Ok(done.into_iter().map(|(_, code)| code).collect())
    }

    /// Path of a job's machine code, relative to the folder.
    fn file(&self, job: &Job<'_>) -> String {
        let mut hasher = DefaultHasher::new();
        (&self.version, &job.target, job.text).hash(&mut hasher);
        format!("sm_{}/{}-{:016x}.cubin", job.target, job.name, hasher.finish())
    }

    fn assemble(&self, job: &Job<'_>, file: &Path) -> Result<Vec<u8>, String> {
        if log(file).exists()
            && let Ok(code) = fs::read(file)
        {
            return Ok(code);
        }
        let failed = |why: String| format!("{}: {why}", file.display());
        // Temporary names contain the process id, because other builds may run concurrently. Complete files are
        // renamed.
        let own = |extension: &str| file.with_extension(format!("{}.{extension}", std::process::id()));
        let (source, code) = (own("ptx"), own("cubin"));
        fs::write(&source, job.text).map_err(|error| failed(error.to_string()))?;
        let output = Command::new(&self.path)
            .arg(format!("-arch=sm_{}", job.target))
            .args(job.text.contains("\t.loc\t").then_some("-lineinfo"))
            .args(["-v", "-o"])
            .args([&code, &source])
            .output()
            .map_err(|error| format!("cannot run {}: {error}", self.path.display()))?;
        let says = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(format!("ptxas cannot assemble {} for sm_{}:\n{says}", source.display(), job.target));
        }
        let saved = fs::remove_file(&source)
            .and_then(|()| fs::rename(&code, file))
            .and_then(|()| fs::write(log(file), says.as_bytes()))
            .and_then(|()| fs::read(file));
        saved.map_err(|error| failed(error.to_string()))
    }
}

/// Path of the assembler's log for a kernel.
fn log(file: &Path) -> PathBuf {
    file.with_extension("log")
}

/// The CUDA release in the output of `ptxas --version`, and its (major, minor).
pub fn parse_version(text: &str) -> Option<(String, (u32, u32))> {
    let version = text.split_once(", V")?.1.split_whitespace().next()?;
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    Some((version.to_owned(), (numbers.next()??, numbers.next()??)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_runs_machine_code_of_its_major_version() {
        let all = [80, 86, 89, 90, 100, 120];
        assert!(fitting(&all, &[]).is_empty());
        assert_eq!(fitting(&all, &[75, 99]), [90]);
        assert_eq!(fitting(&all, &[90, 90, 80]), [80, 90]);
        assert_eq!(fitting(&all, &[87, 103, 121]), [86, 100, 120]);
    }
}
