#!/bin/sh
# The element-wise kernels and the matrix products of `measure` beside float64, test by test. Skipped as 0001 is.
set -u
: "${SEQPLAN_DEVICE=build/seqplan-device}"
if ! test -x "$SEQPLAN_DEVICE"; then
	echo '1..0 # SKIP built without nvcc'
	exit 0
fi
exec "$SEQPLAN_DEVICE" test-elementwise
