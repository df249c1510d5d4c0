from typing import Any

import numpy.typing as npt

_Array = npt.NDArray[Any]

def survey(begin: _Array, rows: _Array, horizon: int, measures: _Array) -> None: ...
def quantile(begin: _Array, rows: _Array, percent: int, bounds: _Array) -> None: ...
def waiting_quantile(
    begin: _Array, rows: _Array, percent: int, wait: int, late: _Array, bounds: _Array
) -> None: ...
