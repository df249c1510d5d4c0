/* What becomes of a partition in many scenarios at once: one bit per scenario.
 *
 * Included once per target. Before it, define
 *   VEC       type of a vector: uint64_t, or a vector of uint64_t
 *   NAME(x)   the name x with the target's ending
 *   TARGET    attribute of every function
 *   XOR3, MAJORITY   of three vectors
 *
 * A partition is the sequence of its live brokers in the order in which they would lead, from the
 * leader on; `up` holds one vector per broker. Brokers that are down already are left out. A
 * partition without a live leader begins with a row that is "up" where nothing happens at all, as
 * an election needs an event. The brokers behind the leader come in five parts:
 *   clean     in sync and assigned: the first that is up leads
 *   blocking  in sync, not assigned: where it is up, nobody is elected unclean (ZooKeeper)
 *   eligible  in the ELR: the first that is up leads, alone in its ISR (KRaft)
 *   unclean   assigned, not in sync, unclean election allowed: the first that is up leads
 *   other     assigned, not in sync, never elected
 * Where the order in which KRaft's brokers are fenced decides, a shape has a table instead: what
 * comes of each set of brokers that are down.
 *
 * Source: docs/controller.md, sections 2.6, 3.2 to 3.6, 4 and 6.2; Kafka 3.9,
 * `PartitionLeaderElectionAlgorithms.offlinePartitionLeaderElection`. docs/kraft.md, sections 3,
 * 5 and 6.1; docs/sweeps.md shows that a sequence says all of them.
 */

/* Decide one partition. `need` is min ISR in force, or -1 where in-sync counts never equal it. */
TARGET static inline __attribute__((always_inline)) void NAME(decide)(
    const int32_t *sequence, const VEC *up, int flags, int n_clean, int n_blocking,
    int n_eligible, int n_unclean, int n_other, int need, int want, VEC *out)
{
    const VEC none = {0};
    const VEC all = ~none;
    const VEC *first = up + sequence[0];
    const VEC head = *first;
    const int has_leader = flags & SHAPE_HAS_LEADER;
    VEC clean = none, blocking = none, eligible = none, elected = none, unclean = none;
    VEC other = none;
    VEC moves = none, alone_is_at = none, alone_is_enough = none, enough = all, more = all;
    VEC at_least[66];
    int i, level, at = 1;
    const int counted = need < 0 ? 0 : need + 1;
    const int counts_isr = want & (WANT_UNDER | WANT_AT);
    if (counts_isr)
        for (i = 1; i <= counted; i++)
            at_least[i] = none;
    at_least[0] = all;
    if (counts_isr && (flags & SHAPE_LEADER_IN_ISR) && counted >= 1)
        at_least[1] = head;
#pragma GCC unroll 4
    for (i = 0; i < n_clean; i++, at++) {
        const VEC x = up[sequence[at]];
        clean |= x;
        if (counts_isr)
#pragma GCC unroll 8
            for (level = counted; level >= 1; level--)
                at_least[level] |= at_least[level - 1] & x;
    }
    for (i = 0; i < n_blocking; i++, at++) {
        const VEC x = up[sequence[at]];
        blocking |= x;
        if (counts_isr)
#pragma GCC unroll 8
            for (level = counted; level >= 1; level--)
                at_least[level] |= at_least[level - 1] & x;
    }
    for (i = 0; i < n_eligible; i++, at++)
        eligible |= up[sequence[at]];
    for (i = 0; i < n_unclean; i++, at++)
        unclean |= up[sequence[at]];
    for (i = 0; i < n_other; i++, at++)
        other |= up[sequence[at]];
    if (has_leader)
        moves = all;
    if (need == 1)
        alone_is_at = all;
    if (need <= 1)
        alone_is_enough = all;
    if (flags & SHAPE_ELECTS)
        elected = ~head & clean;
    const VEC nobody_in_sync = ~head & ~clean & ~blocking;
    const VEC by_force = nobody_in_sync & ~eligible & unclean;
    const VEC alone = nobody_in_sync & (eligible | unclean);
    const VEC chosen = elected | alone;
    VEC online = chosen, led = none;
    if (has_leader) {
        online |= head;
        led = head;
    }
    out[COUNT_OFFLINE] = ~online;
    if (want & WANT_MOVED)
        out[COUNT_MOVED] = chosen & moves;
    if (want & WANT_UNCLEAN)
        out[COUNT_UNCLEAN] = by_force;
    if (want & WANT_OFFLINE_IF_CLEAN) {
        VEC in_sync = blocking | eligible;
        if (!(flags & SHAPE_INITIAL))
            in_sync |= clean;
        if (flags & SHAPE_LEADER_IN_ISR)
            in_sync |= led;
        out[COUNT_OFFLINE_IF_CLEAN] = ~in_sync;
    }
    if (want & WANT_NO_LIVE_REPLICA) {
        VEC live = clean | eligible | unclean | other;
        if (flags & SHAPE_LEADER_ASSIGNED)
            live |= led;
        out[COUNT_NO_LIVE_REPLICA] = ~live;
    }
    if (counts_isr) {
        if (need >= 0) {
            enough = at_least[need];
            more = at_least[need + 1];
        }
        /* A leader that was not in the ISR is alone in it. */
        out[COUNT_UNDER] = ~online | (~enough & ~(alone & alone_is_enough));
        out[COUNT_AT] = online & ((enough & ~more & ~alone) | (alone & alone_is_at));
    }
}

