//! Chapter 7, part 3.

use learn::check::{Verdict, emulated};
use learn::prefix_sum::{Check, PrefixSum, Workspace};
use learn::{Device, Shape};
use warpkov_device::device::atomic::{Ordering, Scope};
use warpkov_device::device::prelude::*;

use crate::{Case, fails, passes};

/// Elements of a tile.
const TILE: u32 = 8192;

const AGGREGATE: u32 = 1;
const PREFIX: u32 = 2;

/// The buffers by which tiles tell each other their sums.
#[derive(Clone, Copy)]
pub struct Tiles {
    flags: GlobalMut<u32>,
    aggregates: GlobalMut<u32>,
    prefixes: GlobalMut<u32>,
}

/// Waits until the state of a tile is at least `least`, and returns it.
fn wait(tiles: Tiles, tile: u32, least: u32) -> u32 {
    let load = || atomic::load((tiles.flags, tile as usize), Ordering::Acquire, Scope::Device);
    let mut state = load();
    while state < least {
        state = load();
    }
    state
}

fn release(tiles: Tiles, tile: u32, state: u32) {
    atomic::store((tiles.flags, tile as usize), state, Ordering::Release, Scope::Device);
}

/// The sum of all elements before a tile.
fn all_elements(tile: u32, x: Global<u32>, _: Tiles) -> u32 {
    let mut before = 0;
    for i in 0..TILE * tile {
        before += x.get(i);
    }
    before
}

/// The sum of the aggregates of all tiles before one.
fn all_aggregates(tile: u32, _: Global<u32>, tiles: Tiles) -> u32 {
    let mut before = 0;
    for other in 0..tile {
        wait(tiles, other, AGGREGATE);
        before += tiles.aggregates.get(other);
    }
    before
}

/// The prefix of the tile before, though its aggregate is there.
fn last_prefix(tile: u32, _: Global<u32>, tiles: Tiles) -> u32 {
    if tile == 0 {
        return 0;
    }
    wait(tiles, tile - 1, PREFIX);
    tiles.prefixes.get(tile - 1)
}

/// The nearest prefix, and the aggregates between it and the tile: right, though serial.
fn look_back(tile: u32, _: Global<u32>, tiles: Tiles) -> u32 {
    let mut before = 0;
    let mut other = tile;
    while other > 0 {
        other -= 1;
        if wait(tiles, other, AGGREGATE) == PREFIX {
            return before + tiles.prefixes.get(other);
        }
        before += tiles.aggregates.get(other);
    }
    before
}

/// The prefix sums of a tile by a block of 256 threads. `before` is called by thread 0, after it has released the sum of
/// the tile.
fn scan(
    n: u32,
    x: Global<u32>,
    tiles: Tiles,
    y: GlobalMut<u32>,
    before: impl Fn(u32, Global<u32>, Tiles) -> u32,
) {
    let words = shared_array!(scan_words: u32; 10);
    let (t, warp_id) = (thread::thread_idx_x(), warp::warp_id());
    if t == 0 {
        words.set(8, atomic::add((tiles.flags, thread::grid_dim_x() as usize), 1));
    }
    thread::sync_threads();
    let tile = words.get(8);
    // Of each of eight pieces, thread t has the elements 4t … 4t + 3.
    let first = |piece: u32| TILE * tile + 1024 * piece + 4 * t;
    let mut total = 0;
    let mut sums = [[0; 4]; 8];
    for (piece, sums) in (0..).zip(&mut sums) {
        let first = first(piece);
        *sums = if first + 4 <= n {
            x.get4(first / 4)
        } else {
            [0, 1, 2, 3].map(|k| if first + k < n { x.get(first + k) } else { 0 })
        };
        for k in 1..4 {
            sums[k] += sums[k - 1];
        }
        let in_warp = warp::inclusive_scan(sums[3], |a, b| a + b);
        if warp::lane_id() == 31 {
            words.set(warp_id, in_warp);
        }
        thread::sync_threads();
        let of_warp = if warp::lane_id() < 8 { words.get(warp::lane_id()) } else { 0 };
        let through = warp::inclusive_scan(of_warp, |a, b| a + b);
        thread::sync_threads();
        let before = total + in_warp - sums[3] + warp::shuffle(warp::FULL, through - of_warp, warp_id);
        *sums = sums.map(|sum| before + sum);
        total += warp::shuffle(warp::FULL, through, 31);
    }
    if t == 0 {
        tiles.aggregates.set(tile, total);
        release(tiles, tile, AGGREGATE);
        let before = before(tile, x, tiles);
        tiles.prefixes.set(tile, before + total);
        release(tiles, tile, PREFIX);
        words.set(9, before);
    }
    thread::sync_threads();
    let before = words.get(9);
    for (piece, sums) in (0..).zip(sums) {
        let (first, sums) = (first(piece), sums.map(|sum| before + sum));
        if first + 4 <= n {
            y.set4(first / 4, sums);
        } else {
            (first..n).zip(sums).for_each(|(i, sum)| y.set(i, sum));
        }
    }
}

