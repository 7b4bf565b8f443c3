//! Reports of expected times in states, and visits.

use std::io::{self, Write};

use serde::Serialize;

use super::posteriors::MatrixRows;
use super::{Context, PosteriorFormat};
use crate::io::sequences::field;
use crate::occupancy::Occupancy;
use warpkov_common::io::npy;
use warpkov_common::report::{Report, Results};

/// Expected times in states, and visits, of each sequence.
#[derive(Clone, Debug)]
pub struct Occupancies<'a> {
    /// Input and device. The states of its model are the classes of the occupancy.
    pub context: Context<'a>,
    /// The expectations, M × N each.
    pub occupancy: Occupancy,
}

impl Occupancies<'_> {
    /// Whether the model can emit a sequence.
    #[must_use]
    pub fn is_possible(&self, sequence: usize) -> bool {
        let n = self.occupancy.classes;
        self.occupancy.time[sequence * n..][..n].iter().any(|time| *time > 0.0)
    }
}

impl Report for Occupancies<'_> {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let names = self.context.state_names(field);
        let rows = self.occupancy.time.chunks(names.len()).zip(self.occupancy.visits.chunks(names.len()));
        writeln!(out, "sequence,state,time,visits")?;
        for (sequence, (time, visits)) in rows.enumerate() {
            let sequence = field(&self.context.records.name(sequence));
            for (name, (time, visits)) in names.iter().zip(time.iter().zip(visits)) {
                writeln!(out, "{sequence},{name},{time:?},{visits:?}")?;
            }
        }
        Ok(())
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Fields<'a> {
            time: MatrixRows<'a>,
            visits: MatrixRows<'a>,
        }
        let Occupancy { classes, time, visits } = &self.occupancy;
        self.context.write_json(out, Fields { time: MatrixRows(time, *classes), visits: MatrixRows(visits, *classes) })
    }
}

impl Results for Occupancies<'_> {
    type Format = PosteriorFormat;

    fn write_as(&self, format: PosteriorFormat, out: &mut dyn Write) -> io::Result<()> {
        match format {
            PosteriorFormat::Csv => self.write_text(out),
            PosteriorFormat::Npy => {
                let Occupancy { classes, time, visits } = &self.occupancy;
                npy::write_header(out, <f64 as npy::Store>::DESCR, &[2, self.context.sequences(), *classes])?;
                out.write_all(bytemuck::cast_slice(time))?;
                out.write_all(bytemuck::cast_slice(visits))
            }
        }
    }
}
