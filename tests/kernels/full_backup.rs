//! The tensors of a full backup from their definitions, on the CPU.

use warpkov::pomdp::reference::{Operands, Tensors};

/// The tensors of a full backup from their definitions, in f64.
pub fn full_backup_cpu(operands: &Operands) -> Tensors {
    let Operands { states, actions, observation_count: observed, gamma, .. } = *operands;
    let vectors: Vec<&[f64]> = operands.vectors.chunks(states as usize).collect();
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let argmax = |x: &[f64]| (1..x.len()).fold(0, |best, k| if x[k] > x[best] { k } else { best });
    // g^i_{a,o}.
    let carried = |i: usize, o: u32, a: u32| -> Vec<f64> {
        let term = |a, o, (next, prob): (u32, f64)| prob * operands.observation(a, next, o) * vectors[i][next as usize];
        (0..states).map(|s| operands.successors(s, a).into_iter().map(|to| term(a, o, to)).sum()).collect()
    };
    let mut tensors = Tensors::default();
    for i in 0..vectors.len() {
        for o in 0..observed {
            tensors.g_ao.extend((0..actions).flat_map(|a| carried(i, o, a)));
        }
    }
    for belief in operands.beliefs.chunks(states as usize) {
        let score = |a, o| (0..vectors.len()).map(|i| dot(belief, &carried(i, o, a))).collect::<Vec<_>>();
        tensors.scores.extend((0..observed).flat_map(|o| (0..actions).flat_map(move |a| score(a, o))));
        let mut of_actions = Vec::new();
        for a in 0..actions {
            let mut g = vec![0.0; states as usize];
            for o in 0..observed {
                let winner = argmax(&score(a, o));
                tensors.best.push(winner as u32);
                g.iter_mut().zip(carried(winner, o, a)).for_each(|(g, x)| *g += x);
            }
            let rewards = &operands.rewards[(a * states) as usize..];
            g.iter_mut().zip(rewards).for_each(|(g, r)| *g = r + gamma * *g);
            of_actions.push(g);
        }
        let values: Vec<_> = of_actions.iter().map(|g| dot(belief, g)).collect();
        let chosen = argmax(&values);
        tensors.action_scores.extend(values);
        tensors.best_action.push(chosen as u32);
        tensors.backup.extend(&of_actions[chosen]);
        tensors.g_ab.extend(of_actions.concat());
    }
    tensors
}
