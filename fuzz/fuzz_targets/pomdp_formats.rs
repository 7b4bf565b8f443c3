//! Reads hostile models and policies: none may panic, and what is read as a model can be written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpkov::pomdp::io as formats;
use warpkov::pomdp::io::{Format, Kind};

/// The first byte chooses one.
const FORMATS: [Format; 5] = [Format::Pomdp, Format::Pomdpx, Format::Json, Format::Alpha, Format::PolicyXml];

fuzz_target!(|data: &[u8]| {
    let Some((first, text)) = data.split_first() else { return };
    let format = FORMATS[*first as usize % FORMATS.len()];
    if format.kind() == Kind::Vectors {
        let _ = formats::read_vectors_from(text, "input", Some(format), None);
        return;
    }
    if let Ok(model) = formats::read_from(text, "input", Some(format)) {
        let mut written = Vec::new();
        formats::write_to(&mut written, Format::Pomdp, &model).expect("memory is written to");
        formats::read_from(&written[..], "written", Some(Format::Pomdp)).expect("what is written is read");
    }
});
