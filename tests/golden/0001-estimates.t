#!/bin/sh
# A few hundred layouts and what they come to. A change of these figures is reviewed as a diff: `make bless` rewrites
# estimates.csv, and the commit says what moved and why.
test_description='golden table of estimates'
. "$(dirname "$0")/../cli/lib-seqplan.sh"

# rows LABEL OPTIONS...: appends the reduced table of one product of settings
rows() {
	label=$1
	shift
	code=0
	seqplan estimate "$@" --format json >table.json 2>err </dev/null || code=$?
	test "$code" -le 1 || { cat err >&2; return 1; }
	"$top/tests/golden/golden.pl" "$label" <table.json >>estimates.csv
}

# shellcheck disable=SC2034 # used inside the quoted tests
methods=none,naive,allgather,ulysses,ring,zigzag,striped,usp,double-ring,fused-ring

test_expect_success 'methods, lengths and machines' '
	rows "8b 8 GPUs" --model llama-3.1-8b --gpus 8 --zero 3 --global-batch 8 --sp 8 --hardware dgx-h100 \
		--vary sp-method=$methods --vary seq=16K,128K,393216 &&
	rows "8b 32 GPUs" --model llama-3.1-8b --gpus 32 --zero 3 --global-batch 4 --sp 32 --seq 512K --hardware dgx-h200 \
		--vary sp-method=allgather,ring,zigzag,striped,usp,double-ring --vary network=ib-ndr,eth-100g,ideal &&
	rows "32b machines" --model qwen3-32b --gpus 8 --zero 3 --global-batch 2 --sp 8 --seq 128K --sp-method zigzag --hardware dgx-h100 \
		--vary hardware=dgx-a100,dgx-h100,dgx-h200,dgx-b200,dgx-b300,gb200-nvl72,gb300-nvl72,h100-pcie-4 &&
	rows "8b PCIe" --model llama-3.1-8b --gpus 4 --zero 3 --global-batch 2 --sp 4 --sp-method zigzag \
		--hardware h100-pcie-4 --vary seq=32K,64K
'

test_expect_success 'frameworks' '
	rows "7b frameworks" --model llama-2-7b --hardware dgx-h200 --gpus 16 --zero 1 --global-batch 12 --sp 4 --seq 96K \
		--vary framework=megatron,torch,deepspeed,alst,ring-flash-attn,ideal --vary sp-method=allgather,ulysses,zigzag,ring
'

test_expect_success 'tensor and pipeline parallelism, schedules, recomputation, ZeRO' '
	rows "70b tp pp" --model llama-3.1-70b --hardware dgx-h100 --gpus 512 --seq 1M --global-batch 32 --tp 8 --sp 8 --pp 8 \
		--vary tp=1,2,8 --vary recompute=none,selective,full,block:3 &&
	rows "405b schedules" --model llama-3.1-405b --hardware dgx-b200 --gpus 1024 --seq 64K --global-batch 64 --tp 8 --sp 2 --pp 8 \
		--pp-layers auto --vary schedule=gpipe,1f1b,zb-h1,zbv,dualpipe &&
	rows "8b zero" --model llama-3.1-8b --hardware dgx-h100 --gpus 24 --seq 48K --global-batch 24 --tp 2 --sp 4 \
		--vary zero=0,1,2,3 --vary tp-sp=on,off
'

test_expect_success 'experts, latents, windows' '
	rows "experts" --model mixtral-8x7b --hardware dgx-h100 --gpus 64 --seq 32K --global-batch 64 --tp 2 --sp 2 --pp 2 \
		--vary ep=1,2,4,8 --vary model=mixtral-8x7b,qwen3-235b-a22b,gpt-oss-20b &&
	rows "deepseek" --model deepseek-v3 --hardware dgx-h200 --gpus 256 --seq 32K --global-batch 128 --pp 8 --pp-layers auto --ep 32 --tp 1 --sp 2 \
		--vary sp-method=ulysses,allgather,zigzag --vary model=deepseek-v3,kimi-k2
'

test_expect_success 'precision, offload, LoRA, masks, documents' '
	rows "8b precision" --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --sp 4 --tp 2 --seq 128K --global-batch 4 \
		--vary precision=bf16,fp8,fp32 --vary attention=cudnn,fa2 &&
	rows "8b memory" --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --sp 8 --seq 512K --global-batch 1 --zero 3 \
		--vary offload=none,activations,optimizer --vary train=full,lora:16 &&
	rows "8b masks" --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --sp 8 --seq 128K --global-batch 1 --sp-method ulysses --framework megatron \
		--vary mask=causal,full,window:4096 --vary documents=8K,128K
'

test_expect_success 'nothing has moved' '
	golden "$top/tests/golden/estimates.csv" estimates.csv
'

test_done
