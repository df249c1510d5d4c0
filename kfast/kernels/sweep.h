/* The rules of a sweep for every target, and the choice between them at run time.
 *
 * GCC and Clang on x86-64 compile three versions of everything: words of 64 bits, AVX2 and AVX-512;
 * other compilers and machines have the words alone.
 */

#ifndef KFAST_SWEEP_H
#define KFAST_SWEEP_H

#include <stdint.h>
#include <string.h>

enum {
    COUNT_OFFLINE,
    COUNT_OFFLINE_IF_CLEAN,
    COUNT_NO_LIVE_REPLICA,
    COUNT_UNDER,
    COUNT_AT,
    COUNT_MOVED,
    COUNT_UNCLEAN,
    COUNTS
};
enum {
    WANT_OFFLINE = 1 << COUNT_OFFLINE,
    WANT_OFFLINE_IF_CLEAN = 1 << COUNT_OFFLINE_IF_CLEAN,
    WANT_NO_LIVE_REPLICA = 1 << COUNT_NO_LIVE_REPLICA,
    WANT_UNDER = 1 << COUNT_UNDER,
    WANT_AT = 1 << COUNT_AT,
    WANT_MOVED = 1 << COUNT_MOVED,
    WANT_UNCLEAN = 1 << COUNT_UNCLEAN
};
enum {
    SHAPE_HAS_LEADER = 1,
    SHAPE_LEADER_IN_ISR = 2,
    SHAPE_LEADER_ASSIGNED = 4,
    SHAPE_ELECTS = 8,
    SHAPE_INITIAL = 16,
    SHAPE_TABULATED = 32,
    SHAPE_SIMPLE = 15
};
/* flags, clean, blocking, unclean, other, need, width, partitions, where its sequences begin,
 * eligible, where its table begins */
#define GROUP_FIELDS 11
/* The longest sequence that may have a table: 2 to its length cells. A cell has one bit per count,
 * one that says whether it is led with one live replica in sync, and above them who leads: 0 for
 * nobody, else the place in the sequence + 1. */
#define TABLE_WIDTH 12
#define TABLE_SINGLE (1 << 7)
#define TABLE_LEADER 8
/* Binary digits of a count: more partitions than 2^34 are out of reach of int32 rows. */
#define PLANES 34

#if defined(__GNUC__) && defined(__x86_64__)
#define KFAST_VECTORS 1
#include <immintrin.h>
#else
#define KFAST_VECTORS 0
#ifndef __GNUC__
#define __attribute__(x)
#endif
#endif

#ifdef __GNUC__
#define KFAST_POPCOUNT(word) __builtin_popcountll(word)
#else
static int KFAST_POPCOUNT(uint64_t word)
{
    int n = 0;
    for (; word; word &= word - 1)
        n++;
    return n;
}
#endif

/* Who leads from the start, and who takes over where. */
typedef struct {
    int64_t n_brokers;
    const int64_t *led;        /* (B,)      partitions that each broker leads */
    int depths;
    const int64_t *entry;      /* (D, B+1)  where each broker's entries of a depth begin */
    const int64_t *begin;      /* (D,)      where the predecessors of a depth begin */
    const int32_t *before;     /*           of each entry, who must be down */
    const int64_t *tabulated;  /* (B+1,)    where each broker's places in tables begin */
    const int64_t *places;     /* (m, 4)    sequence, its width, table, cell of the leader */
    const int32_t *sequences;
    const uint16_t *tables;
} kfast_takeovers;

#define VEC uint64_t
#define NAME(x) x##_words
#define TARGET
#define XOR3(a, b, c) ((a) ^ (b) ^ (c))
#define MAJORITY(a, b, c) (((a) & (b)) | (((a) ^ (b)) & (c)))
#include "scenario_outcome.h"
#undef VEC
#undef NAME
#undef TARGET
#undef XOR3
#undef MAJORITY

#if KFAST_VECTORS
typedef uint64_t kfast_v256 __attribute__((vector_size(32), aligned(8), may_alias));
typedef uint64_t kfast_v512 __attribute__((vector_size(64), aligned(8), may_alias));

#define VEC kfast_v256
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,popcnt")))
#define XOR3(a, b, c) ((a) ^ (b) ^ (c))
#define MAJORITY(a, b, c) (((a) & (b)) | (((a) ^ (b)) & (c)))
#include "scenario_outcome.h"
#undef VEC
#undef NAME
#undef TARGET
#undef XOR3
#undef MAJORITY

#define VEC kfast_v512
#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f,popcnt")))
#define XOR3(a, b, c) \
    ((kfast_v512) _mm512_ternarylogic_epi64((__m512i) (a), (__m512i) (b), (__m512i) (c), 0x96))
#define MAJORITY(a, b, c) \
    ((kfast_v512) _mm512_ternarylogic_epi64((__m512i) (a), (__m512i) (b), (__m512i) (c), 0xe8))
#include "scenario_outcome.h"
#undef VEC
#undef NAME
#undef TARGET
#undef XOR3
#undef MAJORITY
#endif

/* Words of the widest vector of this machine: 8, 4 or 1. */
static int kfast_widest(void)
{
#if KFAST_VECTORS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return 8;
    if (__builtin_cpu_supports("avx2"))
        return 4;
#endif
    return 1;
}

static void kfast_count_tile(
    int words, const int64_t *groups, int64_t n_groups, const int32_t *sequences,
    const uint16_t *tables, const uint64_t *up, int want, int64_t *counts, int64_t stride)
{
#if KFAST_VECTORS
    if (words == 8) {
        count_tile_avx512(groups, n_groups, sequences, tables, up, want, counts, stride);
        return;
    }
    if (words == 4) {
        count_tile_avx2(groups, n_groups, sequences, tables, up, want, counts, stride);
        return;
    }
#endif
    count_tile_words(groups, n_groups, sequences, tables, up, want, counts, stride);
}

static void kfast_count_leaders(
    int words, const kfast_takeovers *takeovers, const uint64_t *up, int n, int32_t *most,
    int32_t *fullest, const int64_t *histogram_begin, int64_t *histogram)
{
#if KFAST_VECTORS
    if (words == 8) {
        count_leaders_avx512(takeovers, up, n, most, fullest, histogram_begin, histogram);
        return;
    }
    if (words == 4) {
        count_leaders_avx2(takeovers, up, n, most, fullest, histogram_begin, histogram);
        return;
    }
#endif
    count_leaders_words(takeovers, up, n, most, fullest, histogram_begin, histogram);
}

static void kfast_count_rows(
    int words, const int64_t *group, const int32_t *sequence, const uint16_t *tables,
    const uint64_t *up, const uint64_t *counted, int64_t *offline, int64_t *under)
{
#if KFAST_VECTORS
    if (words == 8) {
        count_rows_avx512(group, sequence, tables, up, counted, offline, under);
        return;
    }
    if (words == 4) {
        count_rows_avx2(group, sequence, tables, up, counted, offline, under);
        return;
    }
#endif
    count_rows_words(group, sequence, tables, up, counted, offline, under);
}

#endif
