//! Reading a text format needs memory in proportion to the arrays, not to the text. Writing a model whose rows are made on demand needs
//! memory for a block of them.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

use warpkov::mdp::checkpoint::hash_of;
use warpkov::mdp::generate::{Forest, Garnet, SlipGrid};
use warpkov::mdp::io;
use warpkov::mdp::model::Csr;
use warpkov::mdp::model::whole::Described;
use warpkov::runtime::comm::Local;

use crate::counting::{NOW, PEAK, alone};

/// The counters are those of all tests.
static ALONE: Mutex<()> = Mutex::new(());

fn bytes(matrix: &Csr) -> usize {
    size_of_val(&matrix.row_ptr()[..]) + size_of_val(&matrix.col()[..]) + size_of_val(&matrix.val()[..])
}

#[test]
fn peak_is_bounded_by_the_arrays() {
    let _alone = alone();
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let grid = SlipGrid { width: 512, height: 512, obstacles: 0.3, ..SlipGrid::default() };
    let model = grid.generate().unwrap();
    let paths = ["grid.json", "grid.tra", "grid.drn", "grid.xml", "grid.txt"].map(|name| folder.path().join(name));
    for path in &paths {
        io::write(path, &model).unwrap();
    }
    drop(model);
    for path in paths {
        let text = std::fs::metadata(&path).unwrap().len();
        assert!(text > 25 << 20, "{text}");
        let before = NOW.load(Relaxed);
        PEAK.store(before, Relaxed);
        let mdp = io::read(&path).unwrap();
        let peak = PEAK.load(Relaxed) - before;
        let arrays = bytes(mdp.transitions()) + bytes(mdp.rewards());
        println!("{}: {text} bytes of text, {peak} for {arrays} of arrays", path.display());
        // JSON contains the arrays one after another; the other formats fill all of them concurrently.
        let tenths = if path.extension().is_some_and(|json| json == "json") { 21 } else { 30 };
        assert!(peak * 10 <= arrays * tenths + (10 << 20), "{}: {peak} bytes for {arrays}", path.display());
    }
}

/// The forms that people write by hand hold every number with its place: memory in proportion to the text.
#[test]
fn peak_is_bounded_by_the_text() {
    let _alone = alone();
    let _alone = ALONE.lock();
    let mut csv = String::from("state,action,next,probability\n");
    let mut list =
        String::from("{\"gamma\":1,\"transitions\":[{\"state\":0,\"action\":0,\"next\":0,\"probability\":1}");
    let (mut named, states) = (csv.clone(), 200_000);
    for s in 0..states {
        csv.push_str(&format!("{s},0,{},1\n", (s + 1) % states));
        named.push_str(&format!("a{s},x,a{},1\n", (s + 1) % states));
        if s > 0 {
            list.push_str(&format!(",{{\"state\":{s},\"action\":0,\"next\":{s},\"probability\":1}}"));
        }
    }
    list.push_str("]}");
    let row = format!("[{}]", vec!["0"; 999].join(",") + ",1");
    let table = format!("{{\"gamma\":1,\"P[s][a][s']\":[{}]}}", vec![format!("[{row}]"); 1000].join(","));
    // A huge number allocates nothing.
    let huge = "state,action,next,probability\n0,0,4000000000,1\n".to_owned();
    for (name, text, states) in [
        ("csv", csv, states),
        ("named", named, states),
        ("list", list, states),
        ("table", table, 1000),
        ("huge", huge, 0),
    ] {
        let before = NOW.load(Relaxed);
        PEAK.store(before, Relaxed);
        let mdp = io::read_from(text.as_bytes(), "m", &io::ReadOptions::default());
        let peak = PEAK.load(Relaxed) - before;
        println!("{name}: {} bytes of text, {peak} of memory", text.len());
        assert_eq!(mdp.map_or(0, |mdp| mdp.states()), states, "{name}");
        assert!(peak < 32 * text.len() + (8 << 20), "{name}: {peak} bytes for {} of text", text.len());
    }
}

#[test]
fn peak_is_bounded_by_a_block() {
    let _alone = alone();
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let forest = Forest { ages: 1_500_000, ..Forest::default() };
    let garnet = Garnet { states: 900_000, ragged: true, power_law: true, ..Garnet::default() };
    let sources: [Box<dyn Described>; 2] = [Box::new(forest.source().unwrap()), Box::new(garnet.source().unwrap())];
    for source in sources {
        let path = folder.path().join("model.safetensors");
        let before = NOW.load(Relaxed);
        PEAK.store(before, Relaxed);
        assert!(io::write_blocks(&Local::alone(), &path, &*source, |_| ControlFlow::Continue(())).unwrap());
        let peak = PEAK.load(Relaxed) - before;
        let length = std::fs::metadata(&path).unwrap().len();
        println!("{peak} bytes for a file of {length}");
        assert!(length > 100 << 20 && peak < 40 << 20, "{peak} bytes for a file of {length}");
        PEAK.store(before, Relaxed);
        hash_of(&*source, 0..source.states()).unwrap();
        let peak = PEAK.load(Relaxed) - before;
        assert!(peak < 20 << 20, "{peak} bytes for the hash");
    }
}
