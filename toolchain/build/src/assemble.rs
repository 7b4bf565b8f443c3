//! Makes machine code of the kernels, by NVIDIA's assembler `ptxas`.
//!
//! Each kernel is assembled by itself, and kept in the target folder under a name that depends on all that made it: only what
//! has changed is assembled again, whatever the profile. What the assembler says of registers and spills is kept beside it.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

/// An assembler of PTX.
pub struct Assembler {
    path: PathBuf,
    /// The CUDA release that it is from: `12.9.86`.
    pub version: String,
    /// Major and minor number of that.
    pub cuda: (u32, u32),
    /// What it lists as its options, and the GPUs that it knows.
    help: String,
}

/// What the search for an assembler gave.
pub enum Search {
    /// One that serves.
    Found(Assembler),
    /// None, and what to do about it.
    Missing(String),
}

/// One kernel for one GPU.
pub struct Job<'a> {
    /// The GPU's compute capability: 86 for 8.6.
    pub sm: u32,
    /// The kernel's name.
    pub name: &'a str,
    /// A module that holds it alone.
    pub text: &'a str,
}

/// Looks for an assembler: the one that `WARPKOV_PTXAS` names, else the one that `scripts/ptxas.sh` installs, else one on the
/// `PATH`.
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
        None => Ok(missing("there is no ptxas (`make setup` installs one, WARPKOV_PTXAS names one)")),
    }
}

fn missing(why: &str) -> Search {
    Search::Missing(format!("{why}, so the NVIDIA driver compiles each kernel when it is first used"))
}

impl Assembler {
    fn at(path: PathBuf) -> Result<Self, String> {
        let says = |option| {
            let output = Command::new(&path).arg(option).output();
            let output = output.map_err(|error| format!("{} does not run: {error}", path.display()))?;
            Ok::<_, String>(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let (about, help) = (says("--version")?, says("--help")?);
        let (version, cuda) =
            parse_version(&about).ok_or_else(|| format!("{} calls itself {:?}", path.display(), about.trim()))?;
        println!("cargo::rerun-if-changed={}", path.display());
        Ok(Self { path, version, cuda, help })
    }

    /// Whether it knows GPUs of this compute capability.
    pub fn knows(&self, sm: u32) -> bool {
        self.help.contains(&format!("'sm_{sm}'"))
    }

    /// The machine code of every job, in their order, as many at a time as cargo allows. It lies in `folder`, which then holds
    /// nothing else for these GPUs.
    pub fn all(&self, jobs: &[Job<'_>], folder: &Path) -> Result<Vec<Vec<u8>>, String> {
        let gpus: BTreeSet<u32> = jobs.iter().map(|job| job.sm).collect();
        for sm in &gpus {
            let folder = folder.join(format!("sm_{sm}"));
            fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let files: Vec<PathBuf> = jobs.iter().map(|job| folder.join(self.file(job))).collect();
        let next = Mutex::new(jobs.iter().zip(&files).enumerate());
        let work = || -> Result<Vec<(usize, Vec<u8>)>, String> {
            let mut done = Vec::new();
            loop {
                // The lock ends with the statement.
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
        for sm in gpus {
            for old in fs::read_dir(folder.join(format!("sm_{sm}"))).into_iter().flatten().flatten() {
                if !current.contains(&old.path()) {
                    // Another build may have been quicker.
                    let _ = fs::remove_file(old.path());
                }
            }
        }
        Ok(done.into_iter().map(|(_, code)| code).collect())
    }

    /// Where the machine code of a job lies.
    fn file(&self, job: &Job<'_>) -> String {
        let mut hasher = DefaultHasher::new();
        (&self.version, job.sm, job.text).hash(&mut hasher);
        format!("sm_{}/{}-{:016x}.cubin", job.sm, job.name, hasher.finish())
    }

    fn assemble(&self, job: &Job<'_>, file: &Path) -> Result<Vec<u8>, String> {
        if log(file).exists()
            && let Ok(code) = fs::read(file)
        {
            return Ok(code);
        }
        let failed = |why: String| format!("{}: {why}", file.display());
        // Under names of their own until they are whole: other builds may run at this time.
        let own = |extension: &str| file.with_extension(format!("{}.{extension}", std::process::id()));
        let (source, code) = (own("ptx"), own("cubin"));
        fs::write(&source, job.text).map_err(|error| failed(error.to_string()))?;
        let output = Command::new(&self.path)
            .arg(format!("-arch=sm_{}", job.sm))
            .args(["-v", "-o"])
            .args([&code, &source])
            .output()
            .map_err(|error| format!("{} does not run: {error}", self.path.display()))?;
        let says = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(format!("{} does not assemble for sm_{}:\n{says}", source.display(), job.sm));
        }
        let saved = fs::remove_file(&source)
            .and_then(|()| fs::rename(&code, file))
            .and_then(|()| fs::write(log(file), says.as_bytes()))
            .and_then(|()| fs::read(file));
        saved.map_err(|error| failed(error.to_string()))
    }
}

/// Where lies what the assembler said of a kernel.
fn log(file: &Path) -> PathBuf {
    file.with_extension("log")
}

/// The release in what `ptxas --version` prints, and its first two numbers.
pub fn parse_version(text: &str) -> Option<(String, (u32, u32))> {
    let version = text.split_once(", V")?.1.split_whitespace().next()?;
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    Some((version.to_owned(), (numbers.next()??, numbers.next()??)))
}
