//! A small repository with one fault at a time.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A repository with a book of one page, after the changes.
fn repository(changes: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("book/book.toml", "[book]\ntitle = \"Book\"\n"),
        ("book/SUMMARY.md", "- [Page](part/page.md)\n- [Commands](commands/warpkov.md)\n"),
        ("book/part/page.md", "# Page\n"),
        ("code/a.rs", "// ANCHOR: one\nlet a = \"<1>\";\n// ANCHOR_END: one\nlet b = 2;\n"),
        ("commands/warpkov.md", "# warpkov\n"),
        ("commands/warpkov-mdp.md", "# warpkov mdp\n"),
        ("commands/warpkov-mdp-solve.md", "# warpkov mdp solve\n"),
        ("commands/warpkov-mdp-solve-many.md", "# warpkov mdp solve-many\n"),
    ];
    for (path, text) in files.iter().chain(changes) {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let out = root.join("out");
    super::build(root, &root.join("commands"), &out).map(|_| out.join("html"))
}

/// The HTML of the page with this text.
fn html(text: &str) -> String {
    let folder = repository(&[("book/part/page.md", text)]);
    fs::read_to_string(build(folder.path()).unwrap().join("part/page.html")).unwrap()
}

#[track_caller]
fn fails(changes: &[(&str, &str)], parts: &[&str]) {
    let message = format!("{:#}", build(repository(changes).path()).unwrap_err());
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
}

#[test]
fn expressions_become_mathml() {
    let page = html(
        "Values $V^*_a$ and $V^*_b$:\n\n$$\\max_a \\Big( \\lvert x \\rvert \\Big) <\\ 1$$\n\n| a |\n|---|\n| $\\lVert x\\rVert_1$ |\n",
    );
    let main = &page[page.find("<main>").unwrap()..page.find("</main>").unwrap()];
    assert_eq!((main.matches("<math").count(), main.matches("display=\"block\"").count()), (4, 1), "{main}");
    assert!(main.contains('\u{a0}') && !main.contains("nbsp"), "{main}");
    assert!(!main.contains('$') && !main.contains("<em>") && !main.contains("\\max"), "{main}");
    fails(&[("book/part/page.md", "$\\nosuch{a}$")], &["book/part/page.md", "\\nosuch{a}"]);
    // Not expressions for the parser of Markdown.
    for text in ["$\\frac{a$", "| a |\n|---|\n| $|x|$ |", "<details><summary>$a$</summary></details>"] {
        fails(&[("book/part/page.md", text)], &["book/part/page.md", "no expression begins at $"]);
    }
}

#[test]
fn code_keeps_its_dollars() {
    let page = html("Set `$HOME` and `$x$`.\n\n```sh\necho $HOME $PATH\n```\n\nIt costs 5 \\$ or \\$6 more.\n");
    assert!(page.contains("<code>$HOME</code>") && page.contains("<code>$x$</code>"), "{page}");
    assert!(page.contains("echo $HOME $PATH") && page.contains("5 $ or $6") && !page.contains("<math"), "{page}");
}

#[test]
fn what_mdbook_reports_is_an_error() {
    fails(&[("book/part/page.md", "{{#playground none.rs}}")], &["mdBook reports", "none.rs"]);
}

#[test]
fn links_to_the_repository_lead_to_copies() {
    let text = "[code](../../code/a.rs#one), [folder](../../code/), [start](../README.md), [notes](../../NOTES.md), [web](https://example.org/a.md)";
    let folder = repository(&[
        ("book/part/page.md", text),
        ("book/README.md", "# Start"),
        ("code/deep/raw", "raw"),
        ("NOTES.md", "# Notes"),
    ]);
    fs::write(folder.path().join("code/image"), [0xff]).unwrap();
    let summary = "- [Start](README.md)\n- [Page](part/page.md)\n- [Commands](commands/warpkov.md)\n";
    fs::write(folder.path().join("book/SUMMARY.md"), summary).unwrap();
    let html = build(folder.path()).unwrap();
    let page = fs::read_to_string(html.join("part/page.html")).unwrap();
    for link in [
        "../files/code/a.rs.html",
        "../files/code/index.html",
        "../index.html",
        "../files/NOTES.html",
        "https://example.org/a.md",
    ] {
        assert!(page.contains(&format!("href=\"{link}\"")), "{link} in {page}");
    }
    assert!(fs::read_to_string(html.join("files/code/a.rs.html")).unwrap().contains("let a = \"&lt;1&gt;\";"));
    assert!(
        fs::read_to_string(html.join("files/code/index.html")).unwrap().contains("../../files/code/deep/index.html")
    );
    assert!(html.join("files/code/deep/raw.html").exists() && html.join("files/code/image").exists());
    assert!(html.join("files/NOTES.html").exists());
    fails(&[("book/part/page.md", "[gone](../../code/gone.rs)")], &["book/part/page.md", "code/gone.rs"]);
}

#[test]
fn the_summary_lists_every_page() {
    let folder = repository(&[]);
    let html = build(folder.path()).unwrap();
    let toc = fs::read_to_string(html.join("toc.html")).unwrap();
    let at = |file: &str| toc.find(&format!("commands/{file}.html")).unwrap();
    assert!(at("warpkov") < at("warpkov-mdp") && at("warpkov-mdp-solve") < at("warpkov-mdp-solve-many"), "{toc}");
    fails(&[("book/part/other.md", "# Other")], &["SUMMARY.md does not list part/other.md"]);
    fails(
        &[("book/SUMMARY.md", "- [Page](part/page.md)\n- [Gone](gone.md)\n- [Commands](commands/warpkov.md)\n")],
        &["gone.md"],
    );
}
