/* What nvidia-smi topo -m says of a node: every matrix that was collected, as the hardware file that comes of it, and what
 * the file cannot say; matrices that are wrapped, partial or contradict themselves. */
#include "support/import_logs.h"
#include "support/support.h"

#include <string.h>

struct fixture {
    struct sp_arena *arena;
    char *folder;
};

static int open_fixture(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.arena = sp_arena_open(), .folder = temp_folder_open()};
    *state = &fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    temp_folder_close(fixture->folder);
    sp_arena_close(fixture->arena);
    return 0;
}

static bool try_read(struct sp_arena *arena, const struct import_text *text, struct topology *topology,
                     struct sp_error *err)
{
    struct import_result result;
    enum import_kind kind = N_IMPORT_KINDS;
    *err = (struct sp_error){0};
    return import_recognise(text, &kind, err) && kind == IMPORT_TOPOLOGY &&
           import_topology(arena, text, topology, &result, err);
}

static struct topology *read_topology(struct sp_arena *arena, const struct import_text *text)
{
    struct topology *topology = sp_arena_alloc(arena, sizeof(*topology));
    struct sp_error err;
    if (!try_read(arena, text, topology, &err)) {
        fail_msg("%s", err.text);
    }
    return topology;
}

static void refuse(struct sp_arena *arena, const char *matrix, const char *reason)
{
    struct topology *topology = sp_arena_alloc(arena, sizeof(*topology));
    const struct import_text text = import_log_lines(arena, matrix);
    struct sp_error err;
    if (try_read(arena, &text, topology, &err)) {
        fail_msg("not refused, expected: %s", reason);
    }
    assert_int_equal(err.kind, SP_ERROR_INPUT);
    assert_error_contains(&err, reason);
}

/* The hardware file of a topology, read as --hardware reads it. */
static struct hardware_spec *make_node(const struct fixture *fixture, const struct topology *topology, const char *gpu,
                                       struct sp_texts *warnings)
{
    struct sp_arena *arena = fixture->arena;
    const struct import_node_given given = {.gpu = gpu, .name = "mine", .source = "nvidia-smi topo -m (a test)"};
    struct sp_error err = {0};
    const char *text = import_node_text(arena, topology, &given, warnings, &err);
    if (text == NULL) {
        fail_msg("%s", err.text);
    }
    struct hardware_spec *hardware = sp_arena_alloc(arena, sizeof(*hardware));
    const char *path = temp_file(arena, fixture->folder, "mine.json", text, strlen(text));
    if (!hardware_read(arena, path, NULL, hardware, &err)) {
        fail_msg("%s", err.text);
    }
    return hardware;
}

static bool warns(const struct sp_texts *warnings, const char *part)
{
    for (size_t i = 0; i < warnings->count; i++) {
        if (strstr(warnings->items[i], part) != NULL) {
            return true;
        }
    }
    return false;
}

/* ---- the collected matrices ------------------------------------------------------------------------------------- */

/* By hand from each matrix. Rate of a GPU's links: 25 GB/s a link of NVLink 3 and 4, 50 of NVLink 5; without a switch the
 * links of a GPU add up (4 + 4 + 4 of the mesh of four), with one each pair shows all of them. Over PCIe 0.583 of the
 * card's 55.4 GB/s. */
