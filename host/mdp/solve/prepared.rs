//! Device layouts of a model: construction, memory requirement, and the backend built from them.

use warpkov_device::device::Offset;
use warpkov_runtime::device::AnyDevice;

use crate::backends::device::{
    Mixed, PolicyLayout, Projected, Ranks, Streamed, Streaming, SweepLayout, System, ValueIteration,
};
use crate::backends::dynamic::{Dynamic, Unified};
use crate::backends::krylov::{Krylov, Scale};
use crate::backends::refine::Refined;
use crate::baselines::BlockPerState;
use crate::baselines::divided::{BlockIteration, Division, ResultIteration};
use crate::error::SolveError;
use crate::model::Mdp;
use crate::options::{Method, Precision, SolveOptions, Spmv, Storage};
use crate::team::Team;
use warpkov_runtime::Precise;
use warpkov_runtime::gpu::{CudaError, size};
use warpkov_runtime::sparse::Cusparse;

/// A model in the layout of a method that runs on a device.
pub struct Prepared<'m> {
    mdp: &'m Mdp,
    method: Method,
    layout: Layout<'m>,
    local_sweeps: u32,
}

enum Layout<'m> {
    Policies(PolicyLayout),
    Values(SweepLayout<'m>),
    Results,
    Blocks(Division),
    Streamed { streaming: Streaming<'m>, why: String },
}

impl<'m> Prepared<'m> {
    /// Lays the model out for the requested method, or for value iteration.
    ///
    /// # Errors
    /// [`SolveError`] if the model does not fit the requested layout.
    pub fn new(mdp: &'m Mdp, options: &SolveOptions) -> Result<Self, SolveError> {
        let method = options.method.unwrap_or(Method::Values);
        let layout = match method {
            Method::Values => {
                let layout = match (options.precision, options.storage) {
                    (Precision::Refined, None) => Some(SweepLayout::with_rewards(mdp)),
                    (Precision::Refined, Some(storage @ (Storage::Narrow | Storage::Patterns))) => {
                        return Err(SolveError::Shared(storage));
                    }
                    (_, storage) => SweepLayout::new(mdp, storage),
                };
                let layout = layout.ok_or_else(|| SolveError::Storage(options.storage.unwrap_or(Storage::Rows)))?;
                Layout::Values(if options.skip { layout } else { layout.without_skipping() })
            }
            Method::ResultDivided => Layout::Results,
            Method::BlockDivided(blocks) => Layout::Blocks(Division::new(mdp, blocks)?),
            // cuSPARSE takes compressed rows.
            Method::Projected(Spmv::Cusparse) => Layout::Policies(PolicyLayout::Rows { lanes: 2 }),
            _ => Layout::Policies(PolicyLayout::choose(mdp)),
        };
        Ok(Self { mdp, method, layout, local_sweeps: options.local_sweeps })
    }

    /// Fits the layout into `free` of `total` bytes of device memory; streams the model in parts if it is larger.
    ///
    /// # Errors
    /// If not even single parts fit.
    pub fn within(self, free: u64, total: u64, options: &SolveOptions) -> Result<Self, SolveError> {
        /// The streaming layout, its number of parts, and the number of parts on the device at a time.
        fn stream<T: Precise>(layout: SweepLayout, room: u64) -> Option<(Streaming, (usize, usize))> {
            let streaming = Streaming::within::<T>(layout, room)?;
            let parts = streaming.parts::<T>();
            Some((streaming, parts))
        }
        let needed = self.bytes(options.precision);
        if needed <= free {
            return Ok(self);
        }
        let lacking = || CudaError::OutOfMemory { needed, free, total, what: "the model".to_owned() };
        let Layout::Values(layout) = self.layout else { return Err(lacking().into()) };
        let layout = match (layout.storage(), options.storage) {
            (Storage::Rows | Storage::Patterns, None) => {
                let skip = |layout: SweepLayout<'m>| if options.skip { layout } else { layout.without_skipping() };
                [Storage::Narrow, Storage::Slices]
                    .into_iter()
                    .find_map(|s| SweepLayout::new(self.mdp, Some(s)))
                    .map(skip)
            }
            _ => Some(layout),
        };
        // Keep 1/32 free, because the driver rounds allocations up.
        let room = free - free / 32;
        let streaming = layout.and_then(|layout| match options.precision {
            Precision::F32 => stream::<f32>(layout, room),
            Precision::F64 | Precision::Mixed | Precision::Refined => stream::<f64>(layout, room),
        });
        let (streaming, (parts, at_a_time)) = streaming.ok_or_else(lacking)?;
        let (needed, free) = (size(needed), size(free));
        let why = format!(
            "the model takes {needed} of {free} free: streamed through in {parts} parts, {at_a_time} at a time"
        );
        Ok(Self { layout: Layout::Streamed { streaming, why }, ..self })
    }

    /// The note on the chosen layout for the user.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let (prefix, storage, skips) = match &self.layout {
            Layout::Policies(_) if self.method == Method::Projected(Spmv::Cusparse) => {
                return Some("products with P^π are those of NVIDIA's cuSPARSE".to_owned());
            }
            Layout::Policies(_) | Layout::Results => return None,
            Layout::Blocks(division) => return division.note(),
            Layout::Values(layout) => ("the model is".to_owned(), layout.storage(), layout.skips()),
            Layout::Streamed { streaming, why } => (format!("{why},"), streaming.storage(), streaming.skips()),
        };
        let skipping = if skips { ", skipping states that cannot change" } else { "" };
        Some(format!("{prefix} stored as {storage}{skipping}"))
    }

    /// Whether offsets into the model or into P^π need 64 bits. Kernels add a few rows of a slice to an offset before
    /// they compare it with the end, and that sum must not overflow.
    fn is_wide(&self) -> bool {
        match &self.layout {
            Layout::Values(layout) => layout.is_wide(),
            Layout::Results => self.mdp.transitions().nnz().max(self.mdp.rows()) > u32::MAX as usize,
            Layout::Blocks(division) => division.is_wide(),
            Layout::Streamed { streaming, .. } => streaming.is_wide(),
            Layout::Policies(layout) => {
                let elements = layout.capacity(self.mdp).max(self.mdp.transitions().nnz()).max(self.mdp.rows());
                elements > u32::MAX as usize - 1024
            }
        }
    }

    /// Bytes of device memory for the layout.
    #[must_use]
    pub fn bytes(&self, precision: Precision) -> u64 {
        fn bytes<T: Precise, O: Offset>(prepared: &Prepared) -> u64 {
            match (&prepared.layout, prepared.method) {
                (Layout::Values(layout), _) => layout.bytes::<T, O>(),
                (Layout::Results, _) => ResultIteration::<T, O>::bytes(prepared.mdp),
                (Layout::Blocks(division), _) => division.bytes::<T, O>(),
                (Layout::Streamed { streaming, .. }, _) => streaming.bytes::<T>(),
                (Layout::Policies(_), Method::Plain) => BlockPerState::<T, O>::bytes(prepared.mdp),
                (Layout::Policies(layout), Method::Krylov) => System::<O>::bytes(prepared.mdp, *layout),
                (Layout::Policies(layout), _) => Projected::<T, O>::bytes(prepared.mdp, *layout),
            }
        }
        let (f32s, f64s) = match self.is_wide() {
            false => (bytes::<f32, u32>(self), bytes::<f64, u32>(self)),
            true => (bytes::<f32, u64>(self), bytes::<f64, u64>(self)),
        };
        match precision {
            Precision::F32 => f32s,
            Precision::F64 => f64s,
            Precision::Mixed | Precision::Refined => match self.layout {
                Layout::Values(_) if precision == Precision::Refined => f32s,
                // A launch converts at most 2³² − 1 elements, so wide models are uploaded in both precisions.
                Layout::Values(_) if self.is_wide() => f32s + f64s,
                Layout::Values(ref layout) => f32s + f64s - layout.shared_bytes::<u32>(),
                _ => f64s,
            },
        }
    }

    /// Whether the whole model is on the device for value iteration, as mixed and refined precision require.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self.layout, Layout::Values(_))
    }

    /// Uploads the model and builds the backend.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn open<'d>(
        &'d self,
        device: &'d AnyDevice,
        team: &Team<'d>,
        precision: Precision,
    ) -> Result<Dynamic<'d>, SolveError> {
        let ranks = Ranks::new(device, team)?;
        match self.is_wide() {
            false => self.backend::<u32>(device, team, ranks.as_ref(), precision),
            true => self.backend::<u64>(device, team, ranks.as_ref(), precision),
        }
    }

    /// The backend of one rank, or of one of several `ranks`.
    fn backend<'d, O: Offset>(
        &'d self,
        device: &'d AnyDevice,
        team: &Team<'d>,
        ranks: Option<&Ranks<'d>>,
        precision: Precision,
    ) -> Result<Dynamic<'d>, SolveError> {
        let on_ranks = self.is_whole() || matches!(self.layout, Layout::Policies(_)) && self.method.divides();
        if ranks.is_some() && !on_ranks {
            return Err(SolveError::OneRank(self.method));
        }
        Ok(match (&self.layout, precision) {
            (Layout::Values(layout), Precision::Mixed) => {
                let mixed = Mixed::<O>::in_team(device, layout, ranks)?.with_local_sweeps(self.local_sweeps)?;
                Dynamic::Values(Box::new(unified(mixed, ranks)))
            }
            (Layout::Values(layout), Precision::Refined) => {
                // Corrections end by the fall of their changes, which local sweeps do not assure.
                let values = ValueIteration::<f32, O>::in_team(device, layout, Ranks::exchanges(ranks, device)?)?;
                Dynamic::Values(Box::new(Refined::new(unified(values, ranks), self.mdp, team.clone())))
            }
            (_, Precision::F32) => self.typed::<f32, O>(device, team, ranks)?,
            // Other methods run in f64.
            _ => self.typed::<f64, O>(device, team, ranks)?,
        })
    }

    /// cuSPARSE for the products of this policy layout.
    fn cusparse(&self, device: &AnyDevice, ranks: Option<&Ranks>) -> Result<Cusparse, SolveError> {
        let Layout::Policies(layout) = &self.layout else { unreachable!("the layout of the method") };
        if ranks.is_some() {
            return Err(SolveError::Spmv("one rank"));
        }
        if layout.capacity(self.mdp) > i32::MAX as usize {
            return Err(SolveError::Spmv("policies of less than 2³¹ transitions"));
        }
        Cusparse::new(device)?.ok_or(SolveError::Spmv("a GPU"))
    }

    fn typed<'d, T: Precise, O: Offset>(
        &'d self,
        device: &'d AnyDevice,
        team: &Team<'d>,
        ranks: Option<&Ranks<'d>>,
    ) -> Result<Dynamic<'d>, SolveError> {
        let mdp = self.mdp;
        Ok(match (&self.layout, self.method) {
            (Layout::Values(layout), _) => {
                let values = ValueIteration::<T, O>::in_team(device, layout, Ranks::exchanges(ranks, device)?)?;
                Dynamic::Values(Box::new(unified(values.with_local_sweeps(self.local_sweeps)?, ranks)))
            }
            (Layout::Streamed { streaming, .. }, _) => Dynamic::values(Streamed::<T, O>::new(device, streaming)?),
            (Layout::Results, _) => Dynamic::values(ResultIteration::<T, O>::new(device, mdp)?),
            (Layout::Blocks(division), _) => Dynamic::values(BlockIteration::<T, O>::new(device, mdp, division)?),
            (Layout::Policies(_), Method::Plain) => Dynamic::policies(BlockPerState::<T, O>::new(device, mdp)?),
            (Layout::Policies(layout), Method::Krylov) => {
                let system = System::<O>::in_team(device, mdp, *layout, Ranks::exchanges(ranks, device)?)?;
                Dynamic::Policies(Box::new(unified(Krylov::new(system, Scale::new(mdp, team)?)?, ranks)))
            }
            (Layout::Policies(layout), method) => {
                let mut projected = Projected::<T, O>::in_team(device, mdp, *layout, Ranks::exchanges(ranks, device)?)?;
                if method == Method::Projected(Spmv::Cusparse) {
                    projected = projected.with_cusparse(self.cusparse(device, ranks)?);
                }
                let backend = Box::new(unified(projected, ranks));
                if method == Method::Modified { Dynamic::Modified(backend) } else { Dynamic::Policies(backend) }
            }
        })
    }
}

/// Wraps a backend of one rank, or of one of several `ranks`.
fn unified<'d, B>(backend: B, ranks: Option<&Ranks<'d>>) -> Unified<'d, B> {
    match ranks {
        Some(ranks) => ranks.wrap(backend),
        None => Unified::new(backend),
    }
}
