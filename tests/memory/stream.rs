//! A small compressed file may unpack to any number of bytes. JSON of all classes is parsed as a stream, and other text has a limit.

use std::io::{Read, repeat};
use std::sync::atomic::Ordering::Relaxed;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use warpkov::{hmm, mdp, pomdp};

use crate::counting::{NOW, PEAK, alone};

#[test]
fn json_is_not_held_in_memory() {
    let _alone = alone();
    let mdp = (r#"{"gamma":0.5,"#, r#""P[a][s][s']":[[[1]]],"R[s]":[1]}"#);
    let sparse = r#"{"indptr":[0,1],"indices":[0],"data":[1]}"#;
    let of_pomdp = format!("\"P\":{sparse},\"Z\":{sparse}}}");
    let pomdp = (r#"{"S":1,"A":1,"O":1,"gamma":0.5,"#, &of_pomdp[..]);
    let hmm = (r#"{"pi":[1],"#, r#""A":[[1]],"B":[[1]]}"#);
    type Reads = fn(&mut dyn Read) -> Result<u32, String>;
    let classes: [(_, Reads); 3] = [
        (mdp, |text| {
            let read = mdp::io::read_from(text, "m", &mdp::io::ReadOptions::default());
            read.map(|model| model.states()).map_err(|error| error.to_string())
        }),
        (pomdp, |text| {
            let read = pomdp::io::read_from(text, "m", None);
            read.map(|model| model.states()).map_err(|error| error.to_string())
        }),
        (hmm, |text| {
            let read = hmm::io::read_from(text, "m", None);
            read.map(|model| model.states()).map_err(|error| error.to_string())
        }),
    ];
    for ((head, tail), read) in classes {
        let mut text = head.as_bytes().chain(repeat(b' ').take(32 << 20)).chain(tail.as_bytes());
        let before = NOW.load(Relaxed);
        PEAK.store(before, Relaxed);
        assert_eq!(read(&mut text), Ok(1), "{head}");
        let peak = PEAK.load(Relaxed) - before;
        assert!(peak < 8 << 20, "{head}: {peak}");
    }
}

/// A Zstandard frame of blocks that repeat one byte: 4 bytes each, for 128 KiB.
fn repeated(byte: u8, blocks: u32) -> Vec<u8> {
    const LENGTH: u32 = 1 << 17;
    // The magic number, a header without options, and a window of 128 KiB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    for block in 1..=blocks {
        let header = LENGTH << 3 | 1 << 1 | u32::from(block == blocks);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.push(byte);
    }
    frame
}

#[test]
fn compressed_text_has_a_limit() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    // A gibibyte, of 32 KiB.
    let bytes = repeated(b' ', 1 << 13);
    for name in ["m.pomdp.zst", "m.pomdpx.zst"] {
        let path = folder.path().join(name);
        std::fs::write(&path, &bytes).unwrap();
        let before = NOW.load(Relaxed);
        PEAK.store(before, Relaxed);
        let error = pomdp::io::read(&path, None).err().unwrap().to_string();
        let peak = PEAK.load(Relaxed) - before;
        assert!(error.contains("bytes when decompressed, expected an uncompressed regular file"), "{error}");
        assert!(peak < 128 << 20, "{peak}");
    }
    let path = folder.path().join("small.pomdp.zst");
    let text = b"\ndiscount: 0.5 states: 1 actions: 1 observations: 1 T: * identity O: * uniform";
    let model = [repeated(b'#', 64), compress_to_vec(&text[..], CompressionLevel::Fastest)].concat();
    std::fs::write(&path, model).unwrap();
    assert_eq!(pomdp::io::read(&path, None).unwrap().states(), 1);
}
