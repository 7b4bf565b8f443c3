//! `warpkov learn read`: a page of the course for a terminal.

use textwrap::Options;

/// The text of a page in lines of at most `width` columns, without comments. Code and tables stay as they are. What the page folds
/// is left out unless `all`.
pub fn rendered(page: &str, width: usize, all: bool) -> String {
    let mut out = String::new();
    let mut lines = page.lines();
    let mut paragraph: Vec<&str> = Vec::new();
    let flush = |out: &mut String, paragraph: &mut Vec<&str>| {
        let text = plain(&paragraph.join(" "));
        let indent = " ".repeat(marker(&text));
        if !text.is_empty() {
            *out += &textwrap::fill(&text, Options::new(width).subsequent_indent(&indent).break_words(false));
            out.push('\n');
        }
        paragraph.clear();
    };
    while let Some(line) = lines.next() {
        let text = line.trim_start();
        let begins = marker(text) > 0 || ["```", "|", "#", "<", "!["].iter().any(|start| text.starts_with(start));
        if text.is_empty() || begins {
            flush(&mut out, &mut paragraph);
        }
        if let Some(title) = text.strip_prefix("<details><summary>").and_then(|text| text.strip_suffix("</summary>")) {
            if !all {
                out += &format!("[{title}: --all]\n");
                lines.by_ref().find(|line| line.trim() == "</details>");
            }
        } else if text.starts_with("```") {
            let fence: String = text.chars().take_while(|&c| c == '`').collect();
            for code in lines.by_ref().take_while(|line| line.trim_start() != fence) {
                out += format!("    {code}").trim_end();
                out.push('\n');
            }
        } else if let Some(picture) = text.strip_prefix("![") {
            out += &format!("[picture: {}\n", picture.replacen("](", ": book/course/", 1).replace(')', "]"));
        } else if text.starts_with('|') {
            out += text;
            out.push('\n');
        } else if text.is_empty() {
            // One empty line between paragraphs, also where something was left out.
            if !out.is_empty() && !out.ends_with("\n\n") {
                out.push('\n');
            }
        } else if !text.starts_with('<') {
            paragraph.push(text);
            if text.starts_with('#') {
                flush(&mut out, &mut paragraph);
            }
        }
    }
    flush(&mut out, &mut paragraph);
    out
}

/// Columns of the marker of a list's item: that of "1. " is 3 wide.
fn marker(text: &str) -> usize {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    match &text.as_bytes()[digits..] {
        [b'.', b' ', ..] if digits > 0 => digits + 2,
        [b'-', b' ', ..] if digits == 0 => 2,
        _ => 0,
    }
}

/// Text without the targets of its links.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        out += before;
        let link = after.split_once("](").and_then(|(name, after)| Some((name, after.split_once(')')?.1)));
        match link.filter(|(name, _)| !name.contains('[')) {
            Some((name, after)) => (out, rest) = (out + name, after),
            None => (out, rest) = (out + "[", after),
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# 0. Addition

A [kernel](../kernels.md) adds two vectors
of `n` elements, `x[i]` and `y[i]`.

![Two blocks](figures/00.svg)

- One point
  on two lines.
- Another.

<!-- listing a.rs -->
```rust
fn f() {

    g();
}
```

<details><summary>Show the hints</summary>

<!-- text hints.md -->

1. Look.

<!-- end -->

</details>

| a | b |
| --- | --- |
";

    #[test]
    fn pages_are_read_in_a_terminal() {
        let expected = "\
# 0. Addition

A kernel adds
two vectors of
`n` elements,
`x[i]` and
`y[i]`.

[picture: Two blocks: book/course/figures/00.svg]

- One point on
  two lines.
- Another.

    fn f() {

        g();
    }

[Show the hints: --all]

| a | b |
| --- | --- |
";
        assert_eq!(rendered(PAGE, 15, false), expected);
        let all = rendered(PAGE, 15, true);
        assert_eq!(all, expected.replace("[Show the hints: --all]", "1. Look."));
    }
}
