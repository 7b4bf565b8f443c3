//! Tied transitions: entries of A that training keeps equal.
//!
//! Each transition has a class, or is on its own (class 0). Rows that share a class are *tied*: they have the same classes, each as
//! often, and share the probabilities of these; what remains is divided among the transitions on their own, and the end, in each row by
//! itself. Let c be the expected counts with pseudocounts, T their sum over the tied rows, and class k occur mₖ times in each. Then
//!
//! > Σ cᵢⱼ ln Aᵢⱼ is largest for Aᵢⱼ = Σ c over class k / (mₖ T) in class k, and Aᵢⱼ = (R / T) · cᵢⱼ / Rᵢ on its own,
//!
//! where Rᵢ is the count of row i on its own, and R their sum. So states that stand for one, such as the steps of a duration or the parts
//! of a mixture, have its transitions.

use std::collections::HashMap;

/// Rows of A that share the probabilities of their classes.
struct TiedRows {
    rows: Vec<usize>,
    /// The classes, and how often each occurs in every row. In ascending order.
    classes: Vec<(u32, usize)>,
}

/// The rows that are tied. `ties` has the class of each of N × N transitions.
fn groups(ties: &[u32], n: usize) -> Result<Vec<TiedRows>, String> {
    let mut found: Vec<TiedRows> = Vec::new();
    let mut of_class: HashMap<u32, usize> = HashMap::new();
    for (i, row) in ties.chunks_exact(n).enumerate() {
        let mut sorted: Vec<u32> = row.iter().copied().filter(|class| *class > 0).collect();
        sorted.sort_unstable();
        let classes: Vec<(u32, usize)> = sorted.chunk_by(|a, b| a == b).map(|of| (of[0], of.len())).collect();
        let Some(&(first, _)) = classes.first() else { continue };
        let group = *of_class.entry(first).or_insert_with(|| {
            found.push(TiedRows { rows: Vec::new(), classes: classes.clone() });
            found.len() - 1
        });
        let shared = classes.iter().all(|(class, _)| *of_class.entry(*class).or_insert(group) == group);
        if !shared || found[group].classes != classes {
            let other = found[group].rows.first().copied().unwrap_or(i);
            return Err(format!(
                "rows {other} and {i} of A share a class of tied transitions, but not all their classes"
            ));
        }
        found[group].rows.push(i);
    }
    Ok(found)
}

/// Rows of A with their end probabilities.
pub(crate) struct Moves<'a> {
    /// N × N.
    pub transitions: &'a mut [f64],
    /// N, if the model has them.
    pub end: Option<&'a mut [f64]>,
}

