//! Comma-separated values, read line by line, on all cores if there are many.
//!
//! The first line names the columns, in any order, by their names or [others](OTHER_NAMES). The columns of the whole table may be
//! separated by semicolons or tabs instead. A field in quotation marks may hold commas, and a doubled quotation mark for one
//! (RFC 4180). White space around fields outside of quotation marks does not count. A field ends in its line.

use std::borrow::Cow;
use std::io::{self, Read, Write};

use super::Error;
use warpkov_common::io::lines::{Line, Lines, Put, quoted};
use warpkov_common::parallel;

/// Bytes of the rows that one core reads at a time.
pub const PIECE: usize = 1 << 20;

/// Names of columns that other programs use, and ours.
const OTHER_NAMES: [(&str, &str); 9] = [
    ("s", "state"),
    ("a", "action"),
    ("next_state", "next"),
    ("s_next", "next"),
    ("s'", "next"),
    ("prob", "probability"),
    ("p", "probability"),
    ("r", "reward"),
    ("v", "value"),
];

/// What separates columns; the first one that a header has outside of quotation marks.
const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];

/// The name of a column among those `asked` for, if it is another name of one.
fn known(name: &str, asked: impl Fn(&str) -> bool) -> &str {
    let other = OTHER_NAMES.iter().find(|(other, ours)| name.eq_ignore_ascii_case(other) && asked(ours));
    other.filter(|_| !asked(name)).map_or(name, |&(_, ours)| ours)
}

/// What separates the columns of a header.
fn separator(header: &str) -> u8 {
    let mut quoted = false;
    let outside = header.bytes().filter(|byte| {
        quoted ^= *byte == b'"';
        !quoted
    });
    let found: Vec<u8> = outside.filter(|byte| SEPARATORS.contains(byte)).collect();
    SEPARATORS.into_iter().find(|separator| found.contains(separator)).unwrap_or(b',')
}

/// A table whose header is read.
pub struct Table<R> {
    lines: Lines<R>,
    separator: u8,
    /// For each field of a row, the number of its column among those asked for.
    columns: Vec<Option<usize>>,
}

impl<R: Read> Table<R> {
    /// Reads the header. The columns asked for are the `required` ones, then the `optional` ones. Other columns are errors, unless
    /// they are `ignored`.
    pub fn open(reader: R, file: String, required: &[&str], optional: &[&str], ignored: bool) -> Result<Self, Error> {
        let mut lines = Lines::new(reader, file);
        let Some(line) = lines.next_whole()? else {
            return Err(lines.ended(format_args!("a header with the columns {}", required.join(", "))));
        };
        let separator = separator(line.utf8(line.rest())?);
        let mut names = Vec::new();
        let asked = || required.iter().chain(optional);
        fields(&line, separator, |name| {
            names.push(known(&name, |name| asked().any(|asked| *asked == name)).to_owned())
        })?;
        let expected = match optional {
            [] => required.join(", "),
            _ => format!("{}; optional: {}", required.join(", "), optional.join(", ")),
        };
        let found = || quoted(names.join(", ").as_bytes());
        if matches!(&names[..], [only] if only.contains('|')) {
            return Err(line.error("found columns separated by vertical bars, expected commas".to_owned()));
        }
        for name in asked() {
            if names.iter().filter(|found| found == name).count() > 1 {
                return Err(line.error(format!("found the column {name} twice")));
            }
        }
        if let Some(name) = required.iter().find(|&&name| names.iter().all(|found| found != name)) {
            return Err(line.error(format!("found the columns {}, but no {name}; expected {expected}", found())));
        }
        let columns: Vec<_> = names.iter().map(|name| asked().position(|known| known == name)).collect();
        match columns.iter().position(Option::is_none) {
            Some(unknown) if !ignored => {
                let name = quoted(names[unknown].as_bytes());
                Err(line.error(format!("found the unknown column \"{name}\", expected {expected}")))
            }
            _ => Ok(Self { lines, separator, columns }),
        }
    }

