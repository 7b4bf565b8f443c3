//! Which rows, that is state-action pairs, belong to which state.

use warpkov_device::device::{Global, Offset, Parameter};

/// The actions of states: `actions` of each, rows s·A + a; or where `actions` is 0, rows `offsets[s]..offsets[s + 1]`, which
/// may be none: such a state is terminal, and its value is 0.
///
/// | field | shape | unit |
/// | --- | --- | --- |
/// | `actions` | 1 | actions of a state |
/// | `offsets` | S + 1, or not read | rows |
#[derive(Clone, Copy, Parameter)]
pub struct Choices<O: Offset> {
    /// A, or 0.
    pub actions: u32,
    /// S + 1 offsets where `actions` is 0; else not read.
    pub offsets: Global<O>,
}

impl<O: Offset> Choices<O> {
    /// The first row of a state; that of the state S is the number of all rows.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn first(&self, state: usize) -> usize {
        if self.actions > 0 { state * self.actions as usize } else { self.offsets.get(state).to_usize() }
    }

    /// The row of an action of a state; `None` where the state has none.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn row(&self, state: usize, action: u32) -> Option<usize> {
        if action == NO_ACTION { None } else { Some(self.first(state) + action as usize) }
    }

    /// Where the entries of that row begin and end; `row_ptr` has one element per row and one more.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn entries(&self, row_ptr: Global<O>, state: usize, action: u32) -> (usize, usize) {
        match self.row(state, action) {
            Some(row) => (row_ptr.get(row).to_usize(), row_ptr.get(row + 1).to_usize()),
            None => (0, 0),
        }
    }
}

/// The action of a state that has none, in a policy.
pub const NO_ACTION: u32 = u32::MAX;
