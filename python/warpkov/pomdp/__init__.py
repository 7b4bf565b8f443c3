"""Partially observable Markov decision processes.

`solve` computes a policy of alpha vectors, and bounds on the optimal value from both sides.
"""

from ._models import Agent, Evaluation, Model, Policy, Solution, act, evaluate, load, load_policy, save, simulate, solve

__all__ = [
    "Agent",
    "Evaluation",
    "Model",
    "Policy",
    "Solution",
    "act",
    "evaluate",
    "load",
    "load_policy",
    "save",
    "simulate",
    "solve",
]