/* Where the cells of a table have a value under a mask: bit i of a cell's number is set where the
 * broker at place i is down. */
TARGET static VEC NAME(look_up)(
    const int32_t *sequence, const VEC *up, int width, const uint16_t *table, int mask, int value)
{
    const VEC none = {0};
    VEC waiting[TABLE_WIDTH + 1];
    int i, level;
    for (i = 0; i < 1 << width; i++) {
        VEC x = (table[i] & mask) == value ? ~none : none;
        for (level = 0; i >> level & 1; level++) {
            const VEC alive = up[sequence[level]];
            x = (alive & waiting[level]) | (~alive & x);
        }
        waiting[level] = x;
    }
    return waiting[width];
}

/* Decide one partition of any shape. */
TARGET static inline __attribute__((always_inline)) void NAME(decide_any)(
    const int64_t *group, const int32_t *sequence, const uint16_t *tables, const VEC *up, int want,
    VEC *out)
{
    int m;
    if (!(group[0] & SHAPE_TABULATED)) {
        NAME(decide)(sequence, up, group[0], group[1], group[2], group[9], group[3], group[4],
                     group[5], want, out);
        return;
    }
    for (m = 0; m < COUNTS; m++)
        if (want >> m & 1)
            out[m] = NAME(look_up)(sequence, up, group[6], tables + group[10], 1 << m, 1 << m);
}

/* One vector's worth of counters: after m pairs of carries, the sum of all that was added. */
typedef struct {
    VEC ones, twos, fours;
    VEC plane[PLANES], pending[PLANES];
    uint64_t blocks;
} NAME(counter);

/* Add a carry of weight 8: planes hold binary digits, and each level waits for a second carry. */
TARGET static inline void NAME(carry_on)(NAME(counter) *c, VEC carry)
{
    uint64_t before = c->blocks++;
    int level = 3;
    while (before & 1) {
        const VEC a = c->plane[level], b = c->pending[level];
        c->plane[level] = XOR3(a, b, carry);
        carry = MAJORITY(a, b, carry);
        level++;
        before >>= 1;
    }
    c->pending[level] = carry;
}

/* Add eight bits per scenario to one counter. */
TARGET static inline __attribute__((always_inline)) VEC NAME(add_eight)(
    VEC *ones, VEC *twos, VEC *fours, const VEC *x)
{
    VEC a, b, c, d;
    a = MAJORITY(*ones, x[0], x[1]);
    *ones = XOR3(*ones, x[0], x[1]);
    b = MAJORITY(*ones, x[2], x[3]);
    *ones = XOR3(*ones, x[2], x[3]);
    c = MAJORITY(*twos, a, b);
    *twos = XOR3(*twos, a, b);
    a = MAJORITY(*ones, x[4], x[5]);
    *ones = XOR3(*ones, x[4], x[5]);
    b = MAJORITY(*ones, x[6], x[7]);
    *ones = XOR3(*ones, x[6], x[7]);
    d = MAJORITY(*twos, a, b);
    *twos = XOR3(*twos, a, b);
    a = MAJORITY(*fours, c, d);
    *fours = XOR3(*fours, c, d);
    return a;
}

