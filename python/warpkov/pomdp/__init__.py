"""Partially observable Markov decision processes.

`solve` computes a policy of alpha vectors, and bounds on the optimal value from both sides. `reach` bounds the
probability of a goal, or the sum of rewards until then, without a discount. `constrain` bounds the optimal value under a
limit of a second sum.
"""

from ._constrain import Constrained, constrain
from ._controller import Controller, ControllerAgent, load_controller
from ._models import Agent, Evaluation, Model, Policy, Solution, act, generate, load, load_policy, save, simulate, solve
from ._reach import Reached, reach

evaluate = simulate

__all__ = [
    "Agent",
    "Constrained",
    "Controller",
    "ControllerAgent",
    "Evaluation",
    "Model",
    "Policy",
    "Reached",
    "Solution",
    "act",
    "constrain",
    "evaluate",
    "generate",
    "load",
    "load_controller",
    "load_policy",
    "reach",
    "save",
    "simulate",
    "solve",
]
