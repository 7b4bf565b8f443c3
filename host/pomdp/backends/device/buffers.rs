//! Growing device buffers for a model and its alpha vectors.

use std::ops::Range;
use warpkov_runtime::device::{AnyBuffer, AnyDevice, DeviceError};

use warpkov_device::device::DeviceCopy;
use warpkov_device::launch::{Device, Shape};
use warpkov_kernels::pomdp::model::{ModelArgs, StridedArgs};
use warpkov_kernels::pomdp::product::{ColumnsArgs, Factor, STEP, TILE, pick_vectors, place_factors, place_vectors};
use warpkov_kernels::primitives::rows::RowsArgs;

use crate::model::{Pomdp, by_columns};
use warpkov_mdp::model::Csr;
use warpkov_runtime::Precise;
use warpkov_runtime::scratch::Scratch;

/// A CSR matrix in device memory.
pub struct Matrix<T: Precise> {
    pub row_ptr: AnyBuffer<u64>,
    pub col: AnyBuffer<u32>,
    pub val: AnyBuffer<T>,
}

impl<T: Precise> Matrix<T> {
    pub fn upload(device: &AnyDevice, matrix: &Csr) -> Result<Self, DeviceError> {
        let (row_ptr, col) = (device.upload(matrix.row_ptr())?, device.upload(matrix.col())?);
        Ok(Self { row_ptr, col, val: device.upload(&T::rounded(matrix.val()))? })
    }

    /// The matrix as kernel arguments.
    fn args(&self) -> RowsArgs<'_, T, u64, AnyDevice> {
        RowsArgs { ptr: &self.row_ptr, col: &self.col, prob: &self.val }
    }
}

/// A model in device memory.
pub struct Model<T: Precise> {
    states: u32,
    actions: u32,
    gamma: f64,
    /// T with rows s·A + a.
    transitions: Matrix<T>,
    /// T by columns, with rows a·S + s'.
    predecessors: Matrix<T>,
    /// O with rows a·S + s'.
    observations: Matrix<T>,
    /// r(s, a) at s·A + a.
    reward: AnyBuffer<T>,
}

impl<T: Precise> Model<T> {
    /// Uploads a model, which must be a maximisation problem.
    pub fn upload(device: &AnyDevice, model: &Pomdp) -> Result<Self, DeviceError> {
        let (states, actions) = (model.states(), model.actions());
        Ok(Self {
            states,
            actions,
            gamma: model.gamma(),
            transitions: Matrix::upload(device, model.process().transitions())?,
            predecessors: Matrix::upload(device, &by_columns(model.process().transitions(), states, actions))?,
            observations: Matrix::upload(device, model.observations())?,
            reward: device.upload(&T::rounded(&model.expected_rewards()))?,
        })
    }

    /// The model as kernel arguments.
    pub fn args(&self) -> ModelArgs<'_, T, AnyDevice> {
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

/// Γ in one device layout. Vectors `0..count` are valid.
pub struct Layout<T: DeviceCopy> {
    buffer: AnyBuffer<T>,
    count: u32,
    /// Number of vectors that fit.
    capacity: u32,
}

impl<T: DeviceCopy> Layout<T> {
    fn empty(device: &AnyDevice) -> Result<Self, DeviceError> {
        Ok(Self { buffer: device.zeros(0)?, count: 0, capacity: 0 })
    }

