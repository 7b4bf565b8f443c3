//! Where a model is solved, by which method and in which types: what the user asks for, or `auto` chooses; and the backend there.

use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use warpkov_device::emulator::Emulator;

use super::auto::Features;
use super::cpu;
use super::dynamic::Dynamic;
use super::error::SolveError;
use super::krylov::Krylov;
use super::model::Mdp;
use super::options::{Method, Places, Precision, SolveOptions, Storage};
use super::prepared::Prepared;
use super::refine::Refined;
use super::solution::Phases;
use crate::runtime::choose::{Decision, DeviceChoice};
use crate::runtime::gpu;
use crate::runtime::gpu::Gpu;
use crate::runtime::{self, Precise, cores, emulator};

/// Where a model is to be solved, and how.
pub struct Placement<'m> {
    mdp: &'m Mdp,
    options: SolveOptions,
    chosen: Chosen<'m>,
    /// The method, asked for or chosen.
    pub method: Method,
    /// The precision, asked for or chosen.
    pub precision: Precision,
    /// The device, in words.
    pub device: String,
    /// What was chosen on the user's behalf, and why.
    pub notes: Vec<String>,
    /// Where the time went so far.
    pub phases: Phases,
    begun: Instant,
    /// Time until all this was known.
    took: Duration,
}

/// What a device needs.
enum Chosen<'m> {
    Cpu,
    Gpu(Gpu, Prepared<'m>),
    Emulated(Emulator, Prepared<'m>),
}

/// A device that was found.
struct Found<'m> {
    place: Chosen<'m>,
    precision: Precision,
    notes: Vec<String>,
    phases: Phases,
}

impl<'m> Placement<'m> {
    /// Chooses a place for a model that is to be maximised, and lays the model out for it.
    ///
    /// # Errors
    /// [`SolveError`].
    pub fn choose(mdp: &'m Mdp, options: &SolveOptions) -> Result<Self, SolveError> {
        Self::choose_by(mdp, Features::wanted(mdp, options).as_ref(), options)
    }

    /// [`choose`](Self::choose), where the features are known: those of a run whose method `auto` chooses.
    ///
    /// # Errors
    /// As there.
    pub fn choose_by(mdp: &'m Mdp, features: Option<&Features>, options: &SolveOptions) -> Result<Self, SolveError> {
        let begun = Instant::now();
        let Found { place: chosen, precision, mut notes, phases } = find(mdp, features, options)?;
        let took = begun.elapsed();
        let method = match features.map(Features::method) {
            Some((method, note)) => {
                notes.push(note);
                method
            }
            None => options.method.unwrap_or(Method::Values),
        };
        let precision = chosen.precision(method, precision);
        if options.precision == Precision::F32 && precision != Precision::F32 {
            notes.push(format!("{method} computes in {precision} whatever the precision asked for"));
        }
        let one = matches!(method, Method::Serial | Method::Sequential);
        let device = match &chosen {
            Chosen::Cpu if one => cores::of(1),
            Chosen::Cpu => cores::all(),
            Chosen::Gpu(gpu, prepared) => {
                notes.extend(prepared.note());
                gpu.name()
            }
            Chosen::Emulated(_, prepared) => {
                notes.extend(prepared.note());
                "the emulator".to_owned()
            }
        };
        Ok(Self { mdp, options: *options, chosen, method, precision, device, notes, phases, begun, took })
    }

    /// Brings the model there. Returns the backend, the time since the choice began, and the part of it that this took.
    ///
    /// # Errors
    /// Those of the device, or if the model cannot be stored as asked.
    pub fn open(&self) -> Result<(Dynamic<'_>, Duration, Duration), SolveError> {
        let Self { mdp, options, method, precision, .. } = self;
        let backend = match &self.chosen {
            Chosen::Cpu => match precision {
                Precision::F32 => on_cpu::<f32>(mdp, *method, options)?,
                Precision::Refined if *method == Method::Values => refined_on_cpu(mdp, options)?,
                Precision::F64 | Precision::Mixed | Precision::Refined => on_cpu::<f64>(mdp, *method, options)?,
            },
            Chosen::Gpu(gpu, prepared) => prepared.open(gpu, *precision)?,
            Chosen::Emulated(emulator, prepared) => prepared.open(emulator, *precision)?,
        };
        let setup = self.begun.elapsed();
        Ok((backend, setup, setup.saturating_sub(self.took)))
    }
}

