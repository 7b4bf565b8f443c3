//! Models and sequences named on the command line, and the recursions over them.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use warpkov_common::choice::Choice;
use warpkov_hmm::backends::device::{ForwardMethod, OverPaths, Scan};
use warpkov_hmm::divided::RankShare;
use warpkov_hmm::io as formats;
use warpkov_hmm::io::Format;
use warpkov_hmm::io::sequences::{self, Batches, Missing, ReadOptions, Records, Table};
use warpkov_hmm::model::Hmm;
use warpkov_hmm::options::Precision;
use warpkov_hmm::place::{self, cost};
use warpkov_hmm::report::{Context, Phases};
use warpkov_hmm::run::{Running, Setup};
use warpkov_hmm::sequences::Sequences;
use warpkov_hmm::windows::Windows;
use warpkov_runtime::choose::{DeviceChoice, Devices, Place};
use warpkov_runtime::comm::Communicator;

use crate::common::choice::choice;
use crate::common::file::{FileOrStd, reads};
use crate::common::ranks::{self, Ranks, refused};
use crate::common::watch::Watch;
use crate::error::Error;

/// The model that a command reads.
#[derive(Args)]
pub struct Input {
    /// File of the model, folder of hmmlearn's arrays, or - for the standard input.
    #[arg(value_name = "MODEL")]
    pub model: FileOrStd,
    /// Format of MODEL [default: that of its extension, else of its content].
    #[arg(long, value_parser = choice::<Format>(), value_name = "FORMAT")]
    model_format: Option<Format>,
}

impl Input {
    /// Reads the model.
    pub fn read(&self) -> Result<Hmm, Error> {
        self.model.reads()?;
        Ok(match &self.model {
            FileOrStd::Standard => formats::read_from(io::stdin().lock(), "standard input", self.model_format)?,
            FileOrStd::At(path) => formats::read(path, self.model_format)?,
        })
    }
}

/// A model, sequences, and the device of the recursions.
#[derive(Args)]
pub struct Source {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    compute: Compute,
    #[command(flatten)]
    pub ranks: ranks::Arguments,
}

/// The sequences that a command reads.
#[derive(Args)]
struct Data {
    /// File of the sequences, or - for the standard input.
    #[arg(value_name = "SEQUENCES")]
    sequences: FileOrStd,
    /// Format of SEQUENCES [default: that of its extension, else of its content].
    #[arg(long, value_parser = choice::<sequences::Format>(), value_name = "FORMAT")]
    format: Option<sequences::Format>,
    /// File of the lengths of the sequences, if SEQUENCES is one NumPy array.
    #[arg(long, value_name = "FILE.npy")]
    lengths: Option<PathBuf>,
    #[command(flatten)]
    table: TableArguments,
    /// Treatment of missing observations (NA, nan, empty) and of ambiguous ones (N or R in DNA, gaps). marginalise also takes vectors of
    /// which some components are missing.
    #[arg(long, value_parser = choice::<Missing>(), value_name = "HOW", default_value = "refuse")]
    missing: Missing,
}

/// The columns of a table.
#[derive(Args)]
pub struct TableArguments {
    /// Observed columns of a table, by name, or by number from 1: price,volume or '"price, USD",4' [default: all but --id].
    #[arg(long, value_name = "LIST", value_parser = list)]
    columns: Option<List>,
    /// Column of a table that names the sequence of each row; rows of one sequence need not be adjacent [default: the first column, if it
    /// is called sequence].
    #[arg(long, value_name = "COLUMN")]
    id: Option<String>,
    /// Whether the first row of a table is a header. auto: it is one if --columns or --id names a column, if the first column is called
    /// sequence, or if no observed column holds an observation there.
    #[arg(long, value_parser = choice::<sequences::Header>(), value_name = "WHEN", default_value = "auto")]
    header: sequences::Header,
    /// Separator of the columns: one character, or tab [default: the most frequent of comma, semicolon and tab in the first row].
    #[arg(long, value_name = "CHARACTER", value_parser = separator)]
    separator: Option<u8>,
}

impl TableArguments {
    /// The columns to read.
    pub fn table(&self) -> Table {
        Table {
            header: self.header,
            columns: self.columns.clone().map(|List(names)| names).unwrap_or_default(),
            id: self.id.clone(),
            separator: self.separator,
        }
    }
}

