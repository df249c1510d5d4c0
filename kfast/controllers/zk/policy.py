"""A user's own election rule: a plain Python function, compiled to C and called by the kernels.

Kafka takes the first of an election's candidates, in the order of the assigned replicas. A rule
takes another one of them. It is a function whose parameters are named after what it wants to see,
any of these in any order, and that returns a slot, or -1 for nobody:

`candidates`
    int, a mask: bit s is set where slot s may be elected. It is never 0: where nobody may lead, no
    rule is asked. These are the live in-sync replicas; where none is in sync and an unclean
    election is allowed, the live ones.
`leader`
    int: slot of the leader until now, often dead; -1 for none.
`n_replicas`
    int: number of assigned replicas. They have the first slots, the preferred replica slot 0.
`isr`, `live`
    int, masks: slots in sync, slots whose replica is online.
`brokers`, `racks`, `led`
    arrays over slots: row of the slot's broker, number of its rack (`number_racks`; -1 for none),
    and how many partitions it led when the event began.

The function is compiled by numba and sees of its globals and of its closure what they are when it
is compiled. It is asked for every row before any is changed, so that a rule which fails leaves
everything as it was. The preferred replica election leaves nothing to choose and asks no rule, and
neither does the first leader of a new partition.

Source: docs/controller.md, section 4.1 (the candidates); numba's `cfunc`.
"""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.errors import PolicyError, require_extra
from kfast.kernels import policies
from kfast.state import ClusterState
from kfast.state.racks import numbered_racks

__all__ = [
    "VISIBLE", "Policy", "Rule", "compile_rule", "first_candidate", "led_least", "number_racks",
    "stay_in_rack",
]

Rule = Callable[..., int]

VISIBLE = {
    "leader": "int64(leader)",
    "n_replicas": "int64(n_replicas)",
    "candidates": "candidates",
    "isr": "isr",
    "live": "live",
    "brokers": "carray(brokers, n_slots)",
    "racks": "carray(racks, n_slots)",
    "led": "carray(led, n_slots)",
}
"""What a rule may ask for, and how the callback makes it of its arguments."""

MOST_COMPILED = 256
"""Rules that are kept compiled; the oldest are forgotten first."""

# One function of C for every rule: `rule_t` in `kernels/policies.pyx` has the same arguments. numba
# catches what a rule raises only by the widest clause that there is.
CALLBACK = """
def callback(leader, n_replicas, candidates, isr, live, n_slots, brokers, racks, led):
    try:
        return rule({arguments})
    except {everything}:
        return raised
"""

_compiled: dict[object, Policy] = {}


def first_candidate(candidates: int, n_replicas: int) -> int:
    """Elect as Kafka does: the first candidate in the order of the assigned replicas."""
    for slot in range(n_replicas):
        if (candidates >> slot) & 1:
            return slot
    return -1


def stay_in_rack(
    candidates: int, leader: int, n_replicas: int, racks: npt.NDArray[np.int32]
) -> int:
    """Prefer the rack of the leader until now, or of the preferred replica where there is none.

    Among the candidates there, and where there are none among all, the first is elected.
    """
    home = racks[max(leader, 0)]
    first = -1
    for slot in range(n_replicas):
        if (candidates >> slot) & 1:
            if racks[slot] == home and home >= 0:
                return slot
            if first < 0:
                first = slot
    return first


def led_least(candidates: int, n_replicas: int, led: npt.NDArray[np.int64]) -> int:
    """Elect the candidate whose broker led least when the event began; of equals the first."""
    least = -1
    for slot in range(n_replicas):
        if (candidates >> slot) & 1 and (least < 0 or led[slot] < led[least]):
            least = slot
    return least


class Policy:
    """A compiled rule: what `compile_rule` gives and `Controller(policy=...)` takes.

    It pickles as its function, so that another process compiles it anew.
    """

    def __init__(self, rule: Rule, parameters: tuple[str, ...], callback: Any) -> None:
        self.rule = rule
        self.name: str = getattr(rule, "__name__", repr(rule))
        self.parameters = parameters
        self.address: int = callback.address
        self._callback = callback

    def __repr__(self) -> str:
        return f"Policy({self.name})"

    def __reduce__(self) -> tuple[Callable[[Rule], Policy], tuple[Rule]]:
        return compile_rule, (self.rule,)


