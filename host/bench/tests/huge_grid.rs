//! The benchmark of huge grids, divided among ranks.

use std::time::Duration;

use warpkov_bench::mdp::huge_grid::{HugeOptions, Measured, measure};
use warpkov_mdp::generate::SlipGrid;
use warpkov_runtime::choose::DeviceChoice;
use warpkov_runtime::comm::{Communicator, Local};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_grid_in_parts_has_the_bits_of_one() {
    let walls = SlipGrid { walls: 0.2, obstacles: 0.1, ..SlipGrid::default() };
    for grid in [SlipGrid { width: 23, height: 31, ..SlipGrid::default() }, SlipGrid { width: 40, height: 17, ..walls }]
    {
        let grid = SlipGrid { gamma: 0.8, ..grid };
        let measured = |ranks: u32, options: HugeOptions| {
            let work = |comm: &Local| {
                let device = DeviceChoice::Emulated.open_kernels(false)?.0;
                let made = grid.patterns_of(comm.rank(), comm.size()).unwrap();
                measure(comm, &device, &made, &options)
            };
            let all = Local::run(ranks, PATIENCE, work).unwrap();
            assert!(all.iter().all(|found| (found.certificate, found.sweeps) == (all[0].certificate, all[0].sweeps)));
            let Measured { states, sweeps, certificate, shift, .. } = all[0];
            (states, sweeps, certificate, shift)
        };
        for (mixed, skip) in [(false, true), (true, true), (false, false)] {
            let options = HugeOptions { mixed, epsilon: 1e-5, skip };
            let one = measured(1, options);
            assert!(one.2.proves(1e-5));
            for ranks in [2, 4] {
                assert_eq!(measured(ranks, options), one, "{ranks} ranks, {options:?}");
            }
        }
    }
}
