//! Zero-sum matrix games. One player mixes strategies; strategy k loses pₖ(s) in state s. The opponent picks the state.
//!
//! The value is the least loss of a mixture x in its worst state. By the minimax theorem, it equals the largest loss
//! that a belief w forces on every strategy:
//!
//! > v = minₓ maxₛ Σₖ x(k) pₖ(s) = max_w minₖ Σₛ w(s) pₖ(s)
//!
//! An optimal pair exists on a square *kernel* of the payoff matrix: as many states as strategies, where x loses
//! exactly v in each state of the kernel, and each strategy of the kernel loses exactly v against w (Shapley and Snow,
//! *Basic solutions of discrete games*, 1950). The simplex method moves from kernel to kernel. Kernels stay small, even
//! with many strategies and states. So each kernel is solved anew from the original payoffs, by elimination and
//! refinement with residuals in twice the precision. Rounding errors do not accumulate, and entries outside the kernel
//! have no effect, whatever their magnitude.
//!
//! If the strategies are too many to enumerate, best replies to the beliefs so far suffice (McMahan, Gordon and Blum,
//! *Planning in the presence of cost functions controlled by an adversary*, ICML, 2003).

/// Rounding error of a sum of products, relative to the sum of their absolute values.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

/// Smallest admissible pivot, relative to the largest entry of its column.
const LEAST_PIVOT: f64 = 1e-14;

/// Pivots without progress before the pivot rule becomes random, which breaks cycles.
const STALL_LIMIT: usize = 8;

/// Maximum number of pivots; typical games need far fewer.
const MAX_PIVOTS: usize = 20_000;

/// A game that grows by one strategy at a time.
#[derive(Default)]
pub struct Game {
    /// pₖ(s) as `payoffs[k][s]`.
    payoffs: Vec<Vec<f64>>,
    /// The kernel: its states and its strategies.
    states: Vec<usize>,
    strategies: Vec<usize>,
    /// x and w of the last nonsingular kernel, as pairs of index and share.
    mixture: Vec<(usize, f64)>,
    belief: Vec<(usize, f64)>,
    /// State of the random number generator.
    rng_state: u64,
}

/// The variable that leaves the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// The share of the strategy at this position of the kernel.
    Strategy(usize),
    /// The slack of a state outside the kernel.
    State(usize),
}

impl Game {
    /// Adds a strategy with finite losses, one per state.
    pub fn push(&mut self, losses: Vec<f64>) {
        self.payoffs.push(losses);
        if self.payoffs.len() == 1 {
            (self.states, self.strategies) = self.first();
            (self.mixture, self.belief) = (vec![(0, 1.0)], vec![(self.states[0], 1.0)]);
        }
    }

    /// The kernel of the first strategy and its worst state.
    fn first(&self) -> (Vec<usize>, Vec<usize>) {
        let losses = &self.payoffs[0];
        let worst = (1..losses.len()).fold(0, |worst, s| if losses[s] > losses[worst] { s } else { worst });
        (vec![worst], vec![0])
    }

    /// The optimal belief w: states in ascending order and their probabilities.
    #[must_use]
    pub fn belief(&self) -> Vec<(usize, f64)> {
        let mut belief = self.belief.clone();
        belief.sort_unstable_by_key(|(state, _)| *state);
        belief
    }

    /// Loss of the optimal mixture in each state.
    #[must_use]
    pub fn losses(&self) -> Vec<f64> {
        let mut losses = vec![0.0; self.payoffs.first().map_or(0, Vec::len)];
        for &(strategy, share) in &self.mixture {
            losses.iter_mut().zip(&self.payoffs[strategy]).for_each(|(sum, loss)| *sum += share * loss);
        }
        losses
    }