def compile_rule(rule: Rule | Policy) -> Policy:
    """Compile an election rule, or find it compiled.

    Two functions with the same code, constants, globals and closure are compiled once.

    Parameters
    ----------
    rule : function
        As the module says. A function that is compiled by `numba.njit` already is compiled anew.

    Returns
    -------
    Policy

    Raises
    ------
    MissingExtraError
        numba is not installed.
    PolicyError
        A parameter is none of `VISIBLE`, numba cannot compile the function, or it returns something
        other than an integer.
    """
    if isinstance(rule, Policy):
        return rule
    function = getattr(rule, "py_func", rule)
    if not isinstance(function, types.FunctionType):
        raise PolicyError(f"policy {rule!r} is not a Python function; only one can be compiled")
    parameters = _parameters(function)
    key = _key(function, ())
    policy = _compiled.get(key)
    if policy is None:
        policy = Policy(function, parameters, _callback(function, parameters))
        while len(_compiled) >= MOST_COMPILED:
            del _compiled[next(iter(_compiled))]
        _compiled[key] = policy
    return policy


def number_racks(state: ClusterState) -> dict[str, int]:
    """Number of each rack, by its name: 0, 1, ... in the order of the names."""
    return {name: number for number, name in enumerate(numbered_racks(state)[0])}


def _parameters(function: types.FunctionType) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters
    for name, parameter in parameters.items():
        plain = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        if name not in VISIBLE or not plain:
            raise PolicyError(
                f"policy {function.__name__}: parameter {parameter} is nothing that a rule can "
                f"see; allowed: {', '.join(VISIBLE)}"
            )
    return tuple(parameters)


def _callback(function: types.FunctionType, parameters: tuple[str, ...]) -> Any:
    """Compile a function to what the kernels call."""
    require_extra("numba", f"policy {function.__name__}")
    numba: Any = importlib.import_module("numba")
    int32, int64 = numba.types.int32, numba.types.int64
    arrays = [numba.types.CPointer(kind) for kind in (int32, int32, int64)]
    # Without bounds checks a wrong index would read, or write, anywhere.
    compiled = numba.njit(function, boundscheck=True, nogil=True)
    text = CALLBACK.format(
        arguments=", ".join(VISIBLE[name] for name in parameters), everything=Exception.__name__
    )
    names = {
        "rule": compiled, "carray": numba.carray, "int64": numba.int64, "raised": policies.raised(),
    }
    exec(text, names)
    signature = int64(int32, int32, int64, int64, int64, int32, *arrays)
    try:
        callback = numba.cfunc(signature)(names["callback"])
    except numba.core.errors.NumbaError as error:
        raise PolicyError(f"policy {function.__name__} cannot be compiled: {error}") from error
    for returned in compiled.nopython_signatures:
        kind = numba.types.unliteral(returned.return_type)
        if not isinstance(kind, numba.types.Integer):
            raise PolicyError(
                f"policy {function.__name__} returns {kind}; a rule returns a slot, an integer, "
                "on every path: -1 for nobody"
            )
    return callback


def _key(function: types.FunctionType, inside: tuple[types.FunctionType, ...]) -> object:
    """What a function compiles to depends on this and on nothing else."""
    code = function.__code__
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    known = {name: function.__globals__.get(name) for name in code.co_names}
    inside = (*inside, function)
    return (
        _code_key(code), code.co_varnames[: code.co_argcount],
        tuple(_value_key(value, inside) for value in (*cells, *known.values())),
    )


def _code_key(code: types.CodeType) -> object:
    constants = tuple(_value_key(value, ()) for value in code.co_consts)
    return code.co_code, constants, code.co_names, code.co_freevars


def _value_key(value: object, inside: tuple[types.FunctionType, ...]) -> object:
    """A key that tells 1 from 1.0 and True, and 0.0 from -0.0.

    What is only known by its identity stays alive with the rule that is kept, so that no other
    object ever has its key.
    """
    value = getattr(value, "py_func", value)
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return type(value), repr(value)
    if isinstance(value, types.CodeType):
        return _code_key(value)
    if isinstance(value, tuple):
        return tuple, tuple(_value_key(item, inside) for item in value)
    if isinstance(value, np.ndarray):
        return np.ndarray, value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, np.generic):
        return type(value), value.tobytes()
    if isinstance(value, types.FunctionType):
        return inside.index(value) if value in inside else _key(value, inside)
    return object, id(value)
