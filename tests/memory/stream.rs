//! JSON of all classes is parsed as a stream: a small compressed file may unpack to any number of bytes.

use std::io::{Read, repeat};
use std::sync::atomic::Ordering::Relaxed;

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
