//! Functions that belong to the gamma function Γ, and sums of numbers that only their logarithms can hold.

/// ln Σ eˣ.
pub fn log_sum(logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = logs.clone().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY { most } else { most + logs.map(|log| (log - most).exp()).sum::<f64>().ln() }
}

/// ln k!.
pub fn log_factorial(k: f64) -> f64 {
    libm::lgamma(k + 1.0)
}

/// ln Γ(y + ½) − ln Γ(y) for y > 0, without the cancellation of the difference.
pub fn log_gamma_step(y: f64) -> f64 {
    if y < 20.0 {
        return libm::lgamma(y + 0.5) - libm::lgamma(y);
    }
    let x = 1.0 / (y * y);
    0.5 * y.ln() - (1.0 / 8.0 - x * (1.0 / 192.0 - x * (1.0 / 640.0 - x * (17.0 / 14336.0)))) / y
}

/// A z ≥ y and ln z − ψ(y) for y > 0, where ψ is the digamma function: by its recurrence, and by its asymptotic series from 12 on.
fn raised(y: f64) -> [f64; 2] {
    let (mut raised, mut sum) = (y, 0.0);
    while raised < 12.0 {
        sum += 1.0 / raised;
        raised += 1.0;
    }
    let x = 1.0 / (raised * raised);
    let series = x * (1.0 / 12.0 - x * (1.0 / 120.0 - x * (1.0 / 252.0 - x * (1.0 / 240.0 - x / 132.0))));
    [raised, sum + 0.5 / raised + series]
}

/// ln y − ψ(y) for y > 0.
pub fn log_minus_digamma(y: f64) -> f64 {
    let [z, rest] = raised(y);
    (y / z).ln() + rest
}

/// ψ(y) for y > 0.
pub fn digamma(y: f64) -> f64 {
    let [z, rest] = raised(y);
    z.ln() - rest
}

/// The y with ln y − ψ(y) = c; ∞ unless c > 0. The difference descends, and 1 / 2y < ln y − ψ(y) < 1 / y.
pub fn inverse_log_minus_digamma(c: f64) -> f64 {
    if c.is_nan() || c <= 0.0 {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.5 / c, 1.0 / c);
    for _ in 0..f64::MANTISSA_DIGITS {
        let middle = low.midpoint(high);
        if log_minus_digamma(middle) > c { low = middle } else { high = middle }
    }
    low.midpoint(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known values: ψ(1) = −C, ψ(½) = −C − 2 ln 2, ψ(¼) = −C − π/2 − 3 ln 2, with Euler's constant C.
    #[test]
    fn digamma_has_known_values() {
        const C: f64 = 0.577_215_664_901_532_9;
        let known = [
            (1.0, -C),
            (0.5, -C - 2.0 * 2.0_f64.ln()),
            (0.25, -C - std::f64::consts::FRAC_PI_2 - 3.0 * 2.0_f64.ln()),
            (10.0, -C + (1..10).map(|k| 1.0 / f64::from(k)).sum::<f64>()),
            (100.0, -C + (1..100).map(|k| 1.0 / f64::from(k)).sum::<f64>()),
            (1e-200, -1e200),
            (1e200, 200.0 * std::f64::consts::LN_10),
        ];
        for (y, expected) in known {
            assert!((digamma(y) - expected).abs() < 1e-14 * expected.abs().max(1.0), "{y}: {}", digamma(y));
        }
        // ψ(y + 1) − ψ(y) = 1 / y
        for exponent in -60..60 {
            let y = 10_f64.powf(f64::from(exponent) / 10.0);
            assert!((digamma(y + 1.0) - digamma(y) - 1.0 / y).abs() < 2e-14 * (1.0 + 1.0 / y), "{y}");
        }
    }

    /// Γ(k + ½) / Γ(k) by its product from Γ(½) = √π on.
    #[test]
    fn steps_of_the_gamma_function_are_those_of_its_product() {
        let mut log = 0.5 * std::f64::consts::PI.ln() + 0.5_f64.ln();
        for k in 1..2000 {
            let found = log_gamma_step(f64::from(k));
            assert!((found - log).abs() < 1e-12, "{k}: {found}, expected {log}");
            log += (f64::from(k) + 0.5).ln() - f64::from(k).ln();
        }
        let large = log_gamma_step(1e12);
        assert!((large - 0.5 * 1e12_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn the_inverse_is_one_over_many_magnitudes() {
        for exponent in -300..=12 {
            let y = 3.7 * 10_f64.powi(exponent);
            let found = inverse_log_minus_digamma(log_minus_digamma(y));
            assert!((found / y - 1.0).abs() < 1e-12, "{y}: {found}");
        }
        assert_eq!(inverse_log_minus_digamma(0.0), f64::INFINITY);
        assert_eq!(inverse_log_minus_digamma(f64::NAN), f64::INFINITY);
    }
}