/* Add what a counter holds to one count per scenario. */
TARGET static void NAME(read_counter)(const NAME(counter) *c, int64_t *counts)
{
    const int words = sizeof(VEC) / 8;
    const uint64_t *digits[2 * PLANES + 3];
    int weight[2 * PLANES + 3], n = 0, level, i, w, k;
    digits[n] = (const uint64_t *) &c->ones, weight[n++] = 0;
    digits[n] = (const uint64_t *) &c->twos, weight[n++] = 1;
    digits[n] = (const uint64_t *) &c->fours, weight[n++] = 2;
    for (level = 3; level < PLANES && c->blocks >> (level - 3); level++) {
        digits[n] = (const uint64_t *) &c->plane[level], weight[n++] = level;
        if (c->blocks >> (level - 3) & 1)
            digits[n] = (const uint64_t *) &c->pending[level], weight[n++] = level;
    }
    for (w = 0; w < words; w++)
        for (i = 0; i < n; i++) {
            const uint64_t word = digits[i][w];
            if (word)
                for (k = 0; k < 64; k++)
                    counts[64 * w + k] += (int64_t) (word >> k & 1) << weight[i];
        }
}

/* A shape that is common: the leader leads, all that are live are in sync or eligible, in one short
 * sequence.
 *
 * Everything but the data is a constant where this is inlined, so nothing is left of `decide` but
 * its logic. Here offline, offline if clean and no live replica are one count.
 */
TARGET static inline __attribute__((always_inline)) void NAME(count_simple)(
    const int32_t *sequence, int64_t n, const VEC *up, const int width, const int n_eligible,
    const int need, const int want, NAME(counter) *alone, NAME(counter) *counters)
{
    VEC o1 = alone->ones, o2 = alone->twos, o4 = alone->fours;
    NAME(counter) *u = counters + COUNT_UNDER, *m = counters + COUNT_MOVED;
    NAME(counter) *a = counters + COUNT_AT;
    VEC u1 = u->ones, u2 = u->twos, u4 = u->fours, m1 = m->ones, m2 = m->twos, m4 = m->fours;
    VEC a1 = a->ones, a2 = a->twos, a4 = a->fours;
    VEC offline[8], under[8], moved[8], at[8], out[COUNTS];
    int64_t i;
    int j;
    for (i = 0; i + 8 <= n; i += 8, sequence += 8 * width) {
#pragma GCC unroll 8
        for (j = 0; j < 8; j++) {
            NAME(decide)(sequence + j * width, up, SHAPE_SIMPLE, width - 1 - n_eligible, 0,
                         n_eligible, 0, 0, need, want, out);
            offline[j] = out[COUNT_OFFLINE];
            under[j] = out[COUNT_UNDER];
            moved[j] = out[COUNT_MOVED];
            if (want & WANT_AT)
                at[j] = out[COUNT_AT];
        }
        NAME(carry_on)(alone, NAME(add_eight)(&o1, &o2, &o4, offline));
        NAME(carry_on)(u, NAME(add_eight)(&u1, &u2, &u4, under));
        NAME(carry_on)(m, NAME(add_eight)(&m1, &m2, &m4, moved));
        if (want & WANT_AT)
            NAME(carry_on)(a, NAME(add_eight)(&a1, &a2, &a4, at));
    }
    alone->ones = o1, alone->twos = o2, alone->fours = o4;
    u->ones = u1, u->twos = u2, u->fours = u4;
    m->ones = m1, m->twos = m2, m->fours = m4;
    a->ones = a1, a->twos = a2, a->fours = a4;
}

