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
