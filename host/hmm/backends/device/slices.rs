//! The method of Brändle and Haubenstock (2016), section 2.2: the forward recursion in its parts, slice by slice.

use warpkov_common::choice::choice;
use warpkov_device::launch::{Device, Dim3, Shape};
use warpkov_kernels::hmm::slices::{emission_product, product, row_sums, scale_rows, start_rows};
use warpkov_kernels::hmm::{entry, normal, power};
use warpkov_runtime::Precise;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use crate::backends::device::chunks::Scan;
use crate::backends::device::model::{Models, symbols};
use crate::backends::device::packing::Packing;
use crate::model::{Emissions, Hmm};
use crate::options::Precision;

choice! {
    /// How a device computes ln P(O). Other results of the recursions have one method.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ForwardMethod {
        /// A launch has a step, or all steps.
        #[default]
        Fused = "fused",
        /// W = B ∘ C and C = W × A for each slice, of one step of all sequences, in launches of their own (Brändle and Haubenstock
        /// 2016): to compare with.
        Slices = "slices",
    }
}

/// Why [`ForwardMethod::Slices`] cannot compute ln P(O).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfitForSlices {
    /// The recursions run on the CPU.
    #[error("the method slices needs a GPU or the emulator as its device: on a CPU there is the method fused")]
    Cpu,
    /// Several ranks divide the sequences.
    #[error("the method slices takes one device, and there are {0} ranks: they can have the method fused")]
    Ranks(u32),
    /// The model emits vectors.
    #[error(
        "the method slices is for models that emit symbols: for models that emit numbers there is the method fused"
    )]
    Vectors,
    /// The products of TF32 are those of tensor cores.
    #[error("the method slices uses no tensor cores: expected the precision f32 or f64, or the method fused")]
    Tf32,
    /// The scan over time is asked for.
    #[error("the method slices cuts no sequences: the scan is for the method fused")]
    Scan,
}

impl ForwardMethod {
    /// Checks that the method can compute on this kind of device, in this precision, with this use of the scan.
    ///
    /// # Errors
    /// If it cannot.
    pub fn check(self, on_cpu: bool, precision: Precision, scan: Scan) -> Result<(), UnfitForSlices> {
        match self {
            Self::Fused => Ok(()),
            Self::Slices if on_cpu => Err(UnfitForSlices::Cpu),
            Self::Slices if precision == Precision::Tf32 => Err(UnfitForSlices::Tf32),
            Self::Slices if scan == Scan::Always => Err(UnfitForSlices::Scan),
            Self::Slices => Ok(()),
        }
    }
}

/// The [kernels](warpkov_kernels::hmm::slices) with the models and the memory that they work in. A slice has the
/// sequences that have this step: by their [packing](Packing), the first ones.
///
/// Rows are scaled by powers of two, and a sequence of which a number may have underflowed has the likelihood NaN.
pub struct Slices<T: Precise> {
    models: Vec<PerModel<T>>,
    /// C and W, M × N.
    c: AnyBuffer<T>,
    w: AnyBuffer<T>,
}

/// A model, and what is computed by it.
struct PerModel<T: Precise> {
    states: u32,
    symbols: u32,
    /// The probabilities, in rows of N elements.
    probabilities: Models<T>,
    /// The least positive element of a scaled row of C that is not in doubt.
    least: f64,
    /// Σ e of each sequence.
    exponents: AnyBuffer<f64>,
    /// P̂ or NaN, and Σ e, of each sequence.
    likelihoods: AnyBuffer<f64>,
}

impl<T: Precise> Slices<T> {
    /// Uploads models of symbols.
    pub fn new(device: &AnyDevice, models: &[Hmm], packing: &Packing) -> Result<Self, DeviceError> {
        let m = packing.lengths.len();
        let tables = models.iter().map(|model| {
            let n = model.states() as usize;
            Ok(PerModel {
                states: model.states(),
                symbols: symbols(model) as u32,
                probabilities: Models::probabilities(device, std::slice::from_ref(model), n)?,
                least: least(model, T::WIDE),
                exponents: device.zeros(m)?,
                likelihoods: device.zeros(2 * m)?,
            })
        });
        let models = tables.collect::<Result<Vec<_>, DeviceError>>()?;
        let len = m * models.first().map_or(0, |model| model.states as usize);
        Ok(Self { models, c: device.zeros(len)?, w: device.zeros(len)? })
    }

    /// Launches the recursions. `observed` holds the symbol of each row of the packing.
    pub fn forward(
        &mut self,
        device: &AnyDevice,
        packing: &Packing,
        observed: &AnyBuffer<u32>,
    ) -> Result<(), DeviceError> {
        let Self { models, c, w } = self;
        for PerModel { states, symbols, probabilities, least, exponents, likelihoods } in models {
            let (n, v) = (*states, *symbols);
            let elements = |live: u32| {
                let grid = Dim3 { x: n.div_ceil(32), y: live.div_ceil(8).min(u32::from(u16::MAX)), z: 1 };
                Shape::new(grid, Dim3 { x: 32, y: live.clamp(1, 8), z: 1 })
            };
            let rows = |live: u32| Shape::new(live, n.next_multiple_of(32).min(256));
            let live = |t: u32| packing.base.get(t as usize + 1).map_or(0, |end| end - packing.base[t as usize]);
            let Models { start, end, transitions, table, .. } = &*probabilities;
            device.clear(exponents)?;
            start_rows(device, elements(live(0)), live(0), n, start, c)?;
            for t in packing.steps() {
                let m = live(t);
                if t > 0 {
                    product(device, elements(m), m, n, w, transitions, c)?;
                }
                scale_rows(device, rows(m), m, n, *least, c, exponents)?;
                emission_product(device, elements(m), m, n, v, packing.base[t as usize], observed, table, c, w)?;
                if live(t + 1) < m {
                    // Sequences that go on are summed again when they end.
                    row_sums(device, rows(m), m, n, w, end, exponents, likelihoods)?;
                }
            }
        }
        Ok(())
    }

    /// P̂ or NaN, and Σ e: two numbers for each packed sequence, model by model.
    pub fn likelihoods(&self, device: &AnyDevice) -> Result<Vec<f64>, DeviceError> {
        let all = self.models.iter().map(|model| device.to_vec(&model.likelihoods));
        Ok(all.collect::<Result<Vec<_>, DeviceError>>()?.concat())
    }
}

/// The least positive element of a scaled row by which a model's products stay normal numbers, with a factor of 2 for the
/// rounding of tables and products; ∞ if a table holds another number than the model, because that is too small.
fn least(model: &Hmm, wide: bool) -> f64 {
    let least_of = |probs: &[f64]| probs.iter().copied().filter(|&prob| prob > 0.0).fold(1.0, f64::min);
    let emissions = match model.emissions() {
        Emissions::Categorical { probs, .. } => least_of(probs),
        Emissions::Gaussian { .. } | Emissions::Channels(_) => return f64::INFINITY,
    };
    let transitions = least_of(model.transitions()).min(least_of(model.end().unwrap_or_default()));
    let raised = least_of(model.start()).min(emissions) < power(normal(wide)) || transitions < power(entry(wide));
    if raised { f64::INFINITY } else { 2.0 * power(normal(wide)) / (emissions * transitions) }
}
