#!/bin/sh
test_description='--vary repeats the question for each value'
. "$(dirname "$0")/lib-seqplan.sh"

base='--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --zero 3'
export base

# count FILE: rows of a table in JSON.
count() {
	perl -MJSON::PP -e '
		open my $in, "<", $ARGV[0] or die;
		print scalar @{decode_json(do { local $/; <$in> })->{rows}}, "\n";
	' "$1"
}

# shellcheck disable=SC2086
test_expect_success 'each row is the answer of its own question' '
	expect_exit 0 seqplan estimate $base --sp 8 --vary seq=64K,128K --format json && test ! -s err && cp out rows.json &&
	test "$(json_get rows.json schema)" = seqplan.table/1 && test "$(count rows.json)" = 2 &&
	test "$(json_get rows.json rows.0.vary.seq)" = 64K && test "$(json_get rows.json rows.0.seq)" = 65536 &&
	for row in 0:64K 1:128K
	do
		expect_exit 0 seqplan estimate $base --sp 8 --seq "${row#*:}" --format json &&
		test "$(json_get out step_time_s)" = "$(json_get rows.json "rows.${row%:*}.step_time_s")" || return 1
	done
'

test_expect_success 'a base value is replaced' '
	expect_exit 0 seqplan estimate $base --sp 8 --seq 4K --vary seq=64K,128K --format json && cmp rows.json out
'

test_expect_success 'given twice it is the product, the last varying fastest' '
	expect_exit 0 seqplan estimate $base --vary sp=4,8 --vary seq=64K,128K,256K --global-batch 8 --format json &&
	test "$(count out)" = 6 && test "$(json_get out rows.1.vary.sp)" = 4 && test "$(json_get out rows.1.vary.seq)" = 128K &&
	test "$(json_get out rows.3.layout.sp)" = 8 && test "$(json_get out rows.5.seq)" = 262144
'

test_expect_success 'paths of --set vary, over a --set of the same path too' '
	expect_exit 0 seqplan estimate $base --sp 8 --seq 128K --vary gpu.elementwise_bandwidth=1TB/s,2TB/s \
		--set gpu.elementwise_bandwidth=2TB/s --format json && cp out rows.json &&
	for row in 0:1TB/s 1:2TB/s
	do
		expect_exit 0 seqplan estimate $base --sp 8 --seq 128K --set "gpu.elementwise_bandwidth=${row#*:}" --format json &&
		test "$(json_get out step_time_s)" = "$(json_get rows.json "rows.${row%:*}.step_time_s")" || return 1
	done &&
	test "$(json_get rows.json rows.0.step_time_s)" != "$(json_get rows.json rows.1.step_time_s)"
'

test_expect_success 'a row that breaks a rule is an error among answers' '
	expect_exit 0 seqplan estimate $base --seq 64K --vary sp=3,8 --format json &&
	test "$(json_get out rows.0.error.rule)" = gpus_product && json_get out rows.0.error.text | grep "legal sp" &&
	test "$(json_get out rows.0.layout.sp)" = 3 && test "$(json_get out rows.1.fits)" = true &&
	expect_exit 0 seqplan estimate $base --seq 64K --vary sp=3,8 && grep "refused: 8 gpus" out
'

test_expect_success 'a row whose cluster cannot be is one too' '
	expect_exit 0 seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --sp 8 --zero 3 --seq 64K --vary gpus=12,8 \
		--format json &&
	test "$(json_get out rows.0.layout.sp)" = 8 && json_get out rows.0.error.text | grep 12 &&
	test "$(json_get out rows.1.gpus)" = 8
'

test_expect_success 'exit 1 when no row fits' '
	expect_exit 1 seqplan estimate $base --vary seq=4M,8M --format json && test "$(json_get out rows.1.fits)" = false &&
	expect_exit 1 seqplan estimate $base --seq 64K --vary sp=3,5 --format json &&
	expect_exit 1 seqplan estimate $base --vary seq=4M,8M && grep "none fits; nearest: seq 4M" out &&
	expect_exit 1 seqplan estimate $base --seq 64K --vary sp=3,5 && grep "no row keeps the rules" out
'

test_expect_success 'the table says once what is the same, and what differs is a column' '
	expect_exit 0 seqplan estimate $base --seq 64K --vary sp=4,8 && test ! -s err &&
	head -n 1 out | grep "model llama-3.1-8b, seq 64K, gpus 8, hardware dgx-h100" &&
	grep "^  sp  dp  step s  tokens/s/GPU  MFU %  peak GiB  fits  bound" out &&
	awk "length > 100 { exit 1 }" out
'

test_expect_success 'markdown and csv have a row each' '
	expect_exit 0 seqplan estimate $base --seq 64K --vary sp=4,8 --format markdown && test "$(grep -c "^| [48] |" out)" = 2 &&
	expect_exit 0 seqplan estimate $base --seq 64K --vary sp=3,8 --format csv && test "$(wc -l <out)" = 3 &&
	head -n 1 out | grep "^vary.sp,layout.tp,.*error.rule,error.text" &&
	sed -n 2p out | grep "^3,.*gpus_product"
'

test_expect_success 'models and hardware vary without a base' '
	expect_exit 0 seqplan estimate --gpus 8 --sp 8 --zero 3 --seq 64K --vary model=llama-3.1-8b,qwen3-8b \
		--vary hardware=dgx-h100,dgx-b200 --format json &&
	test "$(json_get out rows.3.model)" = qwen3-8b && test "$(json_get out rows.3.hardware)" = dgx-b200
'

test_expect_success 'what cannot be varied is refused at once' '
	expect_error 2 "did you mean \"seq\"" seqplan estimate $base --vary sq=1,2 &&
	expect_error 2 "expected the name of an option" seqplan estimate $base --vary frobnicate=1,2 &&
	expect_error 2 "did you mean \"gpu.hbm_bandwidth\"" seqplan estimate $base --seq 8K --vary gpu.hbm_bandwith=1TB/s,2TB/s &&
	expect_error 2 "expected the name of an option" seqplan estimate $base --vary format=json,csv &&
	expect_error 2 "found an empty one" seqplan estimate $base --vary seq=8K,,16K &&
	expect_error 2 "NAME=V1,V2" seqplan estimate $base --vary seq &&
	expect_error 2 "given twice" seqplan estimate $base --vary seq=8K --vary seq=16K &&
	expect_error 2 "8Q" seqplan estimate $base --vary seq=8K,8Q &&
	expect_error 3 "lama" seqplan estimate $base --seq 8K --vary model=llama-3.1-8b,lama &&
	expect_error 2 "more than 1000000 combinations" seqplan estimate $base --seq 8K --vary tp="$(seq -s, 1001)" \
		--vary sp="$(seq -s, 1001)" &&
	expect_error 2 "leave out --vary" seqplan estimate $base --vary seq=8K,16K --explain &&
	expect_error 2 "give --layout a file" seqplan estimate $base --vary seq=8K,16K --layout -
'

test_expect_success 'the program does not grow with the rows, nor chatter when standard error is no terminal' '
	expect_exit 0 seqplan estimate $base --sp 8 --global-batch 8 --vary seq="$(seq -s, 4096 1024 409600)" --format json &&
	test ! -s err && test "$(count out)" = 397
'

test_done
