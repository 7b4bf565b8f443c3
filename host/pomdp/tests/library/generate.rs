//! The models of `pomdp generate`: published sizes, entries computed by hand, and values of simple policies.

use warpkov_mdp::model::Objective;
use warpkov_pomdp::belief::Belief;
use warpkov_pomdp::generate::{
    Aloha, FourByThree, Inspection, Layout, Maintenance, Map, Maze, Olfactory, RockSample, Tag, Tiger,
};
use warpkov_pomdp::model::Pomdp;

/// |S|, |A|, |Ω|, and the numbers of nonzeros of T and O.
fn sizes(pomdp: &Pomdp) -> (u32, u32, u32, usize, usize) {
    let rows = pomdp.states() as usize * pomdp.actions() as usize;
    assert_eq!((pomdp.process().transitions().rows(), pomdp.observations().rows()), (rows, rows));
    for matrix in [pomdp.process().transitions(), pomdp.observations()] {
        for row in 0..rows {
            let sum: f64 = matrix.row(row).1.iter().sum();
            assert!((sum - 1.0).abs() < 1e-14, "row {row} sums to {sum}");
        }
    }
    let start: f64 = pomdp.start().probs().iter().sum();
    assert!((start - 1.0).abs() < 1e-12);
    (
        pomdp.states(),
        pomdp.actions(),
        pomdp.observation_count(),
        pomdp.process().transitions().nnz(),
        pomdp.observations().nnz(),
    )
}

fn reward(pomdp: &Pomdp, state: u32, action: u32) -> f64 {
    pomdp.expected_rewards()[(state * pomdp.actions() + action) as usize]
}

/// The alpha vector of a blind policy, which always takes one action: the fixed point of α = rₐ + γ Tₐ α.
fn blind(pomdp: &Pomdp, action: u32) -> Vec<f64> {
    let rewards = pomdp.expected_rewards();
    let mut alpha = vec![0.0; pomdp.states() as usize];
    let sweeps = (1e-12_f64.ln() / pomdp.gamma().ln()).ceil() as u32;
    for _ in 0..sweeps {
        let next = (0..pomdp.states()).map(|s| {
            let (to, p) = pomdp.successors(s, action);
            let future: f64 = to.iter().zip(p).map(|(&s, p)| p * alpha[s as usize]).sum();
            rewards[(s * pomdp.actions() + action) as usize] + pomdp.gamma() * future
        });
        alpha = next.collect();
    }
    alpha
}

/// Kaelbling, Littman and Cassandra (1998), section 5.1.
#[test]
fn tiger_agrees_with_the_paper() {
    let tiger = Tiger::default().generate().unwrap();
    assert_eq!(sizes(&tiger), (2, 3, 2, 2 + 4 + 4, 12));
    assert_eq!(tiger.successors(1, 0), (&[1][..], &[1.0][..]));
    assert_eq!(tiger.successors(1, 2), (&[0, 1][..], &[0.5, 0.5][..]));
    assert_eq!(tiger.observed(0, 0).1[0], 0.85);
    assert!((tiger.observed(0, 0).1[1] - 0.15).abs() < 1e-15);
    assert_eq!(tiger.observed(1, 0).1, [0.5, 0.5]);
    let rewards = tiger.expected_rewards();
    assert_eq!(rewards, [-1.0, -100.0, 10.0, -1.0, 10.0, -100.0]);
    // Listening forever costs 1/(1 − γ) = 20. Opening one door forever earns −45 per step on average; the first step
    // depends on the state.
    for state in 0..2 {
        assert!((blind(&tiger, 0)[state] + 20.0).abs() < 1e-9);
    }
    let open = blind(&tiger, 1);
    assert!((open[0] - (-100.0 - 0.95 * 900.0)).abs() < 1e-8 && (open[1] - (10.0 - 0.95 * 900.0)).abs() < 1e-8);
    assert_eq!(tiger.names().actions, ["listen", "open-left", "open-right"]);
    let error = Tiger { accuracy: 1.5, ..Tiger::default() }.generate().err().unwrap().to_string();
    assert_eq!(error, "accuracy is 1.5, expected a number in [0, 1]");
}

