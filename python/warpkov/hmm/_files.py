"""Models of known families, and in files."""

from __future__ import annotations

import os
from typing import Any, Union

import numpy as np

from .. import _warpkov
from .._process import words
from ._base import BaseHMM
from ._categorical import CategoricalHMM
from ._channels import ChannelHMM
from ._gaussian import GaussianHMM

Path = Union[str, "os.PathLike[str]"]


def generate(family: str, **parameters: Any) -> CategoricalHMM | GaussianHMM:
    """Generate a model of a known family.

    Names of states and symbols are left out.

    Parameters
    ----------
    family : str
        "random" or "left_right".
    **parameters
        The options of ``warpkov hmm generate FAMILY``, which ``--help`` lists, with underscores for hyphens.

    Returns
    -------
    CategoricalHMM or GaussianHMM
        The model, with the covariance type "diag" or "full". Equal parameters give equal models.

    Examples
    --------
    >>> from warpkov import hmm
    >>> hmm.generate("left_right", states=4, jump=2, symbols=8, seed=1).n_components
    4
    """
    model: CategoricalHMM | GaussianHMM = _model(*_warpkov.hmm_generate(words(family, parameters)))  # type: ignore[assignment]
    return model


def _model(found: dict[str, Any], kind: str | None) -> CategoricalHMM | GaussianHMM | ChannelHMM:
    arrays = {name: np.asarray(numbers) for name, numbers in found.items()}
    states = arrays["start"].size
    if kind == "channels":
        channels = ChannelHMM(states)
        channels._update(arrays)
        channels.channels = channels.channels_
        return channels
    model: CategoricalHMM | GaussianHMM
    model = CategoricalHMM(states) if kind is None else GaussianHMM(states, kind)  # type: ignore[arg-type]
    model._update(arrays)
    return model


def load(path: Path, *, format: str | None = None) -> CategoricalHMM | GaussianHMM | ChannelHMM:
    """Read a model from a file, or from a folder of hmmlearn's arrays.

    Names of states, symbols and columns are left out. Each step of a duration becomes a state, which `fit` takes for any other.

    Parameters
    ----------
    path : str or path
        The file.
    format : {"json", "npz", "umdhmm"}, optional
        The format. By default that of the extension or the content.

    Returns
    -------
    CategoricalHMM, GaussianHMM or ChannelHMM
        The model, with the covariance type "diag" or "full".

    Raises
    ------
    ValueError
        The file holds no valid model, or one with end probabilities.
    """
    return _model(*_warpkov.hmm_load(path, format))


def save(model: BaseHMM, path: Path, *, format: str | None = None) -> None:
    """Write a model to a file, completely or not at all.

    Parameters
    ----------
    model : CategoricalHMM, GaussianHMM, ChannelHMM or PoissonHMM
        The model. Covariances of the types "spherical" and "tied" are written in full for each state.
    path : str or path
        The file.
    format : {"json", "npz", "umdhmm"}, optional
        The format. By default that of the extension, or JSON.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from warpkov import hmm
    >>> file = pathlib.Path(tempfile.mkdtemp(), "model.json")
    >>> model = hmm.CategoricalHMM(2)
    >>> model.startprob_, model.transmat_ = [1, 0], [[0.9, 0.1], [0.2, 0.8]]
    >>> model.emissionprob_ = [[0.5, 0.5], [0.1, 0.9]]
    >>> hmm.save(model, file)
    >>> hmm.load(file).score([[0], [1]]) == model.score([[0], [1]])
    True
    """
    _warpkov.hmm_save(model._parts(), path, format)
