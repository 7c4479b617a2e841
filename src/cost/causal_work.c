/* Work per rank and ring step under a mask, exact (docs/model.md, eq. 10-14). */
#include "cost/cost.h"

#include <assert.h>
#include <math.h>

static struct attention_block full(double query_rows, double key_rows)
{
    return (struct attention_block){.query_rows = query_rows, .key_rows = key_rows, .pairs = query_rows * key_rows};
}

static struct attention_block triangle(double rows)
{
    return (struct attention_block){
        .query_rows = rows, .key_rows = rows, .pairs = rows * (rows + 1) / 2, .is_causal = true};
}

static struct attention_block causal_block(const struct token_layout *layout, int64_t rank, int64_t step)
{
    double rows = layout->rows;
    bool is_earlier = step <= rank; /* the keys come from an earlier rank */
    switch (layout->order) {
    case ORDER_WHOLE:
        break;
    case ORDER_CONTIGUOUS:
        return is_earlier ? full(rows, rows) : (struct attention_block){0};
    case ORDER_ZIGZAG:
        /* From an earlier rank: all queries see its first chunk only. From a later rank: only the second half of the
         * queries sees anything, but sees all of it. */
        return is_earlier ? full(rows, rows / 2) : full(rows / 2, rows);
    case ORDER_STRIPED:
        return is_earlier ? triangle(rows) : triangle(rows - 1);
    }
    assert(!"a whole sequence has one step");
    return (struct attention_block){0};
}

struct attention_block ring_block(const struct token_layout *layout, int64_t rank, int64_t step)
{
    assert(rank >= 0 && rank < layout->ranks && step >= 0 && step < layout->ranks && layout->rows >= 1);
    if (layout->is_full) {
        return full(layout->rows, layout->rows);
    }
    /* step 0: a rank's own tokens are in order, so even two joined chunks are one lower triangle */
    return step == 0 ? triangle(layout->rows) : causal_block(layout, rank, step);
}

static double whole_pairs(const struct token_layout *layout)
{
    double tokens = layout->rows * (double)layout->ranks;
    if (layout->is_full) {
        return tokens * tokens;
    }
    if (layout->window > 0 && layout->window < tokens) {
        return tokens * layout->window - layout->window * (layout->window - 1) / 2;
    }
    return tokens * (tokens + 1) / 2;
}

double mean_pairs(const struct token_layout *layout)
{
    return whole_pairs(layout) / (double)layout->ranks;
}

struct attention_block whole_block(const struct token_layout *layout)
{
    double tokens = layout->rows * (double)layout->ranks;
    return (struct attention_block){
        .query_rows = tokens, .key_rows = tokens, .pairs = whole_pairs(layout), .is_causal = !layout->is_full};
}

static double causal_pairs(const struct token_layout *layout, int64_t rank)
{
    double p = (double)layout->ranks;
    double r = (double)rank;
    double rows = layout->rows;
    switch (layout->order) {
    case ORDER_WHOLE:
        break;
    case ORDER_CONTIGUOUS:
        return rows * rows * (r + 0.5) + rows / 2;
    case ORDER_ZIGZAG:
        return p * rows * rows / 2 + rows / 2;
    case ORDER_STRIPED:
        return p * rows * rows / 2 + rows / 2 * (2 * r + 2 - p);
    }
    return whole_pairs(layout);
}

struct attention_block rank_block(const struct token_layout *layout, int64_t rank)
{
    double tokens = layout->rows * (double)layout->ranks;
    bool is_mean = layout->is_full || (layout->window > 0 && layout->window < tokens);
    double pairs = is_mean ? mean_pairs(layout) : causal_pairs(layout, rank);
    return (struct attention_block){.query_rows = layout->rows, .key_rows = tokens, .pairs = pairs};
}
