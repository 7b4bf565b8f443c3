"""Warnings and errors of the package."""


class ConvergenceWarning(UserWarning):
    """A limit or rounding errors stopped a solver before its target, or it approaches its target slowly."""


class NotFittedError(ValueError, AttributeError):
    """A model has no parameters yet. If scikit-learn is installed, the error is also scikit-learn's."""


def not_fitted(message: str) -> Exception:
    """Return the error, one that handlers of scikit-learn's catch too."""
    try:
        from sklearn.exceptions import NotFittedError as Theirs
    except ImportError:
        return NotFittedError(message)
    both: type[Exception] = type("NotFittedError", (NotFittedError, Theirs), {"__module__": NotFittedError.__module__})
    return both(message)
