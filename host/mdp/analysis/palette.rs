//! Palettes: arrays with few distinct numbers, stored as indices into a table of these.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;

/// Sample size of [`seem_distinct`]. If more than half of the sample is distinct, so are most numbers.
const SAMPLE: usize = 4096;

/// Index type of a palette.
pub(crate) trait Index: Copy + Default + Send + Sync + 'static {
    /// Number of index values.
    const COUNT: usize;
    /// The index of `position`, which must be below [`COUNT`](Self::COUNT).
    fn from_position(position: usize) -> Self;
    /// The position in the palette.
    fn position(self) -> usize;
}

impl Index for u8 {
    const COUNT: usize = 1 << 8;
    fn from_position(position: usize) -> Self {
        position as Self
    }
    #[inline(always)]
    fn position(self) -> usize {
        self as usize
    }
}

impl Index for u16 {
    const COUNT: usize = 1 << 16;
    fn from_position(position: usize) -> Self {
        position as Self
    }
    #[inline(always)]
    fn position(self) -> usize {
        self as usize
    }
}

/// Whether a sample shows that `numbers` has more than `most` distinct numbers, or that most of them are distinct.
pub(crate) fn seem_distinct(numbers: &[f64], most: usize) -> bool {
    let sample: HashSet<u64> =
        numbers.iter().step_by((numbers.len() / SAMPLE).max(1)).map(|number| number.to_bits()).collect();
    sample.len() > most.min(SAMPLE / 2)
}

/// The distinct bit patterns in `numbers`, in ascending order of their bits, or `None` if there are more than `most`.
pub(crate) fn distinct(numbers: &[f64], most: usize) -> Option<Vec<f64>> {
    let chunk = numbers.len().div_ceil(4 * rayon::current_num_threads()).max(SAMPLE);
    let of_chunk = |numbers: &[f64]| {
        let mut found = HashSet::new();
        let mut last = None;
        for x in numbers {
            if last != Some(x.to_bits()) {
                last = Some(x.to_bits());
                found.insert(x.to_bits());
                if found.len() > most {
                    return None;
                }
            }
        }
        Some(found)
    };
    let all = numbers.par_chunks(chunk).map(of_chunk).try_reduce(HashSet::new, |mut all, found| {
        all.extend(found);
        (all.len() <= most).then_some(all)
    })?;
    let mut all: Vec<u64> = all.into_iter().collect();
    all.sort_unstable();
    Some(all.into_iter().map(f64::from_bits).collect())
}

/// The index of each number in `palette`, which must contain all of them.
pub(crate) fn indices<I: Index>(numbers: &[f64], palette: &[f64]) -> Vec<I> {
    let positions: HashMap<u64, I> =
        palette.iter().enumerate().map(|(i, x)| (x.to_bits(), I::from_position(i))).collect();
    // Numbers repeat at short distances: a small cache per chunk saves most lookups in the hash map.
    let of_chunk = |numbers: &[f64]| {
        let mut recent = [(f64::NAN.to_bits(), I::default()); 64];
        let mut found = Vec::with_capacity(numbers.len());
        for x in numbers {
            let bits = x.to_bits();
            let slot = &mut recent[(bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize];
            if slot.0 != bits {
                *slot = (bits, positions.get(&bits).copied().unwrap_or_default());
            }
            found.push(slot.1);
        }
        found
    };
    let chunks: Vec<Vec<I>> = numbers.par_chunks(1 << 16).map(of_chunk).collect();
    chunks.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_numbers_are_found_by_their_bits() {
        let numbers: Vec<f64> = (0..200_000).map(|i| [0.1, 0.8, -0.0, 0.0, 0.3][i % 5]).collect();
        let palette = distinct(&numbers, 256).unwrap();
        assert_eq!(palette.len(), 5, "0 and −0 differ");
        let indices: Vec<u8> = indices(&numbers, &palette);
        let back: Vec<u64> = indices.iter().map(|&i| palette[i.position()].to_bits()).collect();
        assert_eq!(back, numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
        assert_eq!(distinct(&numbers, 4), None);
        assert!(!seem_distinct(&numbers, 256) && seem_distinct(&numbers, 4));
        let counted: Vec<f64> = (0..100_000).map(f64::from).collect();
        assert!(distinct(&counted, 1 << 16).is_none() && seem_distinct(&counted, 1 << 16));
    }
}
