//! Olfactory search for a source of odour in wind: the kind of problem of Loisy and Eloy, *Searching for a source
//! without gradients*, Proc. R. Soc. A 478 (2022), and Rigolli, Reddy, Seminara and Vergassola, *Alternation emerges as
//! a multi-modal strategy for turbulent odor navigation*, eLife 11 (2022), with a Gaussian plume.

use super::{Error, Matrices, Sizes, inside, names};
use crate::belief::Belief;
use crate::model::{Names, Pomdp};
use warpkov_common::parameters::{
    BELOW_ONE, FRACTION, NON_NEGATIVE, POSITIVE, Parameters as _, cells, count, parameters,
};

parameters! {
    /// An agent that knows the position of the source, but not its own.
    ///
    /// State y · width + x. Actions: north (y + 1), east, south, west, each deterministically to the next cell; moves off
    /// the grid stay. Observations: nothing, odour, source. The wind blows east. The agent perceives odour dx cells
    /// downwind of the source and dy cells off its line with probability
    ///
    /// > p(dx, dy) = peak · (σ₀ / σ) · e^(−dy² / 2σ²), with σ = σ₀ + spread · dx for dx ≥ 0,
    ///
    /// and upwind with probability peak · e^(−(dx² + dy²) / 2σ₀²). Probabilities below 10⁻⁶ are 0. The agent recognises the
    /// source with certainty; reaching it yields 1 and ends the search. The search starts in a random other cell.
    ///
    /// By default, 13,585 states.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Olfactory {
        /// Number of columns.
        pub width: u32 = 209, "CELLS";
        /// Number of rows; width · height is at most 10⁸.
        pub height: u32 = 65, "CELLS";
        /// Position of the source, (x, y).
        pub source: (u32, u32) = (20, 32), "X,Y";
        /// Probability of perceiving odour next to the source, in [0, 1].
        pub peak: f64 = 0.9, "P" in FRACTION;
        /// σ₀, half-width of the plume at the source in cells, above 0.
        pub width_at_source: f64 = 1.5, "CELLS" in POSITIVE;
        /// Growth of σ per cell downwind, at least 0.
        pub spread: f64 = 0.1, "CELLS" in NON_NEGATIVE;
        /// γ, in [0, 1).
        pub gamma: f64 = 0.99, "G" in BELOW_ONE;
    }
}

/// Smaller probabilities of a perception become 0.
const LEAST: f64 = 1e-6;

impl Olfactory {
    /// Generates the model.
    ///
    /// # Errors
    /// If a field is out of its range, or the source is outside the grid.
    pub fn generate(&self) -> Result<Pomdp, Error> {
        self.check()?;
        let Self { width, height, source, gamma, .. } = *self;
        let states = cells(width, height)?;
        count("the number of cells", states, 2, 100_000_000)?;
        inside("the source", source, width, height)?;
        let sizes = Sizes { states, actions: 4, observations: 3 };
        let found = source.1 * width + source.0;
        let next = |s: u32, a: u32| {
            let (x, y) = (s % width, s / width);
            match a {
                _ if s == found => s,
                0 if y + 1 < height => s + width,
                1 if x + 1 < width => s + 1,
                2 if y > 0 => s - width,
                3 if x > 0 => s - 1,
                _ => s,
            }
        };
        let matrices = Matrices {
            transitions: sizes.transitions(|s, a| [(next(s, a), 1.0)])?,
            observations: sizes.observations(|_, s| {
                let p = self.perceived(s);
                if s == found { [(2, 1.0), (0, 0.0)] } else { [(0, 1.0 - p), (1, p)] }
            })?,
            action_rewards: sizes.rewards(|s, a| f64::from(u8::from(s != found && next(s, a) == found))),
            ..Matrices::default()
        };
        let start = Belief::uniform((0..states).filter(|&s| s != found).collect());
        let actions = names(["north", "east", "south", "west"]);
        let observations = names(["nothing", "odour", "source"]);
        sizes.model(gamma, matrices, start, Names { states: Vec::new(), actions, observations })
    }

    /// p(dx, dy) at a cell.
    fn perceived(&self, cell: u32) -> f64 {
        let dx = f64::from(cell % self.width) - f64::from(self.source.0);
        let dy = f64::from(cell / self.width) - f64::from(self.source.1);
        let near = self.width_at_source;
        let sigma = near + self.spread * dx.max(0.0);
        let squares = dx.min(0.0) * dx.min(0.0) + dy * dy;
        let p = self.peak * (near / sigma) * libm::exp(-squares / (2.0 * sigma * sigma));
        if p < LEAST { 0.0 } else { p }
    }
}
