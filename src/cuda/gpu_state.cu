#include "gpu_state.h"

#include <dlfcn.h>
#include <stdio.h>

// From nvml.h, whose values do not change between versions.
#define NVML_CLOCK_SM 1
#define NVML_CLOCK_MEM 2
#define NVML_FIELD_POWER_INSTANT 186
#define NVML_REASON_IDLE 0x1ull
#define NVML_REASON_CLOCKS_SETTING 0x2ull
#define NVML_REASON_POWER_CAP 0x4ull
#define NVML_REASON_HW_SLOWDOWN 0x8ull
#define NVML_REASON_SW_THERMAL 0x20ull
#define NVML_REASON_HW_THERMAL 0x40ull
#define NVML_REASON_POWER_BRAKE 0x80ull
#define NVML_REASON_THERMAL (NVML_REASON_SW_THERMAL | NVML_REASON_HW_THERMAL)

struct nvml_field_value {
    unsigned field, scope;
    long long timestamp, latency_us;
    int type, error;
    union {
        double d;
        unsigned u;
        unsigned long long ull;
    } value;
};

// 0 and -1 alike when the function is missing or fails: the value is then left as it was.
#define NVML_CALL(state, name, types, ...)                                                                             \
    ((state)->library && dlsym((state)->library, name) ? ((int(*) types)dlsym((state)->library, name))(__VA_ARGS__)    \
                                                       : -1)

bool gpu_state_open(struct gpu_state *s, const char *pci_bus_id)
{
    unsigned mhz = 0, mw = 0;
    *s = {};
    s->library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (NVML_CALL(s, "nvmlInit_v2", (void)) != 0 ||
        NVML_CALL(s, "nvmlDeviceGetHandleByPciBusId_v2", (const char *, void **), pci_bus_id, &s->device) != 0) {
        s->library = NULL;
        return false;
    }
    NVML_CALL(s, "nvmlSystemGetDriverVersion", (char *, unsigned), s->driver, sizeof s->driver);
    if (NVML_CALL(s, "nvmlDeviceGetMaxClockInfo", (void *, int, unsigned *), s->device, NVML_CLOCK_SM, &mhz) == 0)
        s->sm_clock_max_hz = mhz * 1e6;
    if (NVML_CALL(s, "nvmlDeviceGetMaxClockInfo", (void *, int, unsigned *), s->device, NVML_CLOCK_MEM, &mhz) == 0)
        s->memory_clock_hz = mhz * 1e6;
    if (NVML_CALL(s, "nvmlDeviceGetEnforcedPowerLimit", (void *, unsigned *), s->device, &mw) == 0)
        s->power_limit_w = mw * 1e-3;
    return true;
}

void gpu_state_read(const struct gpu_state *s, struct gpu_readings *r)
{
    struct nvml_field_value power = {};
    unsigned mw = 0, celsius = 0;
    unsigned long long reasons = 0;
    if (!s->library)
        return;
    power.field = NVML_FIELD_POWER_INSTANT;
    // The plain reading is an average over a second, far longer than most of what is timed here.
    if (NVML_CALL(s, "nvmlDeviceGetFieldValues", (void *, int, nvml_field_value *), s->device, 1, &power) == 0 &&
        power.error == 0)
        mw = power.value.u;
    else
        NVML_CALL(s, "nvmlDeviceGetPowerUsage", (void *, unsigned *), s->device, &mw);
    NVML_CALL(s, "nvmlDeviceGetTemperature", (void *, int, unsigned *), s->device, 0, &celsius);
    NVML_CALL(s, "nvmlDeviceGetCurrentClocksThrottleReasons", (void *, unsigned long long *), s->device, &reasons);
    r->count++;
    r->power_w_sum += mw * 1e-3;
    r->temperature_c = celsius;
    r->throttle |= reasons;
}

const char *gpu_throttle_name(const struct gpu_state *s, const struct gpu_readings *r)
{
    unsigned long long seen = r->throttle & ~NVML_REASON_IDLE;
    if (!s->library || r->count == 0)
        return "unknown";
    return seen & NVML_REASON_THERMAL          ? "thermal"
           : seen & NVML_REASON_POWER_BRAKE    ? "brake"
           : seen & NVML_REASON_HW_SLOWDOWN    ? "hardware"
           : seen & NVML_REASON_POWER_CAP      ? "power"
           : seen & NVML_REASON_CLOCKS_SETTING ? "clocks"
           : seen                              ? "other"
                                               : "none";
}

bool gpu_throttle_refuses(const struct gpu_readings *r)
{
    return r->throttle & (NVML_REASON_THERMAL | NVML_REASON_POWER_BRAKE | NVML_REASON_HW_SLOWDOWN);
}
