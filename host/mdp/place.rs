//! Placement of a solve: device, method and precision, as requested or chosen by `auto`, and the backend for them.

use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use warpkov_runtime::device::AnyDevice;

use super::auto::Features;
use super::cpu;
use super::dynamic::Dynamic;
use super::error::SolveError;
use super::krylov::{Krylov, Scale};
use super::model::Mdp;
use super::options::{Method, Places, Precision, SolveOptions, Storage};
use super::prepared::Prepared;
use super::refine::Refined;
use super::solution::Phases;
use super::team::Team;
use warpkov_runtime::choose::{Decision, DeviceChoice};
use warpkov_runtime::gpu;
use warpkov_runtime::gpu::Gpu;
use warpkov_runtime::{self, Precise, cores, emulator};

/// Device, method and precision of a solve.
pub struct Placement<'m> {
    mdp: &'m Mdp,
    team: Team<'m>,
    options: SolveOptions,
    chosen: Chosen<'m>,
    /// Method, requested or chosen.
    pub method: Method,
    /// Precision, requested or chosen.
    pub precision: Precision,
    /// Description of the device.
    pub device: String,
    /// Automatic choices, with reasons.
    pub notes: Vec<String>,
    /// Times so far.
    pub phases: Phases,
    begun: Instant,
    /// Duration of the choice.
    choice_time: Duration,
}

/// The chosen device, with the model in its layout.
enum Chosen<'m> {
    Cpu,
    Device(Box<AnyDevice>, Box<Prepared<'m>>),
}

/// A chosen device, with notes and times.
struct Found<'m> {
    place: Chosen<'m>,
    precision: Precision,
    notes: Vec<String>,
    phases: Phases,
}

impl<'m> Placement<'m> {
    /// Chooses the placement for a maximisation model and converts the model to its layout.
    ///
    /// # Errors
    /// [`SolveError`].
    pub fn choose(mdp: &'m Mdp, options: &SolveOptions) -> Result<Self, SolveError> {
        Self::choose_by(mdp, &Team::alone(), Features::if_auto(mdp, options).as_ref(), options)
    }

    /// [`choose`](Self::choose) with known features, `None` if the options name a method; for the ranks of `team`.
    ///
    /// # Errors
    /// [`SolveError`].
    pub fn choose_by(
        mdp: &'m Mdp,
        team: &Team<'m>,
        features: Option<&Features>,
        options: &SolveOptions,
    ) -> Result<Self, SolveError> {
        let begun = Instant::now();
        let Found { place: chosen, precision, mut notes, phases } = find(mdp, team, features, options)?;
        let choice_time = begun.elapsed();
        let method = match features.map(Features::method) {
            Some((method, note)) => {
                notes.push(note);
                method
            }
            None => options.method.unwrap_or(Method::Values),
        };
        if team.part().is_some() && !method.divides() {
            return Err(SolveError::OneRank(method));
        }
        let precision = chosen.precision(method, precision);
        if options.precision == Precision::F32 && precision != Precision::F32 {
            notes.push(format!("{method} computes in {precision} regardless of option precision"));
        }
        let one = matches!(method, Method::Serial | Method::Sequential);
        let device = match &chosen {
            Chosen::Cpu if one => cores::of(1),
            Chosen::Cpu => cores::all(),
            Chosen::Device(device, prepared) => {
                notes.extend(prepared.note());
                device.name()
            }
        };
        Ok(Self {
            mdp,
            team: team.clone(),
            options: *options,
            chosen,
            method,
            precision,
            device,
            notes,
            phases,
            begun,
            choice_time,
        })
    }

