//! Layouts of a model for the methods that run on a device: their memory, and the backends built from them.

use warpkov_device::device::Offset;
use warpkov_runtime::Precise;
use warpkov_runtime::cores;
use warpkov_runtime::device::AnyDevice;
use warpkov_runtime::gpu::{CudaError, size};
use warpkov_runtime::sparse::Cusparse;

use super::{Mixed, PolicyLayout, Projected, Ranks, Streamed, Streaming, SweepLayout, System, ValueIteration};
use crate::backends::dynamic::{Dynamic, Unified};
use crate::backends::krylov::{Krylov, Scale};
use crate::backends::refine::Refined;
use crate::error::SolveError;
use crate::model::Mdp;
use crate::options::{Method, Precision, SolveOptions, Spmv, Storage};
use crate::team::Team;

/// What to do if a method needs more of a model on the device than there is room for.
const VALUES: &str = "method values, which streams the model, or the CPU";

/// A model on the host, in the layout of a method that runs on a device.
pub trait Layout<'m>: Send {
    /// What was chosen, for the user.
    fn note(&self) -> Option<String> {
        None
    }

    /// Bytes of device memory in this precision.
    fn bytes(&self, precision: Precision) -> u64;

    /// The same model with parts on the host that are streamed or used there, in `free` bytes of device memory, which are fewer than the
    /// `needed` ones; `None` if the method cannot, or if not even single parts fit.
    fn in_parts(
        self: Box<Self>,
        _needed: u64,
        _free: u64,
        _options: &SolveOptions,
    ) -> Option<Box<dyn Layout<'m> + 'm>> {
        None
    }

    /// What to do if the device lacks memory, as in "use …".
    fn instead(&self, _options: &SolveOptions) -> &'static str {
        VALUES
    }

    /// Whether the whole model is on the device for value iteration, as mixed and refined precision require.
    fn is_whole(&self) -> bool {
        false
    }

    /// Uploads the model and builds the backend, in the precision of the options: of one rank, or of one of several `ranks`.
    ///
    /// # Errors
    /// Errors of the device, and options that the method does not have; [`SolveError::OneRank`] for several ranks of a method that works
    /// on one.
    fn open<'d>(
        &'d self,
        device: &'d AnyDevice,
        team: &Team<'d>,
        ranks: Option<&Ranks<'d>>,
        options: &SolveOptions,
    ) -> Result<Dynamic<'d>, SolveError>
    where
        'm: 'd;
}

/// Calls a function for the types of V and of offsets: f32 in that precision alone, and offsets of 64 bits if the model is wide.
macro_rules! by_types {
    ($precision:expr, $wide:expr, $function:ident($($argument:expr),*)) => {
        match ($precision, $wide) {
            ($crate::options::Precision::F32, false) => $function::<f32, u32>($($argument),*),
            ($crate::options::Precision::F32, true) => $function::<f32, u64>($($argument),*),
            (_, false) => $function::<f64, u32>($($argument),*),
            (_, true) => $function::<f64, u64>($($argument),*),
        }
    };
}
pub(crate) use by_types;

/// The layout within `free` of `total` bytes of device memory: the model is streamed in parts if it is larger.
///
/// # Errors
/// [`CudaError::OutOfMemory`].
pub fn within<'m>(
    layout: Box<dyn Layout<'m> + 'm>,
    free: u64,
    total: u64,
    options: &SolveOptions,
) -> Result<Box<dyn Layout<'m> + 'm>, SolveError> {
    let needed = layout.bytes(options.precision);
    if needed <= free {
        return Ok(layout);
    }
    let instead = layout.instead(options);
    let lacking = || CudaError::OutOfMemory { needed, free, total, what: "the model".to_owned(), instead }.into();
    layout.in_parts(needed, free, options).ok_or_else(lacking)
}

/// A backend of one rank, or of one of several `ranks`.
fn unified<'d, B>(backend: B, ranks: Option<&Ranks<'d>>) -> Unified<'d, B> {
    match ranks {
        Some(ranks) => ranks.wrap(backend),
        None => Unified::new(backend),
    }
}

