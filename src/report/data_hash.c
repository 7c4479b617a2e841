#include "report/report.h"

#include <errno.h>
#include <string.h>

uint64_t report_fnv1a(const char *text)
{
    return sp_fnv1a(SP_FNV1A_BASIS, text, strlen(text));
}

/* What a question is read from, in the order of report_data_hash(). */
enum { KIND_MODEL, KIND_HARDWARE, KIND_GPU, KIND_NETWORK, KIND_FRAMEWORK, KIND_KERNELS, KIND_LOSS, N_KINDS };
static const char *const kinds[N_KINDS] = {
    [KIND_MODEL] = "models",           [KIND_HARDWARE] = "hardware",
    [KIND_GPU] = "hardware/gpus",      [KIND_NETWORK] = "hardware/networks",
    [KIND_FRAMEWORK] = "frameworks",   [KIND_KERNELS] = "frameworks/kernels",
    [KIND_LOSS] = "frameworks/losses",
};

bool report_hash_file(uint64_t *hash, const char *path, struct sp_error *err)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
    }
    char buffer[4096];
    size_t n_read = fread(buffer, 1, sizeof(buffer), file);
    while (n_read > 0) {
        *hash = sp_fnv1a(*hash, buffer, n_read);
        n_read = fread(buffer, 1, sizeof(buffer), file);
    }
    bool has_failed = ferror(file) != 0;
    (void)fclose(file);
    return !has_failed || sp_fail(err, SP_ERROR_INPUT, "%s: cannot be read", path);
}

const char *report_data_hash(struct sp_arena *arena, const struct question *question, struct sp_error *err)
{
    const struct hardware_spec *hardware = &question->hardware;
    const struct software_spec *software = &question->software;
    const char *const names[N_KINDS] = {
        [KIND_MODEL] = question->model.path,
        [KIND_HARDWARE] = hardware->path,
        [KIND_GPU] = hardware->gpu.name,
        [KIND_NETWORK] = hardware->network.name,
        [KIND_FRAMEWORK] = software->framework.name,
        [KIND_KERNELS] = software->kernels.name,
        [KIND_LOSS] = software->loss.name,
    };
    uint64_t hash = SP_FNV1A_BASIS;
    for (int i = 0; i < N_KINDS; i++) {
        /* What is no file of its own stands in the hardware file, or is "ideal". */
        struct sp_error ignored = {0};
        const char *path = names[i] == NULL ? NULL : data_find(arena, kinds[i], names[i], &ignored);
        hash = sp_fnv1a(hash, kinds[i], strlen(kinds[i]) + 1);
        if (path == NULL && names[i] != NULL) {
            hash = sp_fnv1a(hash, names[i], strlen(names[i]) + 1);
        }
        if (path != NULL && !report_hash_file(&hash, path, err)) {
            return NULL;
        }
    }
    return sp_format(arena, "%016llx", (unsigned long long)hash);
}

bool report_hash_all(struct sp_arena *arena, uint64_t *hash, struct sp_error *err)
{
    for (int i = 0; i < N_KINDS; i++) {
        struct sp_texts names = {.arena = arena};
        data_names(arena, kinds[i], &names);
        for (size_t at = 0; at < names.count; at++) {
            const char *path = data_find(arena, kinds[i], names.items[at], err);
            *hash = sp_fnv1a(*hash, names.items[at], strlen(names.items[at]) + 1);
            if (path == NULL || !report_hash_file(hash, path, err)) {
                return false;
            }
        }
    }
    return true;
}
