#!/bin/sh
# What `measure` does around its measurements; none of it needs a GPU, but for the first lines of a run.
set -u
: "${SEQPLAN_DEVICE=build/seqplan-device}"
if ! test -x "$SEQPLAN_DEVICE"; then
	echo '1..0 # SKIP built without nvcc'
	exit 0
fi
trash=$(mktemp -d) || exit 1
trap 'rm -rf "$trash"' EXIT
count=0

# check TEXT COMMAND...
check() {
	text=$1
	shift
	count=$((count + 1))
	if "$@"; then echo "ok $count - $text"; else echo "not ok $count - $text"; fi
}
list() {
	"$SEQPLAN_DEVICE" measure --list "$@"
}
# exits CODE COMMAND...
exits() {
	expected=$1
	code=0
	shift
	"$@" >"$trash/out" 2>"$trash/err" || code=$?
	test "$code" -eq "$expected"
}

list --full >"$trash/full"
list --quick >"$trash/quick"
sort -u "$trash/full" >"$trash/sorted"
check 'a full run has hundreds of points' test "$(wc -l <"$trash/full")" -gt 300
check 'no two points have the same key' test "$(wc -l <"$trash/sorted")" -eq "$(wc -l <"$trash/full")"
check 'a quick run is part of a full one' test -z "$(grep -vxFf "$trash/full" "$trash/quick")"

list --only gemm,copy >"$trash/only"
check '--only keeps whole groups' test "$(grep -c -e '^gemm ' -e '^copy ' "$trash/full")" -eq "$(wc -l <"$trash/only")"
check '--only refuses an unknown group' exits 2 "$SEQPLAN_DEVICE" measure --only copy,gem
check 'an unknown option is refused' exits 2 "$SEQPLAN_DEVICE" measure --fast

sed -n '7,47p' "$trash/full" >"$trash/done"
list --done "$trash/done" >"$trash/rest"
grep -vxFf "$trash/done" "$trash/full" >"$trash/expected"
check '--done skips what was measured' cmp -s "$trash/rest" "$trash/expected"
check 'a --done file that is not there is refused' exits 2 "$SEQPLAN_DEVICE" measure --done "$trash/none"

list --only gemm --model-shapes 5120,40,8,128,13824,152064 >"$trash/shapes"
check '--model-shapes sets the products' grep -qx \
	'gemm part=qkv pass=forward tokens=1024 in=5120 out=7168' "$trash/shapes"
check '--model-shapes takes six numbers' exits 2 "$SEQPLAN_DEVICE" measure --model-shapes 5120,40,8,128,13824
check '--model-shapes takes whole groups of heads' exits 2 "$SEQPLAN_DEVICE" measure --model-shapes 5120,40,7,128,13824,32000

CUDA_VISIBLE_DEVICES='' exits 4 "$SEQPLAN_DEVICE" measure
check 'without a GPU it exits with 4' test "$code" -eq 4
check 'and says so in one line' test "$(wc -l <"$trash/err")" -eq 1
check 'and prints nothing' test ! -s "$trash/out"
echo "1..$count"