/// The device of the recursions.
#[derive(Args, Clone)]
struct Compute {
    /// Device: auto, cpu, cuda:N or emulated; or GPUs that divide the sequences: cuda:0,1 or cuda:all. Of the processes that a launcher
    /// (mpirun, srun) starts, each takes one device.
    #[arg(long, value_name = "DEVICE", default_value_t = Devices::One(DeviceChoice::Auto))]
    device: Devices,
    /// Floating-point type of the recursions.
    #[arg(long, value_parser = choice::<Precision>(), default_value = "f64")]
    precision: Precision,
    /// Whether a GPU cuts sequences into chunks that it processes at the same time: for few, long sequences and at most 64 states.
    #[arg(long, value_parser = choice::<Scan>(), value_name = "WHEN", default_value_t = Scan::Auto)]
    scan: Scan,
}

/// Names separated by commas. Names that contain commas are quoted.
#[derive(Clone, Debug)]
pub struct List(pub Vec<String>);

/// Reads a list.
pub fn list(text: &str) -> Result<List, String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let row = reader.records().next().transpose().map_err(|error| error.to_string())?;
    let names: Vec<String> = row.iter().flatten().map(|name| name.trim().to_owned()).collect();
    match names.iter().any(String::is_empty) || names.is_empty() {
        true => Err("expected names or numbers between commas".to_owned()),
        false => Ok(List(names)),
    }
}

fn separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        &[byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() && !b"\"\n\r.".contains(&byte) => Ok(byte),
        _ => Err("expected tab, or one character other than letters, digits, points and quotes".to_owned()),
    }
}

/// A model and its sequences.
pub struct Given {
    /// The model.
    pub model: Hmm,
    /// The sequences, with the names and positions that their file gives.
    pub records: Records,
    /// Name of the sequences' file in messages.
    file: String,
    compute: Compute,
    method: ForwardMethod,
    /// The work, in passes over all sequences.
    passes: f64,
    /// The device of each rank of this process.
    devices: Vec<DeviceChoice>,
    /// Seconds of reading.
    read: f64,
}

impl Source {
    /// Joins the ranks of this command.
    pub fn join(&self) -> Result<Ranks, Error> {
        let standard = self.input.model == FileOrStd::Standard || self.data.sequences == FileOrStd::Standard;
        match ranks::launch() {
            Some(launch) if standard => {
                let message = format!("{} gives the standard input to one process: expected names of files", launch.by);
                Err(refused(launch, message))
            }
            _ => self.ranks.join(),
        }
    }

    /// Checks that the arguments fit together.
    pub fn check(&self) -> Result<(), Error> {
        let Self { input, data, compute, .. } = self;
        let cpu = compute.device == Devices::One(DeviceChoice::Cpu);
        let problem = match &data.sequences {
            FileOrStd::Standard if input.model == FileOrStd::Standard => {
                "model and sequences cannot both come from the standard input"
            }
            FileOrStd::Standard if data.lengths.is_some() => "--lengths needs sequences from a file",
            _ if cpu && compute.precision == Precision::Tf32 => "--precision tf32 needs a GPU: on a CPU there is f32",
            _ if cpu && compute.scan == Scan::Always => SCAN_NEEDS_GPU,
            _ => return Ok(()),
        };
        Err(Error::Usage(problem.to_owned()))
    }

    /// Checks that nothing asks for another place than the CPU, where `option` runs in f64.
    pub fn check_cpu(&self, option: &str) -> Result<(), Error> {
        let Compute { device, precision, scan } = &self.compute;
        let cpu = [DeviceChoice::Auto, DeviceChoice::Cpu].map(Devices::One).contains(device);
        match cpu && *precision == Precision::F64 && *scan != Scan::Always {
            true => Ok(()),
            false => {
                Err(Error::Usage(format!("{option} runs on the CPU, in f64: expected --device cpu, --precision f64")))
            }
        }
    }

    /// Checks that the other arguments permit a method of the forward recursion.
    pub fn check_method(&self, method: ForwardMethod) -> Result<(), Error> {
        let Compute { device, precision, scan } = self.compute.clone();
        let on_cpu = device == Devices::One(DeviceChoice::Cpu);
        Ok(method.check(on_cpu, precision, scan).map_err(place::Error::from)?)
    }

