//! The charts of the book are those that `book/figures/charts.rs` draws. `WARPKOV_FIGURES=write` writes them.

use std::fs;
use std::path::Path;

#[path = "../../book/figures/charts.rs"]
mod charts;

#[test]
fn the_charts_of_the_book_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("book/figures");
    let write = std::env::var_os("WARPKOV_FIGURES").is_some_and(|value| value == "write");
    for (name, drawn) in charts::charts() {
        let file = folder.join(name);
        if write {
            fs::write(&file, &drawn).unwrap();
        }
        let found = fs::read_to_string(&file).unwrap_or_default();
        assert!(found == drawn, "{name} is old: WARPKOV_FIGURES=write cargo test --test figures");
    }
}

/// No chart is wider than a page of 400 pixels, and every line fits its box: letters of 14 pixels are at most 7.4 wide on average.
#[test]
fn text_fits_narrow_pages() {
    let number = |tag: &str, name: &str| -> f64 {
        let from = tag.find(&format!(" {name}=\"")).map(|at| at + name.len() + 3).unwrap();
        tag[from..].split('"').next().unwrap().parse().unwrap()
    };
    for (name, drawn) in charts::charts() {
        assert!(number(&drawn, "width") <= 400.0 && number(&drawn, "font-size") >= 13.0, "{name}");
        let mut width = 0.0;
        let mut lines = 0;
        for tag in drawn.lines() {
            if tag.starts_with("<rect") {
                width = number(tag, "width");
            } else if let Some(line) = tag.strip_prefix("<text").and_then(|rest| rest.split(['>', '<']).nth(1)) {
                let taken = 7.4 * line.chars().count() as f64;
                assert!(taken <= width, "{name}: '{line}' takes {taken} of {width} pixels");
                lines += 1;
            }
        }
        assert!(lines >= 10, "{name}");
    }
}

/// The picture of the crates shows what their manifests say.
#[test]
fn crates_depend_on_layers_below() {
    let folder = |package: &str| match package {
        "warpkov" => String::new(),
        "warpkov-python" => "python".to_owned(),
        "warpkov-kernels" => "kernels".to_owned(),
        "warpkov-device" | "warpkov-cuda" | "warpkov-build" => package.replace("warpkov-", "toolchain/"),
        _ => package.replace("warpkov-", "host/"),
    };
    let layer = |package: &str| charts::CRATES.iter().position(|layer| layer.iter().any(|(name, _)| *name == package));
    let mut arrows = 0;
    for (package, _) in charts::CRATES.iter().copied().flatten() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder(package)).join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        // Dependencies of tests do not count, nor the list of all members.
        let section = |name: &str| {
            let from = text.find(&format!("\n[{name}]\n")).map_or(text.len(), |at| at + name.len() + 4);
            text[from..].split("\n[").next().unwrap_or_default().to_owned()
        };
        for line in (section("dependencies") + &section("build-dependencies")).lines() {
            let used = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if let Some(below) = layer(used) {
                let beside = [("warpkov-pomdp", "warpkov-mdp"), ("warpkov-cuda", "warpkov-device")];
                let beside = beside.contains(&(*package, used));
                assert!(beside || Some(below) > layer(package), "{package} depends on {used}");
                arrows += 1;
            }
        }
    }
    assert!(arrows > 25, "{arrows}");
}