static const struct {
    const char *file, *gpu;
    int gpus, domain, nics;
    const char *medium;
    bool is_direct;
    double bytes_per_s;
    const char *warning; /* one of them, or NULL */
} nodes[] = {
    {"2gpu_nv2_bridge", "h100-pcie", 2, 2, 0, "nvlink", true, 50e9, "2 of the 18 NVLinks of h100-pcie are in use"},
    {"2gpu_phb_pcie", "h100-pcie", 2, 2, 0, "pcie", false, 32.2982e9, "no collective was measured on such links"},
    {"4gpu_pcie_5nic_epyc", "h100-pcie", 4, 4, 5, "pcie", false, 32.2982e9, "paths over PCIe differ (NODE, SYS)"},
    {"a100_4gpu_nv4_polaris", "a100-sxm-80", 4, 4, 2, "nvlink", true, 300e9, "GPU0, GPU2 have no NIC near"},
    {"a100_pcie_4gpu_2x_nv12_bridge", "a100-pcie-80", 4, 2, 4, "nvlink", true, 300e9, NULL},
    {"a100_pcie_8gpu_4x_nv12_bridge", "a100-pcie-80", 8, 2, 8, "nvlink", true, 300e9,
     "paths over PCIe differ (NODE, SYS)"},
    {"a100_sxm_8gpu_nonic", "a100-sxm-80", 8, 8, 0, "nvlink", false, 300e9, "its measured collectives are taken over"},
    {"a4000_4gpu_node", "h100-pcie", 4, 4, 0, "pcie", false, 32.2982e9, NULL},
    {"b200_dgx_8gpu_16nic", "b200-sxm", 8, 8, 8, "nvlink", false, 900e9,
     "8 of 16 NICs are farther from every GPU and left out: mlx5_0, mlx5_1, mlx5_2, mlx5_3, mlx5_5, mlx5_6, mlx5_11, "
     "mlx5_12"},
    {"h100_sxm_8gpu_12nic_gpurows", "h100-sxm", 8, 8, 8, "nvlink", false, 450e9,
     "4 of 12 NICs are farther from every GPU and left out: NIC1, NIC2, NIC7, NIC8"},
    {"h100_sxm_8gpu_nonic", "h100-sxm", 8, 8, 0, "nvlink", false, 450e9, "its measured collectives are taken over"},
    {"h20_8gpu_8nic_partial", "h100-sxm", 8, 8, 8, "nvlink", false, 450e9, "which network its 8 NICs are on"},
    {"l40_4gpu_pcie_2nic", "h100-pcie", 4, 4, 2, "pcie", false, 32.2982e9, "paths over PCIe differ (NODE, SYS)"},
    {"v100_sxm2_4gpu_nv2_1hca", "a100-sxm-40", 4, 4, 1, "nvlink", true, 150e9,
     "6 of the 12 NVLinks of a100-sxm-40 are in use"},
};

static void every_collected_matrix_is_a_node(void **state)
{
    const struct fixture *fixture = *state;
    for (size_t i = 0; i < SP_COUNT_OF(nodes); i++) {
        const struct import_text text =
            import_log_text(fixture->arena, sp_format(fixture->arena, "topo/%s.txt", nodes[i].file));
        struct sp_texts warnings = {.arena = fixture->arena};
        const struct topology *topology = read_topology(fixture->arena, &text);
        const struct hardware_spec *node = make_node(fixture, topology, nodes[i].gpu, &warnings);
        assert_int_equal(node->node.gpus.value, nodes[i].gpus);
        assert_int_equal(node->node.nvlink_domain.value, nodes[i].domain);
        assert_int_equal(node->node.nics.value, nodes[i].nics);
        assert_string_equal(node->intra.medium, nodes[i].medium);
        assert_int_equal(node->intra.has_direct_links, nodes[i].is_direct);
        assert_close(node->intra.bandwidth.value, nodes[i].bytes_per_s, 1e-12);
        assert_int_equal(node->network.is_inside_node, nodes[i].domain < nodes[i].gpus);
        if (nodes[i].warning != NULL && !warns(&warnings, nodes[i].warning)) {
            fail_msg("%s: expected the warning '%s'", nodes[i].file, nodes[i].warning);
        }
    }
    assert_int_equal(SP_COUNT_OF(nodes), 14);
}

