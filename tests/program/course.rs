//! The pages of the course.

use std::fs;
use std::path::Path;

/// A chapter has fewer words than this before its exercise, two minutes of reading.
const WORDS: usize = 400;

/// A short step has at most this many words in all.
const STEP_WORDS: usize = 150;

/// The lines of a page without code, and without the texts of other files.
fn own(page: &str) -> Vec<&str> {
    let parts = page.split("<!-- text ").map(|part| part.split_once("<!-- end -->").map_or(part, |(_, own)| own));
    let mut in_code = false;
    let is_own = |line: &&str| {
        in_code ^= line.starts_with("```");
        !in_code && !line.starts_with("```") && !line.starts_with("<!-- ")
    };
    parts.flat_map(str::lines).filter(is_own).collect()
}

/// Words of a page's own lines. Tables, expressions and captions count.
fn words(page: &str) -> usize {
    own(page).into_iter().flat_map(str::split_whitespace).count()
}

#[test]
fn chapters_and_steps_are_short() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("book/course");
    let (mut chapters, mut steps) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        // The other entries are pages for instructors and folders of figures.
        if !name.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let page = fs::read_to_string(&path).unwrap();
        let (before, _) = page.split_once("\n## Exercise\n").expect("an exercise");
        // Names of steps have two numbers: 00-1-add-ten.md.
        if name[3..].starts_with(|c: char| c.is_ascii_digit()) {
            assert!(words(&page) <= STEP_WORDS, "{name} has {} words", words(&page));
            assert_eq!(page.matches("](figures/").count(), 1, "{name}: one picture");
            steps += 1;
        } else {
            let words = words(before);
            assert!(words < WORDS, "{name} has {words} words before its exercise: move some to its Background");
            chapters += 1;
        }
        let long = own(&page).into_iter().find(|line| !line.starts_with('|') && line.chars().count() > 150);
        assert_eq!(long, None, "{name}: a line of more than 150 characters");
    }
    assert_eq!((chapters, steps), (16, 26));
}
