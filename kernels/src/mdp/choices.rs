//! The rows (state-action pairs) of each state.

use core::ops::Range;

use warpkov_device::device::safe::Slice;
use warpkov_device::device::{Global, Offset, Parameter};

/// The actions of each state, in one of two forms.
///
/// - `actions` = A > 0: every state has A actions; row s·A + a belongs to action a of state s.
/// - `actions` = 0: state s has the rows `offsets[s]..offsets[s + 1]`. A state without rows is terminal; its value
///   is 0.
///
/// | field | shape | range or unit |
/// | --- | --- | --- |
/// | `actions` | scalar | A, or 0 |
/// | `offsets` | S + 1; any length if A > 0 | rows, ascending |
#[derive(Clone, Copy, Parameter)]
#[parameter(holds(states), requires(if actions == 0 { offsets.len() >= states + 1 }))]
pub struct Choices<O: Offset> {
    /// A, or 0 if the number of actions varies.
    pub actions: u32,
    /// First row of each state, and the number of rows; the kernels read it only if `actions` is 0.
    pub offsets: Global<O>,
}

impl<O: Offset> Choices<O> {
    /// First row of `state`. `first(S)` is the number of rows.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn first(&self, state: usize) -> usize {
        if self.actions > 0 { state * self.actions as usize } else { self.offsets.get(state).to_usize() }
    }

    /// Row of `action` in `state`, or `None` for [`NO_ACTION`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn row(&self, state: usize, action: u32) -> Option<usize> {
        if action == NO_ACTION { None } else { Some(self.first(state) + action as usize) }
    }

    /// Entry range of the row of `action` in `state`; empty for [`NO_ACTION`]. `row_ptr` has one element per row plus
    /// one.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn entries(&self, row_ptr: Global<O>, state: usize, action: u32) -> (usize, usize) {
        match self.row(state, action) {
            Some(row) => (row_ptr.get(row).to_usize(), row_ptr.get(row + 1).to_usize()),
            None => (0, 0),
        }
    }
}

/// The policy's entry for a terminal state.
pub const NO_ACTION: u32 = u32::MAX;

/// The indices from a row pointer to the next.
#[inline(always)]
pub fn range<O: Offset>([first, end]: [O; 2]) -> Range<usize> {
    first.to_usize()..end.to_usize()
}

/// [`Choices`] for safe kernels: an access of `offsets` is checked.
#[derive(Clone, Copy, Parameter)]
pub struct CheckedChoices<O: Offset> {
    /// A, or 0 if the number of actions varies.
    pub actions: u32,
    /// First row of each state, and the number of rows; the kernels read it only if `actions` is 0.
    pub offsets: Slice<O>,
}

impl<O: Offset> CheckedChoices<O> {
    /// The rows of `state`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn rows(&self, state: usize) -> Range<usize> {
        match self.actions as usize {
            0 => range(self.offsets.chunk(state)),
            actions => state * actions..(state + 1) * actions,
        }
    }

    /// The entries of the row of `action` in `state`; none for [`NO_ACTION`]. `row_ptr` has one element per row plus one.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn entries(&self, row_ptr: Slice<O>, state: usize, action: u32) -> Range<usize> {
        if action == NO_ACTION {
            return 0..0;
        }
        let first = match self.actions as usize {
            0 => self.offsets.get(state).to_usize(),
            actions => state * actions,
        };
        let row = first + action as usize;
        range(row_ptr.chunk(row))
    }
}
