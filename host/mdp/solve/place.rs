//! Placement of a solve: device, method and precision, as requested or chosen by `auto`, and the backend for them.

use std::time::{Duration, Instant};

use warpkov_device::launch::Device;
use warpkov_runtime::device::AnyDevice;

use crate::auto::Features;
use crate::backends::cpu;
use crate::backends::device::{Layout, PolicyIteration, Ranks, SweepLayout, within};
use crate::backends::dynamic::Dynamic;
use crate::backends::krylov::{Krylov, Scale};
use crate::backends::refine::Refined;
use crate::baselines::{Baseline, Sequential};
use crate::error::SolveError;
use crate::model::Mdp;
use crate::options::{Method, Precision, RunsOn, SolveOptions, Storage};
use crate::solution::Phases;
use crate::team::Team;
use warpkov_runtime::choose::{Decision, DeviceChoice};
use warpkov_runtime::gpu;
use warpkov_runtime::gpu::Gpu;
use warpkov_runtime::{self, Precise, cores, emulator};

/// Device, method and precision of a solve.
pub struct Placement<'m> {
    mdp: &'m Mdp,
    team: Team<'m>,
    options: SolveOptions,
    /// The device with the model in its layout; `None` for the CPU.
    on_device: Option<(AnyDevice, Box<dyn Layout<'m> + 'm>)>,
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

impl<'m> Placement<'m> {
    /// Chooses the placement for a maximisation model and converts the model to its layout.
    ///
    /// # Errors
    /// [`SolveError`].
    pub fn choose(mdp: &'m Mdp, options: &SolveOptions) -> Result<Self, SolveError> {
        Self::choose_by(mdp, &Team::alone(), Features::if_auto(mdp, &Team::alone(), options)?.as_ref(), options)
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
        let chosen = features.map(Features::method);
        let mut place = Self {
            mdp,
            team: team.clone(),
            options: *options,
            on_device: None,
            method: chosen.as_ref().map_or_else(|| options.method.unwrap_or(Method::Values), |(method, _)| *method),
            precision: options.precision,
            device: String::new(),
            notes: Vec::new(),
            phases: Phases::default(),
            begun: Instant::now(),
            choice_time: Duration::ZERO,
        };
        place.find(features)?;
        place.choice_time = place.begun.elapsed();
        place.notes.extend(chosen.map(|(_, note)| note));
        let method = place.method;
        if team.part().is_some() && !method.divides() {
            return Err(SolveError::OneRank(method));
        }
        place.precision = place.supported();
        if options.precision == Precision::F32 && place.precision != Precision::F32 {
            place.notes.push(format!("{method} computes in {} regardless of option precision", place.precision));
        }
        place.device = match &place.on_device {
            None if matches!(method, Method::Serial | Method::Sequential) => cores::text(1),
            None => cores::all(),
            Some((device, layout)) => {
                place.notes.extend(layout.note());
                device.name()
            }
        };
        Ok(place)
    }

    /// The number of the GPU; `None` for other devices.
    #[must_use]
    pub fn gpu(&self) -> Option<u32> {
        self.on_device.as_ref().and_then(|(device, _)| device.gpu()).map(Gpu::ordinal)
    }

