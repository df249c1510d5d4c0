from typing import Any

import numpy.typing as npt

_Array = npt.NDArray[Any]

def share_one_port(
    volume: _Array, cap: _Array, rate: float, by_volume: _Array, by_cap: _Array, amount: float,
    end: _Array,
) -> float: ...
def share_ports(
    volume: _Array, cap: _Array, port: _Array, port_rate: _Array, amount: float, end: _Array
) -> float: ...