    /// Reads model and sequences, on every rank.
    pub fn read(&self, ranks: &Ranks) -> Result<Given, Error> {
        self.read_some(ranks, None)
    }

    /// Reads the model, and the `first` sequences or all, on every rank.
    pub fn read_some(&self, ranks: &Ranks, first: Option<usize>) -> Result<Given, Error> {
        let devices = ranks.agree(ranks.devices(&self.compute.device))?;
        let given = ranks.agree(self.read_alone(devices, first))?;
        ranks.same_files()?;
        if ranks.is_first() {
            given.records.notes.iter().for_each(|note| eprintln!("note: {note}"));
        }
        Ok(given)
    }

    fn read_alone(&self, devices: Vec<DeviceChoice>, first: Option<usize>) -> Result<Given, Error> {
        let Self { input, data, compute, .. } = self;
        let mut watch = Watch::start();
        data.sequences.reads()?;
        data.lengths.as_deref().map_or(Ok(()), reads)?;
        let _starting: Vec<_> = devices.iter().map(|&device| data.sequences.start(device)).collect();
        let model = input.read()?;
        let records = match first {
            None => data.read(&model)?,
            Some(most) => {
                let records = data.batches(&model)?.next(most)?;
                let records = records.ok_or_else(|| Error::Usage(format!("{} has no sequences", data.name())))?;
                // The results are those of all sequences of the file.
                Records { notes: records.notes, sets: records.sets, ..Records::new(records.sequences) }
            }
        };
        let (file, compute, method) = (data.name(), compute.clone(), ForwardMethod::Fused);
        Ok(Given { model, records, file, compute, method, passes: 1.0, devices, read: watch.lap() })
    }

    /// The sequences of the file, from the first, a few at a time.
    pub fn batches<'m>(&self, model: &'m Hmm) -> Result<Batches<'m>, Error> {
        self.data.batches(model)
    }
}

impl Data {
    /// Name of the sequences' file in messages.
    fn name(&self) -> String {
        match &self.sequences {
            FileOrStd::Standard => "standard input".to_owned(),
            FileOrStd::At(path) => path.display().to_string(),
        }
    }

    fn options(&self) -> ReadOptions {
        let table = self.table.table();
        ReadOptions { format: self.format, lengths: self.lengths.clone(), table, missing: self.missing }
    }

    fn batches<'m>(&self, model: &'m Hmm) -> Result<Batches<'m>, Error> {
        match &self.sequences {
            // A pipe has its content once.
            FileOrStd::At(path) if fs::metadata(path).map_or(true, |found| found.is_file()) => {
                Ok(Batches::open(path, &self.options(), model)?)
            }
            FileOrStd::At(_) | FileOrStd::Standard => Err(Error::Usage(format!(
                "batches come from a regular file, which each pass reads again, and {} is none",
                self.name()
            ))),
        }
    }

    fn read(&self, model: &Hmm) -> Result<Records, Error> {
        let options = self.options();
        Ok(match &self.sequences {
            FileOrStd::Standard => sequences::read_from_with(io::stdin().lock(), &self.name(), &options, model)?,
            FileOrStd::At(path) => sequences::read_with(path, &options, model)?,
        })
    }
}

const SCAN_NEEDS_GPU: &str = "--scan always needs a GPU: on a CPU it would only add work";

impl Given {
    /// The same, by another method of the forward recursion.
    pub fn with_method(self, method: ForwardMethod) -> Self {
        Self { method, ..self }
    }

    /// The same, for another number of passes over the sequences, on which the choice of a device depends.
    pub fn with_passes(self, passes: f64) -> Self {
        Self { passes, ..self }
    }

    /// The sequences.
    pub fn sequences(&self) -> &Sequences {
        &self.records.sequences
    }

    /// The sequences, and the symbols that V, V + 1 … stand for in them.
    pub fn observed(&self) -> (&Sequences, &[Vec<u32>]) {
        self.records.observed()
    }

    /// The number of ranks of the command.
    pub fn ranks(&self, ranks: &Ranks) -> usize {
        ranks.count(&self.devices)
    }

    /// The reason why the model cannot emit a sequence, given by its number from 0.
    pub fn why_impossible(&self, sequence: usize) -> String {
        format!("{}: {}", self.file, self.records.why_impossible(&self.model, sequence))
    }

