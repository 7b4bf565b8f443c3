//! Dependencies between tiles, blocks of neighbouring states. A sweep skips a tile if no tile that it depends on has
//! changed.

use rayon::prelude::*;

use crate::model::Mdp;

/// Mean number of dependencies per tile above which checking them costs more than skipping saves.
const MAX_MEAN_NEEDS: usize = 48;

/// The tiles that contain the successors of each tile: tile t needs `needs[ptr[t]..ptr[t + 1]]`, ascending, always
/// including t.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiles {
    /// States per tile; fewer in the last one.
    pub size: usize,
    /// Offsets into `needs`, one per tile, and its length.
    pub ptr: Vec<u32>,
    /// Tile numbers.
    pub needs: Vec<u32>,
}

/// A set of tile numbers of limited size, in insertion order.
pub(crate) struct Needed {
    tiles: Vec<u32>,
    most: usize,
}

impl Needed {
    /// An empty set of at most `most` tiles; `most` must be small, as lookup is a linear search.
    pub fn up_to(most: usize) -> Self {
        Self { tiles: Vec::new(), most }
    }

    /// Inserts a tile. Returns false once the set exceeds its limit.
    pub fn take(&mut self, tile: u32) -> bool {
        if !self.tiles.contains(&tile) {
            self.tiles.push(tile);
        }
        self.tiles.len() <= self.most
    }

    /// All tiles, or `None` if the set exceeds its limit.
    pub fn all(self) -> Option<Vec<u32>> {
        (self.tiles.len() <= self.most).then_some(self.tiles)
    }
}

impl Tiles {
    /// Finds the dependencies of tiles of `size` states on all cores. `None` if tiles depend on too many others.
    #[must_use]
    pub fn find(mdp: &Mdp, size: usize) -> Option<Self> {
        let states = mdp.states() as usize;
        let count = states.div_ceil(size);
        let of_tile = |tile: usize| {
            let mut found = Needed::up_to(8 * MAX_MEAN_NEEDS);
            found.take(tile as u32);
            let mut last = tile;
            for row in mdp.choices().first(tile * size)..mdp.choices().first(states.min((tile + 1) * size)) {
                for &successor in mdp.transitions().row(row).0 {
                    let other = successor as usize / size;
                    if other != last && !found.take(other as u32) {
                        return None;
                    }
                    last = other;
                }
            }
            let mut found = found.all()?;
            found.sort_unstable();
            Some(found)
        };
        let lists: Option<Vec<_>> = (0..count).into_par_iter().map(of_tile).collect();
        let lists = lists?;
        let total: usize = lists.iter().map(Vec::len).sum();
        if total > MAX_MEAN_NEEDS * count {
            return None;
        }
        Some(Self::of_lists(size, lists))
    }

    /// Tiles of `size` cells of a grid of `width` columns, in which a cell leads to itself and its four neighbours.
    #[must_use]
    pub fn of_grid(width: u32, states: u32, size: usize) -> Self {
        let (width, last, count) = (width as usize, states as usize - 1, (states as usize).div_ceil(size));
        let of_tile = |tile: usize| {
            let (first, end) = (tile * size, last.min((tile + 1) * size - 1));
            let above = first.saturating_sub(width)..=end.saturating_sub(width);
            let beside = first.saturating_sub(1)..=last.min(end + 1);
            let below = last.min(first + width)..=last.min(end + width);
            let mut needs: Vec<u32> = [above, beside, below]
                .into_iter()
                .flat_map(|states| states.start() / size..=states.end() / size)
                .map(|tile| tile as u32)
                .collect();
            needs.sort_unstable();
            needs.dedup();
            needs
        };
        let lists: Vec<_> = (0..count).into_par_iter().map(of_tile).collect();
        Self::of_lists(size, lists)
    }

    fn of_lists(size: usize, lists: Vec<Vec<u32>>) -> Self {
        let mut ptr = vec![0];
        let mut needs = Vec::with_capacity(lists.iter().map(Vec::len).sum());
        for list in lists {
            needs.extend(list);
            ptr.push(needs.len() as u32);
        }
        Self { size, ptr, needs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::SlipGrid;
    use crate::model::Csr;

    #[test]
    fn rows_of_a_grid_need_their_neighbours() {
        let mdp = SlipGrid { width: 10, height: 4, ..SlipGrid::default() }.generate().unwrap();
        let tiles = Tiles::find(&mdp, 10).unwrap();
        assert_eq!((tiles.ptr, tiles.needs), (vec![0, 2, 5, 8, 10], vec![0, 1, 0, 1, 2, 1, 2, 3, 2, 3]));
    }

    #[test]
    fn tiles_of_a_grid_need_no_model() {
        for (width, height, size) in [(10, 4, 10), (7, 9, 4), (100, 3, 8), (1, 40, 8), (40, 1, 8), (3, 3, 16)] {
            let mdp = SlipGrid { width, height, ..SlipGrid::default() }.generate().unwrap();
            let (found, told) = (Tiles::find(&mdp, size).unwrap(), Tiles::of_grid(width, mdp.states(), size));
            assert_eq!(told.ptr.len(), found.ptr.len());
            for (tile, (own, all)) in found.ptr.windows(2).zip(told.ptr.windows(2)).enumerate() {
                let needs = &told.needs[all[0] as usize..all[1] as usize];
                assert!(needs.is_sorted_by(|a, b| a < b) && needs.contains(&(tile as u32)), "{needs:?}");
                let own = &found.needs[own[0] as usize..own[1] as usize];
                // At most one more on each side, where a tile begins or ends at the edge of the grid.
                assert!(own.iter().all(|tile| needs.contains(tile)) && needs.len() <= own.len() + 2, "{needs:?}");
            }
        }
    }

    #[test]
    fn models_without_locality_have_no_tiles() {
        // Every state leads to `entries` states spread over the model.
        let states = 1000u64;
        let csr = |entries: u64| {
            let row_ptr: Vec<_> = (0..=states).map(|row| entries * row).collect();
            let column = |i| ((i / entries + i % entries * 16) % states) as u32;
            let col: Vec<_> = (0..states * entries).map(column).collect();
            Csr::new(row_ptr, col, vec![1.0 / entries as f64; (states * entries) as usize]).unwrap()
        };
        let model = |entries| Mdp::new(states as u32, 1, 0.5, csr(entries), Csr::empty(1000), None).unwrap();
        assert_eq!(Tiles::find(&model(60), 10), None);
        assert_eq!(Tiles::find(&model(60), 1000).map(|tiles| tiles.needs), Some(vec![0]));
        assert!(Tiles::find(&model(2), 10).is_some());
    }
}
