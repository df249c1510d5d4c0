"""What the kernels were compiled from: a digest that `setup.py` writes when it compiles them."""

cdef extern from "sources.h":
    const char* KFAST_SOURCES


def sources_digest():
    """16 hexadecimal digits that stand for every source of the kernels, as it was compiled."""
    return KFAST_SOURCES.decode("ascii")