    /// Computes the optimal mixture and belief.
    pub fn solve(&mut self) {
        let (mut stalled, mut last) = (0, f64::INFINITY);
        for _ in 0..MAX_PIVOTS {
            let Some(kernel) = self.kernel() else {
                // A singular kernel: restart with random pivots, which may avoid it.
                (self.states, self.strategies) = self.first();
                (stalled, last) = (STALL_LIMIT + 1, f64::INFINITY);
                continue;
            };
            let size = self.strategies.len();
            let solution = kernel.solve(&unit(size + 1, size));
            let (shares, value) = (&solution[..size], solution[size]);
            let dual = kernel.solve_transposed(&unit(size + 1, size));
            let probs: Vec<f64> = dual[..size].iter().map(|y| -y).collect();
            self.mixture = distribution(&self.strategies, shares);
            self.belief = distribution(&self.states, &probs);
            stalled = if value < last { 0 } else { stalled + 1 };
            last = last.min(value);
            let Some((enters, is_strategy)) = self.entering(&probs, value, stalled > STALL_LIMIT) else { return };
            // The change of the solution per unit of the entering variable.
            let mut column = if is_strategy {
                let mut column: Vec<f64> = self.states.iter().map(|&s| self.payoffs[enters][s]).collect();
                column.push(1.0);
                column
            } else {
                unit(size + 1, enters)
            };
            column = kernel.solve(&column);
            let Some(leaves) = self.leaving(shares, value, &column, is_strategy.then_some(enters)) else { return };
            match (is_strategy, leaves) {
                (true, Leaving::Strategy(place)) => self.strategies[place] = enters,
                (true, Leaving::State(state)) => {
                    self.strategies.push(enters);
                    self.states.push(state);
                }
                (false, Leaving::Strategy(place)) => {
                    self.states.swap_remove(enters);
                    self.strategies.swap_remove(place);
                }
                (false, Leaving::State(state)) => self.states[enters] = state,
            }
        }
    }

    /// The linear system of the kernel: Σ p x − v = 0 for each of its states, and Σ x = 1.
    fn kernel(&self) -> Option<Elimination> {
        let size = self.strategies.len();
        let mut matrix = Vec::with_capacity((size + 1) * (size + 1));
        for &state in &self.states {
            matrix.extend(self.strategies.iter().map(|&strategy| self.payoffs[strategy][state]));
            matrix.push(-1.0);
        }
        matrix.resize(matrix.len() + size, 1.0);
        matrix.push(0.0);
        Elimination::new(matrix, size + 1)
    }

    /// The entering variable: a strategy by its index (true), or the slack of a state by its position in the kernel
    /// (false). Takes the steepest one, or a random one if `draw`, which ends any cycle.
    fn entering(&mut self, probs: &[f64], value: f64, draw: bool) -> Option<(usize, bool)> {
        let mut found: Vec<(f64, usize, bool)> = Vec::new();
        for (strategy, losses) in self.payoffs.iter().enumerate() {
            let (mut sum, mut size) = (-value, value.abs());
            for (&state, prob) in self.states.iter().zip(probs) {
                let product = prob * losses[state];
                (sum, size) = (sum + product, size + product.abs());
            }
            if sum < -ROUNDING * size && !self.strategies.contains(&strategy) {
                found.push((sum / size, strategy, true));
            }
        }
        let slacks = probs.iter().enumerate().filter(|(_, prob)| **prob < -ROUNDING);
        found.extend(slacks.map(|(place, &prob)| (prob, place, false)));
        let at = if draw && !found.is_empty() {
            // Knuth's multiplier.
            self.rng_state =
                self.rng_state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.rng_state >> 33) as usize % found.len()
        } else {
            (0..found.len()).min_by(|&a, &b| found[a].0.total_cmp(&found[b].0))?
        };
        found.get(at).map(|&(_, enters, is_strategy)| (enters, is_strategy))
    }

    /// The leaving variable: the first to reach its bound along `column`. Among near ties it takes the one with the
    /// largest pivot (Harris, *Pivot selection methods of the Devex LP code*, 1973).
    fn leaving(&self, shares: &[f64], value: f64, column: &[f64], enters: Option<usize>) -> Option<Leaving> {
        let size = self.strategies.len();
        let mut bounds: Vec<(Leaving, f64, f64, f64)> = Vec::new();
        // Variable, distance to its bound, rounding error of that distance, and rate of decrease.
        let largest = column[..size].iter().fold(0.0, |most: f64, pivot| most.max(pivot.abs()));
        for (place, (&share, &pivot)) in shares.iter().zip(column).enumerate() {
            if pivot > LEAST_PIVOT * largest.max(1.0) {
                bounds.push((Leaving::Strategy(place), share.max(0.0), ROUNDING, pivot));
            }
        }
        for state in 0..self.payoffs[0].len() {
            let own = enters.map_or(0.0, |strategy| self.payoffs[strategy][state]);
            let (mut slack, mut room) = (value, value.abs());
            let (mut pivot, mut reach) = (own + column[size], own.abs() + column[size].abs());
            for (i, &strategy) in self.strategies.iter().enumerate() {
                let loss = self.payoffs[strategy][state];
                let (lost, moved) = (loss * shares[i], loss * column[i]);
                (slack, room) = (slack - lost, room + lost.abs());
                (pivot, reach) = (pivot - moved, reach + moved.abs());
            }
            if pivot > LEAST_PIVOT * reach && !self.states.contains(&state) {
                bounds.push((Leaving::State(state), slack.max(0.0), ROUNDING * room, pivot));
            }
        }
        let least =
            bounds.iter().map(|(_, left, rounding, pivot)| (left + rounding) / pivot).fold(f64::INFINITY, f64::min);
        let first = bounds.iter().filter(|(_, left, _, pivot)| left / pivot <= least);
        first.max_by(|a, b| a.3.total_cmp(&b.3)).map(|bound| bound.0)
    }
}

