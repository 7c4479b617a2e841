#!/bin/sh
test_description='sweeps spread over MPI ranks'
. "$(dirname "$0")/lib-seqplan.sh"
. "$top/tests/cli/lib-sweep.sh"

# Open MPI refuses to run as root unless told twice, leaks until it ends, and keeps its sockets in a short path.
OMPI_ALLOW_RUN_AS_ROOT=1
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
TMPDIR=${TMPDIR:-/tmp}
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM ASAN_OPTIONS TMPDIR

base='--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --zero 3 --global-batch 8'
points="--vary seq=$(seq -s, 4096 1024 65536) --vary sp=3,8"
large="--vary seq=$(seq -s, 4096 1024 1027072) --vary sp=3,8"
n_large=2000
export base points large n_large

# ranks N COMMAND...
ranks() {
	n_ranks=$1
	shift
	mpirun --oversubscribe -n "$n_ranks" "$@"
}

# in_background NAME COMMAND...: three ranks that are told apart by the name; sets $pid.
in_background() {
	SWEEP_NAME=$1
	export SWEEP_NAME
	shift
	mpirun --oversubscribe -n 3 "$@" >out 2>err </dev/null &
	pid=$!
}

# pid_of_rank NAME RANK
pid_of_rank() {
	for process in /proc/[0-9]*
	do
		if tr '\0' '\n' 2>/dev/null <"$process/environ" | grep -x -e "SWEEP_NAME=$1" -e "OMPI_COMM_WORLD_RANK=$2" | sort -u |
			grep -c . | grep -qx 2
		then
			echo "${process#/proc/}"
		fi
	done 2>/dev/null
}

# Without MPI every rank would do the same work.
test_expect_success 'a program without MPI refuses to be several' '
	cat >alone.c <<-\END &&
	#include "cmd/ranks.h"
	int main(void)
	{
		struct sp_error err = {0};
		int is_open = ranks_open(&err);
		fprintf(stderr, "%s\n", err.text);
		return is_open ? ranks_rank() : (int)err.kind;
	}
	END
	${CC:-gcc} -std=c17 -D_POSIX_C_SOURCE=200809L -I"$top/src" -o alone alone.c "$top"/src/cmd/ranks_one.c \
		"$top"/src/cmd/ranks_launch.c "$top"/src/base/error.c &&
	expect_exit 0 ./alone && expect_exit 0 env OMPI_COMM_WORLD_SIZE=1 ./alone &&
	expect_exit 2 env OMPI_COMM_WORLD_SIZE=5 ./alone && grep "mpirun started 5 ranks.*without MPI" err
'

# A program that is built without it refuses.
if command -v mpirun >/dev/null && ranks 2 "$SEQPLAN" --version >version 2>version.err
then
	test_set_prereq MPI
fi

# shellcheck disable=SC2086
test_expect_success MPI 'any number of ranks gives the same bytes' '
	TERM=xterm && export TERM && # colours would be in the way; mpirun gives ranks a terminal
	for format in json table
	do
		expect_exit 0 seqplan estimate $base $points --format $format && mv out whole.$format || return 1
	done &&
	for n in 1 2 3 5
	do
		expect_exit 0 ranks $n "$SEQPLAN" estimate $base $points --format json && cmp out whole.json || return 1
	done &&
	expect_exit 0 ranks 3 "$SEQPLAN" estimate $base $points && cmp out whole.table && test ! -s err
'

# shellcheck disable=SC2086
test_expect_success MPI 'more ranks than points' '
	expect_exit 0 seqplan estimate $base --sp 8 --vary seq=8K,16K --format csv && mv out two.csv &&
	expect_exit 0 ranks 5 "$SEQPLAN" estimate $base --sp 8 --vary seq=8K,16K --format csv && cmp out two.csv
'

