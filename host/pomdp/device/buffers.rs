//! Memory that grows, and a model and its vectors in it.

use std::ops::Range;

use warpkov_device::device::DeviceCopy;
use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::pomdp::model::{ModelArgs, StridedArgs};
use warpkov_kernels::pomdp::product::{ColumnsArgs, Factor, STEP, TILE, pick_vectors, place_factors, place_vectors};
use warpkov_kernels::primitives::rows::RowsArgs;

use crate::mdp::model::Csr;
use crate::pomdp::model::{Pomdp, by_columns};
use crate::runtime::Precise;
use crate::runtime::scratch::Scratch;

/// A sparse matrix.
pub struct Matrix<T: Precise, D: Device> {
    pub row_ptr: D::Buffer<u64>,
    pub col: D::Buffer<u32>,
    pub val: D::Buffer<T>,
}

impl<T: Precise, D: Device> Matrix<T, D> {
    pub fn upload(device: &D, matrix: &Csr) -> Result<Self, D::Error> {
        let (row_ptr, col) = (device.upload(matrix.row_ptr())?, device.upload(matrix.col())?);
        Ok(Self { row_ptr, col, val: device.upload(&T::of(matrix.val()))? })
    }

    /// The matrix as kernels want it.
    fn args(&self) -> RowsArgs<'_, T, u64, D> {
        RowsArgs { ptr: &self.row_ptr, col: &self.col, prob: &self.val }
    }
}

/// A model in a device's memory.
pub struct Model<T: Precise, D: Device> {
    states: u32,
    actions: u32,
    gamma: f64,
    /// T, rows s·A + a; by columns, rows a·S + s'; and O.
    transitions: Matrix<T, D>,
    predecessors: Matrix<T, D>,
    observations: Matrix<T, D>,
    reward: D::Buffer<T>,
}

impl<T: Precise, D: Device> Model<T, D> {
    /// Uploads a valid model, of which rewards are to be maximised.
    pub fn upload(device: &D, model: &Pomdp) -> Result<Self, D::Error> {
        let (states, actions) = (model.states(), model.actions());
        Ok(Self {
            states,
            actions,
            gamma: model.gamma(),
            transitions: Matrix::upload(device, model.process().transitions())?,
            predecessors: Matrix::upload(device, &by_columns(model.process().transitions(), states, actions))?,
            observations: Matrix::upload(device, model.observations())?,
            reward: device.upload(&T::of(&model.expected_rewards()))?,
        })
    }

    /// The model as kernels want it.
    pub fn args(&self) -> ModelArgs<'_, T, D> {
        ModelArgs {
            states: self.states,
            actions: self.actions,
            gamma: self.gamma,
            transitions: self.transitions.args(),
            predecessors: self.predecessors.args(),
            observations: self.observations.args(),
            reward: &self.reward,
        }
    }
}

/// Γ as a kernel wants it: vectors `0..count` are there.
pub struct Layout<T: DeviceCopy, D: Device> {
    buffer: D::Buffer<T>,
    count: u32,
    /// Vectors that there is room for.
    capacity: u32,
}

impl<T: DeviceCopy, D: Device> Layout<T, D> {
    fn empty(device: &D) -> Result<Self, D::Error> {
        Ok(Self { buffer: device.zeros(0)?, count: 0, capacity: 0 })
    }

    /// Room for `needed` vectors of `length`, in whole tiles; if there was not, none is left.
    fn reserve(&mut self, device: &D, needed: u32, length: usize) -> Result<(), D::Error> {
        if self.capacity < needed {
            let capacity = needed.next_multiple_of(TILE as u32);
            *self = Self::empty(device)?;
            *self = Self { buffer: device.zeros(capacity as usize * length)?, count: 0, capacity };
        }
        Ok(())
    }
}

impl<T: Precise, D: Device> Layout<T, D> {
    /// Copies `count` vectors of `source`, of `states` elements each, to the rows from `first` on, for which there is room.
    fn place(
        &mut self,
        device: &D,
        states: u32,
        first: u32,
        count: u32,
        source: &D::Buffer<T>,
    ) -> Result<(), D::Error> {
        let (to, shape) = (&mut self.buffer, Shape::cover(u64::from(count) * u64::from(states), 256));
        // SAFETY: there is room for all, and the source has them.
        unsafe {
            let (rows, none) = (StridedArgs { stride: states, values: to }, &mut device.zeros(0)?);
            let columns = StridedArgs { stride: 0, values: none };
            place_vectors(device, shape, states, first, count, 0, source, rows, columns)
        }
    }
}