/* Partitions of a common shape, but for the last few; returns how many were counted. */
TARGET static int64_t NAME(count_common)(
    const int64_t *group, const int32_t *sequence, const VEC *up, int want, NAME(counter) *alone,
    NAME(counter) *counters)
{
    const int64_t n = group[7];
    const int three = WANT_OFFLINE | WANT_UNDER | WANT_MOVED;
    if (group[0] != SHAPE_SIMPLE || group[2] + group[3] + group[4])
        return 0;
#define CASE(width, n_eligible, need)                                                            \
    if (group[6] == width && group[9] == n_eligible && group[5] == need) {                       \
        if (want & WANT_AT)                                                                      \
            NAME(count_simple)(sequence, n, up, width, n_eligible, need, three | WANT_AT, alone, \
                               counters);                                                        \
        else                                                                                     \
            NAME(count_simple)(sequence, n, up, width, n_eligible, need, three, alone,           \
                               counters);                                                        \
        return n & ~(int64_t) 7;                                                                 \
    }
    CASE(1, 0, 1)
    CASE(2, 0, 1)
    CASE(2, 0, 2)
    CASE(2, 1, 2)
    CASE(3, 0, 1)
    CASE(3, 0, 2)
    CASE(3, 1, 2)
    CASE(3, 2, 2)
    CASE(3, 0, 3)
    CASE(3, 1, 3)
    CASE(4, 0, 2)
    CASE(4, 0, 3)
#undef CASE
    return 0;
}

/* Partitions of any one shape: eight at a time into buffers, then into the counters asked for. */
TARGET static void NAME(count_shape)(
    const int64_t *group, const int32_t *sequence, const uint16_t *tables, const VEC *up, int want,
    int64_t begin, NAME(counter) *counters)
{
    const int width = group[6];
    const int64_t n = group[7];
    const VEC none = {0};
    VEC x[COUNTS][8], out[COUNTS];
    int64_t i;
    int j, m;
    memset(out, 0, sizeof out);
    for (i = begin; i < n; i += 8) {
        for (j = 0; j < 8; j++) {
            if (i + j < n)
                NAME(decide_any)(group, sequence + (i + j) * width, tables, up,
                                 want | WANT_OFFLINE, out);
            for (m = 0; m < COUNTS; m++)
                if (want >> m & 1)
                    x[m][j] = i + j < n ? out[m] : none;
        }
        for (m = 0; m < COUNTS; m++)
            if (want >> m & 1) {
                NAME(counter) *c = counters + m;
                NAME(carry_on)(c, NAME(add_eight)(&c->ones, &c->twos, &c->fours, x[m]));
            }
    }
}

/* Count one vector of scenarios; counts are (COUNTS, stride), `up` one vector per broker row. */
TARGET static void NAME(count_tile)(
    const int64_t *groups, int64_t n_groups, const int32_t *sequences, const uint16_t *tables,
    const uint64_t *up, int want, int64_t *counts, int64_t stride)
{
    NAME(counter) counters[COUNTS], alone;
    int64_t g, done;
    int m;
    memset(counters, 0, sizeof counters);
    memset(&alone, 0, sizeof alone);
    for (g = 0; g < n_groups; g++) {
        const int64_t *group = groups + g * GROUP_FIELDS;
        const int32_t *sequence = sequences + group[8];
        done = NAME(count_common)(group, sequence, (const VEC *) up, want, &alone, counters);
        NAME(count_shape)(group, sequence, tables, (const VEC *) up, want, done, counters);
    }
    for (m = 0; m < COUNTS; m++)
        if (want >> m & 1)
            NAME(read_counter)(counters + m, counts + m * stride);
    for (m = 0; m <= COUNT_NO_LIVE_REPLICA; m++)
        if (want >> m & 1)
            NAME(read_counter)(&alone, counts + m * stride);
}

/* How many of some brokers' partitions each broker leads, and which broker leads the most.
 *
 * `entry` lists, per depth and broker, who must be down for the broker to take a partition over:
 * `depth` brokers for each. What a broker leads from the start, it leads wherever it is up. Tables
 * say themselves where a broker leads.
 */
