#!/bin/sh
test_description='sweeps: rows in the store, resumed after whatever ended them'
. "$(dirname "$0")/lib-seqplan.sh"
. "$top/tests/cli/lib-sweep.sh"

base='--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --zero 3 --global-batch 8'
small="--vary seq=$(seq -s, 4096 1024 65536) --vary sp=3,4,8"
large="--vary seq=$(seq -s, 4096 1024 1027072) --vary sp=3,8"
n_large=2000
export base small large n_large

# A shell that is not interactive lets what it starts in the background ignore SIGINT.
with_sigint() {
	exec perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV or die' "$@"
}

# in_background OUT ERR COMMAND...: sets $pid.
in_background() {
	background_out=$1
	background_err=$2
	shift 2
	with_sigint "$@" >"$background_out" 2>"$background_err" </dev/null &
	pid=$!
}

# count_rows FILE: of a table in JSON.
count_rows() {
	perl -MJSON::PP -e '
		open my $in, "<", $ARGV[0] or die;
		print scalar @{decode_json(do { local $/; <$in> })->{rows}}, "\n";
	' "$1"
}

# shellcheck disable=SC2086
test_expect_success 'every format is the same with a store, without one, and from a store that has it all' '
	for format in table markdown csv json
	do
		expect_exit 0 seqplan estimate $base $small --format $format && mv out whole.$format && test ! -s err &&
		expect_exit 0 seqplan estimate $base $small --format $format --db small-$format.db && test ! -s err &&
		cmp out whole.$format &&
		expect_exit 0 seqplan estimate $base $small --format $format --db small-$format.db &&
		test "$(cat err)" = "seqplan: 183 of 183 rows were there already" && cmp out whole.$format || return 1
	done &&
	grep "legal sp" whole.table && test "$(stored small-csv.db)" = 183
'

# shellcheck disable=SC2086
test_expect_success 'nothing is stored without --db' '
	find . "$HOME" -name "*.db" >before && expect_exit 0 seqplan estimate $base $small &&
	find . "$HOME" -name "*.db" >after && cmp before after
'

# shellcheck disable=SC2086
test_expect_success 'a sweep that was killed goes on, and ends as if nothing had been' '
	expect_exit 0 seqplan estimate $base $large --format csv && mv out whole.csv &&
	in_background out err "$SEQPLAN" estimate $base $large --format csv --db killed.db &&
	wait_for_rows killed.db && kill -KILL $pid && expect_end 137 && test ! -s out &&
	n=$(stored killed.db) && test "$n" -gt 0 && test "$n" -lt $n_large &&
	expect_exit 0 seqplan estimate $base $large --format csv --db killed.db &&
	test "$(cat err)" = "seqplan: $n of $n_large rows were there already" && cmp out whole.csv
'

# shellcheck disable=SC2086
test_expect_success 'SIGINT and SIGTERM print what is there, say what is missing, and the same command goes on' '
	for signal in INT TERM
	do
		in_background out err "$SEQPLAN" estimate $base $large --format json --db $signal.db &&
		wait_for_rows $signal.db && kill -$signal $pid && expect_end 4 &&
		n=$(stored $signal.db) && test "$n" -gt 0 && test "$n" -lt $n_large &&
		test "$(cat err)" = "seqplan: interrupted: $n of $n_large rows, the rest is missing (run the same command to go on)" &&
		test "$(json_get out partial)" = true && test "$(json_get out missing)" = $(($n_large - $n)) &&
		test "$(count_rows out)" = "$n" || return 1
	done &&
	expect_exit 0 seqplan estimate $base $large --format csv --db TERM.db && cmp out whole.csv
'

# shellcheck disable=SC2086
test_expect_success 'a sweep without a store is partial too' '
	in_background out err "$SEQPLAN" estimate $base $large && sleep 0.7 && kill -INT $pid && expect_end 4 &&
	grep "^seqplan: interrupted: [0-9]* of $n_large rows, the rest is missing$" err && grep "fastest that fits" out
'

# The output goes into a pipe that nobody reads: the program stands still while it prints.
# shellcheck disable=SC2086
test_expect_success 'the second signal ends it at once' '
	mkfifo pipe && exec 9<>pipe &&
	in_background pipe err "$SEQPLAN" estimate $base $large --format json && sleep 0.7 && kill -INT $pid && sleep 0.5 &&
	kill -0 $pid && kill -INT $pid && expect_end 130 && exec 9>&-
'

# shellcheck disable=SC2086
test_expect_success 'a signal that is ignored stays ignored' '
	perl -e "\$SIG{INT} = q(IGNORE); exec @ARGV" "$SEQPLAN" estimate $base $small --format csv >out 2>err & pid=$!
	sleep 0.1 && kill -INT $pid && expect_end 0 && test ! -s err
'

