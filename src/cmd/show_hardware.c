#include "cmd/command.h"

#include <string.h>

/* ---- lists ------------------------------------------------------------------------------------------------------ */

enum { LIST_NAME, LIST_TITLE, LIST_DETAIL, N_LIST_COLUMNS };

/* A file that cannot be read is a row that says so: the others are still worth listing. */
static void add_broken(struct report_grid *grid, const char *name, const struct sp_error *err)
{
    report_grid_add(grid);
    report_grid_text(grid, LIST_NAME, "%s", name);
    report_grid_text(grid, LIST_TITLE, "cannot be read: %s", err->text);
}

static void add_hardware(struct report_grid *grid, const char *name, const struct hardware_spec *hardware)
{
    struct sp_arena *arena = grid->arena;
    const char *network = hardware->network.title == NULL ? "no network" : hardware->network.title;
    report_grid_add(grid);
    report_grid_text(grid, LIST_NAME, "%s", name);
    report_grid_text(grid, LIST_TITLE, "%s", hardware->title);
    report_grid_text(grid, LIST_DETAIL, "%.0f x %s (%s), %s; %s", hardware->node.gpus.value, hardware->gpu.title,
                     sp_quantity_print(arena, hardware->gpu.hbm_capacity.value, SP_BYTES), hardware->intra.title,
                     network);
}

bool show_hardware_list(const struct show_request *request, struct show_answer *answer, struct sp_error *err)
{
    static const struct report_column columns[N_LIST_COLUMNS] = {{.heading = "hardware", .key = "name"},
                                                                 {.heading = "title", .key = "title"},
                                                                 {.heading = "node", .key = "node"}};
    (void)err;
    struct sp_texts names = {.arena = request->arena};
    data_names(request->arena, "hardware", &names);
    report_grid_init(&answer->grid, request->arena, columns, N_LIST_COLUMNS);
    for (size_t i = 0; i < names.count; i++) {
        struct hardware_spec hardware = {.path = NULL};
        struct sp_error broken = {.kind = SP_ERROR_NONE};
        if (hardware_read(request->arena, names.items[i], NULL, &hardware, &broken)) {
            add_hardware(&answer->grid, names.items[i], &hardware);
        } else {
            add_broken(&answer->grid, names.items[i], &broken);
        }
    }
    return true;
}

/* A network is read the way estimate reads it: in place of a node's own. */
static bool read_network(struct sp_arena *arena, const char *name, struct hardware_spec *hardware, struct sp_error *err)
{
    struct sp_texts nodes = {.arena = arena};
    data_names(arena, "hardware", &nodes);
    if (data_find(arena, "hardware/networks", name, err) == NULL) {
        return false;
    }
    if (nodes.count == 0) {
        return sp_fail(err, SP_ERROR_INPUT, "no hardware files found beside the networks (SEQPLAN_PATH adds folders)");
    }
    return hardware_read(arena, nodes.items[0], name, hardware, err);
}

bool show_networks(const struct show_request *request, struct show_answer *answer, struct sp_error *err)
{
    static const struct report_column columns[N_LIST_COLUMNS] = {{.heading = "network", .key = "name"},
                                                                 {.heading = "title", .key = "title"},
                                                                 {.heading = "link", .key = "link"}};
    (void)err;
    struct sp_texts names = {.arena = request->arena};
    data_names(request->arena, "hardware/networks", &names);
    report_grid_init(&answer->grid, request->arena, columns, N_LIST_COLUMNS);
    for (size_t i = 0; i < names.count; i++) {
        struct hardware_spec hardware = {.path = NULL};
        struct sp_error broken = {.kind = SP_ERROR_NONE};
        if (!read_network(request->arena, names.items[i], &hardware, &broken)) {
            add_broken(&answer->grid, names.items[i], &broken);
            continue;
        }
        const struct network_spec *network = &hardware.network;
        report_grid_add(&answer->grid);
        report_grid_text(&answer->grid, LIST_NAME, "%s", names.items[i]);
        report_grid_text(&answer->grid, LIST_TITLE, "%s", network->title);
        report_grid_text(&answer->grid, LIST_DETAIL, "%s per adapter and direction, %s",
                         sp_quantity_print(request->arena, network->bandwidth.value, SP_BYTES_PER_S),
                         sp_quantity_print(request->arena, network->latency.value, SP_SECONDS));
    }
    report_grid_add(&answer->grid);
    report_grid_text(&answer->grid, LIST_NAME, "ideal");
    report_grid_text(&answer->grid, LIST_TITLE, "ideal");
    report_grid_text(&answer->grid, LIST_DETAIL,
                     "a link of the node's network rate per GPU for every pair, none shared");
    return true;
}