TARGET static void NAME(count_leaders)(
    const kfast_takeovers *t, const uint64_t *bits, int n, int32_t *most, int32_t *fullest,
    const int64_t *histogram_begin, int64_t *histogram)
{
    const int64_t n_brokers = t->n_brokers, *entry = t->entry;
    const int depths = t->depths;
    const VEC *up = (const VEC *) bits;
    const VEC none = {0};
    const int lanes = sizeof(VEC) * 8;
    int64_t b, i, digits[512];
    int d, j, k;
    for (k = 0; k < n; k++)
        most[k] = 0, fullest[k] = -1;
    for (b = 0; b < n_brokers; b++) {
        NAME(counter) c;
        VEC x[8];
        c.ones = c.twos = c.fours = none;
        c.blocks = 0;
        /* Only planes that the entries of this broker can reach are read. */
        for (i = depths + t->tabulated[b + 1] - t->tabulated[b], d = 1; d <= depths; d++)
            i += entry[(d - 1) * (n_brokers + 1) + b + 1] - entry[(d - 1) * (n_brokers + 1) + b];
        for (d = 3; d < PLANES && i >> (d - 3); d++)
            c.plane[d] = none;
        for (d = 1; d <= depths; d++) {
            const int64_t *range = entry + (d - 1) * (n_brokers + 1) + b;
            const int32_t *names = t->before + t->begin[d - 1];
            for (i = range[0]; i < range[1]; i += 8) {
                const int32_t *name = names + i * d;
                const int m = range[1] - i < 8 ? (int) (range[1] - i) : 8;
                if (d == 1 && m == 8)
                    for (j = 0; j < 8; j++)
                        x[j] = ~up[name[j]];
                else if (d == 2 && m == 8)
                    for (j = 0; j < 8; j++)
                        x[j] = ~(up[name[2 * j]] | up[name[2 * j + 1]]);
                else
                    for (j = 0; j < 8; j++) {
                        VEC any = none;
                        for (k = 0; j < m && k < d; k++)
                            any |= up[name[j * d + k]];
                        x[j] = j < m ? ~any : none;
                    }
                NAME(carry_on)(&c, NAME(add_eight)(&c.ones, &c.twos, &c.fours, x));
            }
        }
        for (j = 0; j < 8; j++)
            x[j] = none;
        for (i = t->tabulated[b]; i < t->tabulated[b + 1]; i++) {
            const int64_t *place = t->places + 4 * i;
            x[0] = NAME(look_up)(t->sequences + place[0], up, place[1], t->tables + place[2],
                                 0xff << TABLE_LEADER, place[3]);
            NAME(carry_on)(&c, NAME(add_eight)(&c.ones, &c.twos, &c.fours, x));
        }
        for (k = 0; k < lanes; k++)
            digits[k] = t->led[b];
        NAME(read_counter)(&c, digits);
        for (k = 0; k < n; k++) {
            const int alive = bits[b * (lanes / 64) + (k >> 6)] >> (k & 63) & 1;
            const int32_t count = alive ? (int32_t) digits[k] : 0;
            if (count > most[k])
                most[k] = count, fullest[k] = (int32_t) b;
            if (histogram && alive)
                histogram[histogram_begin[b] + count]++;
        }
    }
}

/* Add, for every partition of one shape, in how many of some scenarios it is offline or under. */
TARGET static void NAME(count_rows)(
    const int64_t *group, const int32_t *sequence, const uint16_t *tables, const uint64_t *bits,
    const uint64_t *counted, int64_t *offline, int64_t *under)
{
    const int width = group[6], words = sizeof(VEC) / 8;
    VEC out[COUNTS];
    int64_t i;
    int w;
    for (i = 0; i < group[7]; i++) {
        const uint64_t *found;
        NAME(decide_any)(group, sequence + i * width, tables, (const VEC *) bits,
                         WANT_OFFLINE | WANT_UNDER, out);
        found = (const uint64_t *) &out[COUNT_OFFLINE];
        for (w = 0; w < words; w++)
            offline[i] += KFAST_POPCOUNT(found[w] & counted[w]);
        found = (const uint64_t *) &out[COUNT_UNDER];
        for (w = 0; w < words; w++)
            under[i] += KFAST_POPCOUNT(found[w] & counted[w]);
    }
}
