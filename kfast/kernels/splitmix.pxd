"""Random numbers by place: number i of a stream, whatever was drawn before.

Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
"""

from libc.stdint cimport int32_t, uint64_t


cdef inline uint64_t mix(uint64_t x) noexcept nogil:
    """SplitMix64."""
    x += <uint64_t> 0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * <uint64_t> 0x94D049BB133111EB
    return x ^ (x >> 31)


cdef inline uint64_t draw(uint64_t seed, uint64_t stream, uint64_t i) noexcept nogil:
    """Number i of a stream: SplitMix64, twice."""
    cdef uint64_t x = mix(seed + stream * <uint64_t> 0x9E3779B97F4A7C15)
    return mix(x + i * <uint64_t> 0x9E3779B97F4A7C15)


cdef inline int32_t below(uint64_t x, int32_t bound) noexcept nogil:
    """Spread 64 random bits over 0..bound-1."""
    return <int32_t> (((x >> 32) * <uint64_t> bound) >> 32)
