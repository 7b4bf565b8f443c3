"""Functions over models."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from .. import _warpkov
from .._errors import ConvergenceWarning
from .._host import local, real
from .._process import Objective, words
from ._model import NO_ACTION, Model, ModelLike, Order, are_arrays, lengths
from ._solution import Certificate, Evaluation, Finding, QFactors, Simulation, Solution, Verification, numbers

Criterion = Literal["discounted", "reach", "total", "average"]
Method = Literal[
    "values",
    "modified",
    "krylov",
    "gauss-seidel",
    "serial",
    "parallel",
    "plain",
    "projected",
    "sequential",
    "result-divided",
    "block-divided",
]
Precision = Literal["f32", "f64", "mixed", "refined"]
Storage = Literal["rows", "slices", "narrow", "patterns"]
Reorder = Literal["auto", "none", "rcm"]


def solve(
    P: ModelLike,
    R: Any = None,
    gamma: float | None = None,
    *,
    order: Order | None = None,
    s_indices: Any = None,
    a_indices: Any = None,
    objective: Objective | None = None,
    ends: Any = None,
    device: str = "auto",
    method: Method | str | None = None,
    precision: Precision = "mixed",
    epsilon: float = 1e-6,
    theta: float | None = None,
    max_sweeps: int | None = None,
    max_policies: int = 10_000,
    tie: float | None = None,
    values: Any = None,
    criterion: Criterion = "discounted",
    goal: Any = None,
    horizon: int | None = None,
    terminal_values: Any = None,
    all_steps: bool = False,
    relative: bool = False,
    storage: Storage | None = None,
    skip: bool = True,
    device_memory: int | None = None,
    reorder: Reorder = "auto",
    exact: bool = False,
) -> Solution:
    """Solve a model: compute its optimal values and an optimal policy.

    V*(s) is the largest expected sum of rewards, discounted by gamma, over all policies. Every result is
    certified: the error of the values is at most ``solution.certificate.bound``, rounding errors included.

    Parameters
    ----------
    P : array, sparse matrix, list, path, mapping, iterable or Model
        The transition probabilities, or a whole model:

        - an array of shape (A, S, S), P[a][s][s'], or (S, A, S), P[s][a][s']; if A = S, `order` says which;
        - a list, tuple or object array of A matrices of shape (S, S), dense or of SciPy;
        - a dense or sparse matrix of shape (S*A, S), with `order`: row s*A + a belongs to state s and action
          a if it is "sas", row a*S + s if it is "ass";
        - a dense or sparse matrix of shape (L, S), with `s_indices` and `a_indices`: a row for each pair of
          a state and an action that it has;
        - a path of a file in any format that ``warpkov mdp solve`` reads;
        - a mapping, Gymnasium's ``P[s][a] = [(p, s', r, terminated), ...]``;
        - an iterable of tuples (state, action, next, probability, reward), by names or numbers. A state
          that only comes as a next one is terminal;
        - a `Model`.
    R : array, sparse matrix or list, optional
        The rewards, of shape (S,), (S, A), (L,) with `s_indices`, or the shapes of P: R(s, a, s'); or one number. -inf
        marks an action that a state lacks. Only whole models and ``criterion="reach"`` do without.
    gamma : float, optional
        The discount factor, in [0, 1]. Whole models may have their own.
    order : {"ass", "sas"}, optional
        The order of the indices of P, and of R where it has three.
    s_indices, a_indices : array of int, shape (L,), optional
        The state and the action of each row.
    objective : {"maximize", "minimize"}, optional
        Whether R are rewards or costs. By default that of a file, or "maximize".
    ends : array, shape (S, A) or (L,), optional
        Probability that the process ends after each state-action pair; a row of P and its end sum to 1.
    device : str
        "auto", "cpu", "cuda:0", or "emulated": the GPU's kernels on the CPU, which is slow.
    method : str, optional
        The method; by default chosen, with a note. "block-divided" may have options, as in
        "block-divided:block=16x8,buffering", with sweeps-per-launch, states-per-thread,
        update-constant, grouping and by-action likewise.
    precision : {"mixed", "f64", "f32", "refined"}
        Floating-point type of the sweeps. The certificate is computed in f64.
    epsilon : float
        The largest error that the values may have.
    theta : float, optional
        Stop when no value changes by this much in a sweep, in place of `epsilon`.
    max_sweeps : int, optional
        Maximum number of sweeps, per policy or of value iteration. By default 1,000,000; without a
        discount 100,000,000.
    max_policies : int
        Maximum number of policies.
    tie : float, optional
        Least improvement of a Q-factor for which an action replaces another one.
    values : array of shape (S,), optional
        Values to start at.
    criterion : {"discounted", "reach", "total", "average"}
        What to optimise: the discounted sum of rewards, the probability of reaching `goal`, the sum of
        rewards (until `goal`, if there is one), or the reward per step in the long run.
    goal : optional
        States: a number, a name, a label, an iterable of these, or an array of S truth values.
    horizon : int, optional
        Optimise the sum of the first so many rewards, discounted by gamma, which may be 1.
    terminal_values : array of shape (S,), optional
        Values at the horizon. By default 0.
    all_steps : bool
        Whether the solution keeps the values and the policies of all steps of the horizon: T * S numbers each.
    relative : bool
        Whether `epsilon` is relative to each value ("reach", "total", "average").
    storage : {"rows", "slices", "narrow", "patterns"}, optional
        Layout of the model on a GPU. By default the most compact one that fits.
    skip : bool
        Whether sweeps skip states whose value cannot have changed. The result is the same.
    device_memory : int, optional
        Maximum memory on a GPU, in bytes. Larger models are streamed through it.
    reorder : {"auto", "none", "rcm"}
        Renumbering of the states while solving.
    exact : bool
        Also compute the values as fractions, `Solution.exact`, by rational arithmetic from the solution in f64. The
        numbers of the model count as they are in f64: 0.9 is 8106479329266893/2**53. Of a model that is too large, the
        bounds are proved instead. `method`, `storage` and the like do not matter then.

    Returns
    -------
    Solution
        Values, policy and certificate.

    Raises
    ------
    ValueError
        The arrays are no model, or options do not fit together.
    warpkov.DeviceError
        There is no such device, or it failed.
    KeyboardInterrupt
        Ctrl-C. It stops the solves of all threads.

    Warns
    -----
    warpkov.ConvergenceWarning
        The target was not reached.

    Notes
    -----
    The solver works in the memory of `P` and `R` if they are read-only CSR matrices of SciPy in the order "sas"
    (or with indices in ascending order) with int32 indices, int64 row pointers and float64 data. Arrays that can be
    written are copied, and so are row pointers of int32. Do not change the memory of read-only arrays through
    another array. Python's other threads run during a solve.

    Arrays of PyTorch, CuPy and JAX may take the place of dense NumPy arrays. Those in the memory of a GPU
    are copied to the host, where models are validated.

    Examples
    --------
    A machine is new or worn. To keep it costs nothing now, to replace it does:

    >>> from warpkov import mdp
    >>> P = [[[0.7, 0.3], [0, 1]], [[1, 0], [1, 0]]]
    >>> R = [[10, 2], [2, -5]]
    >>> solution = mdp.solve(P, R, 0.9, order="ass")
    >>> solution.values.round(3), solution.policy
    (array([68.11 , 56.299]), array([0, 1]))

    The same model as transitions:

    >>> transitions = [
    ...     ("new", "keep", "new", 0.7, 10), ("new", "keep", "worn", 0.3, 10), ("new", "replace", "new", 1, 2),
    ...     ("worn", "keep", "worn", 1, 2), ("worn", "replace", "new", 1, -5),
    ... ]
    >>> mdp.solve(transitions, gamma=0.9).policy
    array([0, 1])

    In the last step a worn machine is kept, because no time is left in which a new one pays:

    >>> mdp.solve(P, R, 0.9, order="ass", horizon=3, all_steps=True).plan
    array([[0, 1],
           [0, 1],
           [0, 0]])

    A gambler with 1 bets it, and wins with probability 1/4: the probability of 2, with 0, 1 and 2 at the start:

    >>> bets = [(1, "bet", 0, 0.75, 0), (1, "bet", 2, 0.25, 0)]
    >>> mdp.solve(bets, gamma=1, criterion="reach", goal=2, exact=True).exact
    [Fraction(0, 1), Fraction(1, 4), Fraction(1, 1)]
    """
    P = local(P)
    if R is None and criterion == "reach" and are_arrays(P):
        # The probability to reach the goal does not depend on rewards.
        R = 0
    model = Model(
        P,
        R,
        gamma,
        order=order,
        s_indices=s_indices,
        a_indices=a_indices,
        objective=objective,
        ends=ends,
    )
    options = _options(
        device=device,
        method=method,
        precision=precision,
        storage=storage,
        skip=skip,
        device_memory=device_memory,
        reorder=reorder,
        epsilon=epsilon,
        theta=theta,
        max_sweeps=max_sweeps,
        max_policies=max_policies,
        tie=tie,
    )
    question = _question(model, criterion, goal, horizon, terminal_values, relative, all_steps)
    if exact:
        others = {"theta": theta, "values": values, "terminal_values": terminal_values}
        others.update(relative=relative or None, all_steps=all_steps or None)
        if unfit := [name for name, value in others.items() if value is not None]:
            raise ValueError(f"exact cannot be used with {', '.join(unfit)}")
        return _warned(_solve_exactly(model, question, options), "without fractions")
    initial = None if values is None else _per_state(model, values, "values")
    values_of, policy_of, text, between, steps = _warpkov.solve(model._core, question, options, initial)
    found, policy, report = np.asarray(values_of), np.asarray(policy_of), numbers(text)
    proof = report.get("certificate")
    if proof is None:
        bound = report["error"]
        certificate = Certificate(bound if np.isfinite(bound) else None)
    else:
        certificate = Certificate(proof["bound"], proof["bellman_residual"], proof["contraction"])
    if between is None:
        radius = np.inf if certificate.bound is None else certificate.bound
        lower, upper = np.nextafter(found - radius, -np.inf), np.nextafter(found + radius, np.inf)
    else:
        lower, upper = np.asarray(between[0]), np.asarray(between[1])
    plan, plan_values = None, None
    if steps is not None:
        plan_values = np.asarray(steps[0]).reshape(-1, model.states)
        policies = np.asarray(steps[1]).reshape(-1, model.states)
        plan = np.array([_signed(model._outer(policy)) for policy in policies])
    solution = Solution(
        values=found,
        policy=_signed(model._outer(policy)),
        lower=lower,
        upper=upper,
        certificate=certificate,
        status=report["status"],
        converged=report["converged"],
        sweeps=report["sweeps"],
        device=report["device"],
        method=report.get("method"),
        precision=report.get("precision"),
        notes=report["notes"],
        elapsed=report["compute_seconds"],
        model=model,
        plan=plan,
        plan_values=plan_values,
        exact=None,
        _report=report,
    )
    return _warned(solution, f"{solution.sweeps} sweeps")


def _warned(solution: Solution, extent: str) -> Solution:
    """Warn the caller of `solve` if the target was not reached."""
    if not solution.converged:
        message = f"not converged: status {solution.status}, bound {solution.certificate.bound}, {extent}"
        warnings.warn(message, ConvergenceWarning, stacklevel=3)
    return solution


def _solve_exactly(model: Model, question: dict[str, Any], options: dict[str, Any]) -> Solution:
    """Solve by rational arithmetic, or prove bounds of a large model."""
    found, policy, text, between, (device, notes, sweeps), fractions = _warpkov.solve_exactly(model._core, question, options)
    report = numbers(text)
    return Solution(
        values=np.asarray(found),
        policy=_signed(model._outer(np.asarray(policy))),
        lower=np.asarray(between[0]),
        upper=np.asarray(between[1]),
        certificate=Certificate(report["error"] if np.isfinite(report["error"]) else None),
        status=report["status"],
        converged=report["converged"],
        sweeps=sweeps,
        device=device,
        method=None,
        precision=None,
        notes=notes,
        elapsed=report["compute_seconds"] + report["proof_seconds"],
        model=model,
        plan=None,
        plan_values=None,
        exact=None if fractions is None else [_fraction(text) for text in fractions],
        _report=report,
    )


def _fraction(text: str) -> Fraction | float:
    return float(text) if text in ("inf", "-inf") else Fraction(text)


def solve_many(
    models: Iterable[ModelLike],
    *,
    device: str = "auto",
    epsilon: float = 1e-6,
    max_sweeps: int | None = None,
) -> list[tuple[np.ndarray, np.ndarray, float | None]]:
    """Solve many small models in one run: on a GPU, each by one block of threads.

    Parameters
    ----------
    models : iterable of models
        Each is what `Model` takes alone.
    device, epsilon, max_sweeps
        As for `solve`.

    Returns
    -------
    list of tuples
        Values, policy, and the bound of the error of the values, for each model.

    Examples
    --------
    >>> from warpkov import mdp
    >>> forests = [mdp.generate("forest", gamma=gamma) for gamma in (0.1, 0.9)]
    >>> [policy.tolist() for values, policy, bound in mdp.solve_many(forests)]
    [[0, 1, 0], [0, 0, 0]]
    """
    all_models = [Model(model) for model in models]
    options = _options(device=device, epsilon=epsilon, max_sweeps=max_sweeps)
    cores = [(f"model {number}", model._core) for number, model in enumerate(all_models)]
    results: list[tuple[np.ndarray, np.ndarray, float | None]] = []
    for model, (values, policy, bound, status, sweeps) in zip(all_models, _warpkov.solve_many(cores, options)):
        if bound is None or bound > epsilon:
            message = f"model {len(results)} is not converged: status {status}, bound {bound}, {sweeps} sweeps"
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        results.append((np.asarray(values), _signed(model._outer(np.asarray(policy))), bound))
    return results


def evaluate(
    model: ModelLike,
    policy: Any,
    *,
    device: str = "auto",
    precision: Precision = "mixed",
    epsilon: float = 1e-6,
    max_sweeps: int | None = None,
    criterion: Criterion = "discounted",
    goal: Any = None,
    horizon: int | None = None,
    relative: bool = False,
) -> Evaluation:
    """Compute the certified value of a policy.

    Parameters
    ----------
    model : Model, path, mapping or iterable
        What `Model` takes alone.
    policy : array of int, shape (S,), or (T, S) with a horizon of T steps; Solution, or path
        An action per state; -1 for states without actions. Of a plan, one for each step. A file is what
        `warpkov mdp solve` writes with --out or --all-steps.
    device, precision, epsilon, max_sweeps, criterion, goal, horizon, relative
        As for `solve`.

    Returns
    -------
    Evaluation
        The value of each state between bounds.

    Examples
    --------
    >>> from warpkov import mdp
    >>> forest = mdp.generate("forest", gamma=0.9)
    >>> cut = mdp.evaluate(forest, [1, 1, 1])
    >>> bool((cut.values <= mdp.solve(forest).values + 1e-6).all())
    True
    """
    model = Model(model)
    options = _options(device=device, precision=precision, epsilon=epsilon, max_sweeps=max_sweeps)
    question = _question(model, criterion, goal, horizon, None, relative)
    solved = _warpkov.evaluate(model._core, model._inner(policy), question, options)
    values, lower, upper = (np.asarray(buffer) for buffer in solved[:3])
    found = Evaluation(values, lower, upper, *solved[3:])
    if not found.converged:
        warnings.warn(f"not converged: bound {found.bound}", ConvergenceWarning, stacklevel=2)
    return found


def verify(
    model: ModelLike,
    values: Any,
    policy: Any = None,
    *,
    epsilon: float = 1e-6,
    loss: float | None = None,
    criterion: Criterion = "discounted",
    goal: Any = None,
    horizon: int | None = None,
) -> Verification:
    """Prove or refute a solution, by code that shares nothing with the solvers.

    Intervals with outward rounding enclose the exact values; rational numbers decide where these do not suffice and
    the model is small.

    Parameters
    ----------
    model : Model, path, mapping or iterable
        What `Model` takes alone.
    values : array of shape (S,) or Solution
        V. A solution brings its policy.
    policy : array of int, shape (S,), optional
        An action per state; -1 for states without actions.
    epsilon : float
        The largest error of a value that is claimed.
    loss : float, optional
        The largest loss of the policy that is claimed, by default 2 epsilon.
    criterion, goal, horizon
        As for `solve`.

    Returns
    -------
    Verification
        What is proved, and bounds of the exact values.

    Raises
    ------
    ValueError
        If the solution does not fit the model, or the criterion is undefined.

    Examples
    --------
    >>> from warpkov import mdp
    >>> forest = mdp.generate("forest", gamma=0.9)
    >>> mdp.verify(forest, mdp.solve(forest, epsilon=1e-9)).verdict
    'proved'
    >>> mdp.verify(forest, [0.0, 0.0, 0.0]).verdict
    'refuted'
    """
    model = Model(model)
    if isinstance(values, Solution):
        policy = values.policy if policy is None else policy
        values = values.values
    question = _question(model, criterion, goal, horizon, None, False)
    inner = None if policy is None else model._inner(policy)
    loss = 2 * epsilon if loss is None else loss
    found = _warpkov.verify(model._core, _per_state(model, values, "values"), inner, question, epsilon, loss)
    of_policy = None if found[1] is None else Finding(*found[1])
    return Verification(Finding(*found[0]), of_policy, np.asarray(found[2]), np.asarray(found[3]))


def q_factors(model: ModelLike, values: Any = None, *, bound: float | None = None, **options: Any) -> QFactors:
    """Compute the value of each action in each state, followed by optimal ones.

    Parameters
    ----------
    model : Model, path, mapping or iterable
        What `Model` takes alone.
    values : array of shape (S,) or Solution, optional
        V. By default the model is solved.
    bound : float, optional
        Upper bound of the largest error of `values`, from which that of the Q-factors follows. A solution
        has its own.
    **options
        Those of `solve`, if the model is solved.

    Returns
    -------
    QFactors
        Q-factors and advantages of shape (S, A).

    Examples
    --------
    >>> from warpkov import mdp
    >>> factors = mdp.q_factors(mdp.generate("forest", gamma=0.9))
    >>> factors.q.shape, factors.advantages.max(axis=1).tolist()
    ((3, 2), [0.0, 0.0, 0.0])
    """
    model = Model(model)
    if values is None:
        values = solve(model, **options)
    elif options:
        raise ValueError(f"found the options {', '.join(options)}, but with values, the model is not solved")
    if isinstance(values, Solution):
        values, bound = values.values, values.certificate.bound
    q, advantages, bound = _warpkov.factors(model._core, _per_state(model, values, "values"), bound)
    return QFactors(_table(model, np.asarray(q)), _table(model, np.asarray(advantages)), bound)


def simulate(
    model: ModelLike,
    policy: Any,
    *,
    episodes: int = 10_000,
    steps: int | None = None,
    start: Any = None,
    seed: int = 42,
    confidence: float = 0.95,
    criterion: Criterion = "discounted",
    goal: Any = None,
    horizon: int | None = None,
) -> Simulation:
    """Estimate the value of a policy from sample paths.

    Parameters
    ----------
    model : Model, path, mapping or iterable
        What `Model` takes alone.
    policy : array of int, shape (S,), or (T, S) with a horizon of T steps; Solution, or path
        An action per state; -1 for states without actions. Of a plan, one for each step. A file is what
        `warpkov mdp solve` writes with --out or --all-steps.
    episodes : int
        Number of paths.
    steps : int, optional
        The most steps of a path. By default the least with gamma**steps <= 1e-6; without a discount
        1,000,000; for the average reward 10,000.
    start : optional
        States in which paths begin, each equally likely, in the forms of `goal`. By default those of label
        "init", or all.
    seed : int
        Seed of the random numbers. Equal seeds give equal results.
    confidence : float
        Confidence of the interval, between 0 and 1.
    criterion, goal, horizon
        As for `solve`.

    Returns
    -------
    Simulation
        The mean and its interval.

    Examples
    --------
    >>> from warpkov import mdp
    >>> forest = mdp.generate("forest", gamma=0.9)
    >>> solution = mdp.solve(forest)
    >>> found = mdp.simulate(forest, solution.policy, start=0)
    >>> bool(found.lower < solution.values[0] < found.upper)
    True
    """
    model = Model(model)
    for name, value in (("episodes", episodes), ("steps", steps)):
        _count(name, value)
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed is {seed}, expected an integer from 0 to 2**64 - 1")
    starts = model._goal("init" if start is None and "init" in model.labels else start)
    if starts is None:
        starts = list(range(model.states))
    paths = {"episodes": episodes, "steps": steps, "seed": seed, "starts": starts, "confidence": confidence}
    question = _question(model, criterion, goal, horizon, None, False)
    report = numbers(_warpkov.simulate(model._core, model._inner(policy), question, paths))
    return Simulation(**{name: report[name] for name in Simulation.__dataclass_fields__})


def generate(family: str, **parameters: Any) -> Model:
    """Generate a model of a known family.

    Parameters
    ----------
    family : str
        "grid", "wetfloor", "sutton_grid", "garnet", "queueing", "forest", "gambler", "car_rental",
        "inventory", "consensus", "firewire", "csma" or "zeroconf".
    **parameters
        The options of ``warpkov mdp generate FAMILY``, which ``--help`` lists, with underscores for hyphens.

    Returns
    -------
    Model
        The model. Equal parameters give equal models.

    Examples
    --------
    >>> from warpkov import mdp
    >>> mdp.generate("grid", width=16, height=8, walls=0.1)
    <warpkov.mdp.Model: 128 states, 4 actions, 1393 transitions, gamma 0.9>
    """
    return Model._of(_warpkov.generate(words(family, parameters)))


def load(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    reward: str | None = None,
    costs: str | os.PathLike[str] | None = None,
    gamma: float | None = None,
    objective: Objective | None = None,
) -> Model:
    """Read a model from a file.

    Parameters
    ----------
    path : str or path
        The file. Its extension or its content gives the format. Safetensors files are memory-mapped: do not
        change them in place while the model is in use.
    format : str, optional
        The format: "json", "csv", "safetensors", "prism", "storm", "drn", "umb", "npz", "petsc",
        "gymnasium", "xml" or "text".
    reward : str, optional
        The name of the rewards, in formats that have several.
    costs : str or path, optional
        The file of costs, of PETSc.
    gamma : float, optional
        The discount factor, in place of that of the file.
    objective : {"maximize", "minimize"}, optional
        The objective, in place of that of the file.

    Returns
    -------
    Model
        The model.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The file holds no model. The message names the place.
    """
    model = Model._of(_warpkov.Model.load(path, format, reward, costs))
    return model if gamma is None and objective is None else model.replace(gamma=gamma, objective=objective)


def save(model: ModelLike, path: str | os.PathLike[str], *, format: str | None = None) -> None:
    """Write a model to a file, completely or not at all.

    Parameters
    ----------
    model : Model, path, mapping or iterable
        What `Model` takes alone.
    path : str or path
        The file.
    format : str, optional
        The format, as for `load`. By default that of the extension, or JSON.

    Examples
    --------
    >>> import os, tempfile
    >>> from warpkov import mdp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "forest.safetensors")
    ...     mdp.save(mdp.generate("forest", gamma=0.9), path)
    ...     mdp.load(path)
    <warpkov.mdp.Model: 3 states, 2 actions, 9 transitions, gamma 0.9>
    """
    Model(model).save(path, format)


def _options(**given: Any) -> dict[str, Any]:
    """All options of a solve, by default those of `solve`."""
    default: dict[str, Any] = {
        "device": "auto",
        "method": None,
        "precision": "mixed",
        "storage": None,
        "skip": True,
        "device_memory": None,
        "reorder": "auto",
        "epsilon": 1e-6,
        "theta": None,
        "max_sweeps": None,
        "max_policies": 10_000,
        "tie": None,
    }
    options = {**default, **given}
    for name in ("max_sweeps", "max_policies", "device_memory"):
        _count(name, options[name])
    return options


def _count(name: str, value: Any) -> None:
    """Check an option that is an integer of at least 1, or None."""
    if value is not None and (not isinstance(value, (int, np.integer)) or value < 1):
        raise ValueError(f"{name} is {value!r}, expected an integer of at least 1")
    if value is not None and name not in ("device_memory", "memory") and value >= 2**32:
        raise ValueError(f"{name} is {value!r}, expected an integer below 2**32")


def _question(
    model: Model,
    criterion: str,
    goal: Any,
    horizon: int | None,
    terminal_values: Any,
    relative: bool,
    all_steps: bool = False,
) -> dict[str, Any]:
    _count("horizon", horizon)
    if terminal_values is not None and horizon is None:
        raise ValueError("terminal_values needs horizon")
    if all_steps and horizon is None:
        raise ValueError("all_steps needs horizon")
    return {
        "criterion": criterion,
        "goal": model._goal(goal),
        "horizon": horizon,
        "terminal_values": None if terminal_values is None else _per_state(model, terminal_values, "terminal_values"),
        "all_steps": all_steps,
        "relative": relative,
    }


def _per_state(model: Model, values: Any, name: str) -> np.ndarray:
    found: np.ndarray = np.ascontiguousarray(real(values, name))
    if found.shape != (model.states,):
        raise ValueError(f"{name} has shape {found.shape}, expected a number per state, {(model.states,)}")
    return found


def _signed(policy: np.ndarray) -> np.ndarray:
    signed = policy.astype(np.int64)
    signed[policy == NO_ACTION] = -1
    return signed


def _table(model: Model, of_rows: np.ndarray) -> np.ndarray:
    """Numbers of rows by state and action, NaN where there is no row."""
    table = np.full((model.states, model.actions), np.nan)
    counts = lengths(model.offsets)
    states = np.repeat(np.arange(model.states), counts)
    if model._numbers is None:
        actions = np.arange(of_rows.size) - np.repeat(model.offsets[:-1].astype(np.int64), counts)
    else:
        actions = model._numbers.astype(np.int64)
    table[states, actions] = of_rows
    return table