/// How value iteration stores the model, after words on the model.
fn stored(model: &str, storage: Storage, skips: bool) -> String {
    let skipping = if skips { ", skipping states that cannot change" } else { "" };
    format!("{model} stored as {storage}{skipping}")
}

impl<'m> Layout<'m> for SweepLayout<'m> {
    fn note(&self) -> Option<String> {
        Some(stored("the model is", self.storage(), self.skips()))
    }

    fn bytes(&self, precision: Precision) -> u64 {
        let wide = self.is_wide();
        let of = |precision| by_types!(precision, wide, bytes_of(self));
        match precision {
            Precision::F32 | Precision::Refined => of(Precision::F32),
            Precision::F64 => of(Precision::F64),
            // A launch converts at most 2³² − 1 elements, so wide models are uploaded in both precisions.
            Precision::Mixed if wide => of(Precision::F32) + of(Precision::F64),
            Precision::Mixed => of(Precision::F32) + of(Precision::F64) - self.shared_bytes::<u32>(),
        }
    }

    fn in_parts(self: Box<Self>, needed: u64, free: u64, options: &SolveOptions) -> Option<Box<dyn Layout<'m> + 'm>> {
        let layout = match (self.storage(), options.storage) {
            (Storage::Rows | Storage::Patterns, None) => {
                let mdp = self.mdp()?;
                let found =
                    [Storage::Narrow, Storage::Slices].into_iter().find_map(|kind| Self::new(mdp, Some(kind)))?;
                if options.skip { found } else { found.without_skipping() }
            }
            _ => *self,
        };
        // Keep 1/32 free, because the driver rounds allocations up.
        let room = free - free / 32;
        let (mut streaming, (parts, at_a_time)) = match options.precision {
            Precision::F32 => in_parts::<f32>(layout, room)?,
            _ => in_parts::<f64>(layout, room)?,
        };
        let (needed, free) = (size(needed), size(free));
        streaming.why = format!(
            "the model takes {needed} of {free} free: streamed through in {parts} parts, {at_a_time} at a time,"
        );
        Some(Box::new(streaming))
    }

    fn instead(&self, options: &SolveOptions) -> &'static str {
        match options.storage {
            Some(Storage::Rows | Storage::Patterns) => "no option storage, so that the model is streamed",
            _ if options.precision == Precision::F32 => "a smaller problem or the CPU",
            _ => CudaError::SMALLER,
        }
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn open<'d>(
        &'d self,
        device: &'d AnyDevice,
        team: &Team<'d>,
        ranks: Option<&Ranks<'d>>,
        options: &SolveOptions,
    ) -> Result<Dynamic<'d>, SolveError>
    where
        'm: 'd,
    {
        match (options.precision, self.is_wide()) {
            (Precision::Mixed, false) => mixed::<u32>(self, device, ranks, options),
            (Precision::Mixed, true) => mixed::<u64>(self, device, ranks, options),
            (Precision::Refined, false) => refined::<u32>(self, device, team, ranks),
            (Precision::Refined, true) => refined::<u64>(self, device, team, ranks),
            (precision, wide) => by_types!(precision, wide, values(self, device, ranks, options)),
        }
    }
}

/// The layout in parts that fit into `room`, with the number of parts and the number of those on the device at a time.
fn in_parts<T: Precise>(layout: SweepLayout, room: u64) -> Option<(Streaming, (usize, usize))> {
    let streaming = Streaming::within::<T>(layout, room)?;
    let parts = streaming.parts::<T>();
    Some((streaming, parts))
}

fn bytes_of<T: Precise, O: Offset>(layout: &SweepLayout) -> u64 {
    layout.bytes::<T, O>()
}

fn values<'d, T: Precise, O: Offset>(
    layout: &SweepLayout<'d>,
    device: &'d AnyDevice,
    ranks: Option<&Ranks<'d>>,
    options: &SolveOptions,
) -> Result<Dynamic<'d>, SolveError> {
    let values = ValueIteration::<T, O>::in_team(device, layout, Ranks::exchanges(ranks, device)?)?;
    Ok(Dynamic::Values(Box::new(unified(values.with_local_sweeps(options.local_sweeps)?, ranks))))
}

