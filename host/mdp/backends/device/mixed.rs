//! Value iteration in f32 and then in f64.

use warpkov_device::device::Offset;
use warpkov_runtime::device::{AnyDevice, DeviceError};

use super::ghosts::Ranks;
use super::layout::SweepLayout;
use super::values::ValueIteration;
use crate::backend::{Backups, Certify, GreedySweeps, Residual, State, Stop};

/// Value iteration in f32 until rounding errors or the target stop it, then in f64.
pub struct Mixed<'d, O: Offset> {
    fast: ValueIteration<'d, f32, O>,
    exact: ValueIteration<'d, f64, O>,
    /// Whether V is in f64.
    in_f64: bool,
    /// Size of the last changes in f32, as [`Stop::size`].
    last: f64,
}

impl<'d, O: Offset> Mixed<'d, O> {
    /// Uploads the model in f64, converts it to f32 on the device if possible, and starts at V = 0.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn new(device: &'d AnyDevice, sweep_layout: &SweepLayout<'d>) -> Result<Self, DeviceError> {
        Self::in_team(device, sweep_layout, None)
    }

    /// [`new`](Self::new) for the part of one rank. All ranks call the methods in the same order.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn in_team(
        device: &'d AnyDevice,
        sweep_layout: &SweepLayout<'d>,
        ranks: Option<&Ranks<'d>>,
    ) -> Result<Self, DeviceError> {
        let exact = ValueIteration::in_team(device, sweep_layout, Ranks::exchanges(ranks, device)?)?;
        let ghosts = Ranks::exchanges(ranks, device)?;
        let fast = match exact.model.shortened(device)? {
            Some(model) => ValueIteration::with(device, sweep_layout, model, ghosts)?,
            None => ValueIteration::in_team(device, sweep_layout, ghosts)?,
        };
        Ok(Self { fast, exact, in_f64: false, last: f64::INFINITY })
    }

    /// As [`ValueIteration::with_local_sweeps`].
    ///
    /// # Errors
    /// Errors of the device.
    pub fn with_local_sweeps(self, sweeps: u32) -> Result<Self, DeviceError> {
        let (fast, exact) = (self.fast.with_local_sweeps(sweeps)?, self.exact.with_local_sweeps(sweeps)?);
        Ok(Self { fast, exact, ..self })
    }

    /// Copies V from f32 to f64, once.
    fn switch_to_f64(&mut self) -> Result<(), DeviceError> {
        if !self.in_f64 {
            self.exact.take(&self.fast)?;
            self.in_f64 = true;
        }
        Ok(())
    }
}

impl<O: Offset> State for Mixed<'_, O> {
    type Error = DeviceError;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), DeviceError> {
        (self.in_f64, self.last) = (false, f64::INFINITY);
        self.fast.reset(initial)
    }

    fn values(&mut self) -> Result<Vec<f64>, DeviceError> {
        if self.in_f64 { self.exact.values() } else { self.fast.values() }
    }

    fn policy(&mut self) -> Result<Vec<u32>, DeviceError> {
        if self.in_f64 { self.exact.policy() } else { self.fast.policy() }
    }

    fn policy_is_implicit(&self) -> bool {
        true
    }

    fn phase(&self) -> u32 {
        u32::from(self.in_f64)
    }

    fn sweep_bytes(&mut self) -> Result<u64, DeviceError> {
        if self.in_f64 { self.exact.sweep_bytes() } else { self.fast.sweep_bytes() }
    }
}

impl<O: Offset> GreedySweeps for Mixed<'_, O> {
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, DeviceError> {
        let mut before = 0;
        if !self.in_f64 {
            let found = self.fast.backup(stop, max_sweeps)?;
            before = found.sweeps;
            // Without rounding errors, n sweeps multiply the changes by at most γⁿ. Much larger changes are rounding
            // errors. Changes that meet the stop in f32 may be wrong as well, so f64 sweeps follow in both cases.
            let left = stop.size(found.least, found.greatest);
            let rounding = left >= self.last * (1.0 + self.fast.source.gamma().powi(before as i32)) / 2.0;
            self.last = left;
            let met = stop.is_met(found.least, found.greatest);
            if before >= max_sweeps && !(met || found.fixed || rounding) {
                return Ok(found);
            }
            self.switch_to_f64()?;
        }
        // At least one sweep: changes measured in f32 are not reliable.
        let found = self.exact.backup(stop, (max_sweeps - before).max(1))?;
        Ok(Backups { sweeps: before + found.sweeps, ..found })
    }

    fn non_monotone_unit(&self) -> Option<f64> {
        if self.in_f64 { self.exact.non_monotone_unit() } else { self.fast.non_monotone_unit() }
    }
}

impl<O: Offset> Certify for Mixed<'_, O> {
    /// Switches to f64 first.
    fn residual(&mut self) -> Result<Residual, DeviceError> {
        self.switch_to_f64()?;
        self.exact.residual()
    }
}
