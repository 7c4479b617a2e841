# shellcheck shell=sh
# What the tests of sweeps share, read after lib-seqplan.sh: rows that are waited for, and the end of what runs in the
# background as $pid.

# stored DB: rows of its first run; 0 when there is none.
stored() {
	"$SEQPLAN" show runs --db "$1" --format csv 2>stored.err | sed -n '2p' | cut -d, -f2 | grep . || echo 0
}

# wait_for_rows DB: until some are stored.
wait_for_rows() {
	for _ in $(seq 600)
	do
		test "$(stored "$1")" -gt 0 && return 0
		sleep 0.05
	done
	echo "no row was stored in $1" >&2
	return 1
}

# expect_end CODE: of what runs in the background.
expect_end() {
	code=0
	# shellcheck disable=SC2154 # the test sets it
	wait "$pid" || code=$?
	test "$code" -eq "$1" && return 0
	echo "expected exit code $1, found $code" >&2
	return 1
}
