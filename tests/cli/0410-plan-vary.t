#!/bin/sh
test_description='plan --vary: the best layout of every question'
. "$(dirname "$0")/lib-seqplan.sh"

base='--model llama-3.1-8b --hardware dgx-h100 --gpus 24 --framework megatron --recompute full --offload none'
points='--vary seq=48K,96K --vary network=ib-ndr,eth-100g --vary zero=1,3'
export base points

# shellcheck disable=SC2086
test_expect_success 'each row is the first plan of its own question, and says what was evaluated' '
	expect_exit 0 seqplan plan $base $points --format json && test ! -s err && mv out rows.json &&
	test "$(json_get rows.json schema)" = seqplan.table/1 &&
	for row in 0:48K:ib-ndr:1 3:48K:eth-100g:3 6:96K:eth-100g:1
	do
		set -- $(echo $row | tr : " ") &&
		expect_exit 0 seqplan plan $base --seq $2 --network $3 --zero $4 --format json &&
		test "$(json_get rows.json rows.$1.vary.network)" = "$3" &&
		test "$(json_get rows.json rows.$1.layout)" = "$(json_get out plans.0.layout)" &&
		test "$(json_get rows.json rows.$1.step_time_s)" = "$(json_get out plans.0.step_time_s)" &&
		test "$(json_get rows.json rows.$1.evaluated)" = "$(json_get out evaluated)" || return 1
	done
'

# shellcheck disable=SC2086
test_expect_success 'any number of threads, and a store, give the same bytes' '
	for n in 1 2 3
	do
		expect_exit 0 seqplan plan $base $points --format json --threads $n && cmp out rows.json || return 1
	done &&
	expect_exit 0 seqplan plan $base $points --format json --db plans.db && cmp out rows.json &&
	expect_exit 0 seqplan plan $base $points --format json --db plans.db --threads 3 && grep "8 of 8" err && cmp out rows.json &&
	expect_exit 0 seqplan plan $base $points --format json --db plans.db --max-memory 70GiB && test ! -s err
'

# shellcheck disable=SC2086
test_expect_success 'a list is an axis of plan, and a value of --vary restricts it' '
	expect_exit 0 seqplan plan $base --seq 48K --vary tp=2,3,6 --sp 2,4 --format json &&
	test "$(json_get out rows.0.layout.tp)" = 2 && test "$(json_get out rows.1.error.rule)" != null &&
	expect_exit 0 seqplan plan $base --seq 48K --vary tp=2,4 && head -n 9 out | grep "^ *tp .*evaluated"
'

# shellcheck disable=SC2086
test_expect_success 'what no layout can do is a row' '
	expect_exit 0 seqplan plan $base --seq 48K --vary gpus=12,24 --format json &&
	json_get out rows.0.error.text | grep "multiple of 8" && test "$(json_get out rows.1.fits)" = true &&
	expect_exit 1 seqplan plan $base --vary seq=8M,16M --format json && test "$(json_get out rows.0.fits)" = false &&
	expect_exit 1 seqplan plan $base --seq 48K --vary zero=1,3 --min-mfu 99% --format json &&
	json_get out rows.1.error.text | grep "none of [0-9]* layouts keeps what is asked"
'

# shellcheck disable=SC2086
test_expect_success 'what is wrong with every row ends it' '
	expect_error 2 "expected whole numbers" seqplan plan $base --seq 48K --vary tp=x,2 &&
	expect_error 2 "reads none" seqplan plan $base --seq 48K --vary tp=1,2 --layout some.json &&
	expect_error 3 lama seqplan plan --hardware dgx-h100 --gpus 24 --seq 48K --vary model=lama,llama-3.1-8b &&
	expect_error 2 "give --vary" seqplan plan $base --seq 48K --db plans.db &&
	expect_error 2 "is missing" seqplan plan --hardware dgx-h100 --gpus 24 --vary seq=48K,96K
'

test_expect_success 'a stored run shows the batch of each row' '
	expect_exit 0 seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 8K --zero 3 \
		--vary global-batch=24,40 --db batches.db && expect_exit 0 seqplan show run 1 --db batches.db --format csv &&
	perl -F, -lane "print \$F[(grep { \$h[\$_] eq q(global_batch) } 0..\$#h)[0]] if @h; @h = @F unless @h" out >found &&
	printf "24\n40\n" >wanted && cmp wanted found
'

test_done
