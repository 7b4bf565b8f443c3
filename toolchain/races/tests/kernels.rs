//! The kernels of `kernels/`: what is proven of them is what `book/races.md` says.

use std::path::Path;

use warpkov_races::contract::Sources;
use warpkov_races::{Verdict, page};
use warpkov_runtime::gpu::MODULES;

#[test]
fn races_are_as_the_book_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // A build without a compiler has no kernels.
    let Ok(compiler) = MODULES.compiler else { return };
    let sources = Sources::read(&root.join("kernels/src")).expect("the kernels are read");
    let rows = page::rows(&sources, |name| {
        let newest = MODULES.baselines.iter().rev();
        newest
            .flat_map(|baseline| baseline.entries.iter().map(move |entry| (baseline, entry)))
            .find_map(|(baseline, entry)| (entry.name == name).then(|| baseline.text(entry).expect("it is whole")))
    });
    let details: String = rows.iter().map(|row| format!("{}\n", row.detail)).collect();
    let proven = rows.iter().filter(|row| matches!(row.verdict, Verdict::Proven(_))).count();
    assert!(2 * proven >= rows.len(), "{proven} of {} kernels are proven:\n{details}", rows.len());
    let release = compiler.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let (page, path) = (page::page(&rows, &release), root.join("book/races.md"));
    if std::env::var_os("WARPKOV_UPDATE_BOOK").is_some_and(|value| value == "1") {
        std::fs::write(&path, &page).expect("the page is written");
    }
    let written = std::fs::read_to_string(&path).expect("the page is read");
    // Another compiler makes other PTX.
    let same = written.contains(&format!("by {release}."));
    assert!(!same || written == page, "book/races.md is out of date: WARPKOV_UPDATE_BOOK=1 writes it\n{details}");
}