    /// Makes room for `needed` vectors of `length` elements, in whole tiles. Growing discards all vectors.
    fn reserve(&mut self, device: &AnyDevice, needed: u32, length: usize) -> Result<(), DeviceError> {
        if self.capacity < needed {
            let capacity = needed.next_multiple_of(TILE as u32);
            *self = Self::empty(device)?;
            *self = Self { buffer: device.zeros(capacity as usize * length)?, count: 0, capacity };
        }
        Ok(())
    }
}

impl<T: Precise> Layout<T> {
    /// Copies `count` vectors of `states` elements each from `source` to the vectors from index `first` on. The caller
    /// has reserved their memory.
    fn place(
        &mut self,
        device: &AnyDevice,
        states: u32,
        first: u32,
        count: u32,
        source: &AnyBuffer<T>,
    ) -> Result<(), DeviceError> {
        let (to, shape) = (&mut self.buffer, Shape::cover(u64::from(count) * u64::from(states), 256));
        // SAFETY: callers reserve `first + count` vectors and pass a `source` with at least `count`; `columns` is
        // unused.
        unsafe {
            let (rows, none) = (StridedArgs { stride: states, values: to }, &mut device.zeros(0)?);
            let columns = StridedArgs { stride: 0, values: none };
            place_vectors(device, shape, states, first, count, 0, source, rows, columns)
        }
    }
}

/// Γ on the device in up to four layouts. All layouts except the first are built on demand.
pub struct Vectors<T: Precise> {
    states: u32,
    /// Γ\[i\]\[s\].
    rows: Layout<T>,
    /// Γ\[s\]\[i\]; the row length is the capacity.
    columns: Layout<T>,
    /// Padded f32 factors of Γ\[i\]\[s\] for the dense product.
    exact: Factors<f32>,
    /// Padded f16 factors of Γ\[i\]\[s\].
    rough: Factors<u16>,
}

/// The two operands of the dense product: Γ and x, the rows to multiply it with.
pub struct Factors<E: Factor> {
    vectors: Layout<E>,
    /// The present rows.
    pub x: Scratch<E>,
}

impl<E: Factor> Factors<E> {
    /// Words per row: S factors, padded to whole steps of the product.
    pub fn words(states: u32) -> u32 {
        (states as usize).div_ceil(E::PER_WORD).next_multiple_of(STEP) as u32
    }

    /// Elements per row, padding included.
    pub fn stride(states: u32) -> u32 {
        Self::words(states) * E::PER_WORD as u32
    }

    fn new(device: &AnyDevice) -> Result<Self, DeviceError> {
        Ok(Self { vectors: Layout::empty(device)?, x: Scratch::new(device)? })
    }

    /// Γ, as of the last [`Vectors::update`].
    pub fn vectors(&self) -> &AnyBuffer<E> {
        &self.vectors.buffer
    }