/* The links of eight H100 behind switches are those of the shipped nodes, tables and all. */
static void measured_collectives_come_along(void **state)
{
    const struct fixture *fixture = *state;
    const struct import_text text = import_log_text(fixture->arena, "topo/h100_sxm_8gpu_nonic.txt");
    struct sp_texts warnings = {.arena = fixture->arena};
    const struct hardware_spec *node = make_node(fixture, read_topology(fixture->arena, &text), "h100-sxm", &warnings);
    struct hardware_spec *shipped = sp_arena_alloc(fixture->arena, sizeof(*shipped));
    struct sp_error err = {0};
    assert_true(hardware_read(fixture->arena, "dgx-h100", NULL, shipped, &err));
    assert_true(shipped->intra.n_lines > 7);
    assert_int_equal(node->intra.n_lines, shipped->intra.n_lines);
    for (int i = 0; i < node->intra.n_lines; i++) {
        const struct collective_line *line = &node->intra.lines[i];
        assert_int_equal(line->curve.n_points, shipped->intra.lines[i].curve.n_points);
        int last = line->curve.n_points - 1;
        assert_close(line->curve.log_seconds[last], shipped->intra.lines[i].curve.log_seconds[last], 0);
    }
}

/* 4 x 350 W and 500 W of the host; 256 GB a GPU. PCIe between the pairs has the card's own rate. */
static void what_a_matrix_leaves_out_is_assumed_and_says_so(void **state)
{
    const struct fixture *fixture = *state;
    const struct import_text text = import_log_text(fixture->arena, "topo/a100_pcie_4gpu_2x_nv12_bridge.txt");
    struct sp_texts warnings = {.arena = fixture->arena};
    const struct hardware_spec *node = make_node(fixture, read_topology(fixture->arena, &text), "h100-pcie", &warnings);
    assert_close(node->node.power.value, 1900, 0);
    assert_close(node->node.host_memory.value, 1024e9, 0);
    assert_int_equal(node->node.power.kind, SP_FIGURE_ASSUMED);
    assert_int_equal(node->node.host_memory.kind, SP_FIGURE_ASSUMED);
    assert_close(node->network.bandwidth.value, 55.4e9, 1e-12);
    assert_close(node->network.efficiency.low, 0.34, 0);
    assert_close(node->network.efficiency.high, 1, 0);
    assert_string_equal(node->name, "mine");
    assert_int_equal(node->intra.n_lines > 0, true); /* as h100-pcie-4 */
}

/* Two sets of four, each GPU with 4 links to each of the other three: 12 links of 25 GB/s. */
static void two_quads(void **state)
{
    const struct fixture *fixture = *state;
    struct sp_arena *arena = fixture->arena;
    struct sp_texts rows = {.arena = arena};
    sp_texts_add(&rows, " GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6 GPU7");
    for (int a = 0; a < 8; a++) {
        const char *row = sp_format(arena, "GPU%d", a);
        for (int b = 0; b < 8; b++) {
            row = sp_format(arena, "%s %s", row, a == b ? "X" : a / 4 == b / 4 ? "NV4" : "SYS");
        }
        sp_texts_add(&rows, "%s", row);
    }
    const struct import_text text = import_log_lines(arena, sp_join(arena, rows.items, rows.count, "\n"));
    struct sp_texts warnings = {.arena = arena};
    const struct hardware_spec *node = make_node(fixture, read_topology(arena, &text), "a100-sxm-40", &warnings);
    assert_int_equal(node->node.gpus.value, 8);
    assert_int_equal(node->node.nvlink_domain.value, 4);
    assert_true(node->intra.has_direct_links);
    assert_close(node->intra.bandwidth.value, 300e9, 1e-12);
    assert_true(node->network.is_inside_node);
    assert_int_equal(hardware_largest_cluster(node), 8);
}

static void tray_may_be_part_of_a_larger_domain(void **state)
{
    const struct fixture *fixture = *state;
    const struct import_text text = import_log_lines(fixture->arena, "     GPU0 GPU1 GPU2 GPU3\n"
                                                                     "GPU0 X NV18 NV18 NV18\n"
                                                                     "GPU1 NV18 X NV18 NV18\n"
                                                                     "GPU2 NV18 NV18 X NV18\n"
                                                                     "GPU3 NV18 NV18 NV18 X\n");
    struct sp_texts warnings = {.arena = fixture->arena};
    const struct hardware_spec *node = make_node(fixture, read_topology(fixture->arena, &text), "gb200", &warnings);
    assert_int_equal(node->node.nvlink_domain.value, 4);
    assert_true(warns(&warnings, "NVLink joins 72 over several nodes; set node.nvlink_domain"));
}

