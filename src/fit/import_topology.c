/* The matrix of nvidia-smi topo -m: a heading of devices, a row for each with its paths to the others, then the CPUs and
 * the NUMA node next to it. Rows may be missing or wrapped; what one lacks, the row of the other device may say. */
#include "fit/import_internal.h"

#include <ctype.h>
#include <string.h>

const char *const topology_path_names[] = {"X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS", "?", NULL};
_Static_assert(SP_COUNT_OF(topology_path_names) == N_TOPOLOGY_PATHS + 1, "a name for each path");

enum { MOST_LINKS = 1000 };

struct device {
    const char *label; /* "GPU0", "NIC3", "mlx5_0" */
    bool is_gpu;
    int index; /* among its kind */
    bool has_row;
    int n_cells;
};

struct matrix {
    struct sp_arena *arena;
    struct import_result *result;
    struct device devices[TOPOLOGY_MOST_DEVICES];
    int n_devices;
    bool has_heading;
    int row; /* under way: it may go on in the next line; -1: none */
    int64_t n_rows;
    enum topology_path paths[TOPOLOGY_MOST_DEVICES][TOPOLOGY_MOST_DEVICES];
    int links[TOPOLOGY_MOST_DEVICES][TOPOLOGY_MOST_DEVICES];
    const char *affinities[TOPOLOGY_MOST_DEVICES];
};

/* ---- words ------------------------------------------------------------------------------------------------------ */

/* "X", "NV18", "SYS": false where the word is none of a matrix. */
static bool read_path(const char *word, enum topology_path *path, int *n_links)
{
    *n_links = 0;
    for (int i = 0; i < (int)TOPOLOGY_UNKNOWN; i++) {
        if (i != (int)TOPOLOGY_NVLINK && strcmp(word, topology_path_names[i]) == 0) {
            *path = (enum topology_path)i;
            return true;
        }
    }
    if (strcmp(word, "SOC") == 0) { /* as older drivers call it */
        *path = TOPOLOGY_SYS;
        return true;
    }
    int64_t count = 0;
    if (strncmp(word, "NV", 2) == 0 && import_integer(word + 2, &count) && count >= 1 && count <= MOST_LINKS) {
        *path = TOPOLOGY_NVLINK;
        *n_links = (int)count;
        return true;
    }
    return false;
}

static bool is_path(const char *word)
{
    enum topology_path path = TOPOLOGY_UNKNOWN;
    int n_links = 0;
    return read_path(word, &path, &n_links);
}

static bool is_gpu_label(const char *word)
{
    int64_t ignored = 0;
    return strncmp(word, "GPU", 3) == 0 && import_integer(word + 3, &ignored);
}

/* "GPU0", "NIC3", "mlx5_0" */
static bool is_label(const char *word)
{
    size_t length = strlen(word);
    return isalpha((unsigned char)word[0]) != 0 && isdigit((unsigned char)word[length - 1]) != 0;
}

/* Where the columns of devices end: "CPU Affinity", "NUMA Affinity", "GPU NUMA ID". */
static bool is_affinity_title(const char *word)
{
    return strcmp(word, "CPU") == 0 || strcmp(word, "NUMA") == 0 || strcmp(word, "Affinity") == 0 ||
           strcmp(word, "ID") == 0 || strcmp(word, "GPU") == 0;
}

static int find_device(const struct matrix *matrix, const char *label)
{
    for (int i = 0; i < matrix->n_devices; i++) {
        if (strcmp(matrix->devices[i].label, label) == 0) {
            return i;
        }
    }
    return -1;
}

/* ---- the heading ------------------------------------------------------------------------------------------------ */

static bool has_paths(const struct import_words *words)
{
    for (int i = 0; i < words->count; i++) {
        if (is_path(words->items[i])) {
            return true;
        }
    }
    return false;
}

static bool add_device(struct matrix *matrix, const char *label, struct sp_error *err)
{
    if (find_device(matrix, label) >= 0) {
        return sp_fail(err, SP_ERROR_INPUT, "%.40s is named twice: give the topology of one node in a file", label);
    }
    if (matrix->n_devices == TOPOLOGY_MOST_DEVICES) {
        return sp_fail(err, SP_ERROR_INPUT, "more than %d devices: expected the topology of one node",
                       (int)TOPOLOGY_MOST_DEVICES);
    }
    struct device *device = &matrix->devices[matrix->n_devices++];
    *device = (struct device){.label = label, .is_gpu = is_gpu_label(label)};
    for (int i = 0; i + 1 < matrix->n_devices; i++) {
        device->index += matrix->devices[i].is_gpu == device->is_gpu ? 1 : 0;
    }
    return true;
}

