import numpy as np
from numpy.typing import NDArray

def unwrap(text: bytes | NDArray[np.uint8], joined: NDArray[np.uint8]) -> tuple[int, int, int]: ...