/* ---- what the schema cannot say --------------------------------------------------------------------------------- */

static const struct sp_texts *warnings_of(const struct fixture *fixture, const char *matrix, const char *gpu)
{
    const struct import_text text = import_log_lines(fixture->arena, matrix);
    struct sp_texts *warnings = sp_arena_alloc(fixture->arena, sizeof(*warnings));
    warnings->arena = fixture->arena;
    (void)make_node(fixture, read_topology(fixture->arena, &text), gpu, warnings);
    return warnings;
}

static void uneven_domains_are_named(void **state)
{
    const struct sp_texts *warnings = warnings_of(*state,
                                                  " GPU0 GPU1 GPU2 GPU3\nGPU0 X NV12 SYS SYS\nGPU1 NV12 X SYS SYS\n"
                                                  "GPU2 SYS SYS X PHB\nGPU3 SYS SYS PHB X\n",
                                                  "a100-pcie-80");
    assert_true(warns(warnings, "sets of different sizes (GPU0, GPU1 | GPU2 | GPU3)"));
}

static void scattered_domains_are_named(void **state)
{
    const struct sp_texts *warnings = warnings_of(*state,
                                                  " GPU0 GPU1 GPU2 GPU3\nGPU0 X SYS NV12 SYS\nGPU1 SYS X SYS NV12\n"
                                                  "GPU2 NV12 SYS X SYS\nGPU3 SYS NV12 SYS X\n",
                                                  "a100-pcie-80");
    assert_true(warns(warnings, "no neighbours (GPU0, GPU2 | GPU1, GPU3)"));
    assert_true(warns(warnings, "CUDA_VISIBLE_DEVICES"));
}

static void uneven_links_are_named(void **state)
{
    const struct sp_texts *warnings =
        warnings_of(*state, " GPU0 GPU1 GPU2\nGPU0 X NV1 NV2\nGPU1 NV1 X NV2\nGPU2 NV2 NV2 X\n", "a100-sxm-40");
    assert_true(warns(warnings, "pairs have from 1 to 2 NVLinks"));
    assert_true(warns(warnings, "3 of the 12 NVLinks of a100-sxm-40 are in use"));
}

static void nics_beside_pcie_between_domains_are_named(void **state)
{
    const struct sp_texts *warnings = warnings_of(*state,
                                                  " GPU0 GPU1 GPU2 GPU3 NIC0\nGPU0 X NV12 SYS SYS PIX\n"
                                                  "GPU1 NV12 X SYS SYS PIX\nGPU2 SYS SYS X NV12 SYS\n"
                                                  "GPU3 SYS SYS NV12 X SYS\n",
                                                  "a100-pcie-80");
    assert_true(warns(warnings, "its 1 NIC cannot stand beside it"));
    assert_true(warns(warnings, "GPU2, GPU3 have no NIC near"));
}

static void gpu_with_too_few_links_is_another_one(void **state)
{
    const struct fixture *fixture = *state;
    const struct import_text text = import_log_text(fixture->arena, "topo/h100_sxm_8gpu_nonic.txt");
    const struct import_node_given given = {.gpu = "a100-sxm-80", .name = "mine", .source = "a test"};
    struct sp_texts warnings = {.arena = fixture->arena};
    struct sp_error err = {0};
    assert_null(import_node_text(fixture->arena, read_topology(fixture->arena, &text), &given, &warnings, &err));
    assert_error_contains(&err, "NV18: a100-sxm-80 has 12 NVLinks: name the GPU of this node");
    const struct import_node_given unknown = {.gpu = "h100-sxn", .name = "mine", .source = "a test"};
    assert_null(import_node_text(fixture->arena, read_topology(fixture->arena, &text), &unknown, &warnings, &err));
    assert_error_contains(&err, "h100-sxm");
}

/* ---- the matrix ------------------------------------------------------------------------------------------------- */

