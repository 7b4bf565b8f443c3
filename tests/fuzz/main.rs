//! Mutated files of every format: each is read or refused, in time and in memory that is proportional to its length, and a model that is
//! read is written and read again. The mutations are the same in every run.
//!
//! `WARPKOV_FUZZ_SECONDS` is the time for each reader, in place of its number of inputs. An input that fails stays in
//! `target/tmp/fuzz/READER/`, also if the process aborts.

#[path = "../support/allocator.rs"]
mod allocator;
mod counting;
mod mutate;
mod readers;

use std::any::Any;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use readers::{READERS, Reader};

/// Longest time for an input of a few kilobytes. A machine that is busy with other tests takes several times what it needs alone.
const LONGEST: Duration = Duration::from_secs(10);

#[test]
fn mutated_files_are_read_or_refused() {
    let seconds = std::env::var("WARPKOV_FUZZ_SECONDS").ok();
    let time = seconds.map(|text| Duration::from_secs(text.parse().expect("WARPKOV_FUZZ_SECONDS is a number")));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, |cores| cores.get()).min(READERS.len()) {
            scope.spawn(|| {
                // Tasks of readers stay on this thread, whose memory is counted.
                let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
                let _pool = pool.expect("a pool of this thread");
                while let Some(reader) = READERS.get(next.fetch_add(1, Relaxed)) {
                    let fault = fuzz(reader, &folder.join(reader.name), time).err();
                    faults.lock().expect("no panic").extend(fault);
                }
            });
        }
    });
    let faults = faults.into_inner().expect("no panic");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Writes the corpus of all readers for the target in `fuzz/`, where the first byte of an input chooses the reader.
#[test]
#[ignore = "writes fuzz/corpus/readers"]
fn corpus_for_libfuzzer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/readers");
    fs::create_dir_all(&folder).expect("a folder");
    for (first, reader) in (0_u8..).zip(READERS) {
        for (number, file) in reader.corpus().iter().enumerate() {
            let name = format!("{}-{number}", reader.name);
            fs::write(folder.join(name), [&[first], &file[..]].concat()).expect("the folder can be written");
        }
    }
}

/// Reads the corpus of a reader and its mutations.
fn fuzz(reader: &Reader, folder: &Path, time: Option<Duration>) -> Result<(), String> {
    reader.prepare(folder);
    let corpus = reader.corpus();
    let packed: Vec<_> = corpus.iter().map(|file| (reader.wrap)(file)).collect();
    let name = reader.name;
    if corpus.is_empty() {
        return Err(format!("{name}: no corpus"));
    }
    let (begun, [mut accepted, mut refused]) = (Instant::now(), [0, 0]);
    let more = |number: u64| time.map_or(number < reader.inputs, |time| begun.elapsed() < time);
    for number in (0..).take_while(|&number| more(number)) {
        let input = match packed.get(number as usize) {
            Some(file) => file.clone(),
            // Half of the packed files are mutated inside, half outside.
            None if number % 2 == 0 => (reader.wrap)(&mutate::mutate(&corpus, reader.tokens, number)),
            None => mutate::mutate(&packed, reader.tokens, number),
        };
        if (reader.skips)(&input) {
            continue;
        }
        match read(reader, folder, &input) {
            Ok(true) => accepted += 1,
            Ok(false) => refused += 1,
            Err(fault) => {
                let file = folder.join(reader.file);
                return Err(format!("{name}, input {number} in {}: {fault}", file.display()));
            }
        }
    }
    println!("{name}: {accepted} accepted, {refused} refused in {:.2?}", begun.elapsed());
    if accepted == 0 || refused == 0 {
        return Err(format!("{name}: {accepted} accepted, {refused} refused, expected both"));
    }
    Ok(())
}

/// Reads an input. Returns whether it is accepted, or what is wrong with the reader.
fn read(reader: &Reader, folder: &Path, input: &[u8]) -> Result<bool, String> {
    let path = folder.join(reader.file);
    fs::write(&path, input).expect("the folder can be written");
    let begun = Instant::now();
    let work = || {
        let (read, bytes) = counting::peak(|| (reader.read)(&path));
        (read.map(|check| check()), bytes, begun.elapsed())
    };
    let (read, bytes, elapsed) = catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message(&*panic))?;
    let [each, base] = reader.memory;
    if bytes > base + each * input.len() {
        return Err(format!("{bytes} bytes of memory for {} of input", input.len()));
    }
    if elapsed > LONGEST {
        return Err(format!("{elapsed:?} for {} bytes", input.len()));
    }
    match read {
        Ok(()) => Ok(true),
        // A message names the file.
        Err(said) if said.contains(&*folder.to_string_lossy()) => Ok(false),
        Err(said) => Err(format!("a message without the file's name: {said:?}")),
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a panic: {}", text.unwrap_or("without a message"))
}
