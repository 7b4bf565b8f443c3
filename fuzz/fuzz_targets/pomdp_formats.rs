//! Reads arbitrary bytes as POMDP models and policies. No reader may panic, and every accepted model survives a round
//! trip through the POMDP format.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpkov::pomdp::io as formats;
use warpkov::pomdp::io::{Format, Kind};

/// The formats. The first byte of the input chooses one.
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
        formats::write_to(&mut written, Format::Pomdp, &model).expect("writes to memory succeed");
        formats::read_from(&written[..], "written", Some(Format::Pomdp)).expect("the written model can be read");
    }
});