    /// Reads the rows on all cores: `read` reads the rows of about `piece` bytes, and `join` takes what it returns, in their order. The
    /// first error of the table is the error.
    pub fn in_pieces<P: Send>(
        mut self,
        piece: usize,
        read: impl Fn(Table<&[u8]>) -> Result<P, Error> + Sync,
        mut join: impl FnMut(P) -> Result<(), Error>,
    ) -> Result<(), Error> {
        loop {
            let blocks = (0..rayon::current_num_threads()).map_while(|_| self.lines.block(piece).transpose());
            let blocks: Vec<Result<_, Error>> = blocks.collect();
            if blocks.is_empty() {
                return Ok(());
            }
            let (file, separator) = (self.lines.file(), self.separator);
            let found = parallel::map(blocks, |block| {
                let (before, text) = block?;
                let lines = Lines::behind(before, &text[..], file.to_owned());
                read(Table { lines, separator, columns: self.columns.clone() })
            });
            found.into_iter().try_for_each(|found| join(found?))?;
        }
    }

    /// Calls `row` with the number of each line and its fields, in the order of the columns asked for. A column that the table lacks
    /// has empty fields. An error of `row` becomes that of the line.
    pub fn each<const N: usize>(
        mut self,
        mut row: impl FnMut(u64, [&str; N]) -> Result<(), String>,
    ) -> Result<(), Error> {
        while let Some(line) = self.lines.next_whole()? {
            let (mut found, mut count) = ([const { Cow::Borrowed("") }; N], 0);
            fields(&line, self.separator, |field| {
                if let Some(slot) = self.columns.get(count).copied().flatten().and_then(|column| found.get_mut(column))
                {
                    *slot = field;
                }
                count += 1;
            })?;
            if count != self.columns.len() {
                let expected = self.columns.len();
                return Err(line.error(format!("found {count} fields, expected {expected}, as in the header")));
            }
            row(line.number(), found.each_ref().map(|field| &**field)).map_err(|message| line.error(message))?;
        }
        Ok(())
    }
}

/// Calls `each` with the fields of a line in order.
fn fields<'l>(line: &Line<'l>, separator: u8, mut each: impl FnMut(Cow<'l, str>)) -> Result<(), Error> {
    let mut rest = line.utf8(line.rest())?;
    // A tab separates, even beside an empty field.
    let blank = |c: char| c.is_whitespace() && c != char::from(separator);
    let trim = |text: &'l str| match text.as_bytes() {
        [b'!'..=b'~', .., b'!'..=b'~'] | [b'!'..=b'~'] => text,
        _ => text.trim_matches(blank),
    };
    loop {
        let start = match rest.as_bytes() {
            [b'!'..=b'~', ..] => rest,
            _ => rest.trim_start_matches(blank),
        };
        let (field, behind) = match start.strip_prefix('"') {
            Some(inside) => {
                let (field, behind) = unquoted(inside)
                    .ok_or_else(|| line.error("a field in quotation marks does not end in its line".to_owned()))?;
                let behind = trim(behind);
                if !behind.is_empty() && !behind.starts_with(char::from(separator)) {
                    return Err(line.unexpected(behind.as_bytes(), "a comma behind the quotation mark"));
                }
                (field, behind.strip_prefix(char::from(separator)))
            }
            None => match memchr::memchr(separator, rest.as_bytes()) {
                Some(end) => (Cow::Borrowed(trim(&rest[..end])), Some(&rest[end + 1..])),
                None => (Cow::Borrowed(trim(rest)), None),
            },
        };
        each(field);
        match behind {
            Some(behind) => rest = behind,
            None => return Ok(()),
        }
    }
}

/// The field behind an opening quotation mark, and what follows the closing one.
fn unquoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let (mut field, mut rest) = (Cow::Borrowed(""), text);
    loop {
        let (part, behind) = rest.split_once('"')?;
        field += part;
        match behind.strip_prefix('"') {
            Some(behind) => {
                field += "\"";
                rest = behind;
            }
            None => return Some((field, behind)),
        }
    }
}