/// Γ on the device, in up to four layouts; those but the first are made when they are first asked for.
pub struct Vectors<T: Precise, D: Device> {
    states: u32,
    /// Γ\[i\]\[s\].
    rows: Layout<T, D>,
    /// Γ\[s\]\[i\], the row as long as its capacity.
    columns: Layout<T, D>,
    /// Factors Γ\[i\]\[s\] in f32, padded.
    exact: Factors<f32, D>,
    /// The same in f16.
    rough: Factors<u16, D>,
}

/// Both factors of the dense product: Γ, and the rows that are multiplied with it.
pub struct Factors<E: Factor, D: Device> {
    vectors: Layout<E, D>,
    /// The rows in hand.
    pub x: Scratch<E, D>,
}

impl<E: Factor, D: Device> Factors<E, D> {
    /// Words of a row: S factors in whole steps.
    pub fn words(states: u32) -> u32 {
        (states as usize).div_ceil(E::PER_WORD).next_multiple_of(STEP) as u32
    }

    /// Elements of a row.
    pub fn stride(states: u32) -> u32 {
        Self::words(states) * E::PER_WORD as u32
    }

    fn new(device: &D) -> Result<Self, D::Error> {
        Ok(Self { vectors: Layout::empty(device)?, x: Scratch::new(device)? })
    }

    /// Γ, as it was last made.
    pub fn vectors(&self) -> &D::Buffer<E> {
        &self.vectors.buffer
    }

    /// Makes it Γ·`scale`.
    fn update<T: Precise>(&mut self, device: &D, states: u32, rows: &Layout<T, D>, scale: f64) -> Result<(), D::Error> {
        let stride = Self::stride(states);
        self.vectors.reserve(device, rows.capacity, stride as usize)?;
        let (first, count) = (self.vectors.count, rows.count - self.vectors.count);
        if count > 0 {
            let shape = Shape::cover(u64::from(count) * u64::from(states), 256);
            // SAFETY: the source has these vectors, and there is room for all.
            unsafe {
                place_factors(
                    device,
                    shape,
                    states,
                    first,
                    count,
                    &rows.buffer,
                    scale,
                    StridedArgs { stride, values: &mut self.vectors.buffer },
                )?;
            }
            self.vectors.count = rows.count;
        }
        Ok(())
    }
}

/// Factors that Γ is kept as.
pub trait Kept: Factor {
    /// Those of Γ, as of the last [`Vectors::update`].
    fn kept<T: Precise, D: Device>(vectors: &Vectors<T, D>) -> &Factors<Self, D>;
    /// The same, to be made.
    fn kept_mut<T: Precise, D: Device>(vectors: &mut Vectors<T, D>) -> (&mut Factors<Self, D>, &Layout<T, D>);
}

impl Kept for f32 {
    fn kept<T: Precise, D: Device>(vectors: &Vectors<T, D>) -> &Factors<Self, D> {
        &vectors.exact
    }

    fn kept_mut<T: Precise, D: Device>(vectors: &mut Vectors<T, D>) -> (&mut Factors<Self, D>, &Layout<T, D>) {
        (&mut vectors.exact, &vectors.rows)
    }
}

impl Kept for u16 {
    fn kept<T: Precise, D: Device>(vectors: &Vectors<T, D>) -> &Factors<Self, D> {
        &vectors.rough
    }

    fn kept_mut<T: Precise, D: Device>(vectors: &mut Vectors<T, D>) -> (&mut Factors<Self, D>, &Layout<T, D>) {
        (&mut vectors.rough, &vectors.rows)
    }
}

impl<T: Precise, D: Device> Vectors<T, D> {
    pub fn new(device: &D, states: u32) -> Result<Self, D::Error> {
        let (rows, columns) = (Layout::empty(device)?, Layout::empty(device)?);
        let (exact, rough) = (Factors::new(device)?, Factors::new(device)?);
        Ok(Self { states, rows, columns, exact, rough })
    }

    pub fn count(&self) -> u32 {
        self.rows.count
    }

    /// Forgets all vectors, and keeps the memory.
    pub fn clear(&mut self) {
        (self.rows.count, self.columns.count, self.exact.vectors.count, self.rough.vectors.count) = (0, 0, 0, 0);
    }

