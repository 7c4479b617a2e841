#!/bin/sh
test_description='layouts: rules with their numbers and the nearest legal values, and --layout'
. "$(dirname "$0")/lib-seqplan.sh"

# estimate OPTION...
estimate() {
	seqplan estimate --hardware dgx-h100 --model llama-3.1-8b "$@"
}

# priced OPTION...: the answer in out, whether it fits or not.
priced() {
	code=0
	estimate "$@" --format json >out 2>err || code=$?
	test "$code" -le 1
}

test_expect_success 'degrees multiply to the cluster' '
	expect_error 2 "8 gpus are not tp 1 x sp 3 x pp 1 x dp 2 = 6; legal sp with this tp and pp: 1, 2, 4, 8" \
		estimate --gpus 8 --sp 3 --seq 128K &&
	expect_error 2 "= 1e+18; tp x sp x pp must be one of 1, 2, 4, 8" estimate --gpus 8 --tp 1000000 --pp 1000000 --dp 1000000 --seq 8K
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
	json_get out warnings | grep -q "2 micro-batches over pp 8 stages: stages wait" && json_get out warnings | grep -q "the pipeline idles for [0-9]* % of the step"
'

test_expect_success 'schedules have their chunks, stages and micro-batches' '
	pipeline="--gpus 64 --pp 8 --seq 8K" &&
	priced $pipeline --vpp 2 && test "$(json_get out layout.schedule)" = interleaved &&
	priced $pipeline --schedule zbv && test "$(json_get out layout.vpp)" = 2 &&
	for schedule in gpipe 1f1b zb-h1 dualpipe
	do
		priced $pipeline --schedule $schedule && test "$(json_get out layout.schedule)" = $schedule || return 1
	done &&
	expect_error 2 "vpp 2: 1f1b has one chunk a rank" estimate $pipeline --vpp 2 --schedule 1f1b &&
	expect_error 2 "interleaved with vpp 1: it needs two chunks" estimate $pipeline --schedule interleaved &&
	expect_error 2 "32 layers do not divide by pp 8 x vpp 3 = 24 (megatron has trained 24 of them without a word)" \
		estimate $pipeline --vpp 3 &&
	expect_error 2 "interleaved with 12 micro-batches: it needs a multiple of pp 8; nearest --global-batch: 64, 128" \
		estimate $pipeline --vpp 2 --global-batch 96 &&
	expect_error 2 "dualpipe with 8 micro-batches: it needs 2 x pp 8 = 16 or more; raise --global-batch to 128" \
		estimate $pipeline --schedule dualpipe --global-batch 64
'

test_expect_success 'experts over the ranks of the other axes' '
	moe="--model qwen3-235b-a22b --gpus 64 --tp 4 --zero 1 --seq 4K" &&
	priced $moe --ep 32 --etp 2 && test "$(json_get out layout.ep)" = 32 &&
	expect_error 2 "ep 24: 128 experts do not divide by it; legal ep:" estimate $moe --ep 24 &&
	expect_error 2 "64 gpus are no multiple of pp 1 x ep 64 x etp 2 = 128, the ranks of the experts; legal ep" \
		estimate $moe --ep 64 --etp 2 &&
	expect_error 2 "ep 8, etp 1: llama-3.1-8b has no experts" estimate --gpus 8 --seq 4K --ep 8
'