    /// Prints why the model cannot emit the first impossible sequence, and how many others it cannot emit.
    pub fn note_impossible(&self, is_possible: impl Fn(usize) -> bool) {
        let mut impossible = (0..self.sequences().len()).filter(|&sequence| !is_possible(sequence));
        if let Some(first) = impossible.next() {
            let more = match impossible.count() {
                0 => String::new(),
                more => format!("; and {more} more are not possible"),
            };
            eprintln!("note: {}{more}", self.why_impossible(first));
        }
    }

    /// Prints that an array of one row per observation does not tell which observations of the file were removed.
    pub fn note_removed(&self) {
        let Records { starts, positions, .. } = &self.records;
        if !starts.is_empty() || !positions.is_empty() {
            eprintln!(
                "note: the array has no rows for missing observations; .csv and --json hold the positions of the others"
            );
        }
    }

    /// Runs `work` on every rank, each with its device, and returns the result of this process's first rank.
    pub fn run<'g, T: Send>(
        &'g self,
        ranks: &Ranks,
        work: impl Fn(&Opened<'g, '_>) -> Result<T, Error> + Sync,
    ) -> Result<T, Error> {
        let found = ranks.run(&self.devices, |comm, device| work(&self.open(ranks, comm, device)?));
        match found {
            // A stop request ends all ranks in the same step.
            Err(error) if error.exit_code() == 130 => ranks.agree(Err(error)),
            found => found,
        }
    }

    /// Opens the device of one rank.
    fn open<'g, 'r>(
        &'g self,
        ranks: &'r Ranks,
        comm: &'r dyn Communicator,
        device: DeviceChoice,
    ) -> Result<Opened<'g, 'r>, Error> {
        let mut watch = Watch::start();
        let mut cost = cost(&self.model, self.sequences());
        (cost.cpu, cost.gpu) = (cost.cpu * self.passes, cost.gpu * self.passes);
        let (place, reason) = ranks.agree(Place::open(device, Some(&cost)).map_err(Error::from))?;
        // The JSON report holds the reason, too.
        if let (Some(reason), true) = (&reason, comm.rank() == 0 && io::stderr().is_terminal()) {
            eprintln!("note: {reason}");
        }
        let phases = Phases { read: self.read, start: watch.lap(), ..Phases::default() };
        Ok(Opened { given: self, ranks, comm, place, reason, phases })
    }

    /// ln P of each window. The first rank has it.
    pub fn score_windows(&self, ranks: &Ranks, windows: &Windows) -> Result<(Vec<f64>, Context<'_>), Error> {
        self.run(ranks, |opened| {
            let mut watch = Watch::start();
            let (mut logs, mut context, (_, sets)) = (Vec::new(), opened.context(), self.observed());
            for batch in windows.batches() {
                let (found, all) =
                    opened.recursions_over((&batch, sets), OverPaths::Sums, &self.model, 1, |recursions| {
                        recursions.set_models(std::slice::from_ref(&self.model))?;
                        Ok(recursions.log_likelihoods()?.pop().unwrap_or_default())
                    })?;
                logs.extend(found);
                context.ranks = all;
            }
            context.phases.solve = watch.lap();
            Ok((logs, context))
        })
    }

    /// Computes something on the CPU, by one rank: from the model, with a symbol for each ambiguous one of the sequences.
    pub fn compute_on_cpu<R>(
        &self,
        ranks: &Ranks,
        result: impl FnOnce(&Hmm) -> Result<R, Error>,
    ) -> Result<(R, Context<'_>), Error> {
        let count = self.ranks(ranks);
        if count > 1 {
            return ranks.agree(Err(Error::Usage(format!("{count} ranks cannot divide this: expected one"))));
        }
        let mut watch = Watch::start();
        let found = result(&self.records.extended(&self.model))?;
        let phases = Phases { read: self.read, solve: watch.lap(), ..Phases::default() };
        let (device, precision) = (Place::Cpu.name(), Precision::F64);
        let (model, records, ranks, reason, verified) = (&self.model, &self.records, Vec::new(), None, None);
        Ok((found, Context { model, records, device, precision, reason, phases, ranks, verified }))
    }

    /// Computes one result of the recursions. The first rank has it.
    pub fn compute<R: Default + Send>(
        &self,
        ranks: &Ranks,
        over: OverPaths,
        result: impl Fn(&mut Running<'_>) -> Result<Vec<R>, place::Error> + Sync,
    ) -> Result<(R, Context<'_>), Error> {
        self.run(ranks, |opened| {
            let mut watch = Watch::start();
            let (result, all) = opened.recursions(over, &self.model, 1, |recursions| {
                recursions.set_models(std::slice::from_ref(&self.model))?;
                Ok(result(recursions)?.pop().unwrap_or_default())
            })?;
            let mut context = Context { ranks: all, ..opened.context() };
            context.phases.solve = watch.lap();
            Ok((result, context))
        })
    }
}

