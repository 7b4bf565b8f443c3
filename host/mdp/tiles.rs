//! Which parts of a model depend on which: what a sweep can pass over.

use rayon::prelude::*;

use super::model::Mdp;

/// Tiles that one depends on, on average, above which looking at all of them costs more than it can save.
const MOST: usize = 48;

/// For each tile of neighbouring states the tiles that hold their successors: tile t needs
/// `needs[ptr[t]..ptr[t + 1]]`, ascending, itself always among them.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiles {
    /// States of a tile; fewer in the last one.
    pub size: usize,
    /// Where each tile's needs begin, and their number.
    pub ptr: Vec<u32>,
    /// Tiles.
    pub needs: Vec<u32>,
}

impl Tiles {
    /// Tiles of `size` states, on all cores; `None` where they depend on too many others.
    #[must_use]
    pub fn find(mdp: &Mdp, size: usize) -> Option<Self> {
        let states = mdp.states as usize;
        let count = states.div_ceil(size);
        let of_tile = |tile: usize| {
            let mut found = vec![tile as u32];
            let mut last = tile;
            for row in mdp.choices.first(tile * size)..mdp.choices.first(states.min((tile + 1) * size)) {
                for &successor in mdp.transitions.row(row).0 {
                    let other = successor as usize / size;
                    if other != last && !found.contains(&(other as u32)) {
                        found.push(other as u32);
                        // No tile may need so many that a list of them is searched for long.
                        if found.len() > 8 * MOST {
                            return None;
                        }
                    }
                    last = other;
                }
            }
            found.sort_unstable();
            Some(found)
        };
        let lists: Option<Vec<_>> = (0..count).into_par_iter().map(of_tile).collect();
        let lists = lists?;
        let total: usize = lists.iter().map(Vec::len).sum();
        if total > MOST * count {
            return None;
        }
        let mut ptr = vec![0];
        let mut needs = Vec::with_capacity(total);
        for list in lists {
            needs.extend(list);
            ptr.push(needs.len() as u32);
        }
        Some(Self { size, ptr, needs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mdp::generate::SlipGrid;
    use crate::mdp::model::Csr;

    #[test]
    fn rows_of_a_grid_need_their_neighbours() {
        let mdp = SlipGrid { width: 10, height: 4, ..SlipGrid::default() }.generate().unwrap();
        let tiles = Tiles::find(&mdp, 10).unwrap();
        assert_eq!((tiles.ptr, tiles.needs), (vec![0, 2, 5, 8, 10], vec![0, 1, 0, 1, 2, 1, 2, 3, 2, 3]));
    }

    #[test]
    fn what_depends_on_everything_has_no_tiles() {
        // Every state may go to 60 others all over the place.
        let states = 1000u64;
        let csr = |entries: u64| Csr {
            row_ptr: (0..=states).map(|row| entries * row).collect::<Vec<_>>().into(),
            col: (0..states * entries)
                .map(|i| ((i / entries + i % entries * 16) % states) as u32)
                .collect::<Vec<_>>()
                .into(),
            val: vec![1.0 / entries as f64; (states * entries) as usize].into(),
        };
        let model = |entries| Mdp::new(states as u32, 1, 0.5, csr(entries), Csr::empty(1000), None).unwrap();
        assert_eq!(Tiles::find(&model(60), 10), None);
        assert_eq!(Tiles::find(&model(60), 1000).map(|tiles| tiles.needs), Some(vec![0]));
        assert!(Tiles::find(&model(2), 10).is_some());
    }
}