    /// Appends the factors of new vectors, multiplied by `scale`.
    fn update<T: Precise>(
        &mut self,
        device: &AnyDevice,
        states: u32,
        rows: &Layout<T>,
        scale: f64,
    ) -> Result<(), DeviceError> {
        let stride = Self::stride(states);
        self.vectors.reserve(device, rows.capacity, stride as usize)?;
        let (first, count) = (self.vectors.count, rows.count - self.vectors.count);
        if count > 0 {
            let shape = Shape::cover(u64::from(count) * u64::from(states), 256);
            // SAFETY: `rows` has `rows.count` vectors, and `reserve` made room for `rows.capacity` of them.
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

/// A factor type in which [`Vectors`] stores Γ.
pub trait Kept: Factor {
    /// The factors of Γ, as of the last [`Vectors::update`].
    fn kept<T: Precise>(vectors: &Vectors<T>) -> &Factors<Self>;
    /// The factors of Γ, mutable, and the vectors to build them from.
    fn kept_mut<T: Precise>(vectors: &mut Vectors<T>) -> (&mut Factors<Self>, &Layout<T>);
}

impl Kept for f32 {
    fn kept<T: Precise>(vectors: &Vectors<T>) -> &Factors<Self> {
        &vectors.exact
    }

    fn kept_mut<T: Precise>(vectors: &mut Vectors<T>) -> (&mut Factors<Self>, &Layout<T>) {
        (&mut vectors.exact, &vectors.rows)
    }
}

impl Kept for u16 {
    fn kept<T: Precise>(vectors: &Vectors<T>) -> &Factors<Self> {
        &vectors.rough
    }

    fn kept_mut<T: Precise>(vectors: &mut Vectors<T>) -> (&mut Factors<Self>, &Layout<T>) {
        (&mut vectors.rough, &vectors.rows)
    }
}

impl<T: Precise> Vectors<T> {
    pub fn new(device: &AnyDevice, states: u32) -> Result<Self, DeviceError> {
        let (rows, columns) = (Layout::empty(device)?, Layout::empty(device)?);
        let (exact, rough) = (Factors::new(device)?, Factors::new(device)?);
        Ok(Self { states, rows, columns, exact, rough })
    }

    pub fn count(&self) -> u32 {
        self.rows.count
    }

    /// Removes all vectors; keeps the memory.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Keeps only the first `count` vectors, and the memory.
    pub fn truncate(&mut self, count: u32) {
        let counts = [
            &mut self.rows.count,
            &mut self.columns.count,
            &mut self.exact.vectors.count,
            &mut self.rough.vectors.count,
        ];
        counts.into_iter().for_each(|known| *known = count.min(*known));
    }

    /// Appends concatenated vectors of S elements each.
    pub fn add(&mut self, device: &AnyDevice, values: &[f64]) -> Result<(), DeviceError> {
        let source = device.upload(&T::rounded(values))?;
        self.append(device, (values.len() / self.states as usize) as u32, &source)
    }

    /// Appends the first `added` vectors of `source`. On failure, Γ is unchanged.
    pub fn append(&mut self, device: &AnyDevice, added: u32, source: &AnyBuffer<T>) -> Result<(), DeviceError> {
        let (states, old) = (self.states, self.rows.count);
        if old + added > self.rows.capacity {
            // Growth by a quarter, so that vectors move seldom.
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

    /// Keeps only the vectors with these indices, in this order.
    pub fn pick(&mut self, device: &AnyDevice, picked: &[u32]) -> Result<(), DeviceError> {
        let count = picked.len() as u32;
        let mut kept = device.zeros(picked.len() * self.states as usize)?;
        let elements = picked.len() as u64 * u64::from(self.states);
        let (shape, picked) = (Shape::cover(elements, 256), device.upload(picked)?);
        pick_vectors(device, shape, elements, self.states, &picked, &self.rows.buffer, &mut kept)?;
        if count <= self.rows.capacity / 2 {
            *self = Self::new(device, self.states)?;
            self.rows.reserve(device, count, self.states as usize)?;
        }
        self.clear();
        self.rows.place(device, self.states, 0, count, &kept)?;
        self.rows.count = count;
        Ok(())
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> usize {
        let states = self.states as usize;
        let elements = (self.rows.capacity + self.columns.capacity) as usize * states;
        let exact = self.exact.vectors.capacity * Factors::<f32>::words(self.states);
        let rough = self.rough.vectors.capacity * Factors::<u16>::words(self.states);
        elements * size_of::<T>() + 4 * (exact as usize + rough as usize)
    }

    /// Updates the factors of type `E` to Γ·`scale`. `scale` must be the same in every call.
    pub fn update<E: Kept>(&mut self, device: &AnyDevice, scale: f64) -> Result<(), DeviceError> {
        let states = self.states;
        let (factors, rows) = E::kept_mut(self);
        factors.update(device, states, rows, scale)
    }

    /// The vectors in `range`, in f64.
    pub fn download(&self, device: &AnyDevice, range: Range<u32>) -> Result<Vec<f64>, DeviceError> {
        let (states, count) = (self.states as usize, range.len() as u32);
        let mut values = vec![T::ZERO; count as usize * states];
        if count > 0 {
            let mut last = device.zeros(values.len())?;
            let elements = values.len() as u64;
            let (shape, picked) = (Shape::cover(elements, 256), device.upload(&range.collect::<Vec<_>>())?);
            pick_vectors(device, shape, elements, self.states, &picked, &self.rows.buffer, &mut last)?;
            device.download(&last, &mut values)?;
        }
        Ok(values.into_iter().map(T::to_f64).collect())
    }

    /// Γ\[i\]\[s\].
    pub fn rows(&self) -> &AnyBuffer<T> {
        &self.rows.buffer
    }

    /// Γ\[s\]\[i\], updated.
    pub fn columns(&mut self, device: &AnyDevice) -> Result<ColumnsArgs<'_, T, AnyDevice>, DeviceError> {
        let Self { states, rows, columns, .. } = self;
        columns.reserve(device, rows.capacity, *states as usize)?;
        let (first, count) = (columns.count, rows.count - columns.count);
        if count > 0 {
            let shape = Shape::cover(u64::from(count) * u64::from(*states), 256);
            let (stride, to) = (columns.capacity, &mut columns.buffer);
            let none = &mut device.zeros(0)?;
            // SAFETY: `rows` has `rows.count` vectors, and `reserve` made room for `rows.capacity` of them.
            unsafe {
                let (none, columns) = (StridedArgs { stride: 0, values: none }, StridedArgs { stride, values: to });
                place_vectors(device, shape, *states, first, count, first, &rows.buffer, none, columns)?;
            }
            columns.count = rows.count;
        }
        Ok(ColumnsArgs { vectors: columns.count, stride: columns.capacity, values: &columns.buffer })
    }
}
