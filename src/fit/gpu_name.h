/* Names of GPUs, as drivers, logs and data files write them: "NVIDIA H100 80GB HBM3", "H100 SXM 80GB", "h100-sxm". */
#ifndef SEQPLAN_GPU_NAME_H
#define SEQPLAN_GPU_NAME_H

#include "base/base.h"

/* Does it name a chip: letters and a number, as H100, A40, GB300? */
bool gpu_name_has_chip(const char *name);
/* Whether a name cannot be of the GPU that `title` is of: the title names a chip, and the name another or none; or one is a PCIe
 * card and the other an SXM module; or both say how much memory, and not the same. An empty name says nothing. */
bool gpu_name_is_other(const char *name, const char *title);

#endif