/// An upper bound on the value of a game whose strategies `reply` generates. `first` are the losses of one strategy.
/// `reply` gets a belief, as ascending states with their probabilities, and returns the losses of a best reply.
///
/// The search ends when
///
/// - a mixture loses at most `enough`;
/// - every mixture provably loses more, and the value is known up to the fraction `part` (1 asks only for the sign of
///   the difference);
/// - no reply improves the mixture, or a loss is infinite;
/// - `rounds` replies were made, or `stop` returns true.
///
/// The result is the least worst-case loss of a mixture found so far, so it is valid in every case.
pub fn least_loss(
    first: Vec<f64>,
    enough: f64,
    part: f64,
    rounds: u32,
    stop: &(dyn Fn() -> bool + Sync),
    mut reply: impl FnMut(&[(usize, f64)]) -> Vec<f64>,
) -> f64 {
    let largest = |losses: &[f64]| losses.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut game = Game::default();
    let mut least = largest(&first);
    let mut losses = first;
    for _ in 0..rounds {
        if least <= enough || losses.iter().any(|loss| !loss.is_finite()) || stop() {
            break;
        }
        game.push(losses);
        game.solve();
        let mixed = largest(&game.losses());
        least = least.min(mixed);
        if least <= enough {
            break;
        }
        let belief = game.belief();
        losses = reply(&belief);
        if game.payoffs.contains(&losses) {
            break;
        }
        least = least.min(largest(&losses));
        // Lower bound on the worst-case loss of every mixture.
        let (mut certain, mut size) = (0.0, 0.0);
        for &(state, prob) in &belief {
            let product = prob * losses[state];
            (certain, size) = (certain + product, size + product.abs());
        }
        if (certain > enough && certain >= (1.0 - part) * least) || certain >= mixed - ROUNDING * size {
            break;
        }
    }
    least
}

/// Unit vector of length `size` with its 1 at `place`.
fn unit(size: usize, place: usize) -> Vec<f64> {
    let mut unit = vec![0.0; size];
    unit[place] = 1.0;
    unit
}

/// Clips negative numbers to 0 and normalises, to remove rounding errors of a distribution over `places`.
fn distribution(places: &[usize], numbers: &[f64]) -> Vec<(usize, f64)> {
    let sum: f64 = numbers.iter().map(|number| number.max(0.0)).sum();
    let shares = places.iter().zip(numbers).filter(|(_, number)| **number > 0.0);
    shares.map(|(&place, number)| (place, number / sum)).collect()
}

/// LU factorisation P A = L U of a square matrix.
struct Elimination {
    size: usize,
    matrix: Vec<f64>,
    /// L below the diagonal, without its unit diagonal, and U.
    factors: Vec<f64>,
    /// Row i of L U is row `order[i]` of A.
    order: Vec<usize>,
}

