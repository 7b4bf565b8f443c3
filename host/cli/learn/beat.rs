//! `warpkov learn beat`: an exercise beside the course's solution.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

/// A count of a part, the fewer the better: the student's and the solution's.
#[derive(Debug, PartialEq, Serialize)]
pub struct CountPair {
    pub part: u64,
    pub what: String,
    pub own: f64,
    pub solution: f64,
}

/// The counts in two reports of checks, part by part. Of both, what one of them lacks is 0.
pub fn rows(own: &Value, solution: &Value) -> Vec<CountPair> {
    let mut both: BTreeMap<_, [f64; 2]> = BTreeMap::new();
    for (place, report) in [own, solution].into_iter().enumerate() {
        for (name, count) in counts(report) {
            both.entry(name).or_default()[place] = count;
        }
    }
    both.into_iter().map(|((part, what), [own, solution])| CountPair { part, what, own, solution }).collect()
}

/// The counts of each part, summed over its kernels, and the time of its launch if that was measured.
fn counts(report: &Value) -> BTreeMap<(u64, String), f64> {
    let mut all = BTreeMap::new();
    for part in report["parts"].as_array().into_iter().flatten() {
        let number = part["part"].as_u64().unwrap_or_default();
        let mut add = |what: String, value: &Value| {
            if let Some(value) = value.as_f64() {
                *all.entry((number, what)).or_default() += value;
            }
        };
        for kernel in part["counts"].as_object().into_iter().flat_map(|kernels| kernels.values()) {
            add("launches".to_owned(), &kernel["launches"]);
            add("divergent branches".to_owned(), &kernel["divergent_branches"]);
            for (operation, counts) in kernel["operations"].as_object().into_iter().flatten() {
                add(format!("{operation}s"), &counts["requests"]);
                for (key, name) in [("sectors", "sectors"), ("bank_conflicts", "bank conflicts")] {
                    if counts[key] != 0 {
                        add(format!("{operation}s: {name}"), &counts[key]);
                    }
                }
            }
        }
        if let Some(seconds) = part["seconds"].as_f64() {
            add("µs on the GPU".to_owned(), &Value::from(1e6 * seconds));
        }
    }
    all
}

/// Writes the rows as a table, and how many of them are below the solution's.
pub fn table(rows: &[CountPair], mut out: impl Write) -> io::Result<()> {
    writeln!(out, "{:4}  {:36}  {:>14}  {:>14}", "part", "count", "yours", "solution")?;
    for CountPair { part, what, own, solution } in rows {
        let mark = if own < solution { "  fewer" } else { "" };
        writeln!(out, "{part:4}  {what:36}  {:>14}  {:>14}{mark}", number(*own), number(*solution))?;
    }
    let below = rows.iter().filter(|row| row.own < row.solution).count();
    writeln!(out, "{below} of {} counts are below the solution's", rows.len())
}

/// A count with commas between thousands, or a time with two decimals.
fn number(x: f64) -> String {
    if x.fract() != 0.0 {
        return format!("{x:.2}");
    }
    let digits = format!("{x}");
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(loads: u64, sectors: u64, seconds: Option<f64>) -> Value {
        let operations = json!({ "load": { "requests": loads, "sectors": sectors, "bank_conflicts": 0 } });
        let kernel = json!({ "launches": 1, "divergent_branches": 0, "operations": operations });
        json!({ "parts": [{ "part": 1, "counts": { "a": kernel, "b": kernel }, "seconds": seconds }] })
    }

    #[test]
    fn counts_stand_side_by_side() {
        let rows = rows(&report(384, 1536, None), &report(512, 1024, Some(2.5e-6)));
        let mut text = Vec::new();
        table(&rows, &mut text).unwrap();
        let expected = "\
part  count                                          yours        solution
   1  divergent branches                                 0               0
   1  launches                                           2               2
   1  loads                                            768           1,024  fewer
   1  loads: sectors                                 3,072           2,048
   1  µs on the GPU                                      0            2.50  fewer
2 of 5 counts are below the solution's
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