/* The columns; a wrapped heading goes on in the next line. */
static bool read_heading(struct matrix *matrix, const struct import_words *words, struct sp_error *err)
{
    for (int i = 0; i < words->count && !is_affinity_title(words->items[i]); i++) {
        if (!add_device(matrix, words->items[i], err)) {
            return false;
        }
    }
    matrix->has_heading = true;
    return true;
}

static bool is_heading(const struct matrix *matrix, const struct import_words *words)
{
    bool is_first = !matrix->has_heading && words->count > 0 && is_gpu_label(words->items[0]);
    bool is_second = matrix->has_heading && matrix->n_rows > 0 && words->count > 1 && is_gpu_label(words->items[0]) &&
                     (is_gpu_label(words->items[1]) || is_affinity_title(words->items[1]));
    bool goes_on = matrix->has_heading && matrix->n_rows == 0 && words->count > 0;
    for (int i = 0; i < words->count && goes_on; i++) {
        goes_on = is_label(words->items[i]) || is_affinity_title(words->items[i]);
    }
    return (is_first || is_second || goes_on) && !has_paths(words);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

/* Takes paths from the words on; what follows the last of them is the affinity. */
static void read_cells(struct matrix *matrix, const struct import_words *words, int at)
{
    struct device *device = &matrix->devices[matrix->row];
    struct sp_texts rest = {.arena = matrix->arena};
    while (at < words->count && device->n_cells < matrix->n_devices) {
        enum topology_path path = TOPOLOGY_UNKNOWN;
        int n_links = 0;
        if (!read_path(words->items[at], &path, &n_links)) {
            break;
        }
        matrix->paths[matrix->row][device->n_cells] = path;
        matrix->links[matrix->row][device->n_cells] = n_links;
        device->n_cells++;
        at++;
    }
    for (; at < words->count; at++) {
        sp_texts_add(&rest, "%s", words->items[at]);
    }
    if (rest.count > 0) {
        matrix->affinities[matrix->row] = sp_join(matrix->arena, rest.items, rest.count, " ");
    }
}

static bool begin_row(struct matrix *matrix, const struct import_words *words, struct sp_error *err)
{
    matrix->row = find_device(matrix, words->items[0]);
    struct device *device = &matrix->devices[matrix->row];
    if (device->has_row) {
        return sp_fail(err, SP_ERROR_INPUT, "%.40s has two rows: give the topology of one node in a file",
                       device->label);
    }
    device->has_row = true;
    matrix->n_rows++;
    read_cells(matrix, words, 1);
    return true;
}

static bool read_line(struct matrix *matrix, int64_t number, const char *line, struct sp_error *err)
{
    const struct import_words words = import_split(matrix->arena, line);
    if (words.count == 0 || words.items[0][0] == '#') {
        return true;
    }
    if (is_heading(matrix, &words)) {
        import_take(matrix->result, number, "heading");
        return read_heading(matrix, &words, err);
    }
    if (!matrix->has_heading) {
        return true;
    }
    if (words.count > 1 && find_device(matrix, words.items[0]) >= 0 && is_path(words.items[1])) {
        import_take(matrix->result, number, "row of %s", words.items[0]);
        return begin_row(matrix, &words, err);
    }
    bool is_short = matrix->row >= 0 && matrix->devices[matrix->row].n_cells < matrix->n_devices;
    if (is_short && is_path(words.items[0])) {
        import_take(matrix->result, number, "row of %s, continued", matrix->devices[matrix->row].label);
        read_cells(matrix, &words, 0);
    }
    return true;
}

/* ---- the legend of NICs ----------------------------------------------------------------------------------------- */

static void read_names(const struct import_text *text, const struct matrix *matrix, struct topology *topology)
{
    for (int i = 0; i < matrix->n_devices; i++) {
        const struct device *device = &matrix->devices[i];
        if (device->is_gpu) {
            topology->affinities[device->index] = matrix->affinities[i] == NULL ? "" : matrix->affinities[i];
            continue;
        }
        const char *mark = sp_format(matrix->arena, "%s:", device->label);
        topology->nic_names[device->index] = device->label;
        for (int64_t line = 0; line < text->n_lines; line++) {
            const struct import_words words = import_split(matrix->arena, text->lines[line]);
            if (words.count == 2 && strcmp(words.items[0], mark) == 0) {
                topology->nic_names[device->index] = words.items[1];
            }
        }
    }
}

/* ---- both halves of the matrix ---------------------------------------------------------------------------------- */

static bool has_cell(const struct matrix *matrix, int row, int column)
{
    return matrix->devices[row].has_row && column < matrix->devices[row].n_cells;
}

/* A path as both rows give it: they must agree, and one is enough. */
static bool join_cells(const struct matrix *matrix, int a, int b, enum topology_path *path, int *n_links,
                       struct sp_error *err)
{
    bool has_own = has_cell(matrix, a, b);
    bool has_other = has_cell(matrix, b, a);
    const char *name_a = matrix->devices[a].label;
    const char *name_b = matrix->devices[b].label;
    if (a == b && !has_own) { /* its row is lost; others may tell of it */
        *path = TOPOLOGY_SELF;
        *n_links = 0;
        return true;
    }
    if (!has_own && !has_other) {
        return sp_fail(err, SP_ERROR_INPUT,
                       "the path between %.40s and %.40s is missing: expected a row of one of them", name_a, name_b);
    }
    *path = has_own ? matrix->paths[a][b] : matrix->paths[b][a];
    *n_links = has_own ? matrix->links[a][b] : matrix->links[b][a];
    if (has_own && has_other &&
        (matrix->paths[a][b] != matrix->paths[b][a] || matrix->links[a][b] != matrix->links[b][a])) {
        return sp_fail(err, SP_ERROR_INPUT,
                       "the rows of %.40s and %.40s contradict each other about the path between them", name_a, name_b);
    }
    bool is_self = *path == TOPOLOGY_SELF;
    return is_self == (a == b) || sp_fail(err, SP_ERROR_INPUT, "%.40s to %.40s: expected %s: are columns missing?",
                                          name_a, name_b, a == b ? "X" : "a path, found X");
}

static bool fill_topology(const struct matrix *matrix, struct topology *topology, struct sp_error *err)
{
    for (int a = 0; a < matrix->n_devices; a++) {
        const struct device *from = &matrix->devices[a];
        topology->n_gpus += from->is_gpu ? 1 : 0;
        topology->n_nics += from->is_gpu ? 0 : 1;
        for (int b = 0; b < matrix->n_devices; b++) {
            const struct device *to = &matrix->devices[b];
            enum topology_path path = TOPOLOGY_UNKNOWN;
            int n_links = 0;
            if (!from->is_gpu) {
                continue; /* how NICs reach each other is of no concern */
            }
            if (!join_cells(matrix, a, b, &path, &n_links, err)) {
                return false;
            }
            if (to->is_gpu) {
                topology->gpu_paths[from->index][to->index] = path;
                topology->gpu_links[from->index][to->index] = n_links;
            } else {
                topology->nic_paths[from->index][to->index] = path;
            }
        }
    }
    return topology->n_gpus > 0 || sp_fail(err, SP_ERROR_INPUT, "no GPU in the heading");
}

static bool read_matrix(const struct import_text *text, struct matrix *matrix, struct topology *topology,
                        struct sp_error *err)
{
    for (int64_t i = 0; i < text->n_lines; i++) {
        if (!read_line(matrix, i + 1, text->lines[i], err)) {
            return false;
        }
    }
    if (!matrix->has_heading || matrix->n_rows == 0) {
        return sp_fail(err, SP_ERROR_INPUT,
                       "no matrix of GPUs in %lld line%s: expected what 'nvidia-smi topo -m' prints",
                       (long long)text->n_lines, sp_plural(text->n_lines));
    }
    if (!fill_topology(matrix, topology, err)) {
        return false;
    }
    read_names(text, matrix, topology);
    return true;
}

bool import_topology(struct sp_arena *arena, const struct import_text *text, struct topology *topology,
                     struct import_result *result, struct sp_error *err)
{
    struct matrix *matrix = sp_arena_alloc(arena, sizeof(*matrix));
    import_result_open(result, arena);
    matrix->arena = arena;
    matrix->result = result;
    matrix->row = -1;
    *topology = (struct topology){.n_gpus = 0};
    if (!read_matrix(text, matrix, topology, err)) {
        sp_error_prefix(err, "%s", text->name);
        return false;
    }
    return true;
}