impl Elimination {
    /// Factorises a row-major matrix; `None` if it is singular.
    fn new(matrix: Vec<f64>, size: usize) -> Option<Self> {
        let (mut factors, mut order) = (matrix.clone(), (0..size).collect::<Vec<_>>());
        // Scaled partial pivoting: pivots are compared relative to the largest entry of their row.
        let largest = |row: &[f64]| row.iter().fold(f64::MIN_POSITIVE, |most, entry| most.max(entry.abs()));
        let mut scales: Vec<f64> = matrix.chunks(size).map(largest).collect();
        for step in 0..size {
            let weight = |row: usize| factors[row * size + step].abs() / scales[row];
            let pivot = (step..size).max_by(|&a, &b| weight(a).total_cmp(&weight(b)))?;
            if weight(pivot) == 0.0 || !weight(pivot).is_finite() {
                return None;
            }
            if pivot != step {
                (0..size).for_each(|column| factors.swap(pivot * size + column, step * size + column));
                order.swap(pivot, step);
                scales.swap(pivot, step);
            }
            let (above, below) = factors.split_at_mut((step + 1) * size);
            let own = &above[step * size..];
            for row in below.chunks_mut(size) {
                let factor = row[step] / own[step];
                row[step] = factor;
                row[step + 1..].iter_mut().zip(&own[step + 1..]).for_each(|(entry, own)| *entry -= factor * own);
            }
        }
        Some(Self { size, matrix, factors, order })
    }

    /// A⁻¹ b.
    fn solve(&self, right: &[f64]) -> Vec<f64> {
        let size = self.size;
        self.refined(
            right,
            |row, column| row * size + column,
            |right| {
                let mut x: Vec<f64> = self.order.iter().map(|&row| right[row]).collect();
                for row in 0..size {
                    let sum: f64 = (0..row).map(|column| self.factors[row * size + column] * x[column]).sum();
                    x[row] -= sum;
                }
                for row in (0..size).rev() {
                    let sum: f64 = (row + 1..size).map(|column| self.factors[row * size + column] * x[column]).sum();
                    x[row] = (x[row] - sum) / self.factors[row * size + row];
                }
                x
            },
        )
    }

    /// A⁻ᵀ b.
    fn solve_transposed(&self, right: &[f64]) -> Vec<f64> {
        let size = self.size;
        self.refined(
            right,
            |row, column| column * size + row,
            |right| {
                let mut x = right.to_vec();
                for row in 0..size {
                    let sum: f64 = (0..row).map(|column| self.factors[column * size + row] * x[column]).sum();
                    x[row] = (x[row] - sum) / self.factors[row * size + row];
                }
                for row in (0..size).rev() {
                    let sum: f64 = (row + 1..size).map(|column| self.factors[column * size + row] * x[column]).sum();
                    x[row] -= sum;
                }
                let mut placed = vec![0.0; size];
                self.order.iter().zip(&x).for_each(|(&row, &x)| placed[row] = x);
                placed
            },
        )
    }

    /// Solves, then refines twice with residuals in twice the precision.
    fn refined(
        &self,
        right: &[f64],
        place: impl Fn(usize, usize) -> usize,
        solve: impl Fn(&[f64]) -> Vec<f64>,
    ) -> Vec<f64> {
        let mut x = solve(right);
        for _ in 0..2 {
            let rest = |(row, &right): (usize, &f64)| {
                remainder(right, (0..self.size).map(|column| (self.matrix[place(row, column)], x[column])))
            };
            let rest: Vec<f64> = right.iter().enumerate().map(rest).collect();
            x.iter_mut().zip(solve(&rest)).for_each(|(x, change)| *x += change);
        }
        x
    }
}

/// right − Σ a b in twice the precision, rounded once (Ogita, Rump and Oishi, *Accurate sum and dot product*, 2005).
fn remainder(right: f64, products: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut sum, mut rest) = (right, 0.0);
    for (a, b) in products {
        let product = -a * b;
        let next = sum + product;
        let own = next - sum;
        rest += (-a).mul_add(b, -product) + ((sum - (next - own)) + (product - own));
        sum = next;
    }
    sum + rest
}

#[cfg(test)]
mod tests {
    use dashu_ratio::RBig;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::*;

    fn exact(x: f64) -> RBig {
        RBig::try_from(x).unwrap()
    }

