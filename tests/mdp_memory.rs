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

use counting::{NOW, PEAK};

mod counting;

/// The counters are those of all tests.
static ALONE: Mutex<()> = Mutex::new(());

fn bytes(matrix: &Csr) -> usize {
    size_of_val(&matrix.row_ptr()[..]) + size_of_val(&matrix.col()[..]) + size_of_val(&matrix.val()[..])
}

#[test]
fn peak_is_bounded_by_the_arrays() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let grid = SlipGrid {
        width: 512,
        height: 512,
        slip: 0.1,
        wall_fraction: 0.0,
        obstacle_fraction: 0.3,
        gamma: 0.9,
        seed: 42,
        goal_reward: 1.0,
        obstacle_penalty: 1.0,
    };
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

#[test]
fn peak_is_bounded_by_a_block() {
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
