//! Reads arbitrary bytes by the readers of `tests/fuzz/readers.rs`. No reader may panic, and every accepted model survives a round trip.

#![no_main]

#[allow(dead_code, reason = "libFuzzer makes its own corpus and measures memory itself")]
#[path = "../../tests/fuzz/readers.rs"]
mod readers;

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use readers::READERS;
use tempfile::TempDir;

/// A folder for each reader.
static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    READERS.iter().for_each(|reader| reader.prepare(&folder.path().join(reader.name)));
    folder
});

fuzz_target!(|data: &[u8]| {
    // The first byte chooses the reader.
    let Some((first, input)) = data.split_first() else { return };
    let reader = &READERS[usize::from(*first) % READERS.len()];
    let packed = (reader.wrap)(input);
    // An input may be a packed file, or what is packed.
    let both = [input, &packed[..]];
    for &bytes in &both[usize::from(packed == input)..] {
        if (reader.skips)(bytes) {
            continue;
        }
        let path = FOLDER.path().join(reader.name).join(reader.file);
        fs::write(&path, bytes).expect("the folder can be written");
        match (reader.read)(&path) {
            Ok(check) => check(),
            Err(said) => assert!(!said.is_empty(), "an error without a message"),
        }
    }
});
