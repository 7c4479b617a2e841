#!/bin/sh
# Ten questions that people ask, and the plans that answer them. A change is reviewed as a diff: `make bless` rewrites plans.csv,
# and the commit says what moved and why.
test_description='golden plans'
. "$(dirname "$0")/../cli/lib-seqplan.sh"

# ask LABEL OPTIONS...: appends the reduced plan of a question
ask() {
	label=$1
	shift
	code=0
	seqplan plan "$@" --format json >plan.json 2>err </dev/null || code=$?
	test "$code" -le 1 || { cat err >&2; return 1; }
	"$top/tests/golden/plans.pl" "$label" <plan.json >>plans.csv
}

test_expect_success 'dense models' '
	ask "8b 128K on one H100 node" --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 128K &&
	ask "8b 1M on 32 H100 without offload" --model llama-3.1-8b --hardware dgx-h100 --gpus 32 --seq 1M --offload none &&
	ask "70b 1M on 512 H100 in Megatron" --model llama-3.1-70b --hardware dgx-h100 --gpus 512 --seq 1M --framework megatron &&
	ask "70b 1M on 64 B200" --model llama-3.1-70b --hardware dgx-b200 --gpus 64 --seq 1M --global-batch 8 &&
	ask "70b 10M on 576 GB200 NVL72" --model llama-3.1-70b --hardware gb200-nvl72 --gpus 576 --seq 10M --global-batch 2 &&
	ask "405b 128K on 16384 H100 without offload" --model llama-3.1-405b --hardware dgx-h100 --gpus 16384 --seq 128K \
		--global-batch 128 --offload none --framework megatron &&
	ask "405b 1M on 1024 H100" --model llama-3.1-405b --hardware dgx-h100 --gpus 1024 --seq 1M --global-batch 16 --objective memory
'

test_expect_success 'models with experts' '
	ask "Qwen3 235B 128K on 256 H100" --model qwen3-235b-a22b --hardware dgx-h100 --gpus 256 --seq 128K --framework megatron \
		--offload none &&
	ask "DeepSeek-V3 128K on 1024 H100" --model deepseek-v3 --hardware dgx-h100 --gpus 1024 --seq 128K --framework megatron \
		--offload none &&
	ask "DeepSeek-V3 128K on 288 GB200 NVL72" --model deepseek-v3 --hardware gb200-nvl72 --gpus 288 --seq 128K \
		--framework megatron --zero 1 --offload none
'

# The figures of docs/configurations.md: change them there too.
test_expect_success 'what is better than two recipes' '
	h="--model llama-3.1-70b --hardware dgx-h100 --gpus 512 --seq 1M --global-batch 16" &&
	b="--model llama-3.1-70b --hardware dgx-b200 --gpus 64 --seq 1M --global-batch 16" &&
	ask "recipe H100: tp 8 sp 8 pp 8" $h --framework megatron --offload none --tp 8 --sp 8 --pp 8 &&
	ask "recipe H100: zero 1" $h --framework megatron --offload none --zero 1 &&
	ask "recipe H100: no offload" $h --framework megatron --offload none &&
	ask "recipe H100: all" $h &&
	ask "recipe B200: tp 4 sp 4 pp 4" $b --framework megatron --offload none --tp 4 --sp 4 --pp 4 &&
	ask "recipe B200: zero 1" $b --framework megatron --offload none --zero 1 &&
	ask "recipe B200: no offload" $b --framework megatron --offload none &&
	ask "recipe B200: all" $b
'

test_expect_success 'nothing has moved' '
	golden "$top/tests/golden/plans.csv" plans.csv
'

test_done
