#include "report/report.h"

#include <errno.h>
#include <string.h>

uint64_t report_fnv1a(const char *text)
{
    return sp_fnv1a(SP_FNV1A_BASIS, text, strlen(text));
}

static bool hash_file(uint64_t *hash, const char *path, struct sp_error *err)
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
    const struct {
        const char *kind;
        const char *name;
    } files[] = {
        {"models", question->model.path},           {"hardware", hardware->path},
        {"hardware/gpus", hardware->gpu.name},      {"hardware/networks", hardware->network.name},
        {"frameworks", software->framework.name},   {"frameworks/kernels", software->kernels.name},
        {"frameworks/losses", software->loss.name},
    };
    uint64_t hash = SP_FNV1A_BASIS;
    for (size_t i = 0; i < SP_COUNT_OF(files); i++) {
        /* What is no file of its own stands in the hardware file, or is "ideal". */
        struct sp_error ignored = {0};
        const char *path = files[i].name == NULL ? NULL : data_find(arena, files[i].kind, files[i].name, &ignored);
        hash = sp_fnv1a(hash, files[i].kind, strlen(files[i].kind) + 1);
        if (path == NULL && files[i].name != NULL) {
            hash = sp_fnv1a(hash, files[i].name, strlen(files[i].name) + 1);
        }
        if (path != NULL && !hash_file(&hash, path, err)) {
            return NULL;
        }
    }
    return sp_format(arena, "%016llx", (unsigned long long)hash);
}