/// Sizes as in Smith and Simmons (2004), Table 1: |S| = n² · 2ᵏ + 1, |A| = 5 + k, |Ω| = 2. T is deterministic. O is 1
/// except for checks of a rock at a distance, whose rows have two entries in all states but the last.
#[test]
fn rock_samples_have_the_published_sizes() {
    let published = [
        (Layout::R4x4, 4_u32, 4_u32, 257, 9),
        (Layout::R5x5, 5, 5, 801, 10),
        (Layout::R5x7, 5, 7, 3201, 12),
        (Layout::R7x8, 7, 8, 12_545, 13),
    ];
    for (layout, n, k, states, actions) in published {
        let model = RockSample::new(layout).generate().unwrap();
        let checks = k as usize * ((n * n - 1) << k) as usize;
        let rows = states as usize * actions as usize;
        assert_eq!(sizes(&model), (states, actions, 2, rows, rows + checks));
        assert_eq!(model.start().states().len(), 1 << k);
    }
    // ZMDP's [4,4] has η = e^(−d).
    let four = RockSample::new(Layout::R4x4);
    assert!(((-1.0 / four.half_efficiency_distance).exp2() - (-1.0_f64).exp()).abs() < 1e-15);
    let ten = RockSample::new(Layout::R10x10);
    assert_eq!((ten.size, ten.rocks.len()), (10, 10));
}

#[test]
fn rock_sample_entries_are_as_stated() {
    let model = RockSample::new(Layout::R7x8).generate().unwrap();
    let (gone, at) = (12_544, |x: u32, y: u32, kind: u32| (7 * y + x) * 256 + kind);
    assert_eq!(model.start().states()[0], at(0, 3, 0));
    assert_eq!(model.start().probs()[255], 1.0 / 256.0);
    // Rock 3 is at (6, 3), which is also an exit cell.
    let all = at(6, 3, 255);
    assert_eq!((model.successors(all, 4).0, reward(&model, all, 4)), (&[at(6, 3, 247)][..], 10.0));
    assert_eq!(reward(&model, at(6, 3, 247), 4), -10.0);
    assert_eq!((model.successors(all, 2).0, reward(&model, all, 2)), (&[gone][..], 10.0));
    assert_eq!((model.successors(all, 0).0, model.successors(all, 1).0), (&[at(6, 4, 255)][..], &[at(6, 2, 255)][..]));
    assert_eq!(
        (model.successors(at(0, 0, 9), 1).0, model.successors(at(0, 0, 9), 3).0),
        (&[at(0, 0, 9)][..], &[at(0, 0, 9)][..])
    );
    assert!((0..13).all(|a| model.successors(gone, a).0 == [gone] && reward(&model, gone, a) == 0.0));
    assert_eq!((reward(&model, at(0, 0, 255), 4), reward(&model, at(0, 0, 255), 2)), (0.0, 0.0));
    // Rock 0 at (2, 0), from (2, 0) and from (5, 4): d = 0 and 5, η = 1 and 2^(−1/4).
    assert_eq!(model.observed(5, at(2, 0, 1)), (&[0][..], &[1.0][..]));
    let correct = (1.0 + 0.840_896_415_253_714_6) / 2.0;
    let (seen, p) = model.observed(5, at(5, 4, 1));
    assert!(seen == [0, 1] && (p[0] - correct).abs() < 1e-15 && (p[1] - (1.0 - correct)).abs() < 1e-15);
    assert!((model.observed(5, at(5, 4, 0)).1[1] - correct).abs() < 1e-15);
    assert_eq!(model.observed(4, at(5, 4, 0)), (&[1][..], &[1.0][..]));
    // Always east from (0, 3): seven moves; the last one earns 10.
    let east = blind(&model, 2);
    assert!((model.start().dot(&east) - 10.0 * 0.95_f64.powi(6)).abs() < 1e-9);
}

#[test]
fn invalid_rock_samples_are_reported() {
    let message = |rocks: &[(u32, u32)]| {
        let rocks = rocks.to_vec();
        RockSample { rocks, ..RockSample::default() }.generate().err().unwrap().to_string()
    };
    assert_eq!(message(&[(7, 0)]), "the rock (7, 0) is not on the grid of 7 × 7 cells");
    assert_eq!(message(&[(1, 2), (1, 2)]), "two rocks are at (1, 2)");
    assert_eq!(message(&[(0, 0); 25]), "the number of rocks is 25, expected 0 to 24");
}

