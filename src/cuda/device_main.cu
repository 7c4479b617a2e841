// seqplan-device: what runs on a GPU. Kept apart from seqplan, which needs none.
#include "device_program.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"test",
     "every kernel against float64, every method against one GPU; TAP. --only TEXT, --seed N, --small (for a memory "
     "checker)",
     device_test},
    {"test-elementwise", "the element-wise kernels and matrix products against float64; TAP. --seed N",
     device_test_elementwise},
    {"bench-attention", "rates of the attention kernels. --help lists the options", device_bench_attention},
    {"measure", "measures the machine for seqplan. --help lists the options", device_measure},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fprintf(argc > 1 ? stderr : stdout, "usage: seqplan-device COMMAND [OPTIONS]\n");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        fprintf(argc > 1 ? stderr : stdout, "  %-17s %s\n", commands[i].name, commands[i].help);
    return argc > 1 ? 2 : 0;
}
