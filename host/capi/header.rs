//! The header: cbindgen makes it of the sources. `WARPKOV_UPDATE_HEADER=1 cargo test -p warpkov-capi` writes it.

use std::fs;
use std::path::Path;

use cbindgen::{Config, DocumentationLength, DocumentationStyle, Language, Style};

/// The sources, in the order of the header.
const SOURCES: [&str; 7] = ["border.rs", "options.rs", "progress.rs", "mdp.rs", "pomdp.rs", "controller.rs", "hmm.rs"];

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn generated() -> String {
    let mut config = Config {
        header: Some(include_str!("header.txt").trim_end().to_owned()),
        include_guard: Some("WARPKOV_H".to_owned()),
        language: Language::C,
        cpp_compat: true,
        style: Style::Type,
        no_includes: true,
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
        usize_is_size_t: true,
        documentation: true,
        documentation_style: DocumentationStyle::Doxy,
        documentation_length: DocumentationLength::Full,
        line_length: 120,
        tab_width: 4,
        ..Config::default()
    };
    config.enumeration.prefix_with_name = false;
    let sources = SOURCES
        .iter()
        .fold(cbindgen::Builder::new().with_config(config), |builder, source| builder.with_src(folder().join(source)));
    let mut text = Vec::new();
    sources.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_header_is_up_to_date() {
    let (file, text) = (folder().join("warpkov.h"), generated());
    if std::env::var_os("WARPKOV_UPDATE_HEADER").is_some_and(|value| value == "1") {
        fs::write(&file, &text).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == text, "warpkov.h is old: WARPKOV_UPDATE_HEADER=1 cargo test -p warpkov-capi");
}

/// Every function that C calls catches panics, and is in the header.
#[test]
fn no_panic_leaves_a_function() {
    const GUARDS: [&str; 4] = ["entry(|| {", "look(", "unsafe { view(count", "unsafe { free("];
    // Those that cannot panic: they set an atomic flag, and read a text.
    const SAFE: [&str; 2] = ["wk_interrupt", "wk_last_error"];

    let (header, mut count) = (generated(), 0);
    for source in SOURCES {
        let text = fs::read_to_string(folder().join(source)).unwrap();
        for function in text.split("#[unsafe(no_mangle)]\n").skip(1) {
            let name = function.split_once("fn ").unwrap().1.split('(').next().unwrap();
            let body = function.split_once("{\n").unwrap().1.split("\n}\n").next().unwrap();
            let guarded = GUARDS.iter().any(|guard| body.contains(guard));
            assert!(guarded || SAFE.contains(&name), "{name} has no guard");
            assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
            count += 1;
        }
    }
    assert!(count >= 60, "{count} functions");
}