/// Pineau, Gordon and Thrun (2003): 870 states, 5 actions, 30 observations.
#[test]
fn tag_agrees_with_the_paper() {
    let tag = Tag::default().generate().unwrap();
    let (states, actions, observations, _, shown) = sizes(&tag);
    assert_eq!((states, actions, observations, shown), (870, 5, 30, 870 * 5));
    let at = |robot: u32, opponent: u32| robot * 30 + opponent;
    // From the lower left corner the robot goes north. The opponent, in the middle of the upper row of the corridor and
    // thus east and north of the robot, flees east, or north into the first row of the block.
    let (to, p) = tag.successors(at(0, 16), 0);
    assert_eq!(to, [at(10, 16), at(10, 17), at(10, 21)]);
    assert!(p.iter().zip([0.2, 0.4, 0.4]).all(|(found, expected)| (found - expected).abs() < 1e-15));
    // In the robot's cell it flees in all directions; to the south it meets the lower wall.
    let (to, p) = tag.successors(at(4, 4), 3);
    assert_eq!(to, [at(3, 3), at(3, 4), at(3, 5), at(3, 14)]);
    assert!(p.iter().zip([0.2, 0.4, 0.2, 0.2]).all(|(found, expected)| (found - expected).abs() < 1e-15));
    assert_eq!((tag.successors(at(4, 4), 4).0, reward(&tag, at(4, 4), 4)), (&[at(4, 29)][..], 10.0));
    assert_eq!((reward(&tag, at(4, 5), 4), reward(&tag, at(4, 4), 0), reward(&tag, at(4, 29), 4)), (-10.0, -1.0, 0.0));
    assert_eq!((tag.observed(0, at(4, 5)).0, tag.observed(0, at(4, 4)).0), (&[4][..], &[29][..]));
    assert_eq!(tag.start().states().len(), 841);
    // Going north forever costs 1 per step. Tagging forever costs 10 per step until the opponent is in the robot's
    // cell, so its value is at least that.
    assert!((tag.start().dot(&blind(&tag, 0)) + 20.0).abs() < 1e-9);
    assert!(tag.start().dot(&blind(&tag, 4)) > -200.0);
}

#[test]
fn four_by_three_agrees_with_the_paper() {
    let grid = FourByThree::default().generate().unwrap();
    assert_eq!((grid.states(), grid.actions(), grid.observation_count()), (11, 4, 6));
    sizes(&grid);
    // North from the lower left corner: .8 up, .1 right, .1 against the left wall.
    let (to, p) = grid.successors(7, 0);
    assert_eq!(to, [4, 7, 8]);
    assert!(p.iter().zip([0.8, 0.1, 0.1]).all(|(found, expected)| (found - expected).abs() < 1e-15));
    // The cells on both sides of the obstacle.
    assert_eq!((grid.observed(0, 4).0, grid.observed(0, 5).0), (&[3][..], &[0][..]));
    let seen: Vec<u32> = (0..11).map(|s| grid.observed(1, s).0[0]).collect();
    assert_eq!(seen, [0, 2, 2, 4, 3, 0, 5, 0, 2, 2, 1]);
    assert_eq!(grid.successors(3, 2).0, [0, 1, 2, 4, 5, 7, 8, 9, 10]);
    assert_eq!((reward(&grid, 2, 2), reward(&grid, 3, 2), reward(&grid, 6, 0)), (-0.04, 1.0, -1.0));
}

/// Whether a row has exactly these entries, in this order.
fn is(row: (&[u32], &[f64]), expected: &[(u32, f64)]) -> bool {
    let near = |((to, p), expected): ((&u32, &f64), &(u32, f64))| *to == expected.0 && (p - expected.1).abs() < 1e-14;
    row.0.len() == expected.len() && row.0.iter().zip(row.1).zip(expected).all(near)
}

