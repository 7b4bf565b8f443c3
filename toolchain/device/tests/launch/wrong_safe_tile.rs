use warpkov_device::device::kernel;
use warpkov_device::device::safe::{PerThread, Tile};
use warpkov_device::tile;

fn twice() -> Tile<u32> {
    tile!(elsewhere: u32; 32)
}

#[kernel(safe)]
fn makes_tiles_in_a_loop(out: PerThread<u32>) {
    for _ in 0..2 {
        let mut tile = tile!(looped: u32; 32);
        out.set(tile.fill(|i| i).get(0));
    }
}

#[kernel(safe)]
fn makes_tiles_in_a_closure(out: PerThread<u32>) {
    let make = || tile!(closed: u32; 32);
    let (mut one, mut other) = (make(), make());
    out.set(one.fill(|i| i).get(0) + other.fill(|i| i).get(0));
}

fn main() {}