# shellcheck disable=SC2086
test_expect_success 'the same question in other words is the same sweep, another one is not' '
	expect_exit 0 seqplan estimate --cp 5 --nodes 1 --global-batch=8 --zero 3 --hardware dgx-h100 --model llama-3.1-8b $small \
		--db same.db &&
	expect_exit 0 seqplan estimate --model=llama-3.1-8b --zero=3 --sp 7 --hardware dgx-h100 --nodes 1 --global-batch 8 $small \
		--db same.db --format csv --no-color && grep "183 of 183" err &&
	for other in "--zero 1" "--set gpu.hbm_bandwidth=2TB/s" "--vary gpus=8" "--explain --format json" "--tokens 1T"
	do
		expect_exit 0 seqplan estimate --model llama-3.1-8b --zero 3 --hardware dgx-h100 --nodes 1 --global-batch 8 $small \
			$other --db same.db && test ! -s err || return 1
	done &&
	expect_exit 0 seqplan estimate --model llama-3.1-8b --zero 3 --hardware dgx-h100 --nodes 1 --global-batch 8 --vary \
		sp=3,4,8 --vary seq=$(seq -s, 4096 1024 65536) --db same.db && test ! -s err &&
	expect_exit 0 seqplan estimate --model llama-3.1-8b --zero 3 --hardware dgx-h100 --nodes 1 --global-batch 8 --vary \
		seq=$(seq -s, 4096 2048 126976) --vary sp=3,4,8 --db same.db && test ! -s err &&
	expect_exit 0 seqplan show runs --db same.db --format csv && test "$(wc -l <out)" = 9
'

test_expect_success 'files that rows are made from belong to a sweep with their bytes' '
	cp "$top/models/llama-3.1-8b.json" mine.json &&
	set -- estimate --hardware dgx-h100 --gpus 8 --global-batch 8 &&
	expect_exit 0 seqplan "$@" --sp 8 --seq 64K --model ./mine.json --format json && mv out answer &&
	set -- "$@" --db files.db --vary seq=64K,96K &&
	expect_exit 0 seqplan "$@" --layout answer && test ! -s err &&
	expect_exit 0 seqplan "$@" --layout answer && grep "2 of 2" err &&
	expect_exit 0 seqplan "$@" --model mine.json --sp 8 && test ! -s err &&
	expect_exit 0 seqplan "$@" --model mine.json --sp 8 && grep "2 of 2" err &&
	expect_exit 0 seqplan "$@" --vary model=llama-3.1-8b,./mine.json --sp 8 && test ! -s err &&
	expect_exit 0 seqplan "$@" --vary model=llama-3.1-8b,./mine.json --sp 8 && grep "4 of 4" err &&
	echo >>mine.json &&
	expect_exit 0 seqplan "$@" --layout answer && test ! -s err &&
	expect_exit 0 seqplan "$@" --model mine.json --sp 8 && test ! -s err &&
	expect_exit 0 seqplan "$@" --vary model=llama-3.1-8b,./mine.json --sp 8 && test ! -s err
'

# shellcheck disable=SC2086
test_expect_success 'an error that is of every row ends the sweep, and what was done stays' '
	expect_error 3 lama seqplan estimate --hardware dgx-h100 --gpus 8 --vary model=llama-3.1-8b,lama \
		--vary seq=$(seq -s, 4096 1024 65536) --db error.db && test "$(stored error.db)" = 61
'

test_expect_success 'many rows need a store, and no table' '
	seqs=$(seq -s, 4096 4 88096) &&
	expect_error 2 "a table has at most 20000 rows, found 21001" seqplan estimate $base --vary seq=$seqs &&
	expect_error 2 "give --db FILE" seqplan estimate $base --vary seq=$seqs --format csv &&
	expect_error 2 "more than 1000000 combinations" seqplan estimate $base --vary seq=$seqs --vary tp="$(seq -s, 1 61)" \
		--format csv --db many.db &&
	test ! -e many.db
'

test_expect_success 'what a store cannot do' '
	expect_error 2 "give --vary" seqplan estimate $base --sp 8 --seq 64K --db some.db && test ! -e some.db &&
	echo "no database" >other.db && expect_error 4 other.db seqplan estimate $base --vary seq=8K,16K --db other.db &&
	expect_error 4 nowhere seqplan estimate $base --vary seq=8K,16K --db nowhere/some.db
'

command -v script >/dev/null && test_set_prereq SCRIPT

# script(1) is a terminal for standard error.
# shellcheck disable=SC2086
test_expect_success SCRIPT 'a terminal sees how far it is, and nothing of it at the end' '
	script -qec "\"$SEQPLAN\" estimate $base $large --format csv >out" /dev/null </dev/null >shown && cmp out whole.csv &&
	grep "of $n_large rows, [0-9.e+]*/s, left: [0-9]* s" shown &&
	tail -c 80 shown | tr -d "\r" | grep "^ *$" &&
	script -qec "\"$SEQPLAN\" estimate $base --vary seq=8K,24K --format csv >out" /dev/null </dev/null >shown &&
	test ! -s shown
'

test_expect_success 'a limit of file size is an error, not a signal' '
	(ulimit -f 40 && expect_exit 4 seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --sp 8 \
		--vary seq=16K,32K,48K,64K,80K,96K,112K,128K --vary zero=1,2,3 --db small.db --format csv) &&
	grep -q "small.db" err
'

test_done