    /// Transfers the model to the device. Returns the backend, the time since the start of the choice, and the time of
    /// the transfer.
    ///
    /// # Errors
    /// Errors of the device, or [`SolveError::Shared`] for a storage that refinement does not support.
    pub fn open(&self) -> Result<(Dynamic<'_>, Duration, Duration), SolveError> {
        let Self { mdp, team, options, method, precision, .. } = self;
        let backend = match &self.chosen {
            Chosen::Cpu => match precision {
                Precision::F32 => on_cpu::<f32>(mdp, team, *method, options)?,
                Precision::Refined if *method == Method::Values => refined_on_cpu(mdp, team, options)?,
                Precision::F64 | Precision::Mixed | Precision::Refined => on_cpu::<f64>(mdp, team, *method, options)?,
            },
            Chosen::Device(device, prepared) => prepared.open(device, team, *precision)?,
        };
        let setup = self.begun.elapsed();
        Ok((backend, setup, setup.saturating_sub(self.choice_time)))
    }
}

impl Chosen<'_> {
    /// The precision of `method` on this device for the `requested` precision.
    fn precision(&self, method: Method, requested: Precision) -> Precision {
        // Streamed models have one precision. The CPU supports refinement but not mixed precision.
        let (refines, mixes) = match self {
            Self::Cpu => (true, false),
            Self::Device(_, prepared) => (prepared.is_whole(), prepared.is_whole()),
        };
        match (method.precision(requested), method) {
            (Precision::Mixed, Method::Values) if mixes => Precision::Mixed,
            (Precision::Refined, Method::Values) if refines => Precision::Refined,
            (Precision::Mixed | Precision::Refined, _) => Precision::F64,
            (precision, _) => precision,
        }
    }
}

/// The device that the options name, or the cheapest one by the features.
fn find<'m>(
    mdp: &'m Mdp,
    team: &Team,
    features: Option<&Features>,
    options: &SolveOptions,
) -> Result<Found<'m>, SolveError> {
    let places = options.method.map_or(Places { cpu: true, gpu: true }, Method::places);
    if let Some(method) = options.method {
        let unsupported = |instead| Err(SolveError::Unsupported { method, device: options.device, instead });
        match options.device {
            DeviceChoice::Cpu if !places.cpu => return unsupported("it needs device cuda:N or emulated"),
            DeviceChoice::Cuda(_) | DeviceChoice::Emulated if !places.gpu => {
                return unsupported("it needs device cpu");
            }
            _ => {}
        }
    }
    let on_cpu = |note: Option<String>| Found {
        place: Chosen::Cpu,
        precision: options.precision,
        notes: note.into_iter().collect(),
        phases: Phases::default(),
    };
    let (decision, reason) = Decision::of(options.device, features.map(Features::cost).as_ref());
    match decision {
        Decision::Cpu => Ok(on_cpu(reason)),
        Decision::Gpu { or_cpu: true, .. } if !places.gpu => Ok(on_cpu(None)),
        Decision::Gpu { ordinal, or_cpu } => match on_gpu(ordinal, mdp, team, options) {
            Ok(mut found) => {
                found.notes.splice(0..0, reason);
                Ok(found)
            }
            Err(SolveError::Runtime(error @ warpkov_runtime::Error::Device(_))) if or_cpu && places.cpu => {
                Ok(on_cpu(Some(Decision::fell_back(&error))))
            }
            Err(error) => Err(error),
        },
        Decision::Emulated => {
            let free = options.device_memory.unwrap_or(u64::MAX);
            let begun = Instant::now();
            let prepared = Prepared::new(mdp, options)?.within(free, free, options)?;
            let phases = Phases { prepare: begun.elapsed(), ..Phases::default() };
            let place = Chosen::Device(Box::new(emulator().into()), Box::new(prepared));
            Ok(Found { place, precision: options.precision, notes: Vec::new(), phases })
        }
    }
}