    /// Waits until the device has done its work.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn synchronize(&self) -> Result<(), SolveError> {
        self.on_device.as_ref().map_or(Ok(()), |(device, _)| Ok(device.synchronize()?))
    }

    /// Transfers the model to the device. Returns the backend, the time since the start of the choice, and the time of
    /// the transfer.
    ///
    /// # Errors
    /// Errors of the device, or [`SolveError::Shared`] for a storage that refinement does not support.
    pub fn open(&self) -> Result<(Dynamic<'_>, Duration, Duration), SolveError> {
        let Self { mdp, team, options, method, precision, .. } = self;
        let backend = match &self.on_device {
            None => match precision {
                Precision::F32 => on_cpu::<f32>(mdp, team, *method, options)?,
                Precision::Refined if *method == Method::Values => refined_on_cpu(mdp, team, options)?,
                Precision::F64 | Precision::Mixed | Precision::Refined => on_cpu::<f64>(mdp, team, *method, options)?,
            },
            Some((device, layout)) => {
                let options = SolveOptions { precision: *precision, ..*options };
                layout.open(device, team, Ranks::new(device, team)?.as_ref(), &options)?
            }
        };
        let setup = self.begun.elapsed();
        Ok((backend, setup, setup.saturating_sub(self.choice_time)))
    }

    /// The precision of the method on this device for the requested precision.
    fn supported(&self) -> Precision {
        // Streamed models have one precision. The CPU supports refinement but not mixed precision.
        let refines = self.on_device.as_ref().is_none_or(|(_, layout)| layout.is_whole());
        let mixes = refines && self.on_device.is_some();
        match (self.method.precision(self.precision), self.method) {
            (Precision::Mixed, Method::Values) if mixes => Precision::Mixed,
            (Precision::Refined, Method::Values) if refines => Precision::Refined,
            (Precision::Mixed | Precision::Refined, _) => Precision::F64,
            (precision, _) => precision,
        }
    }

    /// Finds the device that the options name, or the cheapest one by the features.
    fn find(&mut self, features: Option<&Features>) -> Result<(), SolveError> {
        let (mdp, options) = (self.mdp, &self.options);
        let places = options.method.map_or(RunsOn { cpu: true, gpu: true }, Method::places);
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
        let (decision, reason) = Decision::new(options.device, features.map(Features::cost).as_ref());
        match decision {
            Decision::Cpu => self.notes.extend(reason),
            Decision::Gpu { or_cpu: true, .. } if !places.gpu => {}
            Decision::Gpu { ordinal, or_cpu } => match self.find_gpu(ordinal) {
                Ok(()) => drop(self.notes.splice(0..0, reason)),
                Err(SolveError::Runtime(error @ warpkov_runtime::Error::Device(_))) if or_cpu && places.cpu => {
                    self.notes.push(Decision::fell_back(&error));
                }
                Err(error) => return Err(error),
            },
            Decision::Emulated => {
                let free = options.device_memory.unwrap_or(u64::MAX);
                let begun = Instant::now();
                let layout = within(prepare(mdp, options)?, free, free, options)?;
                self.phases.prepare = begun.elapsed();
                self.on_device = Some((emulator().into(), layout));
            }
        }
        Ok(())
    }

    /// Opens a GPU and lays the model out for its free memory, in parts if necessary. The layout and the start of the GPU
    /// overlap.
    fn find_gpu(&mut self, ordinal: u32) -> Result<(), SolveError> {
        // Without a driver, skip the layout.
        Gpu::driver_version()?;
        let (mdp, options, precision) = (self.mdp, &self.options, self.precision);
        let begun = Instant::now();
        let mut laid_out = None;
        // A thread of the pool that waits here works for the pool meanwhile, so that solves may run on all of its threads.
        let (gpu, start) = rayon::in_place_scope(|scope| {
            scope.spawn(|_| laid_out = Some((prepare(mdp, options), begun.elapsed())));
            (gpu::open(ordinal), begun.elapsed())
        });
        let Some((layout, prepared)) = laid_out else { unreachable!("the scope has ended") };
        let (gpu, mut layout) = (gpu?, layout?);
        let (free, total) = gpu.memory()?;
        let free = free.min(options.device_memory.unwrap_or(u64::MAX));
        // All ranks have the same precision.
        let alone = self.team.part().is_none();
        if alone && precision == Precision::Mixed && options.method.is_none() && layout.bytes(precision) > free {
            // A model too large in f64 may fit in f32.
            let precision = Precision::Refined;
            let refined = prepare(mdp, &SolveOptions { precision, storage: None, ..*options })?;
            if refined.bytes(precision) <= free {
                (layout, self.precision) = (refined, precision);
                let note = "auto chose precision refined: GPU memory holds the model in f32 but not in f64";
                self.notes.push(note.to_owned());
            }
        }
        let options = SolveOptions { precision: self.precision, ..*options };
        self.on_device = Some((gpu.into(), within(layout, free, total, &options)?));
        self.phases = Phases { start, prepare: prepared, ..Phases::default() };
        Ok(())
    }
}

/// Lays the model out for the requested method, or for value iteration, on a device.
fn prepare<'m>(mdp: &'m Mdp, options: &SolveOptions) -> Result<Box<dyn Layout<'m> + 'm>, SolveError> {
    Ok(match options.method.unwrap_or(Method::Values) {
        Method::Values => {
            let layout = match (options.precision, options.storage) {
                (Precision::Refined, None) => Some(SweepLayout::with_rewards(mdp)),
                (Precision::Refined, Some(storage @ (Storage::Narrow | Storage::Patterns))) => {
                    return Err(SolveError::Shared(storage));
                }
                (_, storage) => SweepLayout::new(mdp, storage),
            };
            let layout = layout.ok_or_else(|| SolveError::Storage(options.storage.unwrap_or(Storage::Rows)))?;
            Box::new(if options.skip { layout } else { layout.without_skipping() })
        }
        Method::Plain => Box::new(Baseline::plain(mdp)),
        Method::ResultDivided => Box::new(Baseline::results(mdp)),
        Method::BlockDivided(blocks) => Box::new(Baseline::blocks(mdp, blocks)?),
        method => Box::new(PolicyIteration::new(mdp, method)),
    })
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
        Method::Sequential => Dynamic::values(Sequential::<T>::new(mdp)),
        Method::Values => Dynamic::values(engine(cpu::BackupOrder::Jacobi)),
        Method::GaussSeidel => Dynamic::values(engine(cpu::BackupOrder::BLOCKS)),
        Method::Modified => Dynamic::modified(engine(cpu::BackupOrder::Jacobi)),
        Method::Krylov => {
            let engine = cpu::Engine::in_team(mdp, with(cpu::BackupOrder::Jacobi), team.clone());
            Dynamic::policies(Krylov::new(cpu::System::new(engine), Scale::new(mdp, team)?)?)
        }
        _ if team.part().is_some() => Dynamic::policies(engine(cpu::BackupOrder::Jacobi)),
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
    let order = cpu::BackupOrder::Jacobi;
    // Corrections end by the fall of their changes, which local sweeps do not assure.
    let engine_options = cpu::EngineOptions { storage, order, skip: options.skip, local_sweeps: 1 };
    let engine = cpu::Engine::<f32>::in_team(mdp, engine_options, team.clone());
    Ok(Dynamic::values(Refined::new(engine, mdp, team.clone())))
}
