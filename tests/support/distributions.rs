//! Random distributions for models of partially observable processes.

use warpkov_mdp::model::Csr;

use super::random::Random;

/// `rows` random distributions over `columns`; about a third of the entries are 0.
pub fn distributions(random: &mut Random, rows: usize, columns: u32) -> Csr {
    let (mut row_ptr, mut col, mut val) = (vec![0_u64], Vec::new(), Vec::new());
    for _ in 0..rows {
        let mut row: Vec<f64> = (0..columns).map(|_| if random.unit() < 0.35 { 0.0 } else { random.unit() }).collect();
        row[random.below(u64::from(columns)) as usize] += 0.25;
        let sum: f64 = row.iter().sum();
        for (column, &x) in (0..).zip(&row).filter(|(_, x)| **x > 0.0) {
            col.push(column);
            val.push(x / sum);
        }
        row_ptr.push(col.len() as u64);
    }
    Csr::new(row_ptr, col, val).unwrap()
}
