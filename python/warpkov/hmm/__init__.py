"""Hidden Markov models, under the names of hmmlearn.

`CategoricalHMM` emits symbols, and `GaussianHMM` vectors. Both are estimators in the sense of scikit-learn, which need
not be installed: pipelines, grid search and ``clone`` work.
"""

from ._models import CategoricalHMM, ConvergenceMonitor, GaussianHMM

__all__ = ["CategoricalHMM", "ConvergenceMonitor", "GaussianHMM"]
