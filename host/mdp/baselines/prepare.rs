//! The layouts of the methods of the literature: the model itself, and its division into blocks.

use warpkov_device::device::Offset;
use warpkov_runtime::Precise;
use warpkov_runtime::device::AnyDevice;

use super::BlockPerState;
use super::divided::{BlockIteration, Division, ResultIteration};
use crate::backends::device::{Layout, Ranks, by_types};
use crate::backends::dynamic::Dynamic;
use crate::error::SolveError;
use crate::model::Mdp;
use crate::options::{BlockDivided, Method, Precision, SolveOptions};
use crate::team::Team;

/// A model for a method that works on one rank.
pub struct Baseline<'m> {
    mdp: &'m Mdp,
    kind: Kind,
}

enum Kind {
    Plain,
    Results,
    Blocks(Division),
}

impl<'m> Baseline<'m> {
    /// The model for one block per state.
    #[must_use]
    pub fn plain(mdp: &'m Mdp) -> Self {
        Self { mdp, kind: Kind::Plain }
    }

    /// The model for Result Divided Iteration.
    #[must_use]
    pub fn results(mdp: &'m Mdp) -> Self {
        Self { mdp, kind: Kind::Results }
    }

    /// The model for Block Divided Iteration, in blocks.
    ///
    /// # Errors
    /// [`InvalidBlocks`](crate::options::InvalidBlocks).
    pub fn blocks(mdp: &'m Mdp, parameters: BlockDivided) -> Result<Self, SolveError> {
        Ok(Self { mdp, kind: Kind::Blocks(Division::new(mdp, parameters)?) })
    }

    fn method(&self) -> Method {
        match &self.kind {
            Kind::Plain => Method::Plain,
            Kind::Results => Method::ResultDivided,
            Kind::Blocks(division) => Method::BlockDivided(*division.parameters()),
        }
    }

    /// Whether offsets into the arrays need 64 bits.
    fn is_wide(&self) -> bool {
        match &self.kind {
            Kind::Plain | Kind::Results => self.mdp.transitions().nnz().max(self.mdp.rows()) > u32::MAX as usize - 1024,
            Kind::Blocks(division) => division.is_wide(),
        }
    }
}

impl<'m> Layout<'m> for Baseline<'m> {
    fn note(&self) -> Option<String> {
        if let Kind::Blocks(division) = &self.kind { division.note() } else { None }
    }

    fn bytes(&self, precision: Precision) -> u64 {
        fn bytes<T: Precise, O: Offset>(baseline: &Baseline) -> u64 {
            match &baseline.kind {
                Kind::Plain => BlockPerState::<T, O>::bytes(baseline.mdp),
                Kind::Results => ResultIteration::<T, O>::bytes(baseline.mdp),
                Kind::Blocks(division) => division.bytes::<T, O>(),
            }
        }
        by_types!(precision, self.is_wide(), bytes(self))
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
            baseline: &'d Baseline,
            device: &'d AnyDevice,
        ) -> Result<Dynamic<'d>, SolveError> {
            let mdp = baseline.mdp;
            Ok(match &baseline.kind {
                Kind::Plain => Dynamic::policies(BlockPerState::<T, O>::new(device, mdp)?),
                Kind::Results => Dynamic::values(ResultIteration::<T, O>::new(device, mdp)?),
                Kind::Blocks(division) => Dynamic::values(BlockIteration::<T, O>::new(device, mdp, division)?),
            })
        }
        if ranks.is_some() {
            return Err(SolveError::OneRank(self.method()));
        }
        by_types!(options.precision, self.is_wide(), open(self, device))
    }
}
