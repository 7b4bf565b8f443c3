//! The manual pages render without a complaint.

use std::fs;
use std::process::Command;

/// A terminal of 80 columns has this many between the margins of an option's text.
const COLUMNS: usize = 64;

#[test]
fn words_of_manual_pages_fit_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_warpkov")).arg("man").arg(folder.path()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let pages: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(pages.len() > 50, "{} pages", pages.len());
    for page in pages {
        let text = fs::read_to_string(&page).unwrap().replace('\\', "");
        // Lines that begin with a point are requests.
        for word in text.lines().filter(|line| !line.starts_with('.')).flat_map(str::split_whitespace) {
            assert!(word.chars().count() < COLUMNS, "{}: groff cannot break {word}", page.display());
        }
    }
}
