//! Whether all ranks were started with the same version, command, options and input files.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::{ArgMatches, Command};
use warpkov_common::checkpoint::Hash;
use warpkov_runtime::comm::Communicator;

use super::file::{self, FileOrStd};
use crate::error::Error;

/// Options that may differ: they choose the device and the place of a rank, and what the first rank prints.
const OWN: [&str; 10] =
    ["device", "device_memory", "ranks", "rank", "master", "timeout", "quiet", "json", "to", "checkpoint_every"];

/// Options that name outputs: those of the first rank count.
const OUTPUTS: [&str; 6] = ["out", "plot", "checkpoint", "trace", "usage", "all_steps"];

/// Bytes that are hashed at a time.
const BLOCK: u64 = 16 << 20;

/// Places of a file that are hashed to recognise it.
const SAMPLES: u64 = 64;

/// Bytes at each of these places.
const SAMPLE: u64 = 4096;

/// What a rank was started with, by name.
type Started = BTreeMap<String, String>;

/// What this process was started with, and the input files that it was started with.
static STARTED: OnceLock<(Started, Vec<PathBuf>)> = OnceLock::new();

/// Notes what this process was started with. Of an input file, its name does not count: the files themselves are compared.
pub fn note(command: &Command, matches: &ArgMatches) {
    let mut started = Started::from([("the version".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    let (mut command, mut matches, mut path) = (command, matches, Vec::new());
    while let Some((name, inner)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { break };
        path.push(name);
        (command, matches) = (found, inner);
    }
    started.insert("the command".to_owned(), path.join(" "));
    let mut inputs = Vec::new();
    let file = |argument: &clap::Arg| {
        let kind = argument.get_value_parser().type_id();
        kind == TypeId::of::<PathBuf>() || kind == TypeId::of::<FileOrStd>()
    };
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        if OWN.contains(&id) || OUTPUTS.contains(&id) || !matches!(matches.try_contains_id(id), Ok(true)) {
            continue;
        }
        let values = matches.get_raw(id).into_iter().flatten();
        let values: Vec<_> = match file(argument) {
            true => {
                inputs.extend(values.clone().filter(|name| *name != "-").map(PathBuf::from));
                values.map(|_| "given".into()).collect()
            }
            false => values.map(|value| value.to_string_lossy()).collect(),
        };
        let name = argument.get_long().map_or_else(|| id.to_uppercase(), |long| format!("--{long}"));
        started.insert(name, values.join(" "));
    }
    STARTED.get_or_init(|| (started, inputs));
}

/// Checks that all ranks were started with the same version, command and options.
///
/// # Errors
/// The first difference, on every rank.
pub fn options(comm: &dyn Communicator) -> Result<(), Error> {
    if comm.size() == 1 {
        return Ok(());
    }
    let own = serde_json::to_vec(&STARTED.get().map(|(started, _)| started)).map_err(io::Error::from)?;
    let all: Vec<Started> =
        comm.all_gather(&own)?.iter().map(|bytes| serde_json::from_slice(bytes).unwrap_or_default()).collect();
    difference(&all).map_or(Ok(()), differ)
}

/// What differs first between what rank 0 and another rank were started with.
fn difference(all: &[Started]) -> Option<String> {
    let names = all.iter().flat_map(Started::keys);
    // The version and the command explain all other differences.
    let named = |name: &String| !name.starts_with("the ");
    let mut names: Vec<_> = names.collect();
    names.sort_by_key(|name| (named(name), *name));
    names.into_iter().find_map(|name| {
        let of = |rank: usize| all[rank].get(name).map_or("not given", |value| value);
        let rank = (1..all.len()).find(|&rank| of(rank) != of(0))?;
        Some(format!("{name}: {} on rank 0, {} on rank {rank}", of(0), of(rank)))
    })
}

/// Checks that the files which this process was started with, or has read so far, have the same contents on all ranks.
///
/// Ranks with the same file need not read it for that. Else the ranks that share a copy hash it together.
///
/// # Errors
/// The first file that differs, on every rank.
pub fn files(comm: &dyn Communicator) -> Result<(), Error> {
    if comm.size() == 1 {
        return Ok(());
    }
    let mut files: Vec<PathBuf> = STARTED.get().map(|(_, inputs)| inputs.clone()).unwrap_or_default();
    files.extend(file::read_so_far());
    let mut seen = BTreeSet::new();
    files.retain(|path| seen.insert(path.clone()));
    let files: Vec<PathBuf> = files.iter().flat_map(|path| of_folder(path)).collect();
    let counts = comm.all_gather_equal(&(files.len() as u64).to_le_bytes())?;
    let count = |rank: usize| u64::from_le_bytes(counts[rank][..].try_into().unwrap_or_default());
    if let Some(rank) = (1..counts.len()).find(|&rank| count(rank) != count(0)) {
        return differ(format!("{} input files on rank 0, {} on rank {rank}", count(0), count(rank)));
    }
    for path in &files {
        let copies = &comm.all_gather(identity(path).unwrap_or_default().as_bytes())?[..];
        if copies.iter().all(|copy| *copy == copies[0]) {
            continue;
        }
        let of_rank = |rank: usize| (0..copies.len()).filter(move |&other| copies[other] == copies[rank]);
        let own = comm.rank() as usize;
        let (part, parts) = (of_rank(own).filter(|&other| other < own).count(), of_rank(own).count());
        // A file that cannot be read differs from all others.
        let hash = hash(path, part as u64, parts as u64).map_or(u64::from(comm.rank()), Hash::number);
        let sizes = comm.gather(&[fs::metadata(path).map_or(0, |about| about.len())])?;
        let hashes = comm.gather(&[hash])?;
        let whole = |rank: usize| {
            let parts = of_rank(rank).flat_map(|other| &hashes[other]);
            (&sizes[rank], parts.fold(Hash::default(), |sum, &part| sum.and(Hash::of_number(part))))
        };
        if let Some(rank) = (1..copies.len()).find(|&rank| whole(rank) != whole(0)) {
            let text = |rank: usize| format!("{} bytes with hash {}", whole(rank).0[0], whole(rank).1);
            let (name, first, other) = (path.display(), text(0), text(rank));
            return differ(format!("{name}: {first} on rank 0, {other} on rank {rank}"));
        }
    }
    Ok(())
}

fn differ(what: String) -> Result<(), Error> {
    let message = format!("the ranks differ in {what}; all ranks need the same options and input files");
    Err(Error::Agreed(Box::new(Error::Usage(message))))
}

/// The file, or those of a folder by their names.
fn of_folder(path: &Path) -> Vec<PathBuf> {
    let Ok(folder) = fs::read_dir(path) else { return vec![path.to_owned()] };
    let mut files: Vec<_> = folder.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// Types of file systems that several nodes share: NFS, Lustre, GPFS, BeeGFS, CephFS, SMB, AFS, GFS2, OCFS2, and 9P.
#[cfg(target_os = "linux")]
const SHARED: [u32; 11] = [
    0x6969,
    0x0bd0_0bd0,
    0x4750_4653,
    0x1983_0326,
    0x00c3_6400,
    0xff53_4d42,
    0xfe53_4d42,
    0x5346_414f,
    0x0116_1970,
    0x7461_636f,
    0x0102_1997,
];

/// Where a file is: nothing of a file system that nodes share, otherwise the node and the device. Two copies on two of them may have the
/// same number, size and time.
#[cfg(target_os = "linux")]
fn place(file: &File, about: &fs::Metadata) -> io::Result<String> {
    if SHARED.contains(&(rustix::fs::fstatfs(file)?.f_type as u32)) {
        return Ok(String::new());
    }
    let node = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(format!("{} {}", node.trim(), std::os::unix::fs::MetadataExt::dev(about)))
}

#[cfg(not(target_os = "linux"))]
fn place(_: &File, _: &fs::Metadata) -> io::Result<String> {
    Ok(String::new())
}

/// What tells a copy of a file from others without reading all of it: its place, number, size and time, and a sample of its bytes.
fn identity(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let about = file.metadata()?;
    let size = about.len();
    let mut bytes = Vec::new();
    for sample in 0..SAMPLES {
        file.seek(SeekFrom::Start((u128::from(size) * u128::from(sample) / u128::from(SAMPLES)) as u64))?;
        file.by_ref().take(SAMPLE).read_to_end(&mut bytes)?;
    }
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(&about);
    #[cfg(not(unix))]
    let number = 0;
    let place = place(&file, &about)?;
    Ok(format!("{place} {number} {size} {:?} {}", about.modified()?, Hash::new(0, &bytes)))
}

/// The hash of every `parts`-th block of a file, from block `part` on.
fn hash(path: &Path, part: u64, parts: u64) -> io::Result<Hash> {
    let mut file = File::open(path)?;
    let (mut sum, mut bytes) = (Hash::default(), Vec::new());
    for block in (part..file.metadata()?.len().div_ceil(BLOCK)).step_by(parts as usize) {
        bytes.clear();
        file.seek(SeekFrom::Start(block * BLOCK))?;
        file.by_ref().take(BLOCK).read_to_end(&mut bytes)?;
        sum = sum.and(Hash::new(block, &bytes));
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_explains_other_differences() {
        let started = |version: &str, gamma: Option<&str>| {
            let version = ("the version".to_owned(), version.to_owned());
            let gamma = gamma.map(|gamma| ("--gamma".to_owned(), gamma.to_owned()));
            [Some(version), gamma].into_iter().flatten().collect::<Started>()
        };
        let all = [started("1.0.0", Some("0.9")), started("1.0.0", Some("0.9")), started("1.0.1", None)];
        assert_eq!(difference(&all).as_deref(), Some("the version: 1.0.0 on rank 0, 1.0.1 on rank 2"));
        let all = [started("1.0.0", None), started("1.0.0", Some("0.9"))];
        assert_eq!(difference(&all).as_deref(), Some("--gamma: not given on rank 0, 0.9 on rank 1"));
        assert_eq!(difference(&all[..1]), None);
    }

    /// Copies on two file systems of a node are two files, whatever their numbers and times.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_place_of_a_file_is_its_device() {
        let placed = |folder: &str| {
            let file = tempfile::NamedTempFile::new_in(folder).unwrap();
            let about = file.as_file().metadata().unwrap();
            (std::os::unix::fs::MetadataExt::dev(&about), place(file.as_file(), &about).unwrap())
        };
        let [own, again, other] = [".", ".", "/dev/shm"].map(placed);
        assert_eq!(own, again);
        assert_eq!(own.0 == other.0, own.1 == other.1);
        assert!(!other.1.is_empty());
    }
}