impl Chosen<'_> {
    /// What a method computes in where `asked` is asked for.
    fn precision(&self, method: Method, asked: Precision) -> Precision {
        // A model that is streamed is swept in one type, and so is any on the CPU unless it is refined.
        let (refines, mixes) = match self {
            Self::Cpu => (true, false),
            Self::Gpu(_, prepared) | Self::Emulated(_, prepared) => (prepared.is_whole(), prepared.is_whole()),
        };
        match (method.precision(asked), method) {
            (Precision::Mixed, Method::Values) if mixes => Precision::Mixed,
            (Precision::Refined, Method::Values) if refines => Precision::Refined,
            (Precision::Mixed | Precision::Refined, _) => Precision::F64,
            (precision, _) => precision,
        }
    }
}

/// The device that the options name, or that `auto` finds the cheapest by the features.
fn find<'m>(mdp: &'m Mdp, features: Option<&Features>, options: &SolveOptions) -> Result<Found<'m>, SolveError> {
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
        Decision::Gpu { ordinal, or_cpu } => match on_gpu(ordinal, mdp, options) {
            Ok(mut found) => {
                found.notes.splice(0..0, reason);
                Ok(found)
            }
            Err(SolveError::Runtime(error @ runtime::Error::Device(_))) if or_cpu && places.cpu => {
                Ok(on_cpu(Some(Decision::fell_back(&error))))
            }
            Err(error) => Err(error),
        },
        Decision::Emulated => {
            let free = options.device_memory.unwrap_or(u64::MAX);
            let begun = Instant::now();
            let prepared = Prepared::new(mdp, options)?.within(free, free, options)?;
            let phases = Phases { prepare: begun.elapsed(), ..Phases::default() };
            let place = Chosen::Emulated(emulator(), prepared);
            Ok(Found { place, precision: options.precision, notes: Vec::new(), phases })
        }
    }
}

/// A GPU with enough free memory for the model, or for some parts of it at a time.
fn on_gpu<'m>(ordinal: u32, mdp: &'m Mdp, options: &SolveOptions) -> Result<Found<'m>, SolveError> {
    // Without a driver there is nothing to prepare for.
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
    if precision == Precision::Mixed && options.method.is_none() && prepared.bytes(precision) > free {
        // What is too large in 64 bits may not be in 32.
        let precision = Precision::Refined;
        let refined = Prepared::new(mdp, &SolveOptions { precision, storage: None, ..*options })?;
        if refined.bytes(precision) <= free {
            let note = "auto chose precision refined: the device's memory holds the model in 32 bits only";
            return Ok(Found { place: Chosen::Gpu(gpu, refined), precision, notes: vec![note.to_owned()], phases });
        }
    }
    let place = Chosen::Gpu(gpu, prepared.within(free, total, options)?);
    Ok(Found { place, precision, notes: Vec::new(), phases })
}

fn on_cpu<'m, T: Precise>(mdp: &'m Mdp, method: Method, options: &SolveOptions) -> Result<Dynamic<'m>, SolveError> {
    let storage = match options.storage {
        None => cpu::Storage::Auto,
        Some(Storage::Rows | Storage::Slices) => cpu::Storage::Plain,
        Some(Storage::Narrow) => cpu::Storage::Packed,
        Some(Storage::Patterns) => cpu::Storage::Patterns,
    };
    let with = |order| cpu::EngineOptions { storage, order, skip: options.skip };
    let engine = |order| cpu::Engine::<T>::new(mdp, with(order));
    Ok(match method {
        Method::Serial => Dynamic::policies(cpu::Serial::<T>::new(mdp)),
        Method::Sequential => Dynamic::values(cpu::Sequential::<T>::new(mdp)),
        Method::Values => Dynamic::values(engine(cpu::Order::Jacobi)),
        Method::GaussSeidel => Dynamic::values(engine(cpu::Order::BLOCKS)),
        Method::Modified => Dynamic::modified(engine(cpu::Order::Jacobi)),
        Method::Krylov => {
            let engine = cpu::Engine::new(mdp, with(cpu::Order::Jacobi));
            Dynamic::policies(Krylov::new(cpu::System::new(engine))?)
        }
        _ => Dynamic::policies(cpu::Parallel::<T>::new(mdp)),
    })
}

/// Sweeps in 32 bits on the CPU, refined.
fn refined_on_cpu<'m>(mdp: &'m Mdp, options: &SolveOptions) -> Result<Dynamic<'m>, SolveError> {
    let storage = match options.storage {
        None | Some(Storage::Narrow) => cpu::Storage::Packed,
        Some(Storage::Rows | Storage::Slices) => cpu::Storage::Plain,
        Some(storage @ Storage::Patterns) => return Err(SolveError::Shared(storage)),
    };
    let order = cpu::Order::Jacobi;
    let engine = cpu::Engine::<f32>::new(mdp, cpu::EngineOptions { storage, order, skip: options.skip });
    Ok(Dynamic::values(Refined::new(engine, mdp)))
}