test_expect_success 'masks, documents, training and offloading' '
	whole="--gpus 8 --sp 8 --sp-method allgather --seq 128K --zero 3" &&
	priced $whole && json_get out step_time_s >causal &&
	priced $whole --mask window:4K && json_get out step_time_s >window &&
	priced $whole --documents 8K && json_get out step_time_s >documents &&
	priced $whole --mask full && json_get out step_time_s >full &&
	perl -e "exit !(\$ARGV[0] < \$ARGV[2] && \$ARGV[1] < \$ARGV[2] && \$ARGV[2] < \$ARGV[3])" \
		"$(cat window)" "$(cat documents)" "$(cat causal)" "$(cat full)" &&
	priced $whole --train lora:16 --offload optimizer,activations &&
	test "$(json_get out layout.offload)" = activations,optimizer &&
	expect_error 2 "documents of 131073 tokens are longer than the sequence of 131072" \
		estimate $whole --documents 131073 &&
	expect_error 2 "--mask: expected model, causal, full or window:N" estimate $whole --mask sliding &&
	expect_error 2 "--train: expected full or lora:R" estimate $whole --train lora &&
	expect_error 2 "--offload: expected none, or a list of activations, optimizer and parameters" \
		estimate $whole --offload gradients &&
	expect_error 2 "offload parameters with zero 1" estimate $whole --zero 1 --offload parameters
'

test_expect_success 'what is not built yet says what to use' '
	expect_error 2 "--mode prefill is not built yet; use --mode train" estimate --gpus 8 --seq 8K --mode prefill
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

test_expect_success 'an answer is a question of its own, and options beside it win' '
	seqplan estimate --layout first --format json >again &&
	for path in model hardware network gpus seq global_batch layout assumed step_time_s
	do
		json_get first "$path" >a && json_get again "$path" >b && test_cmp a b || return 1
	done &&
	seqplan estimate --layout first --gpus 128 --hardware dgx-h200 --attention fa2 --format json >wider &&
	test "$(json_get wider layout.dp)" = $((2 * $(json_get first layout.dp))) &&
	test "$(json_get wider hardware)" = dgx-h200 && test "$(json_get wider global_batch)" = 8
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
	echo "{\"schema\": \"seqplan.estimate/9\", \"layout\": {\"tp\": 2}}" >other.json &&
	expect_error 3 "other.json: \$.schema: expected \"seqplan.estimate/1\", found \"seqplan.estimate/9\"" \
		estimate --gpus 8 --seq 8K --layout other.json &&
	expect_error 3 "no-such.json" estimate --gpus 8 --seq 8K --layout no-such.json
'

test_expect_success 'documents shorter than the ranks that cut them are a row with a rule' '
	whole="--gpus 8 --sp 8 --seq 128K --zero 3" &&
	for method in zigzag ring striped allgather double-ring fused-ring; do
		expect_error 2 "documents of 7 tokens are shorter than the sp 8 ranks that cut each; use at least 8" \
			estimate $whole --sp-method $method --framework ideal --documents 7 || return 1
	done &&
	priced $whole --sp-method zigzag --documents 8 && priced $whole --sp-method ulysses --documents 7 &&
	expect_exit 0 estimate $whole --vary documents=7,8K --format json && json_get out rows.0.error.text | grep "of 7 tokens"
'

test_expect_success 'no NIC, no network' '
	expect_error 2 "16 gpus need a network and the nodes of dgx-h100 have no NIC: add --set node.nics=N" \
		estimate --gpus 16 --sp 16 --seq 128K --set node.nics=0 &&
	expect_error 2 "4 gpus need a network and the nodes of h100-pcie-2 have no NIC" \
		estimate --hardware h100-pcie-2 --gpus 4 --network ib-ndr --seq 4K --sp 4 &&
	expect_error 2 "8 gpus are 2 nodes, and h100-pcie-4 has only links inside its node: add --network NAME" \
		estimate --hardware h100-pcie-4 --gpus 8 --seq 64K --tp 4 &&
	priced --hardware h100-pcie-4 --gpus 8 --seq 64K --tp 4 --network ib-ndr
'

