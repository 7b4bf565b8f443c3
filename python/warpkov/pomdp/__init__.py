"""Partially observable Markov decision processes.

`solve` computes a policy of alpha vectors, and bounds on the optimal value from both sides.
"""

from ._controller import Controller, ControllerAgent, load_controller
from ._models import Agent, Evaluation, Model, Policy, Solution, act, generate, load, load_policy, save, simulate, solve

evaluate = simulate

__all__ = [
    "Agent",
    "Controller",
    "ControllerAgent",
    "Evaluation",
    "Model",
    "Policy",
    "Solution",
    "act",
    "evaluate",
    "generate",
    "load",
    "load_controller",
    "load_policy",
    "save",
    "simulate",
    "solve",
]