/// Littman, Cassandra and Kaelbling (1995), in the version of Cassandra's collection: 60 states, 5 actions, 21
/// observations.
#[test]
fn hallway_agrees_with_the_paper() {
    let hallway = Maze::hallway().generate().unwrap();
    let (states, actions, observations, _, shown) = sizes(&hallway);
    // 16 wall patterns in 52 states, a landmark in four states, the goal in four.
    assert_eq!((states, actions, observations, shown), (60, 5, 21, 5 * (52 * 16 + 4 + 4)));
    assert!(*hallway.start() == Belief::uniform((0..56).collect()));
    // At the left end, facing the north wall; in the first cell with a niche, facing the same wall.
    assert!(is(hallway.successors(0, 1), &[(0, 0.95), (5, 0.05)]));
    assert!(is(hallway.successors(8, 1), &[(7, 0.05), (8, 0.85), (13, 0.05), (44, 0.025), (46, 0.025)]));
    assert!(is(hallway.successors(9, 1), &[(5, 0.025), (7, 0.025), (9, 0.1), (13, 0.8), (46, 0.05)]));
    assert!(is(hallway.successors(34, 1), &[(31, 0.05), (34, 0.1), (37, 0.05), (58, 0.8)]));
    assert!(is(hallway.successors(47, 1), &[(8, 0.05), (47, 0.95)]));
    assert!(is(hallway.successors(6, 0), &[(6, 1.0)]));
    assert!(is(hallway.successors(0, 2), &[(0, 0.1), (1, 0.7), (2, 0.1), (3, 0.1)]));
    assert!(is(hallway.successors(1, 3), &[(0, 0.15), (1, 0.1), (2, 0.15), (3, 0.6)]));
    assert!(is(hallway.successors(2, 4), &[(0, 0.1), (1, 0.7), (2, 0.1), (3, 0.1)]));
    assert!(
        (0..4)
            .all(|o| (0..5)
                .all(|a| hallway.successors(56 + o, a) == (hallway.start().states(), hallway.start().probs())))
    );
    // Landmarks 16 to 19 in four cells when facing south; 20 in the goal.
    let single = |s: u32| Some(hallway.observed(1, s).0).filter(|seen| seen.len() == 1).map(|seen| (s, seen[0]));
    let expected = [(10, 16), (18, 17), (26, 18), (34, 19), (56, 20), (57, 20), (58, 20), (59, 20)];
    assert_eq!((0..60).filter_map(single).collect::<Vec<_>>(), expected);
    // The most probable observation with walls on three sides, on two, and on one.
    let likeliest = |s: u32| hallway.observed(0, s).1.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
    for (state, seen, p) in [(0, 11, 0.692_55), (1, 7, 0.692_55), (4, 10, 0.731_025), (9, 1, 0.771_637_5)] {
        let found = likeliest(state).unwrap();
        assert!(found.0 == seen && (found.1 - p).abs() < 1e-14, "state {state}: {found:?}");
    }
    assert!((hallway.observed(0, 0).1[4] - 0.1_f64.powi(3) * 0.05).abs() < 1e-16);
    // Entering the goal earns 1.
    assert!((reward(&hallway, 34, 1) - 0.8).abs() < 1e-14 && (reward(&hallway, 32, 1) - 0.05).abs() < 1e-14);
    assert_eq!((reward(&hallway, 34, 0), reward(&hallway, 56, 0), reward(&hallway, 40, 1)), (0.0, 0.0, 0.0));
}

/// The same source: 92 states, 17 observations.
#[test]
fn hallway2_agrees_with_the_paper() {
    let block = Maze::hallway2().generate().unwrap();
    let (states, actions, observations, _, shown) = sizes(&block);
    assert_eq!((states, actions, observations, shown), (92, 5, 17, 5 * (88 * 16 + 4)));
    assert!(*block.start() == Belief::uniform((0..92).filter(|s| !(68..72).contains(s)).collect()));
    assert!(is(block.successors(0, 1), &[(0, 0.9), (5, 0.05), (24, 0.025), (26, 0.025)]));
    assert!(is(block.successors(24, 1), &[(0, 0.8), (23, 0.05), (24, 0.1), (40, 0.025), (42, 0.025)]));
    assert!(is(block.successors(32, 1), &[(16, 0.8), (32, 0.1), (37, 0.05), (48, 0.025), (50, 0.025)]));
    assert!(is(block.successors(88, 1), &[(64, 0.8), (87, 0.05), (88, 0.15)]));
    assert_eq!(block.successors(70, 1).0.len(), 88);
    for (state, seen, p) in [(27, 2, 0.771_637_5), (66, 4, 0.771_637_5), (39, 7, 0.692_55), (72, 3, 0.731_025)] {
        assert!((block.observed(0, state).1[seen] - p).abs() < 1e-14, "state {state}");
    }
    assert!((68..72).all(|s| is(block.observed(3, s), &[(16, 1.0)])));
    assert!((reward(&block, 65, 1) - 0.8).abs() < 1e-14);
}

