//! The panels count what the pages of the course say.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// Requests, lanes, sectors and bank conflicts.
type Counts = [u64; 4];

/// Those of each kernel and operation, from the lines that a page shows, such as
/// "  solutions/…/kernels.rs:9  128 × shared load, 4096 lanes, 512 sectors, 0 bank conflicts".
fn stated(text: &str) -> BTreeMap<(String, String), Counts> {
    let mut kernel = String::new();
    let mut all = BTreeMap::<_, Counts>::new();
    for line in text.lines() {
        let Some((_, counts)) = line.split_once(" × ") else {
            kernel = line.split(':').next().expect("a name").to_owned();
            continue;
        };
        let requests = line.split(" × ").next().and_then(|text| text.split(' ').next_back()).expect("a number");
        let mut fields = counts.split(", ");
        let operation = fields.next().expect("an operation").to_owned();
        let numbers = fields.map(|field| field.split(' ').next().expect("a number"));
        let sums = all.entry((kernel.clone(), operation)).or_default();
        for (sum, number) in sums.iter_mut().zip([requests].into_iter().chain(numbers)) {
            *sum += number.parse::<u64>().expect("a number");
        }
    }
    all
}

/// The same from an answer.
fn counted(answer: &Value) -> BTreeMap<(String, String), Counts> {
    let mut all = BTreeMap::new();
    for kernel in answer["kernels"].as_array().expect("kernels") {
        for total in kernel["totals"].as_array().expect("totals") {
            let operation = total["name"].as_str().expect("a name").to_owned();
            let counts = ["requests", "lanes", "sectors", "conflicts"].map(|key| total[key].as_u64().expect("a count"));
            let name = kernel["name"].as_str().expect("a name").to_owned();
            all.insert((name, operation), counts);
        }
    }
    all
}

fn ask(request: &Value) -> Value {
    serde_json::from_str(&learn_browser::answer(&request.to_string())).expect("JSON")
}

#[test]
fn panels_count_what_pages_say() {
    let mut compared = 0;
    for chapter in learn_browser::CHAPTERS {
        let parts = ask(&json!({ "chapter": chapter }));
        let parts = parts["parts"].as_array().expect("parts");
        assert!(!parts.is_empty(), "{chapter}");
        for (part, settings) in parts.iter().enumerate() {
            let file = format!("../../book/course/generated/{chapter}/counts-{}.txt", part + 1);
            let Ok(text) = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)) else { continue };
            if !settings["name"].as_str().is_some_and(|name| name.starts_with("solution")) {
                continue;
            }
            let answer = ask(&json!({ "chapter": chapter, "part": part, "size": settings["counted"] }));
            assert_eq!(answer["fault"], Value::Null, "{chapter}, part {}", part + 1);
            assert_eq!(counted(&answer), stated(&text), "{chapter}, part {}", part + 1);
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared} parts");
}

#[test]
fn a_lane_accesses_what_its_stride_says() {
    let answer = ask(&json!({ "chapter": "02_copy", "part": 6, "size": 64, "stride": 2, "offset": 1 }));
    assert_eq!(answer["fault"], Value::Null);
    let load = &answer["kernels"][0]["requests"][0];
    assert_eq!(
        (load["operation"].as_str(), load["sectors"].as_u64(), load["width"].as_u64()),
        (Some("Load"), Some(8), Some(4))
    );
    let expected: Vec<Value> = (0..32).map(|lane| json!([lane, 8 * lane + 4])).collect();
    assert_eq!(load["at"], Value::from(expected));
}

#[test]
fn faults_and_unknown_parts_are_answers() {
    let race = ask(&json!({ "chapter": "05_faults", "part": 5, "size": 256 }));
    assert!(race["fault"].as_str().is_some_and(|fault| fault.contains("race on sums[1]")), "{race}");
    let beyond =
        ask(&json!({ "chapter": "06_dot_product", "part": 0, "size": 256, "kernel": "dot_tree", "threads": 512 }));
    assert!(beyond["fault"].as_str().is_some_and(|fault| fault.contains("out of bounds")), "{beyond}");
    assert!(ask(&json!({ "chapter": "02_copy", "part": 99 }))["fault"].is_string());
}
