//! Stand-ins for parts written on other branches, deleted at the merge.
#![allow(missing_docs)]

/// Stands in for `mdp::io`.
pub mod io {
    use std::fs::File;
    use std::io::{BufReader, BufWriter, Read, Write};
    use std::path::Path;

    use serde::{Deserialize, Serialize};

    use crate::mdp::model::{Csr, Grid, Mdp};

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    pub struct Error(String);

    #[derive(Serialize, Deserialize)]
    struct Matrix {
        indptr: Vec<u64>,
        indices: Vec<u32>,
        data: Vec<f64>,
    }

    #[derive(Serialize, Deserialize)]
    struct File_ {
        #[serde(rename = "S")]
        s: u32,
        #[serde(rename = "A")]
        a: u32,
        gamma: f64,
        #[serde(rename = "P")]
        p: Matrix,
        #[serde(rename = "R")]
        r: Matrix,
        grid: Option<Grid>,
    }

    pub fn read(path: &Path) -> Result<Mdp, Error> {
        let file = File::open(path).map_err(|e| Error(format!("{}: {e}", path.display())))?;
        read_json(BufReader::new(file), &path.display().to_string())
    }

    pub fn read_json(reader: impl Read, name: &str) -> Result<Mdp, Error> {
        let f: File_ = serde_json::from_reader(reader).map_err(|e| Error(format!("{name}: {e}")))?;
        let csr = |m: Matrix| Csr { row_ptr: m.indptr.into(), col: m.indices.into(), val: m.data.into() };
        Ok(Mdp { states: f.s, actions: f.a, gamma: f.gamma, transitions: csr(f.p), rewards: csr(f.r), grid: f.grid })
    }

    pub fn write(path: &Path, mdp: &Mdp) -> Result<(), Error> {
        crate::output::atomic_write(path, |w| write_json(&mut BufWriter::new(w), mdp))
            .map_err(|e| Error(format!("{}: {e}", path.display())))
    }

    pub fn write_json(writer: &mut impl Write, mdp: &Mdp) -> std::io::Result<()> {
        let matrix = |m: &Csr| Matrix { indptr: m.row_ptr.to_vec(), indices: m.col.to_vec(), data: m.val.to_vec() };
        let file = File_ {
            s: mdp.states,
            a: mdp.actions,
            gamma: mdp.gamma,
            p: matrix(&mdp.transitions),
            r: matrix(&mdp.rewards),
            grid: mdp.grid.clone(),
        };
        serde_json::to_writer(&mut *writer, &file)?;
        writer.flush()
    }
}

/// Stands in for `mdp::generate`.
pub mod generate {
    use crate::mdp::model::{Csr, Grid, Mdp};

    pub struct SlipGrid {
        pub width: u32,
        pub height: u32,
        pub slip: f64,
        pub wall_fraction: f64,
        pub obstacle_fraction: f64,
        pub gamma: f64,
        pub seed: u64,
        pub goal_reward: f64,
        pub obstacle_penalty: f64,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    pub struct Error(String);

    impl SlipGrid {
        pub fn generate(&self) -> Result<Mdp, Error> {
            let (w, h) = (i64::from(self.width), i64::from(self.height));
            let states = self.width * self.height;
            let goal = states - 1;
            let mut seed = self.seed;
            let mut random = || {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (seed >> 11) as f64 / (1u64 << 53) as f64
            };
            let (mut walls, mut obstacles) = (vec![], vec![]);
            for s in 1..goal {
                let x = random();
                if x < self.wall_fraction {
                    walls.push(s);
                } else if x < self.wall_fraction + self.obstacle_fraction {
                    obstacles.push(s);
                }
            }
            let moves = [(0, -1), (0, 1), (1, 0), (-1, 0)];
            let (mut ptr, mut col, mut val) = (vec![0u64], vec![], vec![]);
            let (mut rptr, mut rcol, mut rval) = (vec![0u64], vec![], vec![]);
            for s in 0..states {
                for a in 0..4 {
                    let mut row = std::collections::BTreeMap::new();
                    let side = if a < 2 { [2, 3] } else { [0, 1] };
                    let spread = [(a, 1.0 - self.slip), (side[0], self.slip / 2.0), (side[1], self.slip / 2.0)];
                    for (m, p) in spread {
                        let (x, y) = (i64::from(s) % w + moves[m].0, i64::from(s) / w + moves[m].1);
                        let mut t = if x < 0 || y < 0 || x >= w || y >= h { s } else { (y * w + x) as u32 };
                        if s == goal || walls.binary_search(&t).is_ok() {
                            t = s;
                        }
                        *row.entry(t).or_insert(0.0) += p;
                    }
                    for (t, p) in row {
                        col.push(t);
                        val.push(p);
                        let r = if t == goal && s != goal { self.goal_reward } else { 0.0 };
                        let r = r + if obstacles.binary_search(&t).is_ok() { self.obstacle_penalty } else { 0.0 };
                        if r != 0.0 {
                            rcol.push(t);
                            rval.push(r);
                        }
                    }
                    ptr.push(col.len() as u64);
                    rptr.push(rcol.len() as u64);
                }
            }
            Ok(Mdp {
                states,
                actions: 4,
                gamma: self.gamma,
                transitions: Csr { row_ptr: ptr.into(), col: col.into(), val: val.into() },
                rewards: Csr { row_ptr: rptr.into(), col: rcol.into(), val: rval.into() },
                grid: Some(Grid { width: self.width, height: self.height, goal, walls, obstacles }),
            })
        }
    }
}

/// Stands in for `mdp::certificate`.
pub mod certificate {
    use crate::mdp::model::Mdp;

    #[derive(Clone, Copy, Debug, serde::Serialize)]
    pub struct Certificate {
        pub bellman_residual: f64,
        pub contraction: f64,
        pub bound: Option<f64>,
    }

    pub fn certify(mdp: &Mdp, values: &[f64]) -> Certificate {
        let mut worst = 0.0f64;
        for s in 0..mdp.states as usize {
            let best = (0..mdp.actions as usize).map(|a| super::q(mdp, values, s, a)).fold(f64::MIN, f64::max);
            worst = worst.max((best - values[s]).abs());
        }
        let bound = Some(worst / (1.0 - mdp.gamma));
        Certificate { bellman_residual: worst, contraction: mdp.gamma, bound }
    }
}

/// Stands in for `crate::output`.
pub mod output {
    use std::io::{self, Write};
    use std::path::Path;

    pub fn atomic_write(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        write(&mut file)?;
        file.persist(path).map(|_| ()).map_err(|e| e.error)
    }
}

fn q(mdp: &super::model::Mdp, values: &[f64], s: usize, a: usize) -> f64 {
    let row = s * mdp.actions as usize + a;
    let (col, p) = mdp.transitions.row(row);
    let (rcol, r) = mdp.rewards.row(row);
    let reward = |c: &u32| rcol.binary_search(c).map_or(0.0, |i| r[i]);
    col.iter().zip(p).map(|(c, p)| p * (reward(c) + mdp.gamma * values[*c as usize])).sum()
}
