//! The linear system (I − γP^π)x = r^π on a device.

use warpkov_device::device::Offset;
use warpkov_device::launch::{Buffer, Device, Shape};
use warpkov_kernels::primitives::vector::{MAX_BLOCKS, THREADS, combine, dots, dots_total};
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use super::ghosts::Exchanges;
use super::projected::{PolicyLayout, Projected};
use crate::backend::{Backups, Evaluate, Evaluation, GreedySweeps, State, Stop};
use crate::backends::krylov::Linear;
use crate::model::Mdp;
use warpkov_common::interrupt;

/// The projected method with the buffers for BiCGSTAB.
pub struct System<'d, O: Offset> {
    projected: Projected<'d, f64, O>,
    /// The states of this rank, and those with the ghosts behind them.
    states: usize,
    all: usize,
    /// Zero reward vector.
    nothing: AnyBuffer<f64>,
    parts: AnyBuffer<f64>,
    sums: AnyBuffer<f64>,
    /// Whether a stop was requested, on any rank, before the last inner product.
    stopped: bool,
}

impl<'d, O: Offset> System<'d, O> {
    /// Uploads the model; V = 0 and the first action of every state.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn new(device: &'d AnyDevice, model: &Mdp, layout: PolicyLayout) -> Result<Self, DeviceError> {
        Self::in_team(device, model, layout, None)
    }

    /// [`new`](Self::new) for the part of one rank, as [`Projected::in_team`].
    ///
    /// # Errors
    /// Errors of the device.
    pub fn in_team(
        device: &'d AnyDevice,
        model: &Mdp,
        layout: PolicyLayout,
        ranks: Option<Box<dyn Exchanges<f64> + 'd>>,
    ) -> Result<Self, DeviceError> {
        Self::on(Projected::in_team(device, model, layout, ranks)?, model)
    }

    /// [`new`](Self::new) for a model that stays on the host, as [`Projected::on_host`].
    ///
    /// # Errors
    /// Errors of the device.
    pub fn on_host(device: &'d AnyDevice, model: &'d Mdp) -> Result<Self, DeviceError> {
        Self::on(Projected::on_host(device, model)?, model)
    }

    fn on(projected: Projected<'d, f64, O>, model: &Mdp) -> Result<Self, DeviceError> {
        let (device, states, all) = (projected.device(), projected.states(), model.states() as usize);
        Ok(Self {
            projected,
            states,
            all,
            nothing: device.zeros(states)?,
            parts: device.zeros(2 * blocks(states) as usize)?,
            sums: device.zeros(2)?,
            stopped: false,
        })
    }

    /// Bytes of device memory, including the nine vectors of [`Krylov`](crate::backends::krylov::Krylov).
    #[must_use]
    pub fn bytes(model: &Mdp, layout: PolicyLayout) -> u64 {
        Projected::<f64, O>::bytes(model, layout) + Self::own_bytes(model)
    }

    /// The same if the model is on the host.
    #[must_use]
    pub fn bytes_on_host(model: &Mdp) -> u64 {
        Projected::<f64, O>::bytes_on_host(model) + Self::own_bytes(model)
    }

    /// Bytes of the vectors.
    fn own_bytes(model: &Mdp) -> u64 {
        let states = model.states() as usize;
        8 * (10 * states + 2 * blocks(states) as usize + 2) as u64
    }
}

impl<O: Offset> System<'_, O> {
    /// Checks the vector lengths, because safe callers may pass any buffer.
    fn assert_whole(&self, vectors: &[&AnyBuffer<f64>]) {
        let whole = |vector: &&AnyBuffer<f64>| vector.len() == self.all;
        assert!(vectors.iter().all(whole), "vectors of one element per state");
    }

    /// Replaces the ghosts of a vector.
    fn refresh(&mut self, x: &mut AnyBuffer<f64>) -> Result<(), DeviceError> {
        let device = self.projected.device();
        self.projected.ranks().map_or(Ok(()), |ranks| ranks.refresh(device, x))
    }
}

/// Blocks of an inner product. Independent of the device, so the result is too.
fn blocks(n: usize) -> u32 {
    n.div_ceil(4 * THREADS as usize).clamp(1, MAX_BLOCKS as usize) as u32
}

