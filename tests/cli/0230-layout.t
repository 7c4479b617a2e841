#!/bin/sh
test_description='--layout reads an answer back exactly'
. "$(dirname "$0")/lib-seqplan.sh"

# same_answer QUESTION OPTIONS: the answer of QUESTION OPTIONS, read back by QUESTION --layout, is the same.
same_answer() {
	# shellcheck disable=SC2086 # the options are words
	{ seqplan estimate $1 $2 --format json >first.json || test $? -eq 1; } &&
	{ seqplan estimate $1 --layout - --format json <first.json >second.json || test $? -eq 1; } || return 1
	for path in step_time_s peak_bytes layout communication memory_bytes time_s global_batch mask documents train
	do
		test "$(json_get first.json "$path")" = "$(json_get second.json "$path")" || {
			echo "$path differs: $(json_get first.json "$path") $(json_get second.json "$path")" >&2
			return 1
		}
	done
}

small='--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 64K --global-batch 32'
large='--model llama-3.1-70b --hardware dgx-h100 --gpus 512 --seq 1M --global-batch 64'
uneven='--model llama-3.1-405b --hardware dgx-h100 --gpus 1024 --seq 8K --global-batch 1024'
moe='--model mixtral-8x7b --hardware dgx-h100 --gpus 8 --seq 8K --global-batch 64'
export small large uneven moe

while IFS='|' read -r question options
do
	eval "words=\$$question"
	test_expect_success "$question $options" '
		same_answer "$words" "$options"
	'
done <<'EOF'
small|
small|--sp 8 --zero 3
small|--sp 4 --tp 2 --recompute none --kernels eager
small|--sp 2 --micro-batch 2 --recompute block:5 --zero 2
small|--sp 8 --sp-method ulysses --framework deepspeed
small|--sp 8 --sp-method allgather --framework ideal
small|--sp 8 --sp-method ring --set run.loss=chunked --set run.loss_chunk=4096
small|--sp-method naive
small|--tp 4 --tp-sp off --set run.vocab_parallel=false --set run.master_weights=false
small|--tp 2 --set run.gradient_dtype=bf16 --set run.moment_dtype=bf16 --set run.parameter_dtype=fp32
small|--sp 8 --documents 8K --train lora:16
small|--sp 8 --offload activations,optimizer --mask full
small|--sp 8 --sp-method usp --sp-ulysses 2
small|--sp 8 --sp-method double-ring --sp-inner 4
small|--sp 8 --sp-method ulysses --framework alst --set run.tiled_mlp=false
moe|--ep 8
moe|--sp 4 --ep 4 --etp 2 --zero 1
large|--tp 8 --sp 8 --pp 8
large|--tp 8 --sp 8 --pp 2 --vpp 2
large|--tp 8 --sp 8 --pp 8 --schedule zb-h1
large|--tp 8 --sp 8 --pp 8 --recompute selective --set layout.order=cp-tp-ep-dp-pp
uneven|--pp 16 --tp 8 --pp-layers auto
uneven|--pp 16 --tp 8 --pp-layers padded
EOF

test_expect_success 'a layout alone is read like a whole answer, from a file too' '
	seqplan estimate $large --tp 8 --sp 8 --pp 8 --format json >answer.json &&
	json_get answer.json layout >layout.json &&
	seqplan estimate $large --layout layout.json --format json >again.json &&
	test "$(json_get answer.json step_time_s)" = "$(json_get again.json step_time_s)"
'

test_expect_success 'options beside it win, and what follows from them is worked out anew' '
	expect_exit 0 seqplan estimate $large --layout layout.json --sp 4 --format json &&
	test "$(json_get out layout.sp)" = 4 && test "$(json_get out layout.dp)" = 2 && test "$(json_get out layout.tp)" = 8 &&
	expect_exit 0 seqplan estimate $large --layout layout.json --set run.loss=plain --format json &&
	test "$(json_get out layout.run.loss)" = plain
'

test_expect_success 'a table of rows is no layout' '
	seqplan estimate $small --vary sp=4,8 --zero 3 --format json >rows.json &&
	expect_error 3 rows.json seqplan estimate $small --layout rows.json
'

test_done