impl Moves<'_> {
    fn states(&self) -> usize {
        self.transitions.len().isqrt()
    }

    /// Row i, and its end probability, with their classes. Ends are on their own.
    fn row(&self, ties: &[u32], i: usize) -> Vec<(u32, f64)> {
        let row = i * self.states()..(i + 1) * self.states();
        let end = self.end.as_ref().map(|end| (0, end[i]));
        ties[row.clone()].iter().copied().zip(self.transitions[row].iter().copied()).chain(end).collect()
    }

    fn set_row(&mut self, i: usize, probs: &[f64]) {
        let n = self.states();
        self.transitions[i * n..(i + 1) * n].copy_from_slice(&probs[..n]);
        self.end.iter_mut().zip(&probs[n..]).for_each(|(end, prob)| end[i] = *prob);
    }

    /// Checks that tied transitions are equal, and that all tied rows have something on their own, or none.
    pub fn check(&self, ties: &[u32]) -> Result<(), String> {
        let (found, expected) = (ties.len(), self.transitions.len());
        if found != expected {
            return Err(format!("{found} classes of transitions are tied, expected {expected}"));
        }
        for TiedRows { rows, .. } in groups(ties, self.states())? {
            let all: Vec<Vec<(u32, f64)>> = rows.iter().map(|&i| self.row(ties, i)).collect();
            let mut of_class: HashMap<u32, f64> = HashMap::new();
            let mut tied = all.iter().flatten().filter(|(class, _)| *class > 0);
            if tied.any(|&(class, prob)| *of_class.entry(class).or_insert(prob) != prob) {
                return Err("the probabilities of tied transitions differ".to_owned());
            }
            let has: Vec<bool> = all.iter().map(|row| sum_of(row, 0) > 0.0).collect();
            if let Some(lacking) = has.iter().position(|has| !has).filter(|_| has.contains(&true)) {
                let row = rows[lacking];
                return Err(format!(
                    "row {row} of A has only tied transitions, but rows that share them have others, too"
                ));
            }
        }
        Ok(())
    }

    /// Replaces tied transitions by their mean. What is on its own makes room in proportion.
    pub fn share(mut self, ties: &[u32]) -> Result<(), String> {
        if self.check(ties).is_err() {
            let (before, ended) = (self.transitions.to_vec(), self.end.as_ref().map(|end| end.to_vec()));
            self.maximise(ties, |at| before[at], |i| ended.as_ref().map_or(0.0, |end| end[i]));
        }
        self.check(ties)
    }

    /// The M step of all tied rows, from the counts of transitions and ends. Zeros stay zeros. Without counts nothing changes. Returns
    /// which rows are tied.
    pub fn maximise(&mut self, ties: &[u32], count: impl Fn(usize) -> f64, ended: impl Fn(usize) -> f64) -> Vec<bool> {
        let n = self.states();
        let mut tied = vec![false; n];
        // `check` says what is wrong with others.
        let groups = if ties.len() == n * n { groups(ties, n).unwrap_or_default() } else { Vec::new() };
        for TiedRows { rows, classes } in groups {
            rows.iter().for_each(|&i| tied[i] = true);
            let of_row = |&i: &usize| -> Vec<(u32, f64)> {
                let count = |j: usize| if j < n { count(i * n + j) } else { ended(i) };
                let counted = |(j, (class, prob))| (class, if prob > 0.0 { count(j) } else { 0.0 });
                self.row(ties, i).into_iter().enumerate().map(counted).collect()
            };
            let counts: Vec<Vec<(u32, f64)>> = rows.iter().map(of_row).collect();
            let of_class = |class: u32| counts.iter().map(|row| sum_of(row, class)).sum::<f64>();
            let (shared, own): (Vec<f64>, f64) =
                (classes.iter().map(|(class, _)| of_class(*class)).collect(), of_class(0));
            let total = shared.iter().sum::<f64>() + own;
            if total < f64::MIN_POSITIVE {
                continue;
            }
            let probs: HashMap<u32, f64> = classes
                .iter()
                .zip(shared)
                .map(|(&(class, times), count)| (class, count / total / times as f64))
                .collect();
            for (&i, counts) in rows.iter().zip(&counts) {
                // A row without counts of its own keeps their proportions.
                let before = self.row(ties, i);
                let parts = if sum_of(counts, 0) < f64::MIN_POSITIVE { &before } else { counts };
                let whole = sum_of(parts, 0);
                let new = |&(class, part): &(u32, f64)| match probs.get(&class) {
                    Some(prob) => *prob,
                    None if whole > 0.0 => part / whole * (own / total),
                    None => 0.0,
                };
                let new: Vec<f64> = parts.iter().map(new).collect();
                self.set_row(i, &new);
            }
        }
        tied
    }

    /// Number of probabilities that the others determine because of the ties.
    pub fn determined(&self, ties: &[u32]) -> usize {
        let free = |probs: usize| probs.saturating_sub(1);
        let of_group = |TiedRows { rows, classes }: TiedRows| {
            let count = |i: usize, of: &dyn Fn(u32) -> bool| {
                self.row(ties, i).iter().filter(|(class, prob)| *prob > 0.0 && of(*class)).count()
            };
            let apart: usize = rows.iter().map(|&i| free(count(i, &|_| true))).sum();
            let own: Vec<usize> = rows.iter().map(|&i| count(i, &|class| class == 0)).collect();
            let shared = classes.iter().filter(|(class, _)| count(rows[0], &|own| own == *class) > 0).count();
            let has_own = own.iter().any(|own| *own > 0);
            apart - free(shared + usize::from(has_own)) - own.into_iter().map(free).sum::<usize>()
        };
        groups(ties, self.states()).unwrap_or_default().into_iter().map(of_group).sum()
    }
}

/// The sum of what is of a class.
fn sum_of(row: &[(u32, f64)], class: u32) -> f64 {
    row.iter().filter(|entry| entry.0 == class).map(|entry| entry.1).sum()
}