fn mixed<'d, O: Offset>(
    layout: &SweepLayout<'d>,
    device: &'d AnyDevice,
    ranks: Option<&Ranks<'d>>,
    options: &SolveOptions,
) -> Result<Dynamic<'d>, SolveError> {
    let mixed = Mixed::<O>::in_team(device, layout, ranks)?.with_local_sweeps(options.local_sweeps)?;
    Ok(Dynamic::Values(Box::new(unified(mixed, ranks))))
}

fn refined<'d, O: Offset>(
    layout: &SweepLayout<'d>,
    device: &'d AnyDevice,
    team: &Team<'d>,
    ranks: Option<&Ranks<'d>>,
) -> Result<Dynamic<'d>, SolveError> {
    // Corrections end by the fall of their changes, which local sweeps do not assure.
    let values = ValueIteration::<f32, O>::in_team(device, layout, Ranks::exchanges(ranks, device)?)?;
    let mdp = layout.mdp().expect("a model on the host");
    Ok(Dynamic::Values(Box::new(Refined::new(unified(values, ranks), mdp, team.clone()))))
}

impl<'m> Layout<'m> for Streaming<'m> {
    fn note(&self) -> Option<String> {
        Some(stored(&self.why, self.storage(), self.skips()))
    }

    fn bytes(&self, precision: Precision) -> u64 {
        if precision == Precision::F32 { self.bytes::<f32>() } else { self.bytes::<f64>() }
    }

    fn open<'d>(
        &'d self,
        device: &'d AnyDevice,
        _: &Team<'d>,
        ranks: Option<&Ranks<'d>>,
        options: &SolveOptions,
    ) -> Result<Dynamic<'d>, SolveError>
    where
        'm: 'd,
    {
        fn open<'d, T: Precise, O: Offset>(
            streaming: &Streaming<'d>,
            device: &'d AnyDevice,
        ) -> Result<Dynamic<'d>, SolveError> {
            Ok(Dynamic::values(Streamed::<T, O>::new(device, streaming)?))
        }
        if ranks.is_some() {
            return Err(SolveError::OneRank(Method::Values));
        }
        by_types!(options.precision, self.is_wide(), open(self, device))
    }
}

/// A model for policy iteration by sweeps over P^π, or by its linear system.
pub struct PolicyIteration<'m> {
    mdp: &'m Mdp,
    method: Method,
    layout: PolicyLayout,
    /// Why the model stays on the host, if it does.
    on_host: Option<String>,
}

impl<'m> PolicyIteration<'m> {
    /// The layout for this method.
    #[must_use]
    pub fn new(mdp: &'m Mdp, method: Method) -> Self {
        let layout = match method {
            // cuSPARSE takes compressed rows.
            Method::Projected(Spmv::Cusparse) => PolicyLayout::rows(mdp),
            _ => PolicyLayout::choose(mdp),
        };
        Self { mdp, method, layout, on_host: None }
    }

    /// Whether offsets into the model or into P^π need 64 bits. Kernels add a few rows of a slice to an offset before
    /// they compare it with the end, and that sum must not overflow.
    fn is_wide(&self) -> bool {
        let of_model = if self.on_host.is_some() { 0 } else { self.mdp.transitions().nnz().max(self.mdp.rows()) };
        self.layout.capacity(self.mdp).max(of_model) > u32::MAX as usize - 1024
    }

    /// cuSPARSE for the products with P^π.
    fn cusparse(&self, device: &AnyDevice, ranks: Option<&Ranks>) -> Result<Cusparse, SolveError> {
        if ranks.is_some() {
            return Err(SolveError::Spmv("one rank"));
        }
        if self.layout.capacity(self.mdp) > i32::MAX as usize {
            return Err(SolveError::Spmv("policies of less than 2³¹ transitions"));
        }
        Cusparse::new(device)?.ok_or(SolveError::Spmv("a GPU"))
    }

