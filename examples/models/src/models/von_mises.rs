//! Directions: the von Mises distribution (Mardia and Jupp, *Directional Statistics*, 2000, section 3.5.4), as of the turns of an
//! animal between its steps.

use warpkov_device::device::{Parameter, Real};
use warpkov_kernels::hmm::Emission;

/// Angles x with density e^(κ cos(x − μ)) / 2π I₀(κ). The parameters are μ, κ ≥ 0, and c = −ln (2π I₀(κ) e^−κ), which follows from κ.
#[derive(Clone, Copy, Debug, Parameter)]
pub struct VonMises {
    /// The largest κ that training finds, at most 1000.
    pub most: f64,
}

impl Emission for VonMises {
    fn components(&self) -> u32 {
        1
    }

    fn parameters(&self) -> u32 {
        3
    }

    fn log_density(&self, theta: impl Fn(u32) -> f64, x: impl Fn(u32) -> f64) -> f64 {
        theta(2) + theta(1) * (Real::cos(x(0) - theta(0)) - 1.0)
    }

    /// cos x and sin x.
    fn statistics(&self) -> u32 {
        2
    }

    fn statistic(&self, index: u32, _: impl Fn(u32) -> f64, x: impl Fn(u32) -> f64) -> f64 {
        if index == 0 { Real::cos(x(0)) } else { Real::sin(x(0)) }
    }

    /// μ is the direction of the mean of (cos x, sin x), and κ solves I₁(κ) / I₀(κ) = its length.
    #[cfg(not(target_arch = "nvptx64"))]
    fn maximise(&self, theta: &mut [f64], weight: f64, sums: &[f64]) {
        let (mut low, mut high) = (0.0, self.most);
        for _ in 0..60 {
            let kappa = 0.5 * (low + high);
            let [zeroth, first] = bessel(kappa);
            if first / zeroth < sums[0].hypot(sums[1]) / weight {
                low = kappa;
            } else {
                high = kappa;
            }
        }
        theta.copy_from_slice(&Self::parameters(sums[1].atan2(sums[0]), low));
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl VonMises {
    /// The parameters of a state with mean μ and concentration κ.
    pub fn parameters(mean: f64, concentration: f64) -> [f64; 3] {
        [mean, concentration, -(std::f64::consts::TAU * bessel(concentration)[0]).ln()]
    }
}

/// I₀(κ) e^−κ and I₁(κ) e^−κ for κ from 0 to 1000: means of e^(κ (cos t − 1)), and of cos t times that, over equally spaced t.
#[cfg(not(target_arch = "nvptx64"))]
fn bessel(kappa: f64) -> [f64; 2] {
    const POINTS: u32 = 512;
    let mut sums = [0.0; 2];
    for point in 0..POINTS {
        let cos = (std::f64::consts::TAU * f64::from(point) / f64::from(POINTS)).cos();
        let term = (kappa * (cos - 1.0)).exp() / f64::from(POINTS);
        sums[0] += term;
        sums[1] += cos * term;
    }
    sums
}

warpkov_kernels::emission!(VonMises);
