//! The choice of the recursions: alone or on several ranks, on a CPU or a device, in chunks or not, over plain or
//! ambiguous symbols.

use warpkov_runtime::choose::{DeviceChoice, Place};
use warpkov_runtime::comm::{Communicator, Local};

use crate::ambiguous::Ambiguous;
use crate::backend::Recursions;
use crate::backends::device::{ForwardMethod, Limits, OverPaths, Scan, UnfitForSlices};
use crate::divided::{Divided, Division, RankShare};
use crate::model::{Emissions, Hmm};
use crate::options::{By, Precision};
use crate::place::{Error, cost, recursions};
use crate::segmental::BestPaths;
use crate::sequences::Sequences;

impl By {
    /// What the recursions of the algorithm compute.
    #[must_use]
    pub fn over(self) -> OverPaths {
        match self {
            Self::BaumWelch => OverPaths::Sums,
            Self::Viterbi => OverPaths::Maxima,
        }
    }
}

/// The recursions, wherever they run.
pub type Running<'r> = dyn Recursions<Error = Error> + 'r;

/// What the recursions run over, and where.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// All sequences.
    pub sequences: &'a Sequences,
    /// For each symbol from V on, the symbols that it may be, ascending.
    pub sets: &'a [Vec<u32>],
    /// The CPU, or the device of this rank.
    pub place: &'a Place,
    /// Floating-point type of the recursions.
    pub precision: Precision,
    /// Use of the scan over time on a device.
    pub scan: Scan,
    /// What is computed, which the scan's estimate depends on. The E step over maxima is that of [`BestPaths`].
    pub over: OverPaths,
    /// The method of the forward recursion on a device.
    pub method: ForwardMethod,
    /// The connection to the other ranks.
    pub comm: &'a dyn Communicator,
}

impl Setup<'_> {
    /// Checks that the method can run here, by models of the shape of `model`.
    fn check_method(&self, model: &Hmm) -> Result<(), UnfitForSlices> {
        self.method.check(matches!(self.place, Place::Cpu), self.precision, self.scan)?;
        match (self.method, model.emissions(), self.comm.size()) {
            (ForwardMethod::Fused, ..) | (_, Emissions::Categorical { .. }, 1) => Ok(()),
            (_, Emissions::Gaussian { .. } | Emissions::Channels(_), _) => Err(UnfitForSlices::Vectors),
            (_, _, ranks) => Err(UnfitForSlices::Ranks(ranks)),
        }
    }

    /// Runs `work` with the recursions by `count` models of the shape of `model`. If there are several ranks, each has a
    /// share of the sequences, and the result is that of [`Divided`], with what each rank did; all ranks call this, and
    /// `agree` returns what `work` is given, or the error of any rank.
    ///
    /// # Errors
    /// Those of the device, of other ranks, and of `work`; and before any work, [`UnfitForSlices`].
    pub fn with_recursions<T, E: From<Error>>(
        self,
        model: &Hmm,
        count: usize,
        agree: impl for<'d> FnOnce(Result<Divided<'d>, Error>) -> Result<Divided<'d>, E>,
        work: impl FnOnce(&mut Running<'_>) -> Result<T, E>,
    ) -> Result<(T, Vec<RankShare>), E> {
        self.check_method(model).map_err(Error::from)?;
        let Self { sequences, sets, place, precision, scan, over, method, comm } = self;
        let limits = |sequences: &Sequences| {
            let chunks = scan.steps(over, model.states(), count, sequences);
            Limits { chunks, method, ..Limits::default() }
        };
        let work = |recursions: &mut Running<'_>| match sets {
            [] => work(recursions),
            sets => work(&mut Ambiguous::new(recursions, sets)),
        };
        if comm.size() == 1 {
            let mut recursions = recursions(place, sequences, precision, limits(sequences))?;
            if over == OverPaths::Maxima {
                recursions = Box::new(BestPaths::new(recursions, sequences));
            }
            return Ok((work(&mut *recursions)?, Vec::new()));
        }
        let division = Division::new(sequences, comm.size());
        let share = division.share(comm.rank());
        let limits = limits(share.as_ref().unwrap_or(sequences));
        let opened = Divided::open(&division, share.as_ref(), place, precision, limits, comm);
        let mut divided = agree(match over {
            OverPaths::Sums => opened,
            OverPaths::Maxima => opened.map(|divided| divided.by_paths(share.as_ref())),
        })?;
        let found = work(&mut divided)?;
        let shares = divided.shares(&place.name())?;
        Ok((found, shares))
    }
}

/// The result of `work` with the recursions by one model over sequences, on a device or where `auto` runs them.
///
/// # Errors
/// Those of the device and of `work`.
pub fn alone<T, E: From<Error>>(
    model: &Hmm,
    sequences: &Sequences,
    device: DeviceChoice,
    precision: Precision,
    over: OverPaths,
    work: impl FnOnce(&mut Running<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let (place, _) = Place::open(device, Some(&cost(model, sequences))).map_err(Error::from)?;
    let (comm, scan, method) = (Local::alone(), Scan::Auto, ForwardMethod::Fused);
    let setup = Setup { sequences, sets: &[], place: &place, precision, scan, over, method, comm: &comm };
    let by_model = |recursions: &mut Running<'_>| {
        recursions.set_models(std::slice::from_ref(model))?;
        work(recursions)
    };
    Ok(setup.with_recursions(model, 1, |divided| Ok(divided?), by_model)?.0)
}
