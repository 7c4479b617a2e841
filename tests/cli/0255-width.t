#!/bin/sh
test_description='no line of a table is longer than 100 columns or ends in blanks'
. "$(dirname "$0")/lib-seqplan.sh"

# a model and an H100 by names that no line has room for
long=$(printf 'a-name-that-is-long-%.0s' 1 2 3 4 5 6)
cp "$top/models/llama-3.1-8b.json" "$long.json" || exit 1
export long

# narrow WORDS: the answer of WORDS keeps to the width.
narrow() {
	# shellcheck disable=SC2086 # the options are words
	{ seqplan $1 >out 2>err || test $? -eq 1; } || {
		cat err >&2
		return 1
	}
	test -s out && perl -CSD -ne '
		chomp;
		if (length > 100 || / $/) { print STDERR length, ": $_|\n"; $bad = 1 }
		END { exit($bad // 0) }' out
}

while read -r words
do
	test_expect_success "$words" '
		narrow "$(echo "$words" | sed "s/LONG/$long/g")"
	'
done <<'LIST'
estimate --model llama-3.1-70b --hardware dgx-h100 --gpus 1 --seq 1M --recompute block:1 --zero 2
estimate --model llama-3.1-70b --hardware dgx-h100 --gpus 1 --seq 8K
estimate --model llama-3.1-70b --hardware dgx-h100 --gpus 1 --seq 128M
estimate --model llama-3.1-70b --hardware dgx-h100 --gpus 1 --seq 128M --recompute none
estimate --model llama-3.1-70b --hardware dgx-h100 --gpus 1 --seq 128M --sp-method naive
estimate --model llama-3.1-70b --hardware dgx-h100 --gpus 8 --seq 128M --offload activations,optimizer --zero 3
estimate --model llama-3.1-70b --hardware dgx-h100 --gpus 8 --seq 1M --offload activations,optimizer,parameters --zero 3
estimate --model llama-3.1-70b --hardware dgx-h100 --gpus 8 --seq 1M --set node.host_memory=1GB --offload optimizer
estimate --model llama-3.1-70b --hardware dgx-h100 --gpus 4096 --seq 128M --sp 4096 --sp-method ring
estimate --model llama-3.1-70b --hardware dgx-h100 --gpus 4096 --seq 8K --tokens 15T
estimate --model llama-3.1-70b --hardware dgx-h100 --gpus 512 --seq 1M --tp 8 --sp 8 --pp 8 --set network.bandwidth=1MB/s
estimate --model llama-3.1-70b --hardware dgx-h100 --gpus 64 --seq 128M --only attention --sp 64
estimate --model llama-3.1-70b --hardware dgx-h100 --gpus 64 --seq 1M --tp 8 --sp 8 --explain
estimate --model llama-3.1-70b --hardware dgx-h100 --gpus 1 --seq 1M --recompute block:1 --zero 2 --explain
estimate --model llama-3.1-405b --hardware dgx-h100 --gpus 16384 --seq 8K --pp 16 --tp 8 --pp-layers auto --global-batch 16384
estimate --model llama-3.1-405b --hardware dgx-h100 --gpus 1024 --seq 1M --pp 16 --tp 8 --sp 8 --pp-layers padded --vpp 4
estimate --model llama-3.1-405b --hardware dgx-h100 --gpus 1024 --seq 1M --pp 16 --tp 8 --pp-layers 6,9,8,7,9,8,7,9,8,7,9,8,7,9,8,7
estimate --model llama-3.1-405b --hardware dgx-h100 --gpus 1008 --seq 8K --pp 126 --tp 8
estimate --model mixtral-8x7b --hardware dgx-h100 --gpus 512 --seq 64K --sp 8 --sp-method usp --sp-ulysses 4 --ep 8 --etp 2 --pp 8
estimate --model deepseek-v3 --hardware dgx-h100 --gpus 2048 --seq 128K --sp 16 --sp-method allgather --ep 64 --pp 16 --pp-layers auto --tp 2
estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 16 --sp 16 --sp-method double-ring --framework ideal --sp-inner 8 --seq 128M
estimate --model ./LONG.json --hardware dgx-h100 --gpus 16 --sp 16 --seq 128K
estimate --model ./LONG.json --hardware dgx-h100 --gpus 16 --seq 128K --vary sp=8,16
estimate --hardware dgx-h100 --gpus 16 --seq 128K --vary model=./LONG.json,llama-3.1-8b --vary sp=8,16
estimate --gpus 16 --vary model=llama-3.1-8b,llama-3.1-405b --vary hardware=dgx-h100,dgx-b300 --vary seq=128K,128M --vary recompute=full,none --vary offload=none,activations --vary sp=1,8 --vary zero=0,1
estimate --hardware dgx-h100 --gpus 64 --seq 128M --vary model=llama-3.1-8b,mixtral-8x7b,deepseek-v3 --vary sp=1,8,64 --vary ep=1,8
estimate --hardware dgx-h100 --seq 1M --vary model=llama-3.1-8b,llama-3.1-70b --vary framework=megatron,torch,alst --vary gpus=8,16
compare --model llama-3.1-70b --hardware dgx-h100 --gpus 8 --seq 128M --sp 8
compare --model llama-3.1-70b --hardware dgx-h100 --gpus 8 --seq 128M --sp 8 --offload activations,optimizer,parameters
compare --model llama-3.1-70b --hardware dgx-h100 --gpus 512 --seq 1M --tp 8 --sp 8 --pp 8 --offload activations,optimizer --train lora:16
compare --model ./LONG.json --hardware dgx-h100 --gpus 16 --seq 128K --sp 16
plan --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 256K --recompute full,none --zero 1,3
plan --model llama-3.1-70b --hardware dgx-h100 --gpus 16 --seq 128M --framework megatron --recompute full --sp 2,16
plan --model mixtral-8x7b --hardware dgx-h100 --gpus 16 --seq 64K --framework megatron --zero 1 --recompute none,full --sp 2,4
show fields
show models
show hardware dgx-h100
show hardware dgx-h100 --source
show model deepseek-v3
show frameworks
LIST

test_expect_success 'two layouts that differ in long lists' '
	expect_exit 1 seqplan diff "--pp 126 --tp 8 --sp 1" "--pp 63 --tp 16 --sp 1 --set gpu.hbm_bandwidth=1TB/s --recompute none" \
		--model llama-3.1-405b --hardware dgx-h100 --gpus 1008 --seq 128M &&
	perl -CSD -ne "chomp; \$bad = 1 if length > 100 || / \$/; END { exit(\$bad // 0) }" out
'

test_expect_success 'a headline too long to align keeps its parts whole' '
	expect_exit 1 seqplan estimate --model llama-3.1-70b --hardware dgx-h100 --gpus 1 --seq 1M --recompute block:1 --zero 2 &&
	grep "^  step     [0-9.]* s   .* tokens/s/GPU   .*MFU [0-9.]* %  HFU [0-9.]* %   bound: [a-z]*$" out &&
	grep "^  memory   .* GiB   does not fit.*   peak: " out
'

test_done