    /// Adds vectors of S elements each.
    pub fn add(&mut self, device: &D, values: &[f64]) -> Result<(), D::Error> {
        let source = device.upload(&T::of(values))?;
        self.append(device, (values.len() / self.states as usize) as u32, &source)
    }

    /// Adds the first `added` vectors of `source`. Where that fails, nothing has changed.
    pub fn append(&mut self, device: &D, added: u32, source: &D::Buffer<T>) -> Result<(), D::Error> {
        let (states, old) = (self.states, self.rows.count);
        if old + added > self.rows.capacity {
            // More than are needed, so that vectors move seldom.
            let mut grown = Layout::empty(device)?;
            grown.reserve(device, (old + added).max(old + old / 4), states as usize)?;
            grown.place(device, states, 0, old, &self.rows.buffer)?;
            grown.count = old;
            self.rows = grown;
        }
        self.rows.place(device, states, old, added, source)?;
        self.rows.count = old + added;
        Ok(())
    }

    /// Leaves only the vectors with these numbers, in this order.
    pub fn pick(&mut self, device: &D, picked: &[u32]) -> Result<(), D::Error> {
        let count = picked.len() as u32;
        let mut kept = device.zeros(picked.len() * self.states as usize)?;
        let shape = Shape::cover(picked.len() as u64 * u64::from(self.states), 256);
        // SAFETY: there are these vectors, and room for as many.
        unsafe {
            pick_vectors(device, shape, self.states, count, &device.upload(picked)?, &self.rows.buffer, &mut kept)?
        };
        if count <= self.rows.capacity / 2 {
            *self = Self::new(device, self.states)?;
            self.rows.reserve(device, count, self.states as usize)?;
        }
        self.clear();
        self.rows.place(device, self.states, 0, count, &kept)?;
        self.rows.count = count;
        Ok(())
    }

    /// What it takes.
    pub fn bytes(&self) -> usize {
        let states = self.states as usize;
        let elements = (self.rows.capacity + self.columns.capacity) as usize * states;
        let exact = self.exact.vectors.capacity * Factors::<f32, D>::words(self.states);
        let rough = self.rough.vectors.capacity * Factors::<u16, D>::words(self.states);
        elements * size_of::<T>() + 4 * (exact as usize + rough as usize)
    }

    /// Makes the factors those of Γ·`scale`, for all time the same.
    pub fn update<E: Kept>(&mut self, device: &D, scale: f64) -> Result<(), D::Error> {
        let states = self.states;
        let (factors, rows) = E::kept_mut(self);
        factors.update(device, states, rows, scale)
    }

    /// The vectors of a range of numbers, as they are there.
    pub fn download(&self, device: &D, range: Range<u32>) -> Result<Vec<f64>, D::Error> {
        let (states, count) = (self.states as usize, range.len() as u32);
        let mut values = vec![T::ZERO; count as usize * states];
        if count > 0 {
            let mut last = device.zeros(values.len())?;
            let shape = Shape::cover(values.len() as u64, 256);
            let picked = device.upload(&range.collect::<Vec<_>>())?;
            // SAFETY: there are these vectors, and room for as many.
            unsafe { pick_vectors(device, shape, self.states, count, &picked, &self.rows.buffer, &mut last)? };
            device.download(&last, &mut values)?;
        }
        Ok(values.into_iter().map(T::to_f64).collect())
    }

    /// Γ\[i\]\[s\].
    pub fn rows(&self) -> &D::Buffer<T> {
        &self.rows.buffer
    }

    /// Γ\[s\]\[i\].
    pub fn columns(&mut self, device: &D) -> Result<ColumnsArgs<'_, T, D>, D::Error> {
        let Self { states, rows, columns, .. } = self;
        columns.reserve(device, rows.capacity, *states as usize)?;
        let (first, count) = (columns.count, rows.count - columns.count);
        if count > 0 {
            let shape = Shape::cover(u64::from(count) * u64::from(*states), 256);
            let (stride, to) = (columns.capacity, &mut columns.buffer);
            let none = &mut device.zeros(0)?;
            // SAFETY: the source has these vectors, and there is room for all.
            unsafe {
                let (none, columns) = (StridedArgs { stride: 0, values: none }, StridedArgs { stride, values: to });
                place_vectors(device, shape, *states, first, count, first, &rows.buffer, none, columns)?;
            }
            columns.count = rows.count;
        }
        Ok(ColumnsArgs { vectors: columns.count, stride: columns.capacity, values: &columns.buffer })
    }
}