/// The same source: 36 states, 17 observations; the start is one of two cells.
#[test]
fn tiger_grid_agrees_with_the_paper() {
    let grid = Maze::tiger_grid().generate().unwrap();
    let (states, actions, observations, _, shown) = sizes(&grid);
    assert_eq!((states, actions, observations, shown), (36, 5, 17, 5 * (32 * 16 + 4)));
    assert!(*grid.start() == Belief::uniform(vec![24, 28]));
    assert!(is(grid.successors(0, 1), &[(0, 0.9), (5, 0.05), (20, 0.025), (22, 0.025)]));
    assert!(is(grid.successors(24, 1), &[(4, 0.8), (23, 0.05), (24, 0.15)]));
    assert!(is(grid.successors(28, 1), &[(12, 0.8), (28, 0.15), (33, 0.05)]));
    assert!((8..12).all(|s| (0..5).all(|a| is(grid.successors(s, a), &[(24, 0.5), (28, 0.5)]))));
    for (state, seen, p) in [(0, 9, 0.731_025), (18, 3, 0.731_025), (14, 2, 0.771_637_5), (20, 3, 0.731_025)] {
        assert!((grid.observed(0, state).1[seen] - p).abs() < 1e-14, "state {state}");
    }
    // At the goal, at each tiger, and elsewhere. Staying at a tiger costs again.
    let (to_goal, at_tiger) = (reward(&grid, 5, 1), reward(&grid, 0, 0));
    assert!((to_goal - (0.8 - 0.05)).abs() < 1e-14 && (at_tiger + 1.0).abs() < 1e-14, "{to_goal}, {at_tiger}");
    assert!((reward(&grid, 16, 2) + 1.0).abs() < 1e-14 && reward(&grid, 20, 0) == 0.0 && reward(&grid, 8, 0) == 0.0);
}

#[test]
fn mazes_are_as_drawn() {
    let map: Map = "..\n.G".parse().unwrap();
    let square = Maze { map, ..Maze::default() }.generate().unwrap();
    assert_eq!((square.states(), square.observation_count()), (16, 17));
    // The second cell is east of the first, and the goal is below the second.
    assert!(is(square.successors(1, 1), &[(1, 0.15), (5, 0.8), (10, 0.05)]));
    assert!((reward(&square, 4 + 2, 1) - 0.8).abs() < 1e-14 && (reward(&square, 4 + 1, 1) - 0.05).abs() < 1e-14);
    let (to, p) = square.successors(12, 0);
    assert_eq!((to.len(), p[0]), (12, 1.0 / 12.0));
    // In the first cell, a robot that faces east has walls behind it and at its left: bits 2 and 1.
    let (seen, p) = square.observed(0, 1);
    assert_eq!(seen.len(), 16);
    assert!((p[3] - 0.9 * 0.9 * 0.95 * 0.95).abs() < 1e-15);
    assert_eq!((square.observed(0, 12).0, square.names().observations[3].as_str()), (&[16][..], "back-left"));
    // Starts, landmarks and tigers.
    let map: Map = ">2T\n#G1".parse().unwrap();
    let mixed = Maze { map, tiger: -3.0, ..Maze::default() }.generate().unwrap();
    assert_eq!((mixed.start().clone(), mixed.observation_count()), (Belief::at(1), 19));
    assert_eq!((mixed.observed(0, 4 + 2).0, mixed.observed(0, 16 + 2).0), (&[17][..], &[16][..]));
    assert_eq!(mixed.names().observations[16..], ["mark1", "mark2", "goal"]);
    assert!((reward(&mixed, 5, 1) - (0.8 * -3.0 + 0.05)).abs() < 1e-14);

    let message = |map: &str| map.parse::<Map>().and_then(|map| Maze { map, ..Maze::default() }.generate()).err();
    let message = |map: &str| message(map).unwrap().to_string();
    assert_eq!(message("..\n.x"), "line 2, column 2 of the map: found 'x', expected one of # . G T ^ > v < 1 to 9");
    assert_eq!(message(""), "the map has 0 goals and 0 other cells, expected at least one of each");
    let error = Maze { around: 1.1, ..Maze::hallway() }.generate().err().unwrap().to_string();
    assert_eq!(error, "around is 1.1, expected a number in [0, 1]");
}

