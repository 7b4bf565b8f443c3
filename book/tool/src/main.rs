//! Builds the HTML of the book: `warpkov-book REPOSITORY COMMANDS OUT`.
//!
//! COMMANDS is the folder that `warpkov man --format markdown` writes. The pages are staged in `OUT/src`, and mdBook renders
//! them into `OUT/html`. What mdBook logs as a warning is an error here.

mod page;
mod stage;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail, ensure};
use mdbook_driver::MDBook;
use mdbook_driver::config::Config;
use mdbook_html::HtmlHandlebars;
use mdbook_renderer::{RenderContext, Renderer};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{self, Layer, SubscriberExt};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [repository, commands, out] = &arguments[..] else {
        bail!("usage: warpkov-book REPOSITORY COMMANDS OUT");
    };
    let pages = build(Path::new(repository), Path::new(commands), Path::new(out))?;
    println!("{out}/html: {pages} pages");
    Ok(())
}

/// Builds the book and returns the number of its pages.
fn build(repository: &Path, commands: &Path, out: &Path) -> Result<usize> {
    let problems = Problems::default();
    let logger = tracing_subscriber::registry().with(problems.clone());
    let pages = tracing::subscriber::with_default(logger, || render(repository, commands, out))?;
    let problems = problems.0.lock().expect("no thread panicked");
    ensure!(problems.is_empty(), "mdBook reports\n{}", problems.join("\n"));
    Ok(pages)
}

fn render(repository: &Path, commands: &Path, out: &Path) -> Result<usize> {
    stage::stage(repository, commands, out)?;
    let mut config = Config::from_disk(repository.join("book/book.toml"))?;
    config.book.src = "src".into();
    config.build.create_missing = false;
    let book = MDBook::load_with_config(out, config).context("book/SUMMARY.md")?;
    let renderer = HtmlHandlebars::new();
    let (mut book, context) = book.preprocess_book(&renderer)?;
    let (mut faults, mut linked) = (Vec::new(), BTreeSet::new());
    book.for_each_chapter_mut(|chapter| {
        let Some(path) = &chapter.source_path else { return };
        match page::converted(&chapter.content, path, repository, &mut linked) {
            Ok(content) => chapter.content = content,
            Err(fault) => faults.push(format!("{fault:#}")),
        }
    });
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    stage::check_listed(&out.join("src"), &book)?;
    let html = out.join("html");
    renderer.render(&RenderContext::new(out, book.clone(), context.config, &html))?;
    stage::write_linked(repository, linked, &html)?;
    Ok(book.chapters().count())
}

/// The warnings and errors that mdBook logs.
#[derive(Clone, Default)]
struct Problems(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Problems {
    fn on_event(&self, event: &Event<'_>, _: layer::Context<'_, S>) {
        if *event.metadata().level() <= Level::WARN {
            let mut text = Text::default();
            event.record(&mut text);
            self.0.lock().expect("no thread panicked").push(text.0);
        }
    }
}

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{value:?} ");
    }
}

#[cfg(test)]
mod tests;