/// Opens a GPU and lays the model out for its free memory, in parts if necessary. The layout and the start of the GPU
/// overlap.
fn on_gpu<'m>(ordinal: u32, mdp: &'m Mdp, team: &Team, options: &SolveOptions) -> Result<Found<'m>, SolveError> {
    // Without a driver, skip the layout.
    Gpu::driver_version()?;
    let begun = Instant::now();
    let (gpu, start, prepared, prepare) = thread::scope(|scope| {
        let prepared = scope.spawn(|| (Prepared::new(mdp, options), begun.elapsed()));
        let (gpu, start) = (gpu::open(ordinal), begun.elapsed());
        let (prepared, prepare) = prepared.join().unwrap_or_else(|panic| resume_unwind(panic));
        (gpu, start, prepared, prepare)
    });
    let (gpu, prepared) = (gpu?, prepared?);
    let phases = Phases { start, prepare, ..Phases::default() };
    let (free, total) = gpu.memory()?;
    let free = free.min(options.device_memory.unwrap_or(u64::MAX));
    let precision = options.precision;
    // All ranks have the same precision.
    let alone = team.part().is_none();
    if alone && precision == Precision::Mixed && options.method.is_none() && prepared.bytes(precision) > free {
        // A model too large in f64 may fit in f32.
        let precision = Precision::Refined;
        let refined = Prepared::new(mdp, &SolveOptions { precision, storage: None, ..*options })?;
        if refined.bytes(precision) <= free {
            let note = "auto chose precision refined: GPU memory holds the model in f32 but not in f64";
            return Ok(Found {
                place: Chosen::Device(Box::new(gpu.into()), Box::new(refined)),
                precision,
                notes: vec![note.to_owned()],
                phases,
            });
        }
    }
    let place = Chosen::Device(Box::new(gpu.into()), Box::new(prepared.within(free, total, options)?));
    Ok(Found { place, precision, notes: Vec::new(), phases })
}

fn on_cpu<'m, T: Precise>(
    mdp: &'m Mdp,
    team: &Team<'m>,
    method: Method,
    options: &SolveOptions,
) -> Result<Dynamic<'m>, SolveError> {
    let storage = match options.storage {
        None => cpu::Storage::Auto,
        Some(Storage::Rows | Storage::Slices) => cpu::Storage::Plain,
        Some(Storage::Narrow) => cpu::Storage::Packed,
        Some(Storage::Patterns) => cpu::Storage::Patterns,
    };
    let with = |order| cpu::EngineOptions { storage, order, skip: options.skip, local_sweeps: options.local_sweeps };
    let engine = |order| cpu::Engine::<T>::in_team(mdp, with(order), team.clone());
    Ok(match method {
        Method::Serial => Dynamic::policies(cpu::Serial::<T>::new(mdp)),
        Method::Sequential => Dynamic::values(cpu::Sequential::<T>::new(mdp)),
        Method::Values => Dynamic::values(engine(cpu::Order::Jacobi)),
        Method::GaussSeidel => Dynamic::values(engine(cpu::Order::BLOCKS)),
        Method::Modified => Dynamic::modified(engine(cpu::Order::Jacobi)),
        Method::Krylov => {
            let engine = cpu::Engine::in_team(mdp, with(cpu::Order::Jacobi), team.clone());
            Dynamic::policies(Krylov::new(cpu::System::new(engine), Scale::of(mdp, team)?)?)
        }
        _ if team.part().is_some() => Dynamic::policies(engine(cpu::Order::Jacobi)),
        _ => Dynamic::policies(cpu::Parallel::<T>::new(mdp)),
    })
}

/// A backend of sweeps in f32 on the CPU with refinement in f64.
fn refined_on_cpu<'m>(mdp: &'m Mdp, team: &Team<'m>, options: &SolveOptions) -> Result<Dynamic<'m>, SolveError> {
    let storage = match options.storage {
        None | Some(Storage::Narrow) => cpu::Storage::Packed,
        Some(Storage::Rows | Storage::Slices) => cpu::Storage::Plain,
        Some(storage @ Storage::Patterns) => return Err(SolveError::Shared(storage)),
    };
    let order = cpu::Order::Jacobi;
    // Corrections end by the fall of their changes, which local sweeps do not assure.
    let engine_options = cpu::EngineOptions { storage, order, skip: options.skip, local_sweeps: 1 };
    let engine = cpu::Engine::<f32>::in_team(mdp, engine_options, team.clone());
    Ok(Dynamic::values(Refined::new(engine, mdp, team.clone())))
}
