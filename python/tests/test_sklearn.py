"""The conventions of scikit-learn, where it is installed."""

import pickle

import numpy as np
import pytest
from test_hmm import gaussian

from warpkov import hmm

sklearn = pytest.importorskip("sklearn")

from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::warpkov.ConvergenceWarning")


class GaussianHMM(hmm.GaussianHMM):
    """The model with scikit-learn's second argument y, where hmmlearn's is `lengths`."""

    def fit(self, X, y=None):
        return super().fit(X)

    def score(self, X, y=None):
        return super().score(X)


class CategoricalHMM(hmm.CategoricalHMM):
    """As above."""

    def fit(self, X, y=None):
        return super().fit(X)

    def score(self, X, y=None):
        return super().score(X)


def expected_failures(estimator):
    order = "the result of an observation depends on those before and after it"
    return {
        "check_methods_sample_order_invariance": order,
        "check_methods_subset_invariance": order,
    }


@parametrize_with_checks(
    [GaussianHMM(2, random_state=0), GaussianHMM(1, "tied", random_state=0), CategoricalHMM(2, random_state=0)],
    expected_failed_checks=expected_failures,
)
def test_estimator(estimator, check):
    check(estimator)


def test_clone():
    X, _ = gaussian(states=2).sample(400, random_state=4)
    model = hmm.GaussianHMM(2, random_state=0, n_iter=20, transmat_prior=np.ones((2, 2)))
    copy = sklearn.clone(model.fit(X))
    assert copy.get_params().keys() == model.get_params().keys() and not hasattr(copy, "means_")
    assert (copy.transmat_prior == 1).all() and copy.n_iter == 20
    assert copy.monitor_.history == [] and len(model.monitor_.history) > 2
    assert pickle.loads(pickle.dumps(model)).score(X) == model.score(X)


def test_pipeline_and_grid_search():
    X, _ = gaussian(states=2).sample(400, random_state=4)
    pipeline = make_pipeline(StandardScaler(), hmm.GaussianHMM(2, random_state=0, n_iter=20)).fit(X)
    assert pipeline.predict(X).shape == (400,) and np.isfinite(pipeline.score(X))
    assert pipeline[-1].n_features_in_ == 2
    grid = {"n_components": [1, 2], "covariance_type": ["diag", "full"]}
    search = GridSearchCV(hmm.GaussianHMM(random_state=0, n_iter=20), grid, cv=2).fit(X)
    assert search.best_params_["n_components"] == 2
    grid = {"gaussianhmm__n_components": [1, 2]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X)
    assert search.best_params_ == {"gaussianhmm__n_components": 2}


def test_not_fitted():
    for error in (NotFittedError, ValueError, AttributeError):
        with pytest.raises(error, match="call fit"):
            hmm.GaussianHMM().predict([[0.0]])
