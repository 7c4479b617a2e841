// Clocks, power, temperature and what throttles a GPU, from the driver's management library (NVML), which is opened when
// the program runs: building needs neither its header nor the library, and without it the values are 0 and "unknown".
#ifndef SEQPLAN_CUDA_GPU_STATE_H
#define SEQPLAN_CUDA_GPU_STATE_H

#include <stdbool.h>

struct gpu_state {
    void *library, *device;
    char driver[80];
    double sm_clock_max_hz, memory_clock_hz, power_limit_w;
};

// What was seen over several readings.
struct gpu_readings {
    int count;
    double power_w_sum, temperature_c;
    unsigned long long throttle; // every reason seen, NVML's bits
};

// Of the GPU with this PCI bus id. false: no management library; the state then answers 0 and "unknown".
bool gpu_state_open(struct gpu_state *s, const char *pci_bus_id);
void gpu_state_read(const struct gpu_state *s, struct gpu_readings *r);
// "none", "power", "thermal", "hardware", "brake", "clocks" (set by the user), "other" or "unknown".
const char *gpu_throttle_name(const struct gpu_state *s, const struct gpu_readings *r);
// Reasons under which a time says nothing about the GPU: too hot, or the board's own slow-down. The power limit is none
// of them: matrix products run at it all the time.
bool gpu_throttle_refuses(const struct gpu_readings *r);

#endif