#[test]
fn random_mazes_are_connected() {
    let map = Map::random(12, 7, 3).unwrap();
    assert_eq!(map, Map::random(12, 7, 3).unwrap());
    assert_ne!(map, Map::random(12, 7, 4).unwrap());
    // A tree of 84 rooms has 83 passages.
    let free = map.to_string().chars().filter(|c| *c == '.' || *c == 'G').count();
    assert_eq!(free, 84 + 83);
    assert_eq!(map.to_string().parse::<Map>().unwrap(), map);
    // All rooms are reachable from the first.
    let model = Maze { map, ..Maze::default() }.generate().unwrap();
    let mut seen = vec![false; model.states() as usize];
    let mut next = vec![0];
    while let Some(state) = next.pop() {
        if !std::mem::replace(&mut seen[state as usize], true) {
            next.extend((0..5).flat_map(|a| model.successors(state, a).0));
        }
    }
    // The goal, which the robot leaves at once, is entered forwards or backwards, from above or from the left.
    let goal = 4 * (84 + 83 - 1);
    assert!(seen[..goal].iter().all(|&seen| seen));
    assert!((seen[goal + 1] || seen[goal + 2]) && seen[goal] == seen[goal + 2] && seen[goal + 1] == seen[goal + 3]);
}

#[test]
fn olfactory_is_a_plume() {
    let search = Olfactory::default();
    let model = search.generate().unwrap();
    let (states, actions, observations, transitions, _) = sizes(&model);
    assert_eq!((states, actions, observations, transitions), (13_585, 4, 3, 4 * 13_585));
    let at = |x: u32, y: u32| 209 * y + x;
    let odour = |x: u32, y: u32| {
        let (seen, p) = model.observed(0, at(x, y));
        seen.iter().position(|&o| o == 1).map_or(0.0, |i| p[i])
    };
    assert_eq!(model.observed(2, at(20, 32)).0, [2]);
    // 100 cells downwind, where σ = 11.5, at 10 cells from the axis.
    let expected = 0.9 * 1.5 / 11.5 * (-100.0_f64 / (2.0 * 11.5 * 11.5)).exp();
    assert!((odour(120, 42) - expected).abs() < 1e-15 && (odour(120, 22) - expected).abs() < 1e-15);
    assert!(odour(19, 32) < odour(21, 32) && odour(0, 32) == 0.0);
    assert_eq!((model.successors(at(19, 32), 1).0, reward(&model, at(19, 32), 1)), (&[at(20, 32)][..], 1.0));
    assert_eq!((model.successors(at(20, 32), 1).0, reward(&model, at(20, 32), 1)), (&[at(20, 32)][..], 0.0));
    assert_eq!(model.expected_rewards().iter().filter(|&&r| r != 0.0).count(), 4);
    assert_eq!(
        (model.start().states().len(), model.start().clone()),
        (13_584, Belief::uniform((0..13_585).filter(|&s| s != at(20, 32)).collect()))
    );
}

/// Two components with three levels each, by hand.
#[test]
fn maintenance_wears_and_repairs() {
    let pomdp = Maintenance { parts: 2, ..Maintenance::default() }.generate().unwrap();
    assert_eq!((pomdp.states(), pomdp.actions(), pomdp.observation_count()), (9, 4, 4));
    // State 5 = 2 + 3 · 1: one component is new (level 2), the other at half wear (level 1).
    let near = |row: (&[u32], &[f64]), expected: &[(u32, f64)]| {
        assert_eq!(row.0, expected.iter().map(|entry| entry.0).collect::<Vec<_>>());
        assert!(row.1.iter().zip(expected).all(|(p, entry)| (p - entry.1).abs() < 1e-15), "{row:?}, {expected:?}");
    };
    near(pomdp.successors(5, 0), &[(1, 0.03 * 0.03), (2, 0.97 * 0.03), (4, 0.97 * 0.03), (5, 0.97 * 0.97)]);
    near(pomdp.successors(5, 1), &[(5, 1.0)]);
    near(pomdp.successors(5, 2), &[(5, 0.2), (8, 0.8)]);
    near(pomdp.successors(5, 3), &[(8, 1.0)]);
    // A component at half wear passes every second inspection and makes seven good products of eight.
    near(pomdp.observed(1, 5), &[(0, 0.03 * 0.5), (1, 0.97 * 0.5), (2, 0.03 * 0.5), (3, 0.97 * 0.5)]);
    near(pomdp.observed(0, 5), &[(0, 0.125), (3, 0.875)]);
    near(pomdp.observed(2, 5), &[(0, 1.0)]);
    assert_eq!([0, 1, 2, 3].map(|action| reward(&pomdp, 5, action)), [0.875, -1.0, -3.0, -15.0]);
    assert_eq!((pomdp.start(), pomdp.names().states[5].as_str()), (&Belief::at(8), "levels-1-2"));
    for (maintenance, message) in [
        (Maintenance { parts: 11, ..Maintenance::default() }, "parts is 11, expected 1 to 10"),
        (Maintenance { parts: 10, levels: 5, ..Maintenance::default() }, "levels is 5, expected 2 to 4"),
        (Maintenance { wear: 1.5, ..Maintenance::default() }, "wear is 1.5, expected a number in [0, 1]"),
    ] {
        assert_eq!(maintenance.generate().err().unwrap().to_string(), message);
    }
}

