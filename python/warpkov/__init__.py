"""Markov models solved on NVIDIA GPUs and on multi-core CPUs.

Module `warpkov.mdp` solves Markov decision processes, `warpkov.pomdp` partially observable ones, and `warpkov.hmm`
trains and decodes hidden Markov models. The command ``warpkov``, or ``python -m warpkov``, is the command line of the
same library.
"""

from . import hmm, mdp, pomdp
from ._errors import ConvergenceWarning, NotFittedError
from ._host import to_device
from ._warpkov import DeviceArray, DeviceError, __version__

__all__ = [
    "ConvergenceWarning",
    "DeviceArray",
    "DeviceError",
    "NotFittedError",
    "__version__",
    "hmm",
    "mdp",
    "pomdp",
    "to_device",
]
