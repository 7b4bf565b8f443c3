//! The pages of the course.

use std::fs;
use std::path::Path;

/// A chapter has fewer words than this before its exercise, two minutes of reading.
const WORDS: usize = 400;

/// Words before the exercise, without code. Tables, expressions and captions count.
fn words_before_exercise(page: &str) -> usize {
    let (before, _) = page.split_once("\n## Exercise\n").expect("an exercise");
    let blocks = before.split("```").step_by(2);
    blocks.flat_map(str::split_whitespace).count()
}

#[test]
fn the_exercise_comes_in_two_minutes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("book/course");
    let mut chapters = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        // The other entries are pages for instructors and folders of figures.
        if !name.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let page = fs::read_to_string(&path).unwrap();
        let words = words_before_exercise(&page);
        assert!(words < WORDS, "{name} has {words} words before its exercise: move some to its Background");
        let long = page.lines().find(|line| !line.starts_with('|') && line.chars().count() > 150);
        assert_eq!(long, None, "{name}: a line of more than 150 characters");
        chapters += 1;
    }
    assert_eq!(chapters, 16);
}
