//! Builds the HTML of the book: `warpkov-book REPOSITORY COMMANDS OUT`.
//!
//! COMMANDS is the folder that `warpkov man --format markdown` writes. The pages are staged in `OUT/src`, and mdBook renders
//! them into `OUT/html`.

mod page;
mod stage;

use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail, ensure};
use mdbook_driver::MDBook;
use mdbook_driver::config::Config;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{self, Layer, SubscriberExt};

fn main() -> Result<()> {
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
    let mut config = Config::from_disk(repository.join("book/book.toml"))?;
    config.book.src = "src".into();
    config.build.build_dir = "html".into();
    stage::stage(repository, commands, out)?;
    let problems = Problems::default();
    let pages = tracing::subscriber::with_default(tracing_subscriber::registry().with(problems.clone()), || {
        let book = MDBook::load_with_config(out, config).context("book/SUMMARY.md")?;
        let chapters: Vec<_> = book.iter().filter_map(|item| page::chapter_path(item)).collect();
        for page in stage::pages(&out.join("src"))? {
            ensure!(chapters.contains(&page), "book/SUMMARY.md does not list {}", page.display());
        }
        book.build()?;
        Ok(chapters.len())
    })?;
    let problems = problems.0.lock().expect("no thread panicked");
    ensure!(problems.is_empty(), "mdBook reports\n{}", problems.join("\n"));
    Ok(pages)
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
