"""What the kernels were compiled from and by: `setup.py` writes it when it compiles them."""

cdef extern from "sources.h":
    const char* KFAST_SOURCES
    const char* KFAST_FLAGS

cdef extern from *:
    """
    #if defined(__clang__)
    #define KFAST_COMPILER "clang " __clang_version__
    #elif defined(__GNUC__)
    #define KFAST_COMPILER "gcc " __VERSION__
    #else
    #define KFAST_COMPILER "an unknown compiler"
    #endif
    #ifdef _OPENMP
    #define KFAST_OPENMP _OPENMP
    #else
    #define KFAST_OPENMP 0
    #endif
    """
    const char* KFAST_COMPILER
    const int KFAST_OPENMP


def sources_digest():
    """16 hexadecimal digits that stand for every source of the kernels, as it was compiled."""
    return KFAST_SOURCES.decode("ascii")


def compiler():
    """The compiler, its flags, and the date of its OpenMP if kernels run on several threads."""
    threads = f"OpenMP {KFAST_OPENMP}" if KFAST_OPENMP else "without OpenMP: one thread"
    return f"{KFAST_COMPILER.decode()} {KFAST_FLAGS.decode()}, {threads}"