# shellcheck disable=SC2086
test_expect_success MPI 'what one rank left, several finish, and what several left, one' '
	expect_exit 0 seqplan estimate $base $large --format csv && mv out large.csv &&
	in_background left "$SEQPLAN" estimate $base $large --format csv --db left.db &&
	wait_for_rows left.db && kill -TERM $(pid_of_rank left 0) && expect_end 4 &&
	grep "interrupted: $(stored left.db) of $n_large rows" err && test "$(stored left.db)" -lt $n_large &&
	test "$(wc -l <out)" = $(($(stored left.db) + 1)) &&
	cp left.db other.db &&
	expect_exit 0 ranks 5 "$SEQPLAN" estimate $base $large --format csv --db left.db &&
	grep "of $n_large rows were there already" err && cmp out large.csv &&
	expect_exit 0 seqplan estimate $base $large --format csv --db other.db && cmp out large.csv
'

# shellcheck disable=SC2086
test_expect_success MPI 'a rank that dies ends the run, and what was stored stays' '
	for rank in 0 2
	do
		in_background died-$rank "$SEQPLAN" estimate $base $large --format csv --db died-$rank.db &&
		wait_for_rows died-$rank.db && kill -KILL $(pid_of_rank died-$rank $rank) && expect_end 137 && grep "rank $rank .*exited on signal 9" err &&
		n=$(stored died-$rank.db) && test "$n" -gt 0 && test "$n" -lt $n_large || return 1
	done &&
	expect_exit 0 ranks 2 "$SEQPLAN" estimate $base $large --format csv --db died-2.db &&
	grep "$n of $n_large rows were there already" err && cmp out large.csv
'

# shellcheck disable=SC2086
test_expect_success MPI 'a signal to any rank ends the sweep in good order' '
	in_background signal "$SEQPLAN" estimate $base $large --format json --db signal.db &&
	wait_for_rows signal.db && kill -TERM $(pid_of_rank signal 1) && expect_end 4 &&
	n=$(stored signal.db) && grep "interrupted: $n of $n_large rows" err && test "$(json_get out missing)" = $(($n_large - $n))
'

# A rank that has many good rows before the first bad one, lama, is overtaken by those that begin with a limo; what is said
# is what one process would have met first.
# shellcheck disable=SC2086
test_expect_success MPI 'an error that is of every row is said once, and the same' '
	good=$(yes llama-3.1-8b | head -n 45 | tr "\n" ,) && later=$(yes limo | head -n 137 | paste -sd,) &&
	bad="--hardware dgx-h100 --gpus 8 --seq 64K --vary model=${good}lama,$later" &&
	expect_error 3 lama seqplan estimate $bad && mv err one.err &&
	for n in 2 3 5
	do
		expect_exit 3 ranks $n "$SEQPLAN" estimate $bad && test ! -s out && grep "^seqplan: " err >said &&
		cmp said one.err || return 1
	done
'

test_expect_success MPI 'plan is spread as well' '
	set -- plan --model llama-3.1-8b --hardware dgx-h100 --gpus 24 --framework megatron --recompute full --vary \
		seq=48K,96K,192K --vary zero=1,3 --threads 1 --format json &&
	expect_exit 0 seqplan "$@" && mv out plans.json &&
	expect_exit 0 ranks 3 "$SEQPLAN" "$@" && cmp out plans.json
'

# shellcheck disable=SC2086
test_expect_success MPI 'other commands, and refusals, are of one rank' '
	expect_exit 0 seqplan estimate $base --sp 8 --seq 64K && mv out one &&
	expect_exit 0 ranks 3 "$SEQPLAN" estimate $base --sp 8 --seq 64K && cmp out one && test ! -s err &&
	expect_exit 0 ranks 3 "$SEQPLAN" show models && test "$(grep -c llama-2-7b out)" = 1 &&
	expect_exit 2 ranks 3 "$SEQPLAN" estimate $base --vary sq=1,2 && test "$(grep -c "^seqplan:" err)" = 1 &&
	expect_exit 1 ranks 3 "$SEQPLAN" estimate $base --vary seq=4M,8M
'

test_done