/// A machine with three states, by hand.
#[test]
fn inspection_tells_the_state_of_a_machine() {
    let pomdp = Inspection::default().generate().unwrap();
    assert_eq!((pomdp.states(), pomdp.actions(), pomdp.observation_count()), (3, 4, 3));
    assert_eq!(pomdp.process().objective(), Objective::Minimize);
    assert_eq!(pomdp.successors(0, 0), (&[0, 1][..], &[0.9, 0.1][..]));
    assert_eq!(pomdp.successors(1, 0), (&[1, 2][..], &[0.8, 0.2][..]));
    assert_eq!(pomdp.successors(2, 0), (&[2][..], &[1.0][..]));
    assert_eq!(pomdp.successors(1, 1), (&[1][..], &[1.0][..]));
    assert_eq!(pomdp.successors(1, 2).0, [0, 1]);
    assert_eq!(pomdp.successors(2, 2), (&[2][..], &[1.0][..]));
    assert_eq!(pomdp.successors(2, 3), (&[0][..], &[1.0][..]));
    assert_eq!(pomdp.observed(0, 1).1, [0.25, 0.5, 0.25]);
    assert!((pomdp.observed(1, 1).1[1] - 0.9).abs() < 1e-15);
    assert_eq!([0, 1, 2, 3].map(|action| reward(&pomdp, 2, action)), [10.0, 11.0, 4.0, 15.0]);
    assert_eq!(pomdp.start(), &Belief::at(0));
    let wrong = Inspection { monitoring: 1.5, ..Inspection::default() };
    assert_eq!(wrong.generate().err().unwrap().to_string(), "monitoring is 1.5, expected a number in [0, 1]");
}

/// Entries of Cassandra's `aloha.10`, to its six digits.
#[test]
fn aloha_agrees_with_the_published_file() {
    let pomdp = Aloha::default().generate().unwrap();
    assert_eq!((pomdp.states(), pomdp.actions(), pomdp.observation_count()), (30, 9, 3));
    let entry = |state, action, next: u32| {
        let (states, probs) = pomdp.successors(state, action);
        states.binary_search(&next).map_or(0.0, |place| probs[place])
    };
    for (action, state, next, expected) in [
        (0, 0, 0, 0.406570),
        (0, 0, 24, 0.000004),
        (0, 3, 4, 0.365913),
        (0, 6, 29, 0.000043),
        (1, 3, 3, 0.203285),
        (1, 9, 7, 0.152464),
        (1, 9, 9, 0.050821),
        (1, 9, 11, 0.203285),
    ] {
        assert!((entry(state, action, next) - expected).abs() < 6e-7, "{action} {state} {next}");
    }
    assert_eq!([0, 5, 14, 29].map(|state| reward(&pomdp, state, 3)), [9.0, 8.0, 5.0, 0.0]);
    assert_eq!(pomdp.observed(2, 17), (&[2][..], &[1.0][..]));
    assert!(Aloha { backlogs: 2, ..Aloha::default() }.generate().is_err());
    assert!(Aloha { arrivals: f64::NAN, ..Aloha::default() }.generate().is_err());
}
