//! Reading a text format needs memory in proportion to the arrays, not to the text.

use std::sync::atomic::Ordering::Relaxed;

use warpkov::mdp::generate::SlipGrid;
use warpkov::mdp::io;
use warpkov::mdp::model::Csr;

use counting::{NOW, PEAK};

mod counting;

fn bytes(matrix: &Csr) -> usize {
    size_of_val(&matrix.row_ptr()[..]) + size_of_val(&matrix.col()[..]) + size_of_val(&matrix.val()[..])
}

#[test]
fn peak_is_bounded_by_the_arrays() {
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
