"""Arrow arrays over the memory of numpy arrays, made without pandas.

`pa.array` asks whether it is given something of pandas, and so imports pandas where it is there:
0.2 s of a process that has no other use for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["view"]


def view(values: npt.NDArray[Any]) -> pa.Array:
    """Show a numpy array of numbers as an Arrow array, without nulls.

    Parameters
    ----------
    values : (n,) array of numbers
        Not to be changed afterwards: it is not copied, unless it has gaps.
    """
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, [None, buffer])
