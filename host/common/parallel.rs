//! Loops on all cores.
//!
//! Rayon's code is generic in the body of a loop, and takes far more of a compiler's time than the body. These functions call
//! the body of a chunk through a pointer, so the code of Rayon is compiled once for all loops in generic code.

use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use rayon::prelude::*;

/// Elements, states or rows of a chunk: enough work to amortise the task, few enough to balance the load.
pub const CHUNK: usize = 4096;

/// The result of a thread, or its panic. A worker of rayon's pool works for the pool until the thread ends, which may wait for the pool, too.
pub fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    while !thread.is_finished() {
        match rayon::yield_now() {
            Some(rayon::Yield::Executed) => {}
            Some(rayon::Yield::Idle) => std::thread::sleep(Duration::from_micros(50)),
            None => break,
        }
    }
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// f(item) for each of `items`, in their order. An item should be some work: a chunk of a model, not a state.
pub fn map<I: Send, R: Send>(items: impl IntoIterator<Item = I>, f: impl Fn(I) -> R + Sync) -> Vec<R> {
    enum Slot<I, R> {
        Before(I),
        Within,
        After(R),
    }
    let slots: Vec<Mutex<Slot<I, R>>> = items.into_iter().map(|item| Mutex::new(Slot::Before(item))).collect();
    tasks(slots.len(), &|task| {
        let mut slot = slots[task].lock().unwrap_or_else(PoisonError::into_inner);
        if let Slot::Before(item) = std::mem::replace(&mut *slot, Slot::Within) {
            *slot = Slot::After(f(item));
        }
    });
    let result = |slot: Mutex<Slot<I, R>>| match slot.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Slot::After(result) => Some(result),
        Slot::Before(_) | Slot::Within => None,
    };
    slots.into_iter().filter_map(result).collect()
}

/// Sets element i to f(i).
pub fn fill<T: Send>(elements: &mut [T], f: impl Fn(usize) -> T + Sync) {
    map(elements.chunks_mut(CHUNK).enumerate(), |(chunk, elements)| {
        for (i, element) in (chunk * CHUNK..).zip(elements) {
            *element = f(i);
        }
    });
}

/// The array of f(0) to f(count − 1).
pub fn array<T: Clone + Default + Send>(count: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let mut elements = vec![T::default(); count];
    fill(&mut elements, f);
    elements
}

/// The elements of f(0) to f(count − 1), one behind the other.
pub fn flat_map<R: Send, F: IntoIterator<Item = R>>(count: usize, f: impl Fn(usize) -> F + Sync) -> Vec<R> {
    let of_chunk = |chunk: usize| (chunk * CHUNK..count.min((chunk + 1) * CHUNK)).flat_map(&f).collect();
    let mut chunks: Vec<Vec<R>> = map(0..count.div_ceil(CHUNK), of_chunk);
    match &mut chunks[..] {
        [one] => std::mem::take(one),
        _ => {
            let mut all = Vec::with_capacity(chunks.iter().map(Vec::len).sum());
            chunks.into_iter().for_each(|chunk| all.extend(chunk));
            all
        }
    }
}

/// The first of f(0) to f(count − 1) that is not `None`.
pub fn find_first<R: Send>(count: usize, f: impl Fn(usize) -> Option<R> + Sync) -> Option<R> {
    let of_chunk = |chunk: usize| (chunk * CHUNK..count.min((chunk + 1) * CHUNK)).find_map(&f);
    let of_chunk: &(dyn Fn(usize) -> Option<R> + Sync) = &of_chunk;
    (0..count.div_ceil(CHUNK)).into_par_iter().find_map_first(of_chunk)
}

/// Whether f(0) to f(count − 1) are true.
pub fn all(count: usize, f: impl Fn(usize) -> bool + Sync) -> bool {
    find_first(count, |i| (!f(i)).then_some(())).is_none()
}

/// Calls `task` with 0 to `count` − 1.
fn tasks(count: usize, task: &(dyn Fn(usize) + Sync)) {
    match count {
        1 => task(0),
        _ => (0..count).into_par_iter().for_each(task),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts around the ends of chunks.
    const COUNTS: [usize; 8] = [0, 1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 10 * CHUNK + 7];

    #[test]
    fn loops_keep_the_order() {
        for count in COUNTS {
            assert_eq!(map(0..count, |i| 3 * i), (0..count).map(|i| 3 * i).collect::<Vec<_>>());
            assert_eq!(array(count, |i| 3 * i), (0..count).map(|i| 3 * i).collect::<Vec<_>>());
            let few = |i: usize| (i % 7 == 3).then_some(i);
            assert_eq!(flat_map(count, few), (0..count).filter_map(few).collect::<Vec<_>>());
            assert_eq!(flat_map(count, |i| [i, i + 1]), (0..count).flat_map(|i| [i, i + 1]).collect::<Vec<_>>());
        }
    }

    #[test]
    fn items_that_borrow() {
        let mut numbers: Vec<usize> = vec![1; 1000];
        let sums = map(numbers.chunks_mut(300).enumerate(), |(chunk, part)| {
            part.fill(chunk);
            part.len()
        });
        assert_eq!(sums, [300, 300, 300, 100]);
        assert_eq!(numbers.iter().sum::<usize>(), 300 + 600 + 300);
    }

    #[test]
    fn the_first_of_all() {
        for count in COUNTS {
            for from in [0, 1, count / 2, count.saturating_sub(1), count] {
                let found = (from < count).then_some(from);
                assert_eq!(find_first(count, |i| (i >= from).then_some(i)), found, "{count} {from}");
                assert_eq!(all(count, |i| i < from), found.is_none(), "{count} {from}");
            }
        }
    }
}
