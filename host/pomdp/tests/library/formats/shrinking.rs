//! Files that change while they are read.

use warpkov_pomdp::io as formats;

use super::common::TIGER;

/// A file that another program shortens while it is read is an invalid model or a valid one, but no fault of the process.
#[test]
fn files_may_shrink_while_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pomdp");
    let text = format!("{}{TIGER}", "# A comment of forty bytes in every line\n".repeat(1 << 17));
    for round in 0..20 {
        std::fs::write(&path, &text).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_micros(200 * round));
                std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(9).unwrap();
            });
            if let Err(error) = formats::read(&path, None) {
                assert!(matches!(error, formats::Error::Place { .. }), "{error}");
            }
        });
    }
}