/// The device of a rank, opened for the recursions over some sequences.
pub struct Opened<'g, 'r> {
    given: &'g Given,
    ranks: &'r Ranks,
    comm: &'r dyn Communicator,
    place: Place,
    reason: Option<String>,
    phases: Phases,
}

impl<'g> Opened<'g, '_> {
    /// The connection to the other ranks.
    pub fn comm(&self) -> &dyn Communicator {
        self.comm
    }

    /// Floating-point type of the recursions. TF32 is for the products of a GPU for many states.
    pub fn precision(&self) -> Precision {
        let few = self.given.model.states() <= Precision::TF32_STATES;
        match (self.given.compute.precision, &self.place) {
            (Precision::Tf32, Place::Cpu) => Precision::F32,
            (Precision::Tf32, _) if few => Precision::F32,
            (precision, _) => precision,
        }
    }

    /// Input, device and time so far.
    pub fn context(&self) -> Context<'g> {
        Context {
            model: &self.given.model,
            records: &self.given.records,
            device: self.place.name(),
            precision: self.precision(),
            reason: self.reason.clone(),
            phases: self.phases,
            ranks: Vec::new(),
            verified: None,
        }
    }

    /// Runs `work` with the recursions by `count` models of the shape of `model`. If there are several ranks, also
    /// returns what each of them did.
    pub fn recursions<T>(
        &self,
        over: OverPaths,
        model: &Hmm,
        count: usize,
        work: impl FnOnce(&mut Running<'_>) -> Result<T, Error>,
    ) -> Result<(T, Vec<RankShare>), Error> {
        self.recursions_over(self.given.observed(), over, model, count, work)
    }

    /// [`recursions`](Self::recursions) over other sequences, with the symbols that V, V + 1 … stand for in them.
    pub fn recursions_over<T>(
        &self,
        (sequences, sets): (&Sequences, &[Vec<u32>]),
        over: OverPaths,
        model: &Hmm,
        count: usize,
        work: impl FnOnce(&mut Running<'_>) -> Result<T, Error>,
    ) -> Result<(T, Vec<RankShare>), Error> {
        let Compute { precision, scan, .. } = self.given.compute;
        let (states, most) = (model.states(), Scan::STATES);
        if scan == Scan::Always && matches!(self.place, Place::Cpu) {
            return self.ranks.agree(Err(Error::Usage(SCAN_NEEDS_GPU.to_owned())));
        }
        if scan == Scan::Always && states > most {
            let message = format!("--scan always takes up to {most} states, and the model has {states}");
            return self.ranks.agree(Err(Error::Usage(message)));
        }
        let (place, method, comm) = (&self.place, self.given.method, self.comm);
        let run = Setup { sequences, sets, place, precision, scan, over, method, comm };
        run.with_recursions(model, count, |opened| self.ranks.agree(opened.map_err(Error::from)), work)
    }
}

/// The format of a model that is written to `file`: the requested format, else that of the extension, else JSON on the standard output.
pub fn output_format(file: &FileOrStd, asked: Option<Format>) -> Result<Format, Error> {
    let format = file.format(asked, Format::ALL, Format::Json)?;
    file.writes()?;
    Ok(format)
}

/// Writes a model to a file or to the standard output.
pub fn write(file: &FileOrStd, format: Format, model: &Hmm, out: impl Write) -> Result<(), Error> {
    match file {
        FileOrStd::Standard => formats::write_to(out, format, model)?,
        FileOrStd::At(path) => formats::write(path, format, model)?,
    }
    Ok(())
}
