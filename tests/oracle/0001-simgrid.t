#!/bin/sh
# The ends of flows beside SimGrid's, flow by flow: patterns with ranks of different speeds, and random flows over random
# shared links. Skipped where libsimgrid is not installed (tools/setup oracle).
set -u
: "${SEQPLAN_ORACLE=build/release/oracle/oracle_flows}" "${SEQPLAN_SIMGRID=build/oracle/oracle_simgrid}"
if ! test -x "$SEQPLAN_SIMGRID"; then
	echo '1..0 # SKIP libsimgrid is not installed'
	exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
max_difference=1e-6
n=0

# usage: compare PATTERN ARGUMENT
compare() {
	n=$((n + 1))
	"$SEQPLAN_ORACLE" write "$1" "$2" >"$folder/pattern" &&
		"$SEQPLAN_ORACLE" run <"$folder/pattern" >"$folder/ours" &&
		"$SEQPLAN_SIMGRID" <"$folder/pattern" >"$folder/theirs" &&
		paste "$folder/ours" "$folder/theirs" | awk -v max_difference="$max_difference" '
			NF != 2 || $1 <= 0 || $2 <= 0 { print "# flow " NR - 1 ": " $0; failed = 1; next }
			{ difference = $1 / $2 - 1 }
			difference < 0 { difference = -difference }
			difference > largest { largest = difference; at = NR - 1 }
			END {
				printf "# %d flows, largest difference %.2g (flow %d)\n", NR, largest, at
				exit failed || NR == 0 || largest > max_difference
			}' && echo "ok $n - $1 $2" || echo "not ok $n - $1 $2"
}

for ranks in 2 7 23; do
	compare ring "$ranks"
done
for ranks in 3 8 19; do
	compare all-to-all "$ranks"
done
for seed in 1 2 3 4 5 6 7 8 9 10 11 12; do
	compare random "$seed"
done
echo "1..$n"
