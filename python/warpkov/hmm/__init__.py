"""Hidden Markov models, under the names of hmmlearn.

`CategoricalHMM` emits symbols, `GaussianHMM` vectors, `PoissonHMM` and `MultinomialHMM` counts, `GMMHMM` mixtures of
normal densities, and `ChannelHMM` rows of counts, bits, durations and numbers. They are estimators in the sense of
scikit-learn, which need not be installed: pipelines, grid search and ``clone`` work. `VariationalCategoricalHMM` and
`VariationalGaussianHMM` find posteriors of the parameters. Constructors, methods and attributes are those of hmmlearn
0.3, but for `ChannelHMM`; the notes of the classes list what differs.

With ``pi = startprob_``, ``A = transmat_`` and the probability or density ``b_j(o)`` of an observation in state j, a
path q and the observations O have the joint probability

    P(O, q) = pi[q_1] b_{q_1}(o_1) * prod_{t > 1} A[q_{t-1}, q_t] b_{q_t}(o_t).
"""

from ._categorical import CategoricalHMM
from ._channels import GMMHMM, ChannelHMM, MultinomialHMM, PoissonHMM
from ._files import generate, load, save
from ._filter import Filter
from ._gaussian import GaussianHMM
from ._monitor import ConvergenceMonitor
from ._partition import log_partition
from ._select import Candidate, Selection, select
from ._variational import VariationalCategoricalHMM, VariationalGaussianHMM

__all__ = [
    "Candidate",
    "CategoricalHMM",
    "ChannelHMM",
    "ConvergenceMonitor",
    "Filter",
    "GMMHMM",
    "GaussianHMM",
    "MultinomialHMM",
    "PoissonHMM",
    "Selection",
    "VariationalCategoricalHMM",
    "VariationalGaussianHMM",
    "generate",
    "load",
    "log_partition",
    "save",
    "select",
]
