/* Sums over brokers and their largest utilisation, in the widest vectors of this machine. */

#ifndef KFAST_CAPACITY_H
#define KFAST_CAPACITY_H

#include <math.h>
#include <stdint.h>

/* Numbers of one broker: bytes in, bytes out, work, and one that is not used. */
#define CHANNELS 4
#define BLOCK_BROKERS 16
#define BLOCK_NUMBERS (CHANNELS * BLOCK_BROKERS)

#define NAME(x) x##_words
#define TARGET
#include "capacity_vectors.h"
#undef NAME
#undef TARGET

#if defined(__GNUC__) && defined(__x86_64__)
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2")))
#include "capacity_vectors.h"
#undef NAME
#undef TARGET
#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f")))
#include "capacity_vectors.h"
#undef NAME
#undef TARGET
#define CHOOSE(words, name, ...)                                                                   \
    if (words == 8)                                                                                \
        name##_avx512(__VA_ARGS__);                                                                \
    else if (words == 4)                                                                           \
        name##_avx2(__VA_ARGS__);                                                                  \
    else                                                                                           \
        name##_words(__VA_ARGS__)
#else
#define CHOOSE(words, name, ...) name##_words(__VA_ARGS__)
#endif

static inline void kfast_add(
    int words, double *sum, const double *base, const double *more, int64_t n)
{
    CHOOSE(words, kfast_add, sum, base, more, n);
}

static inline void kfast_peaks(
    int words, const double *load, const double *slope, const double *offset, int64_t n_blocks,
    double *most)
{
    CHOOSE(words, kfast_peaks, load, slope, offset, n_blocks, most);
}

#ifdef __SIZEOF_INT128__
typedef __int128 kfast_wide;
#else
#error "kfast needs a compiler with 128-bit integers"
#endif

/* a / b > c / d, for integers from 0 and b, d above 0 */
static inline int kfast_exceeds(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (kfast_wide) a * d > (kfast_wide) c * b;
}

/* a * b / c, rounded half to even, for a, b from 0 and c above 0. An estimate decides unless it is
 * so near to a half that its error, below 2^-50 of it, could matter. */
static inline int64_t kfast_share(int64_t a, int64_t b, int64_t c)
{
    const double quotient = (double) a * (double) b / (double) c;
    if (quotient < 0x1p48) {
        const int64_t below = (int64_t) quotient;
        const double from_half = quotient - (double) below - 0.5;
        if (fabs(from_half) > quotient * 0x1p-50)
            return below + (from_half > 0);
    }
    const kfast_wide product = (kfast_wide) a * b;
    const kfast_wide whole = product / c, rest = 2 * (product % c);
    return (int64_t) (whole + (rest > c || (rest == c && (whole & 1))));
}

#endif