impl<O: Offset> State for System<'_, O> {
    type Error = DeviceError;

    fn reset(&mut self, initial: Option<&[f64]>) -> Result<(), DeviceError> {
        self.projected.reset(initial)
    }

    fn values(&mut self) -> Result<Vec<f64>, DeviceError> {
        self.projected.values()
    }

    fn policy(&mut self) -> Result<Vec<u32>, DeviceError> {
        self.projected.policy()
    }

    fn sweep_bytes(&mut self) -> Result<u64, DeviceError> {
        self.projected.sweep_bytes()
    }
}

impl<O: Offset> Evaluate for System<'_, O> {
    fn evaluate(&mut self, theta: f64, max_sweeps: u32) -> Result<Evaluation, DeviceError> {
        self.projected.evaluate(theta, max_sweeps)
    }

    fn improve(&mut self, tie: f64) -> Result<u64, DeviceError> {
        self.projected.improve(tie)
    }
}

impl<O: Offset> GreedySweeps for System<'_, O> {
    fn backup(&mut self, stop: Stop, max_sweeps: u32) -> Result<Backups, DeviceError> {
        self.projected.backup(stop, max_sweeps)
    }
}

/// `y` ← `a``y` + `b``x` + `c``z`.
fn combined(
    device: &AnyDevice,
    n: usize,
    (a, y): (f64, &mut AnyBuffer<f64>),
    (b, x): (f64, &AnyBuffer<f64>),
    (c, z): (f64, &AnyBuffer<f64>),
) -> Result<(), DeviceError> {
    let long = [y.len(), x.len(), z.len()];
    assert!(long == [long[0]; 3] && n <= long[0], "vectors of one element per state");
    combine(device, Shape::grid_stride(n as u64, THREADS), n as u64, a, y, b, x, c, z)
}

impl<O: Offset> Linear for System<'_, O> {
    type Vector = AnyBuffer<f64>;

    fn vector(&mut self) -> Result<Self::Vector, DeviceError> {
        self.projected.device().zeros(self.all)
    }

    fn prepare(&mut self) -> Result<(), DeviceError> {
        self.projected.project()
    }

    fn load(&mut self, x: &mut Self::Vector) -> Result<(), DeviceError> {
        let v = self.projected.values_mut();
        combined(v.0, self.states, (0.0, x), (1.0, v.1), (0.0, v.1))
    }

    fn store(&mut self, x: &Self::Vector) -> Result<(), DeviceError> {
        let v = self.projected.values_mut();
        combined(v.0, self.states, (0.0, v.1), (1.0, x), (0.0, x))
    }

    fn stopped(&self) -> bool {
        self.stopped
    }

    fn apply(&mut self, x: &mut Self::Vector, y: &mut Self::Vector) -> Result<(), DeviceError> {
        self.assert_whole(&[x, y]);
        self.refresh(x)?;
        self.projected.product(x, Some(&self.nothing), y)?;
        combined(self.projected.device(), self.states, (-1.0, y), (1.0, x), (0.0, x))
    }

    fn residual(&mut self, x: &mut Self::Vector, y: &mut Self::Vector) -> Result<f64, DeviceError> {
        self.assert_whole(&[x, y]);
        self.refresh(x)?;
        self.projected.product(x, None, y)?;
        let norm = self.projected.change()?;
        combined(self.projected.device(), self.states, (1.0, y), (-1.0, x), (0.0, x))?;
        // The maximum ignores NaN; the sum does not.
        let (square, _) = self.dots(y, y, y)?;
        Ok(if square.is_finite() { norm } else { f64::INFINITY })
    }

    fn dots(&mut self, x: &Self::Vector, y: &Self::Vector, z: &Self::Vector) -> Result<(f64, f64), DeviceError> {
        let (device, blocks) = (self.projected.device(), blocks(self.states));
        self.assert_whole(&[x, y, z]);
        dots(device, Shape::new(blocks, THREADS), self.states as u64, x, y, z, &mut self.parts)?;
        dots_total(device, Shape::new(1, THREADS), blocks, &self.parts, &mut self.sums)?;
        let mut sums = [0.0; 2];
        device.download(&self.sums, &mut sums)?;
        self.stopped = self.projected.ranks().map_or_else(interrupt::requested, |ranks| ranks.sum(&mut sums));
        Ok((sums[0], sums[1]))
    }

    fn combine(
        &mut self,
        a: f64,
        y: &mut Self::Vector,
        b: f64,
        x: &Self::Vector,
        c: f64,
        z: &Self::Vector,
    ) -> Result<(), DeviceError> {
        combined(self.projected.device(), self.states, (a, y), (b, x), (c, z))
    }
}