/// Writes a field, in quotation marks if it needs them.
pub fn write_field(out: &mut (impl Write + ?Sized), field: &str) -> io::Result<()> {
    if field.trim() == field && !field.contains(['"', ',', '\n', '\r']) {
        return out.text(field);
    }
    out.text("\"")?;
    out.text(&field.replace('"', "\"\""))?;
    out.text("\"")
}

/// Whether a text begins with a header that has these columns.
pub fn has_columns(start: &[u8], columns: &[&str]) -> bool {
    let line = start.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let quotes = |byte: &u8| matches!(byte, b'"' | b' ' | b'\t' | b'\r');
    let names: Vec<String> = line
        .split(|byte| matches!(byte, b',' | b';' | b'\t' | b'|'))
        .map(|name| name.iter().copied().filter(|byte| !quotes(byte)).collect())
        .map(|name: Vec<u8>| known(&String::from_utf8_lossy(&name), |name| columns.contains(&name)).to_owned())
        .collect();
    columns.iter().all(|column| names.iter().any(|name| name == column))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Result<Vec<(u64, [String; 3])>, String> {
        let mut found = Vec::new();
        Table::open(text.as_bytes(), "t".to_owned(), &["a", "b"], &["c"], false)
            .and_then(|table| {
                table.each(|line, fields: [&str; 3]| {
                    found.push((line, fields.map(str::to_owned)));
                    Ok(())
                })
            })
            .map(|()| found)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn fields_are_those_of_rfc_4180() {
        let row = |line, fields: [&str; 3]| (line, fields.map(str::to_owned));
        assert_eq!(rows("b,a\n1,2\n").unwrap(), [row(2, ["2", "1", ""])]);
        assert_eq!(
            rows("\r\n a , \"b\",c\r\n\r\n x y,\" z, \"\"q\"\"\" , \r\n").unwrap(),
            [row(4, ["x y", " z, \"q\"", ""])]
        );
        assert_eq!(rows("b;a;\"c\"\n1,5; \"2;3\" ;4\n").unwrap(), [row(2, ["2;3", "1,5", "4"])]);
        assert_eq!(rows("b\ta\tc\n\t 2 x\t\n1\t\t3").unwrap(), [row(2, ["2 x", "", ""]), row(3, ["", "1", "3"])]);
        assert_eq!(rows("a,b\n\"\",,").unwrap_err(), "t:2: found 3 fields, expected 2, as in the header");
        assert_eq!(rows("a,b\n1").unwrap_err(), "t:2: found 1 fields, expected 2, as in the header");
        for (text, message) in [
            ("", "t: the file ends, expected a header with the columns a, b"),
            ("a\n", "t:1: found the columns a, but no b; expected a, b; optional: c"),
            ("a,b,d", "t:1: found the unknown column \"d\", expected a, b; optional: c"),
            ("a,b,a", "t:1: found the column a twice"),
            ("a|b|c", "t:1: found columns separated by vertical bars, expected commas"),
            ("a;b\n1,2", "t:2: found 1 fields, expected 2, as in the header"),
            ("a,b\n\"x,1", "t:2: a field in quotation marks does not end in its line"),
            ("a,b\n\"x\"y,1", "t:2: found \"y,1\", expected a comma behind the quotation mark"),
        ] {
            assert_eq!(rows(text).unwrap_err(), message, "{text:?}");
        }
    }

    #[test]
    fn written_fields_are_read_back() {
        for name in ["", "x", "a,b", " a ", "\"", "\"\",\"", "é;\t|", "'x'"] {
            let mut text = b"a,b\n".to_vec();
            write_field(&mut text, name).unwrap();
            text.extend(b",1\n");
            assert_eq!(rows(&String::from_utf8(text).unwrap()).unwrap()[0].1[0], name);
        }
    }
}