    /// The exact value of a game by the simplex method in rational arithmetic with Bland's rule; losses are shifted to
    /// be positive.
    fn value(payoffs: &[Vec<f64>]) -> RBig {
        let (states, count) = (payoffs[0].len(), payoffs.len());
        let least = payoffs.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let raise = RBig::ONE - exact(least);
        // max Σ x, Σₖ (pₖ(s) + raise) x(k) ≤ 1 for each s.
        let columns = count + states + 1;
        let mut table = vec![vec![RBig::ZERO; columns]; states + 1];
        for s in 0..states {
            for k in 0..count {
                table[s][k] = exact(payoffs[k][s]) + &raise;
            }
            table[s][count + s] = RBig::ONE;
            table[s][columns - 1] = RBig::ONE;
        }
        table[states][..count].fill(-RBig::ONE);
        let mut basis: Vec<usize> = (count..count + states).collect();
        while let Some(column) = (0..columns - 1).find(|&column| table[states][column] < RBig::ZERO) {
            let rows = (0..states).filter(|&row| table[row][column] > RBig::ZERO);
            let ratio = |row: usize| &table[row][columns - 1] / &table[row][column];
            let pivot = rows.min_by(|&a, &b| ratio(a).cmp(&ratio(b)).then(basis[a].cmp(&basis[b]))).unwrap();
            let scale = table[pivot][column].clone();
            table[pivot].iter_mut().for_each(|entry| *entry = &*entry / &scale);
            basis[pivot] = column;
            let own = table[pivot].clone();
            for (_, row) in table.iter_mut().enumerate().filter(|(row, _)| *row != pivot) {
                let factor = row[column].clone();
                if factor != RBig::ZERO {
                    row.iter_mut().zip(&own).for_each(|(entry, own)| *entry = &*entry - &factor * own);
                }
            }
        }
        RBig::ONE / &table[states][columns - 1] - raise
    }

    /// Errors of the computed mixture and belief against the exact value, relative to the largest loss.
    fn errors(payoffs: &[Vec<f64>]) -> [f64; 2] {
        let mut game = Game::default();
        // The search adds strategies in the same manner.
        for losses in payoffs {
            game.push(losses.clone());
            game.solve();
        }
        let value = value(payoffs);
        let largest = game.losses().into_iter().fold(f64::NEG_INFINITY, f64::max);
        let against = |losses: &Vec<f64>| game.belief().iter().map(|&(s, prob)| prob * losses[s]).sum::<f64>();
        let least = payoffs.iter().map(against).fold(f64::INFINITY, f64::min);
        let size = payoffs.iter().flatten().fold(f64::MIN_POSITIVE, |most: f64, loss| most.max(loss.abs()));
        let of = |x: RBig| x.to_f64().value() / size;
        [of(exact(largest) - &value), of(value - exact(least))]
    }

