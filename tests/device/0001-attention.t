#!/bin/sh
# The attention kernels beside float64, the methods beside one GPU, layers beside float64, test by test. Each is skipped
# by name where there is no GPU, and all of them where the device program was not built.
set -u
: "${SEQPLAN_DEVICE=build/seqplan-device}"
if ! test -x "$SEQPLAN_DEVICE"; then
	echo '1..0 # SKIP built without nvcc'
	exit 0
fi
exec "$SEQPLAN_DEVICE" test