    fn backend<'d, T: Precise, O: Offset>(
        &'d self,
        device: &'d AnyDevice,
        team: &Team<'d>,
        ranks: Option<&Ranks<'d>>,
    ) -> Result<Dynamic<'d>, SolveError>
    where
        'm: 'd,
    {
        let Self { mdp, method, layout, ref on_host } = *self;
        let on_host = on_host.is_some();
        if on_host && ranks.is_some() {
            return Err(SolveError::OneRank(method));
        }
        if method == Method::Krylov {
            let system = match on_host {
                true => System::<O>::on_host(device, mdp)?,
                false => System::<O>::in_team(device, mdp, layout, Ranks::exchanges(ranks, device)?)?,
            };
            return Ok(Dynamic::Policies(Box::new(unified(Krylov::new(system, Scale::new(mdp, team)?)?, ranks))));
        }
        let mut projected = match on_host {
            true => Projected::<T, O>::on_host(device, mdp)?,
            false => Projected::<T, O>::in_team(device, mdp, layout, Ranks::exchanges(ranks, device)?)?,
        };
        if method == Method::Projected(Spmv::Cusparse) {
            projected = projected.with_cusparse(self.cusparse(device, ranks)?);
        }
        let backend = Box::new(unified(projected, ranks));
        Ok(if method == Method::Modified { Dynamic::Modified(backend) } else { Dynamic::Policies(backend) })
    }
}

impl<'m> Layout<'m> for PolicyIteration<'m> {
    fn note(&self) -> Option<String> {
        let by_cusparse = self.method == Method::Projected(Spmv::Cusparse);
        let by_cusparse = by_cusparse.then(|| "products with P^π are those of NVIDIA's cuSPARSE".to_owned());
        let notes: Vec<_> = self.on_host.iter().cloned().chain(by_cusparse).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    fn bytes(&self, precision: Precision) -> u64 {
        fn bytes<T: Precise, O: Offset>(policies: &PolicyIteration) -> u64 {
            let PolicyIteration { mdp, method, layout, on_host } = policies;
            match (method, on_host) {
                (Method::Krylov, None) => System::<O>::bytes(mdp, *layout),
                (Method::Krylov, Some(_)) => System::<O>::bytes_on_host(mdp),
                (_, None) => Projected::<T, O>::bytes(mdp, *layout),
                (_, Some(_)) => Projected::<T, O>::bytes_on_host(mdp),
            }
        }
        by_types!(precision, self.is_wide(), bytes(self))
    }

    /// The model stays on the host, where policies are improved; the device has P^π.
    fn in_parts(self: Box<Self>, needed: u64, free: u64, options: &SolveOptions) -> Option<Box<dyn Layout<'m> + 'm>> {
        let (needed, room) = (size(needed), free - free / 32);
        let on_host = format!(
            "the model takes {needed} of {} free: policies are improved on {}, and evaluated on the device",
            size(free),
            cores::all()
        );
        let layout = PolicyLayout::rows(self.mdp);
        let on_host = Self { layout, on_host: Some(on_host), ..*self };
        (on_host.bytes(options.precision) <= room).then(|| Box::new(on_host) as Box<dyn Layout<'m> + 'm>)
    }

    fn open<'d>(
        &'d self,
        device: &'d AnyDevice,
        team: &Team<'d>,
        ranks: Option<&Ranks<'d>>,
        options: &SolveOptions,
    ) -> Result<Dynamic<'d>, SolveError>
    where
        'm: 'd,
    {
        fn backend<'d, T: Precise, O: Offset>(
            policies: &'d PolicyIteration,
            device: &'d AnyDevice,
            team: &Team<'d>,
            ranks: Option<&Ranks<'d>>,
        ) -> Result<Dynamic<'d>, SolveError> {
            policies.backend::<T, O>(device, team, ranks)
        }
        by_types!(options.precision, self.is_wide(), backend(self, device, team, ranks))
    }
}
