"""Independent solutions of small models, in dense NumPy arrays P[a][s][s'] and r[s][a]."""

import numpy as np


def random_model(seed, states=12, actions=3, scale=1.0, density=0.4):
    """P[a][s][s'] and R[a][s][s'] with sparse rows; rewards of magnitude `scale`."""
    random = np.random.default_rng(seed)
    P = random.random((actions, states, states)) * (random.random((actions, states, states)) < density)
    P[..., 0] += 1e-3
    P /= P.sum(axis=2, keepdims=True)
    R = random.normal(size=P.shape) * scale * (P > 0)
    return P, R


def expected(P, R):
    """r[s][a] of R[a][s][s']."""
    return np.einsum("ast,ast->sa", P, R)


def policy_values(P, r, gamma, policy):
    """The values of a policy, by one linear system."""
    states = np.arange(P.shape[1])
    return np.linalg.solve(np.eye(states.size) - gamma * P[policy, states], r[states, policy])


def policy_iteration(P, r, gamma):
    """Optimal values and a policy, by Howard's algorithm."""
    policy = r.argmax(axis=1)
    while True:
        values = policy_values(P, r, gamma, policy)
        q = r + gamma * np.einsum("ast,t->sa", P, values)
        better = q.argmax(axis=1)
        gain = q.max(axis=1) - q[np.arange(policy.size), policy]
        changed = np.where(gain > 1e-12 * np.abs(q).max(), better, policy)
        if (changed == policy).all():
            return values, policy
        policy = changed


def q_of(P, r, gamma, values):
    return r + gamma * np.einsum("ast,t->sa", P, values)
