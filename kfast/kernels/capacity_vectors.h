/* Sums over brokers for one vector width. Included once per target; before it, define
 *   NAME(x)   the name x with the target's ending
 *   TARGET    attribute of every function
 *
 * A row has four numbers per broker: see `capacity.h`. Sums are of integers below 2^53, so they are
 * exact in any order. Products are estimates, of which the caller decides the largest exactly.
 */

TARGET static void NAME(kfast_add)(
    double *restrict sum, const double *restrict base, const double *restrict more, int64_t n)
{
    int64_t i;
    for (i = 0; i < n; i++)
        sum[i] = base[i] + more[i];
}

/* The largest estimate of each channel in every block of brokers; it is compared by > alone, so a
 * NaN never counts. */
TARGET static void NAME(kfast_peaks)(
    const double *restrict load, const double *restrict slope, const double *restrict offset,
    int64_t n_blocks, double *restrict most)
{
    int64_t block;
    int i, lane;
    for (block = 0; block < n_blocks; block++) {
        double peak[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
        for (i = 0; i < BLOCK_NUMBERS; i += 8)
            for (lane = 0; lane < 8; lane++) {
                const double value = offset[i + lane] + load[i + lane] * slope[i + lane];
                peak[lane] = value > peak[lane] ? value : peak[lane];
            }
        for (lane = 0; lane < CHANNELS; lane++)
            most[CHANNELS * block + lane] = peak[lane] > peak[lane + CHANNELS]
                ? peak[lane] : peak[lane + CHANNELS];
        load += BLOCK_NUMBERS;
        slope += BLOCK_NUMBERS;
        offset += BLOCK_NUMBERS;
    }
}
