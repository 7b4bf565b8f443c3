"""Markov decision processes.

`solve` takes a model in many shapes. The other functions take a `Model`, or what makes one alone: a path, a
table of Gymnasium, or transitions.
"""

from ._gymnasium import from_gymnasium, to_gymnasium
from ._model import Model
from ._solution import Certificate, Evaluation, Finding, QFactors, Simulation, Solution, Verification
from ._solve import evaluate, generate, load, q_factors, save, simulate, solve, solve_many, verify

__all__ = [
    "Certificate",
    "Evaluation",
    "Finding",
    "Model",
    "QFactors",
    "Simulation",
    "Solution",
    "Verification",
    "evaluate",
    "from_gymnasium",
    "generate",
    "load",
    "q_factors",
    "save",
    "simulate",
    "solve",
    "solve_many",
    "to_gymnasium",
    "verify",
]
