//! Windows: parts of equal length of sequences, each of them a sequence of its own.

use std::ops::Range;

use crate::sequences::Sequences;

/// Observations of a batch of windows, at most, unless one window has more.
const BATCH: usize = 1 << 24;

/// All windows of W observations of some sequences, which begin every S observations. Windows overlap if S < W. A sequence shorter than W
/// has none.
///
/// ```
/// use warpkov_hmm::sequences::Sequences;
/// use warpkov_hmm::windows::Windows;
///
/// let sequences = Sequences::of_symbols(&[vec![0, 1, 2, 3, 4], vec![5]])?;
/// let windows = Windows::new(&sequences, 3, 2);
/// assert_eq!(windows.places(), [(0, 0), (0, 2)]);
/// let batch = windows.batches().next().unwrap();
/// assert_eq!(batch, Sequences::of_symbols(&[[0, 1, 2], [2, 3, 4]])?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Windows<'s> {
    sequences: &'s Sequences,
    window: usize,
    places: Vec<(usize, usize)>,
}

impl<'s> Windows<'s> {
    /// The windows of `window` observations, W ≥ 1, every `step` observations, S ≥ 1.
    ///
    /// # Panics
    /// If one of them is 0.
    #[must_use]
    pub fn new(sequences: &'s Sequences, window: usize, step: usize) -> Self {
        assert!(window > 0 && step > 0, "windows of at least one observation");
        let of = |sequence: usize| {
            let length = sequences.range(sequence).len();
            (0..(length + 1).saturating_sub(window)).step_by(step).map(move |first| (sequence, first))
        };
        Self { sequences, window, places: (0..sequences.len()).flat_map(of).collect() }
    }

    /// W.
    #[must_use]
    pub fn window(&self) -> usize {
        self.window
    }

    /// The sequence of each window and its first observation there, both from 0.
    #[must_use]
    pub fn places(&self) -> &[(usize, usize)] {
        &self.places
    }

    /// The windows as sequences, in order, batch by batch. A batch is a copy of its observations, of those in several windows several
    /// copies.
    pub fn batches(&self) -> impl Iterator<Item = Sequences> + '_ {
        let count = (BATCH / self.window).max(1);
        self.places.chunks(count).filter_map(|places| {
            let range = |&(sequence, first): &(usize, usize)| {
                let begin = self.sequences.range(sequence).start + first;
                begin..begin + self.window
            };
            self.sequences.cut(&places.iter().map(range).collect::<Vec<Range<usize>>>())
        })
    }
}
