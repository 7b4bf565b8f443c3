"""Markov models solved on NVIDIA GPUs and on multi-core CPUs.

Module `warpkov.mdp` solves Markov decision processes. The command ``warpkov``, or
``python -m warpkov``, is the command line of the same library.
"""

from . import mdp
from ._errors import ConvergenceWarning
from ._warpkov import DeviceError, __version__

__all__ = ["ConvergenceWarning", "DeviceError", "__version__", "mdp"]