/* ---- one of them ------------------------------------------------------------------------------------------------ */

static void add_gemm_curve(struct report_grid *grid, const struct gemm_curve *curve)
{
    static const char *const paths[N_GEMM_PASSES] = {
        [PASS_FORWARD] = "gpu.gemm (forward)",
        [PASS_INPUT_GRADIENT] = "gpu.gemm (input gradient)",
        [PASS_WEIGHT_GRADIENT] = "gpu.gemm (weight gradient)",
    };
    for (int i = 0; i < (int)N_GEMM_PASSES; i++) {
        const struct show_curve row = {
            paths[i], "rate by contracted dimension", curve->n_points[i], curve->kind, curve->source, curve->note};
        show_values_curve(grid, &row);
    }
}

static void add_attention_curves(struct report_grid *grid, const struct gpu_spec *gpu)
{
    for (int i = 0; i < gpu->n_attention; i++) {
        const struct attention_curve *curve = &gpu->attention[i];
        int n_points = 0;
        for (int line = 0; line < curve->n_lines; line++) {
            n_points += curve->lines[line].n_points;
        }
        const struct show_curve row = {.path = sp_format(grid->arena, "gpu.attention (%s)", curve->kernel),
                                       .what = "rate by pass, mask, head_dim, heads and sequence",
                                       .n_points = n_points,
                                       .kind = curve->kind,
                                       .source = curve->source,
                                       .note = curve->note};
        show_values_curve(grid, &row);
    }
}

/* One row per operation; the lines of its ranks follow each other. */
static void add_collective_lines(struct report_grid *grid, const struct intra_spec *intra)
{
    int first = 0;
    while (first < intra->n_lines) {
        const struct collective_line *line = &intra->lines[first];
        int n_points = 0;
        const char *ranks = "";
        int next = first;
        for (; next < intra->n_lines && intra->lines[next].operation == line->operation; next++) {
            const char *comma = next == first ? "" : ", ";
            ranks = sp_format(grid->arena, "%s%s%lld", ranks, comma, (long long)intra->lines[next].ranks);
            n_points += intra->lines[next].curve.n_points;
        }
        const struct show_curve row = {
            .path = sp_format(grid->arena, "intra.tables (%s)", collective_names[line->operation]),
            .what = sp_format(grid->arena, "seconds by bytes, on %s ranks", ranks),
            .n_points = n_points,
            .kind = line->curve.kind,
            .source = line->curve.source,
            .note = line->curve.note,
        };
        show_values_curve(grid, &row);
        first = next;
    }
}

bool show_hardware(const struct show_request *request, struct show_answer *answer, struct sp_error *err)
{
    struct hardware_spec hardware = {.path = NULL};
    if (!hardware_read(request->arena, request->name, NULL, &hardware, err)) {
        return false;
    }
    const char *network = hardware.network.title == NULL ? "no network" : hardware.network.title;
    answer->title = sp_format(request->arena, "%s: %.0f x %s, %s; %s", hardware.title, hardware.node.gpus.value,
                              hardware.gpu.title, hardware.intra.title, network);
    show_values_init(request, &answer->grid);
    show_values_add(&answer->grid, hardware_fields, &hardware, NULL);
    add_gemm_curve(&answer->grid, &hardware.gpu.gemm);
    const struct time_curve *copy = &hardware.gpu.copy;
    const struct show_curve row = {"gpu.copy", "seconds by bytes", copy->n_points,
                                   copy->kind, copy->source,       copy->note};
    show_values_curve(&answer->grid, &row);
    add_attention_curves(&answer->grid, &hardware.gpu);
    add_collective_lines(&answer->grid, &hardware.intra);
    return true;
}

bool show_network(const struct show_request *request, struct show_answer *answer, struct sp_error *err)
{
    struct hardware_spec hardware = {.path = NULL};
    if (strcmp(request->name, "ideal") == 0) {
        return sp_fail(
            err, SP_ERROR_INPUT,
            "\"ideal\" has no figures of its own: it takes rate and latency of the node's network, and shares "
            "no link");
    }
    if (!read_network(request->arena, request->name, &hardware, err)) {
        return false;
    }
    answer->title = hardware.network.title;
    show_values_init(request, &answer->grid);
    show_values_add(&answer->grid, hardware_fields, &hardware, "network");
    return true;
}
