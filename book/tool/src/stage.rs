//! Files: what mdBook reads, which is `book/` and the pages of the commands; and copies of the repository's files to which pages link.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use mdbook_driver::book::Book;

use crate::page::{self, escaped};

/// Folder of the HTML with files of the repository.
const FILES: &str = "files";

/// Stages the book in `out/src`.
pub fn stage(repository: &Path, commands: &Path, out: &Path) -> Result<()> {
    let source = out.join("src");
    for folder in [&source, &out.join("html")] {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
    }
    let book = repository.join("book");
    // Not the programs that draw figures, and not the texts that tests write for pages to show.
    let is_generated = |file: &Path| extension(file) != "svg" && file.iter().any(|folder| folder == "generated");
    let is_source = |file: &PathBuf| {
        !file.starts_with("tool") && ["md", "svg", "png", "css", "js"].contains(&extension(file)) && !is_generated(file)
    };
    for file in files(&book)?.iter().filter(|file| is_source(file)) {
        write(&source.join(file), fs::read(book.join(file))?)?;
    }
    let mut titles = Vec::new();
    for file in files(commands)? {
        let text = read(&commands.join(&file))?;
        let title = text.lines().next().and_then(|line| line.strip_prefix("# "));
        titles.push((title.context("a page of a command without a title")?.to_string(), file.clone()));
        write(&source.join("commands").join(&file), text)?;
    }
    let summary = source.join("SUMMARY.md");
    write(&summary, with_commands(&read(&summary)?, titles)?)
}

/// Fails if the summary leaves out a staged page.
pub fn check_listed(source: &Path, book: &Book) -> Result<()> {
    let listed: Vec<_> = book.chapters().filter_map(|chapter| chapter.source_path.clone()).collect();
    let is_page = |file: &PathBuf| extension(file) == "md" && file != Path::new("SUMMARY.md");
    for file in files(source)?.into_iter().filter(is_page) {
        ensure!(listed.contains(&file), "book/SUMMARY.md does not list {}", file.display());
    }
    Ok(())
}

/// Writes the files of the repository to which pages link, and all that their folders contain.
pub fn write_linked(repository: &Path, mut linked: BTreeSet<PathBuf>, html: &Path) -> Result<()> {
    let mut written = BTreeSet::new();
    while let Some(path) = linked.pop_first() {
        if written.insert(path.clone()) {
            write_file(repository, &path, html, &mut linked)?;
        }
    }
    Ok(())
}

/// Nests the pages of the commands, titled by their words, under the page of `warpkov` in the summary.
fn with_commands(summary: &str, mut titles: Vec<(String, PathBuf)>) -> Result<String> {
    const ROOT: &str = "(commands/warpkov.md)\n";
    titles.sort_by_cached_key(|(title, _)| title.split(' ').map(String::from).collect::<Vec<_>>());
    let (before, after) = summary.split_once(ROOT).context("book/SUMMARY.md does not list commands/warpkov.md")?;
    // Below the indentation of the line of `warpkov`.
    let line = before.rsplit('\n').next().unwrap_or_default();
    let indent = line.len() - line.trim_start().len();
    let mut lines = String::new();
    for (title, file) in titles.iter().filter(|(title, _)| title != "warpkov") {
        let depth = title.matches(' ').count();
        lines += &format!("{:width$}- [{title}](commands/{})\n", "", file.display(), width = indent + 2 * depth);
    }
    Ok([before, ROOT, &lines, after].concat())
}

/// Where the HTML has a file or folder of the repository: a text as a page, other files as they are.
pub fn file_url(repository: &Path, path: &Path) -> Result<String> {
    let place = repository.join(path);
    let url = format!("{FILES}/{}", path.display());
    Ok(match place.is_dir() {
        true => url + "/index.html",
        // mdBook puts .html in the place of .md.
        false if is_text(&place)? => url.strip_suffix(".md").unwrap_or(&url).to_string() + ".html",
        false => url,
    })
}

fn is_text(file: &Path) -> Result<bool> {
    Ok(String::from_utf8(fs::read(file).with_context(|| file.display().to_string())?).is_ok())
}

/// Writes a file or folder of the repository into the HTML. A folder's page links to its entries.
fn write_file(repository: &Path, path: &Path, html: &Path, linked: &mut BTreeSet<PathBuf>) -> Result<()> {
    let place = repository.join(path);
    let to = html.join(file_url(repository, path)?);
    let body = if place.is_dir() {
        let mut items = String::new();
        for entry in entries(&place)? {
            let entry = path.join(entry.file_name().context("an entry has a name")?);
            let url = page::relative(&file_url(repository, &entry)?, &Path::new(FILES).join(path));
            items += &format!("<li><a href=\"{url}\">{}</a></li>\n", entry.display());
            linked.insert(entry);
        }
        format!("<ul>\n{items}</ul>")
    } else if is_text(&place)? {
        format!("<pre style=\"overflow-x: auto\">{}</pre>", escaped(&read(&place)?))
    } else {
        return write(&to, fs::read(&place)?);
    };
    let name = path.display();
    let page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"data:,\"><title>{name}</title></head>\n\
         <body style=\"overflow-wrap: anywhere\"><h1 style=\"font-size: 1.2em\">{name}</h1>\n{body}\n</body></html>\n"
    );
    write(&to, page)
}

/// The files below a folder, relative to it, in order.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(current) = folders.pop() {
        for entry in entries(&current)? {
            match entry.is_dir() {
                true => folders.push(entry),
                false => found.push(entry.strip_prefix(folder)?.to_path_buf()),
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The entries of a folder in order, without hidden ones and those that builds leave.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut entries = read.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    entries.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with('.') && !["target", "__pycache__"].contains(&&*name)
    });
    entries.sort();
    Ok(entries)
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let folder = path.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder).and_then(|()| fs::write(path, content)).with_context(|| path.display().to_string())
}