static void names_affinities_and_paths_are_read(void **state)
{
    const struct fixture *fixture = *state;
    const struct import_text text = import_log_text(fixture->arena, "topo/b200_dgx_8gpu_16nic.txt");
    const struct topology *topology = read_topology(fixture->arena, &text);
    assert_int_equal(topology->n_gpus, 8);
    assert_int_equal(topology->n_nics, 16);
    assert_string_equal(topology->nic_names[13], "mlx5_13");
    assert_int_equal(topology->nic_paths[5][13], TOPOLOGY_PXB);
    assert_int_equal(topology->nic_paths[5][12], TOPOLOGY_NODE);
    assert_int_equal(topology->nic_paths[5][0], TOPOLOGY_SYS);
    assert_int_equal(topology->gpu_links[2][7], 18);
    assert_int_equal(topology->gpu_paths[2][2], TOPOLOGY_SELF);
    assert_string_equal(topology->affinities[6], "56-111,168-223 1 N/A");
}

/* A terminal has broken the heading and the rows; GPU2's own row is lost, the others say the same of it. */
static void wrapped_and_partial_matrix(void **state)
{
    const struct fixture *fixture = *state;
    const struct import_text text = import_log_lines(fixture->arena, "\x1b[4m        GPU0  GPU1  GPU2\n"
                                                                     "        mlx5_0  CPU Affinity\x1b[0m\n"
                                                                     "GPU0     X    NV6\n"
                                                                     "   NV6   PIX   0-30\n"
                                                                     "GPU1    NV6   X   NV6\n"
                                                                     "SYS   31-60\n"
                                                                     "mlx5_0  PIX   SOC   PHB   X\n");
    const struct topology *topology = read_topology(fixture->arena, &text);
    assert_int_equal(topology->n_gpus, 3);
    assert_int_equal(topology->n_nics, 1);
    assert_int_equal(topology->gpu_links[0][2], 6);
    assert_int_equal(topology->gpu_links[2][1], 6);
    assert_int_equal(topology->nic_paths[2][0], TOPOLOGY_PHB);
    assert_string_equal(topology->affinities[0], "0-30");
    assert_string_equal(topology->affinities[1], "31-60");
}

static void matrices_that_are_no_use(void **state)
{
    const struct fixture *fixture = *state;
    struct sp_arena *arena = fixture->arena;
    refuse(arena, " GPU0 GPU1 GPU2\nGPU0 X NV6 NV6\n", "the path between GPU1 and GPU2 is missing");
    refuse(arena, " GPU0 GPU1\nGPU0 X NV6\nGPU1 NV4 X\n", "GPU0 and GPU1 contradict each other");
    refuse(arena, " GPU0 GPU1\nGPU0 X X\nGPU1 X X\n", "expected a path, found X");
    refuse(arena, " GPU0 GPU1\nGPU0 NV6 X\nGPU1 X NV6\n", "GPU0 to GPU0: expected X");
    refuse(arena, " GPU0 GPU1\nGPU0 X NV6\nGPU1 NV6 X\n GPU0 GPU1\nGPU0 X NV6\nGPU1 NV6 X\n", "GPU0 is named twice");
    refuse(arena, " GPU0 GPU1\nGPU0 X NV6\nGPU0 X NV6\n", "GPU0 has two rows");
    refuse(arena, "GPU0 X NV6\nGPU1 NV6 X\n", "no matrix of GPUs in 2 lines");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        TEST(every_collected_matrix_is_a_node),
        TEST(measured_collectives_come_along),
        TEST(what_a_matrix_leaves_out_is_assumed_and_says_so),
        TEST(two_quads),
        TEST(tray_may_be_part_of_a_larger_domain),
        TEST(uneven_domains_are_named),
        TEST(scattered_domains_are_named),
        TEST(uneven_links_are_named),
        TEST(nics_beside_pcie_between_domains_are_named),
        TEST(gpu_with_too_few_links_is_another_one),
        TEST(names_affinities_and_paths_are_read),
        TEST(wrapped_and_partial_matrix),
        TEST(matrices_that_are_no_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
