#!/bin/sh
test_description='layouts: rules with their numbers and the nearest legal values, and --layout'
. "$(dirname "$0")/lib-seqplan.sh"

# estimate OPTION...
estimate() {
	seqplan estimate --hardware dgx-h100 --model llama-3.1-8b "$@"
}

test_expect_success 'degrees multiply to the cluster' '
	expect_error 2 "8 gpus are not tp 1 x sp 3 x pp 1 x dp 2 = 6; legal sp with this tp and pp: 1, 2, 4, 8" \
		estimate --gpus 8 --sp 3 --seq 128K &&
	expect_error 2 "more than 8" estimate --gpus 8 --tp 1000000 --pp 1000000 --dp 1000000 --seq 8K
'

test_expect_success 'several broken rules are one line' '
	expect_error 2 "; global batch 7 does not divide by dp 8 x micro-batch 1 = 8; nearest: 8" \
		estimate --gpus 8 --framework deepspeed --sp-method usp --seq 8K --global-batch 7
'

test_expect_success 'sequences: the strictest rule and the lengths beside it' '
	expect_error 2 "sequence 100001 does not divide by 16 (zigzag: 2 x sp 8); nearest lengths: 100000, 100016" \
		estimate --gpus 8 --sp 8 --seq 100001 &&
	expect_error 2 "sequence 100001 does not divide by 8 (tp 8 under --tp-sp on); nearest lengths: 100000, 100008" \
		estimate --gpus 8 --tp 8 --seq 100001
'

test_expect_success 'layers that do not divide by the stages' '
	large="estimate --hardware dgx-h100 --model llama-3.1-405b --gpus 128 --pp 16 --tp 8 --seq 8K" &&
	expect_error 2 "126 layers do not divide by pp 16: --pp-layers auto would use 7, 8 x 14, 7" seqplan $large &&
	for split in auto padded 7,8,8,8,8,8,8,8,8,8,8,8,8,8,8,7
	do
		expect_exit 0 seqplan $large --pp-layers $split --format json || return 1
	done &&
	expect_error 2 "pp-layers adds up to 125 layers" seqplan $large --pp-layers 6,8,8,8,8,8,8,8,8,8,8,8,8,8,8,7 &&
	expect_error 2 "pp-layers gives 2 stages, pp is 16" seqplan $large --pp-layers 63,63 &&
	expect_error 2 "--pp-layers: expected auto, padded or layers per stage" seqplan $large --pp-layers evenly
'

test_expect_success 'heads and key-value heads over tp' '
	expect_error 2 "tp 24: 32 query heads do not divide by it" estimate --gpus 24 --tp 24 --seq 96K &&
	expect_exit 0 estimate --gpus 16 --tp 16 --seq 8K --format json &&
	json_get out warnings | grep -q "tp 16 repeats each of the 8 key-value heads 2 times" &&
	expect_error 2 "8 key-value heads are fewer, and torch does not repeat them" \
		estimate --gpus 16 --tp 16 --seq 8K --framework torch
'

test_expect_success 'method and framework' '
	expect_error 2 "usp is not in deepspeed; frameworks of usp: megatron (home), ring-flash-attn, ideal" \
		estimate --gpus 8 --sp 8 --sp-method usp --framework deepspeed --seq 128K &&
	expect_error 2 "sp 8: none does not split the sequence" \
		estimate --gpus 8 --sp 8 --sp-method none --seq 128K
'

test_expect_success 'few micro-batches are a warning with the bubble' '
	expect_exit 0 estimate --gpus 8 --pp 8 --seq 8K --global-batch 2 --format json &&
	json_get out warnings | grep -q "2 micro-batches over pp 8 stages: 78 % of the time is bubble"
'

test_expect_success 'what is not built yet says what to use' '
	expect_error 2 "schedule zbv is not built yet; use --schedule 1f1b" \
		estimate --gpus 8 --seq 8K --schedule zbv &&
	expect_error 2 "--mode prefill is not built yet; use --mode train" estimate --gpus 8 --seq 8K --mode prefill &&
	expect_error 2 "precision fp8 is not built yet" estimate --gpus 8 --seq 8K --precision fp8
'

test_expect_success 'a printed answer is read back exactly' '
	options="--gpus 64 --seq 64K --global-batch 8" &&
	expect_exit 0 estimate $options --tp 2 --sp 4 --pp 2 --recompute block:5 --zero 1 --micro-batch 1 \
		--tp-sp off --attention fa3 --pp-layers 15,17 --set layout.order=cp-tp-ep-dp-pp --format json && mv out first &&
	expect_exit 0 estimate $options --layout first --format json &&
	json_get first layout >a && json_get out layout >b && test_cmp a b &&
	json_get first step_time_s >a && json_get out step_time_s >b && test_cmp a b &&
	json_get first layout >layout.json &&
	expect_exit 0 estimate $options --layout layout.json --format json &&
	json_get first step_time_s >a && json_get out step_time_s >b && test_cmp a b
'

test_expect_success 'a layout comes through standard input too' '
	estimate --gpus 64 --seq 64K --global-batch 8 --layout - --format json <layout.json >out &&
	json_get out layout >b && test_cmp layout.json b
'

test_expect_success 'options win over the file' '
	expect_exit 0 estimate --gpus 64 --seq 64K --global-batch 32 --layout layout.json --sp 1 --sp-method none \
		--recompute full --format json &&
	test "$(json_get out layout.sp)" = 1 && test "$(json_get out layout.dp)" = 16 && test "$(json_get out layout.pp)" = 2
'

test_expect_success 'a file that is no layout' '
	echo "{\"tpp\": 2}" >bad.json &&
	expect_error 3 "bad.json: \$: unknown key \"tpp\" (did you mean \"tp\"?)" \
		estimate --gpus 8 --seq 8K --layout bad.json &&
	expect_error 3 "no-such.json" estimate --gpus 8 --seq 8K --layout no-such.json
'

test_done