    struct Random(ChaCha8Rng);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0.next_u64() % bound
        }

        fn unit(&mut self) -> f64 {
            (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    #[test]
    fn games_have_their_values() {
        // Matching pennies, a game with a saddle point, and rock, paper, scissors with a stake of 3 on rock.
        for (payoffs, mixture, belief) in [
            (vec![vec![1.0, -1.0], vec![-1.0, 1.0]], vec![0.5, 0.5], vec![0.5, 0.5]),
            (vec![vec![2.0, 5.0], vec![3.0, 4.0]], vec![0.0, 1.0], vec![0.0, 1.0]),
            (
                vec![vec![0.0, -1.0, 3.0], vec![1.0, 0.0, -1.0], vec![-3.0, 1.0, 0.0]],
                vec![0.2, 0.6, 0.2],
                vec![0.2, 0.6, 0.2],
            ),
        ] {
            let mut game = Game::default();
            payoffs.into_iter().for_each(|losses| game.push(losses));
            game.solve();
            let near = |found: &[(usize, f64)], expected: &[f64]| {
                let share = |place| found.iter().find(|found| found.0 == place).map_or(0.0, |found| found.1);
                expected.iter().enumerate().all(|(place, expected)| (share(place) - expected).abs() < 1e-15)
            };
            assert!(
                near(&game.mixture, &mixture) && near(&game.belief, &belief),
                "{:?} {:?}",
                game.mixture,
                game.belief
            );
        }
    }

    /// Random games with ties, multiples, repeated states, and losses over many orders of magnitude, against rational
    /// arithmetic.
    #[test]
    fn degenerate_games_have_their_values() {
        let mut random = Random(ChaCha8Rng::seed_from_u64(5));
        for index in 0..600 {
            let (states, count) = (1 + random.below(9) as usize, 1 + random.below(12) as usize);
            let scale = 10_f64.powf(24.0 * random.unit() - 12.0);
            let spread = [0.0, 3.0, 12.0][index % 3];
            let mut payoffs: Vec<Vec<f64>> = Vec::new();
            for _ in 0..count {
                let loss = |random: &mut Random| match index / 3 % 4 {
                    // Small integers, with many ties.
                    0 => random.below(4) as f64 - 1.0,
                    1 => 2.0 * random.unit() - 1.0,
                    // Nearly equal losses.
                    2 => 1.0 + (random.below(5) as f64 - 2.0) * 1e-9,
                    _ => (random.below(3) as f64 - 1.0) * random.unit(),
                };
                let stretch = 10_f64.powf(-spread * random.unit());
                let mut losses: Vec<f64> = (0..states).map(|_| scale * stretch * loss(&mut random)).collect();
                if random.below(4) == 0
                    && let Some(other) = payoffs.last()
                {
                    // A copy of another strategy except for one state.
                    let state = random.below(states as u64) as usize;
                    losses = other
                        .iter()
                        .zip(&losses)
                        .enumerate()
                        .map(|(s, (a, b))| if s == state { *b } else { *a })
                        .collect();
                }
                payoffs.push(losses);
            }
            if states > 1 && random.below(3) == 0 {
                payoffs.iter_mut().for_each(|losses| losses[0] = losses[1]);
            }
            let errors = errors(&payoffs);
            assert!(errors.iter().all(|error| (-1e-14..1e-13).contains(error)), "game {index}: {errors:?} {payoffs:?}");
        }
    }

    /// Losses in irrelevant states may have any magnitude and cost no precision elsewhere.
    #[test]
    fn large_entries_outside_of_the_kernel_do_not_matter() {
        let mut random = Random(ChaCha8Rng::seed_from_u64(6));
        for index in 0..100 {
            let (states, count) = (3 + random.below(5) as usize, 2 + random.below(8) as usize);
            let mut payoffs: Vec<Vec<f64>> =
                (0..count).map(|_| (0..states).map(|_| 1e-6 * (2.0 * random.unit() - 1.0)).collect()).collect();
            let expected = value(&payoffs);
            // States in which every strategy is far better off, and strategies that are far worse.
            payoffs
                .iter_mut()
                .for_each(|losses| losses.extend([-1e9 * random.unit() - 1.0, -1e3 * random.unit() - 1.0]));
            payoffs.insert(1, (0..states + 2).map(|_| 1e7 * (1.0 + random.unit())).collect());
            let mut game = Game::default();
            payoffs.into_iter().for_each(|losses| game.push(losses));
            game.solve();
            let found = game.losses().into_iter().fold(f64::NEG_INFINITY, f64::max);
            let error = (exact(found) - expected).to_f64().value();
            assert!(error.abs() < 1e-20, "game {index}: {error:e}");
        }
    }

    /// The game is too large to list its strategies at once: replies generate them.
    #[test]
    fn replies_are_enough() {
        let mut random = Random(ChaCha8Rng::seed_from_u64(7));
        for index in 0..60 {
            let (states, count) = (2 + random.below(8) as usize, 30);
            let payoffs: Vec<Vec<f64>> = (0..count)
                .map(|_| (0..states).map(|_| random.below(6) as f64 - 2.5 * random.unit()).collect())
                .collect();
            let expected = value(&payoffs).to_f64().value();
            let reply = |belief: &[(usize, f64)]| {
                let loss = |losses: &&Vec<f64>| belief.iter().map(|&(s, prob)| prob * losses[s]).sum::<f64>();
                payoffs.iter().min_by(|a, b| loss(a).total_cmp(&loss(b))).unwrap().clone()
            };
            let found = least_loss(payoffs[0].clone(), expected + 1e-13, 1e-3, 200, &|| false, reply);
            assert!((found - expected).abs() < 2e-13, "game {index}: {found} {expected}");
            // A target below the value is unreachable.
            let found = least_loss(payoffs[0].clone(), expected - 1.0, 1e-3, 200, &|| false, reply);
            assert!(
                found >= expected - 1e-13 && found <= expected + 2e-3 * found.abs(),
                "game {index}: {found} {expected}"
            );
            // Decision problem: is there a mixture below the target?
            let found = least_loss(payoffs[0].clone(), expected - 1e-9, 1.0, 200, &|| false, reply);
            assert!(found >= expected - 1e-13, "game {index}: {found} {expected}");
        }
    }
}
