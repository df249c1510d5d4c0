import numpy as np
from numpy.typing import NDArray

def document_end(text: bytes | NDArray[np.uint8], start: int) -> int: ...
