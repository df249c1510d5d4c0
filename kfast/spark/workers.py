"""What is sent to workers, which refuse it where their Python has not this kfast; in one line.

A worker that cannot import kfast, or has another, would fail with a bare `ModuleNotFoundError`, or
give other rows without an error. So all that is sent is packed: a function that is pickled by value
looks for kfast before anything else of kfast is unpickled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkException

from kfast import __version__
from kfast.errors import KfastError
from kfast.spark.tasks import over_hands
from kfast.state.build import build_digest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SentToWorkers", "check_workers", "collect", "for_workers"]

Function = TypeVar("Function", bound=Callable[..., Any])

_REFUSAL = re.compile(r"the Python of Spark's workers \(.*")
"""How the line begins with which a worker refuses."""


def for_workers(function: Function) -> Function:
    """Pack a function of positional arguments so that a worker without this kfast refuses it.

    Parameters
    ----------
    function : callable
        What a worker is to call; it is pickled here.
    """
    unpack, packed = _unpacker(), _pack(function)

    def call(*arguments: Any) -> Any:
        return unpack(*packed)(*arguments)

    return cast(Function, call)


class SentToWorkers:
    """What Spark itself pickles, as readers of the data source; it is packed likewise."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _maker(), _pack(partial(_restore, type(self), self.__dict__))


def collect(frame: DataFrame) -> pa.Table:
    """Run a job of kfast's own, and bring its rows to the driver.

    Raises
    ------
    KfastError
        The Python of the workers has no kfast, or another.
    """
    try:
        return frame.toArrow()
    except PySparkException as error:
        refused = _REFUSAL.search(str(error))
        if refused is None:
            raise
        raise KfastError(refused[0]) from error


def check_workers(spark: SparkSession) -> None:
    """Run one task, to learn whether the Python of the workers has this kfast.

    Every function of kfast finds that out by itself; `spark.read.format("kfast")` says no more than
    DATA_SOURCE_NOT_FOUND where it has none.

    Raises
    ------
    KfastError
        It has no kfast, or another.
    """
    collect(over_hands(spark, 1, _answer, pa.schema([("number", pa.int32())])))


def _answer(number: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([pa.array([number], pa.int32())], names=["number"])


def _pack(thing: Any) -> tuple[str, str, bytes]:
    """Which kfast this is, and something pickled."""
    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    return __version__, build_digest(), dumps(thing)


def _restore(kind: type, attributes: dict[str, Any]) -> Any:
    restored: Any = object.__new__(kind)
    restored.__dict__.update(attributes)
    return restored


def _unpacker() -> Callable[[str, str, bytes], Any]:
    """The function that unpacks, in a worker. It is a local one, so that it is pickled by value."""

    def unpack(version: str, build: str, pickled: bytes) -> Any:
        import pickle
        import platform
        import sys

        worker = f"the Python of Spark's workers ({sys.executable} on {platform.node()})"
        remedy = (
            f"install kfast {version} there as a wheel or an archive (--py-files carries no "
            "compiled code), or name a Python that has it in PYSPARK_PYTHON before the session "
            "starts"
        )
        try:
            import kfast

            worker_build = kfast.__version__, getattr(kfast, "build_digest", lambda: "unknown")()
        except ImportError as error:
            raise ImportError(f"{worker} cannot import kfast: {error}; {remedy}") from error
        if worker_build == (version, build):
            return pickle.loads(pickled)
        raise kfast.KfastError(
            f"{worker} has kfast {worker_build[0]} (build {worker_build[1]}), the driver kfast "
            f"{version} (build {build}), and their rows may differ; {remedy}"
        )

    return unpack


def _maker() -> Callable[[str, str, bytes], Any]:
    """The function that unpacks something that makes something, and calls it."""
    unpack = _unpacker()

    def make(version: str, build: str, pickled: bytes) -> Any:
        return unpack(version, build, pickled)()

    return make
