"""Warnings of the package."""


class ConvergenceWarning(UserWarning):
    """A limit or rounding errors stopped a solver before its target."""