test_expect_success '--mask causal sets the windows of the model aside' '
	oss="--model gpt-oss-20b --gpus 8 --seq 64K" &&
	priced $oss && test "$(json_get out mask)" = model && json_get out step_time_s >model &&
	priced $oss --mask model && test "$(json_get out step_time_s)" = "$(cat model)" &&
	priced $oss --mask causal && json_get out warnings | grep "replaces the window of 128" &&
	json_get out step_time_s >causal &&
	priced $oss --mask window:64K && test "$(json_get out step_time_s)" = "$(cat causal)" &&
	perl -e "exit !(\$ARGV[0] < \$ARGV[1])" "$(cat model)" "$(cat causal)" &&
	priced --seq 8K --gpus 8 && test "$(json_get out mask)" = causal
'

test_expect_success 'a transfer holds no more multiprocessors than there are' '
	expect_error 2 "gpu.network_communication_sms: expected at most the sm_count of 132, found 133" \
		estimate --gpus 16 --sp 16 --seq 128K --set gpu.network_communication_sms=133
'

test_expect_success 'a latency set by hand counts inside a domain too' '
	whole="--gpus 8 --sp 8 --seq 128K --zero 3 --sp-method ulysses" &&
	priced $whole && json_get out step_time_s >plain &&
	priced $whole --set intra.latency=1ms && json_get out step_time_s >slow &&
	perl -e "exit !(\$ARGV[1] > \$ARGV[0])" "$(cat plain)" "$(cat slow)"
'

test_expect_success 'host memory that is short is named' '
	expect_exit 1 estimate --gpus 8 --seq 8K --offload optimizer --set node.host_memory=1GB --format json &&
	json_get out warnings | grep "host memory is" && ! json_get out warnings | grep "GiB short"
'

test_expect_success 'a full mask where an implementation balances a causal one is a warning' '
	whole="--gpus 8 --sp 8 --seq 128K --zero 3 --mask full" &&
	priced $whole --framework ring-flash-attn && json_get out warnings | grep "zigzag in ring-flash-attn balances a causal mask" &&
	priced $whole --framework torch --sp-method allgather && json_get out warnings | grep "allgather in torch balances" &&
	priced $whole --framework ring-flash-attn --sp-method ring && ! json_get out warnings | grep "balances" &&
	priced $whole --framework megatron --sp-method allgather && ! json_get out warnings | grep "balances"
'

test_expect_success 'heads wider than any kernel, degrees that sp has, a chunk without a chunked loss' '
	expect_error 2 "head dimension 512: attention kernels end at 256; only naive attends with it" \
		estimate --gpus 2 --sp 2 --seq 128K --set model.head_dim=512 &&
	priced --gpus 1 --seq 8K --sp-method naive --set model.head_dim=512 &&
	expect_exit 2 estimate --gpus 4 --sp 4 --sp-method usp --sp-ulysses 3 --seq 128K &&
	grep "legal degrees here: 2, 4" err && ! grep "2, 4, 8" err &&
	priced --gpus 8 --sp 8 --seq 128K --set run.loss_chunk=4096 &&
	json_get out warnings | grep "run.loss_chunk has no effect on the fused loss" &&
	priced --gpus 8 --sp 8 --seq 128K --set run.loss_chunk=4096 --set run.loss=chunked &&
	! json_get out warnings | grep "no effect"
'

test_expect_success 'a file by its path is read back by its path' '
	mkdir here && sed "s/14336/8192/" "$top/models/llama-3.1-8b.json" >here/llama-3.1-8b.json &&
	sed "s/\"h100-sxm\"/\"a100-sxm-80\"/" "$top/hardware/dgx-h100.json" >here/box.json &&
	code=0 && seqplan estimate --model here/llama-3.1-8b.json --hardware here/box.json --gpus 8 --sp 8 --seq 64K \
		--format json >by-path.json || code=$? && test "$code" -le 1 &&
	test "$(json_get by-path.json model_file)" = here/llama-3.1-8b.json &&
	test "$(json_get by-path.json hardware_file)" = here/box.json &&
	expect_exit "$code" seqplan estimate --layout by-path.json --format json && cmp out by-path.json &&
	priced --gpus 8 --sp 8 --seq 64K && ! grep _file out
'

test_done
