/* Causal work per rank and ring step, exact (docs/model.md, eq. 10-13). */
#include "cost/cost.h"

#include <assert.h>

static struct attention_block skipped(void)
{
    return (struct attention_block){0};
}

static struct attention_block full(double query_rows, double key_rows)
{
    return (struct attention_block){.query_rows = query_rows, .key_rows = key_rows, .pairs = query_rows * key_rows};
}

static struct attention_block triangle(double rows)
{
    return (struct attention_block){.query_rows = rows, .key_rows = rows, .pairs = rows * (rows + 1) / 2, .is_causal = true};
}

static struct attention_block zigzag_block(int64_t rank, int64_t step, double rows)
{
    if (step == 0) {
        return triangle(rows); /* both chunks joined: still one lower triangle */
    }
    /* Keys from an earlier rank: all queries see its first chunk only. From a later rank: only the second half of the
     * queries sees anything, but sees all of it. */
    return step <= rank ? full(rows, rows / 2) : full(rows / 2, rows);
}

struct attention_block ring_block(enum token_order order, int64_t ranks, int64_t rank, int64_t step, double rows)
{
    assert(ranks >= 1 && rank >= 0 && rank < ranks && step >= 0 && step < ranks && rows >= 1);
    switch (order) {
    case ORDER_WHOLE:
        return step == 0 ? triangle(rows) : skipped();
    case ORDER_CONTIGUOUS:
        if (step == 0) {
            return triangle(rows);
        }
        return step <= rank ? full(rows, rows) : skipped();
    case ORDER_ZIGZAG:
        return zigzag_block(rank, step, rows);
    case ORDER_STRIPED:
        return step <= rank ? triangle(rows) : triangle(rows - 1);
    }
    assert(!"token order");
    return skipped();
}

double causal_pairs(enum token_order order, int64_t ranks, int64_t rank, double rows)
{
    double p = (double)ranks;
    double r = (double)rank;
    switch (order) {
    case ORDER_WHOLE:
        return rows * (rows + 1) / 2;
    case ORDER_CONTIGUOUS:
        return rows * rows * (r + 0.5) + rows / 2;
    case ORDER_ZIGZAG:
        return p * rows * rows / 2 + rows / 2;
    case ORDER_STRIPED:
        return p * rows * rows / 2 + rows / 2 * (2 * r + 2 - p);
    }
    assert(!"token order");
    return 0;
}