macro_rules! kernels {
    ($($module:ident)*) => {$(
        mod $module {
            use warpkov_device::device::prelude::*;

            #[kernel]
            pub fn scan_once(
                n: u32,
                x: Global<u32>,
                flags: GlobalMut<u32>,
                aggregates: GlobalMut<u32>,
                prefixes: GlobalMut<u32>,
                y: GlobalMut<u32>,
            ) {
                let tiles = super::Tiles { flags, aggregates, prefixes };
                super::scan(n, x, tiles, y, super::$module);
            }
        }
    )*};
}
kernels!(all_elements all_aggregates last_prefix look_back);

const ALL_ELEMENTS: u32 = 0;
const ALL_AGGREGATES: u32 = 1;
const LAST_PREFIX: u32 = 2;
const LOOK_BACK: u32 = 3;

struct Launch<const CASE: u32>;

impl<const CASE: u32> PrefixSum for Launch<CASE> {
    fn scan_tiles<D: Device>(_: &D, _: u32, _: &D::Buffer<u32>, _: &mut D::Buffer<u32>) -> Result<(), D::Error> {
        unreachable!("no case is about part 1")
    }

    fn scan_in_three<D: Device>(
        _: &D,
        _: u32,
        _: &D::Buffer<u32>,
        _: &mut D::Buffer<u32>,
        _: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error> {
        unreachable!("no case is about part 2")
    }

    fn scan_in_one<D: Device>(
        device: &D,
        n: u32,
        x: &D::Buffer<u32>,
        workspace: &mut Workspace<D>,
        y: &mut D::Buffer<u32>,
    ) -> Result<(), D::Error> {
        let shape = Shape::new(n.div_ceil(TILE), 256);
        let Workspace { flags, aggregates, prefixes } = workspace;
        device.clear(flags)?;
        // SAFETY: x and y have n elements, the workspace fits n, and its flags are 0.
        unsafe {
            match CASE {
                ALL_ELEMENTS => all_elements::scan_once(device, shape, n, x, flags, aggregates, prefixes, y),
                ALL_AGGREGATES => all_aggregates::scan_once(device, shape, n, x, flags, aggregates, prefixes, y),
                LAST_PREFIX => last_prefix::scan_once(device, shape, n, x, flags, aggregates, prefixes, y),
                _ => look_back::scan_once(device, shape, n, x, flags, aggregates, prefixes, y),
            }
        }
    }
}

fn case<const CASE: u32>() -> Verdict {
    emulated::<Check<Launch<CASE>>>(2)
}

const LOADS: &str = "at most 384 loads by some lanes of a warp, to look back, of scan_once";

pub const CASES: &[Case] = &[
    fails("the sum of all elements before a tile", case::<ALL_ELEMENTS>, LOADS),
    fails("the sum of all aggregates before a tile", case::<ALL_AGGREGATES>, LOADS),
    fails("the prefix of the tile before", case::<LAST_PREFIX>, LOADS),
    passes("a serial look-back", case::<LOOK_BACK>),
];
