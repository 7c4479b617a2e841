/* Names of GPUs: which of them cannot be the GPU of a title. */
#include "fit/gpu_name.h"
#include "support/support.h"

static void names_are_held_against_titles(void **state)
{
    (void)state;
    static const struct {
        const char *name, *title;
        bool is_other;
    } names[] = {
        {"NVIDIA H100 80GB HBM3", "H100 SXM 80GB", false},
        {"NVIDIA H100 80GB HBM3", "H200 SXM 141GB", true},
        {"NVIDIA H100 80GB HBM3", "H100 PCIe 80GB", false}, /* it says no form */
        {"NVIDIA H100 PCIe", "H100 SXM 80GB", true},
        {"NVIDIA H100 PCIe", "H100 PCIe 80GB", false},
        {"NVIDIA H200 NVL", "H200 SXM 141GB", true}, /* a card */
        {"NVIDIA A100-SXM4-80GB", "A100 SXM 80GB", false},
        {"NVIDIA A100-SXM4-80GB", "A100 PCIe 80GB", true},
        {"NVIDIA A100-SXM4-40GB", "A100 SXM 80GB", true},
        {"NVIDIA A100-SXM4-80GB", "H200 SXM 141GB", true},
        {"NVIDIA B200", "B200 SXM 180GB", false},
        {"NVIDIA B200 192GB", "B200 SXM 180GB", false}, /* 6.7 % apart */
        {"NVIDIA GB200", "B200 SXM 180GB", true},
        {"NVIDIA GB300", "GB300 288GB", false},
        {"GB200 NVL72", "GB200 186GB", false}, /* a rack, not a card */
        {"h200-sxm", "H200 SXM 141GB", false},
        {"h200", "H200 SXM 141GB", false},
        {"GeForce RTX 2080 Ti", "H100 SXM 80GB", true}, /* no chip by our rule, and not this one */
        {"", "H100 SXM 80GB", false},
        {"NVIDIA H100", "my accelerator", false},
        {"NVIDIA H100", "", false},
    };
    for (size_t i = 0; i < SP_COUNT_OF(names); i++) {
        if (gpu_name_is_other(names[i].name, names[i].title) != names[i].is_other) {
            fail_msg("%s beside %s", names[i].name, names[i].title);
        }
    }
    assert_true(gpu_name_has_chip("a node of H20s and A40"));
    assert_false(gpu_name_has_chip("GeForce RTX 2080 Ti"));
    assert_false(gpu_name_has_chip("NVL72 SXM5 80GB"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_held_against_titles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
