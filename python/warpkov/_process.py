"""What Markov decision processes share, whether states are observed or not."""

from __future__ import annotations

import os
from typing import Any, Literal, Union

import numpy as np

from . import _warpkov

Objective = Literal["maximize", "minimize"]
Path = Union[str, "os.PathLike[str]"]


class Process:
    """A process with states, actions, rewards and a discount factor."""

    _core: _warpkov.Model | _warpkov.Pomdp

    @property
    def states(self) -> int:
        """S, the number of states."""
        return self._core.states

    @property
    def gamma(self) -> float:
        """The discount factor."""
        return self._core.gamma

    @property
    def objective(self) -> Objective:
        """Whether rewards are earned ("maximize") or costs are paid ("minimize")."""
        return "minimize" if self._core.minimize else "maximize"

    def save(self, path: Path, format: str | None = None) -> None:
        """Write the model to a file, as the function `save` of its module does."""
        self._core.save(path, format)


def minimize(objective: str | None) -> bool | None:
    """Whether rewards are costs; None for None."""
    if objective not in (None, "maximize", "minimize"):
        raise ValueError(f"objective is '{objective}', expected 'maximize' or 'minimize'")
    return None if objective is None else objective == "minimize"


def words(family: str, parameters: dict[str, Any]) -> list[str]:
    """Return the arguments of the command ``generate`` for a family: a sequence is numbers with commas between them, and a
    sequence of sequences an option that is repeated."""
    found = [family.replace("_", "-")]
    for name, value in parameters.items():
        if value is None or value is False:
            continue
        option = f"--{name.replace('_', '-')}"
        if value is True:
            found.append(option)
            continue
        several = isinstance(value, (list, tuple, np.ndarray))
        repeated = several and len(value) > 0 and isinstance(value[0], (list, tuple, np.ndarray))
        for one in value if repeated else [value]:
            found.append(f"{option}={','.join(map(str, one)) if several else one}")
    return found
