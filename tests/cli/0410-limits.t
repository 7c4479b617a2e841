#!/bin/sh
test_description='limits: the longest sequence, the largest micro-batch, the fewest GPUs'
. "$(dirname "$0")/lib-seqplan.sh"

layout='--model llama-2-7b --hardware dgx-h100 --sp 6 --zero 3'
# A space of a few thousand layouts.
space='--model llama-2-7b --hardware dgx-h100 --zero 3 --recompute full --offload none'
export layout space

# within_100 FILE: no line is longer than a screen, none ends in a space.
within_100() {
	awk 'length > 100 || / $/ { print FILENAME ":" FNR ": " $0; bad = 1 } END { exit bad }' "$1" >&2
}

# fits SEQ: whether estimate says that the layout on 6 GPUs holds so many tokens.
fits() {
	code=0
	# shellcheck disable=SC2086 # options of their own
	seqplan estimate $layout --gpus 6 --seq "$1" --format json >estimate.json 2>err || code=$?
	test "$code" -le 1 && json_get estimate.json fits
}

test_expect_success 'the contract keys of a layout' '
	expect_exit 0 seqplan limits $layout --gpus 6 --seq 120000 --format json && test ! -s err && cp out limits.json &&
	test "$(json_get out schema)" = seqplan.limits/1 &&
	for key in max_seq max_micro_batch min_gpus
	do
		test "$(json_get out $key)" -gt 0 && test "$(json_get out $key)" = "$(json_get out limits.$key.value)" || return 1
	done &&
	json_get out binding | grep "^hbm: " && test "$(json_get out binding_bytes)" -gt 0 &&
	test "$(json_get out of)" = "a layout"
'

test_expect_success 'what was asked is among the keys, what was not is null' '
	test "$(json_get limits.json model)" = llama-2-7b && test "$(json_get limits.json hardware)" = dgx-h100 &&
	test "$(json_get limits.json network)" = ib-ndr && test "$(json_get limits.json gpus)" = 6 &&
	test "$(json_get limits.json seq)" = 120000 && test "$(json_get limits.json global_batch)" = null &&
	expect_exit 0 seqplan limits $layout --nodes 3 --sp 8 --global-batch 48 --format json && test "$(json_get out gpus)" = 24 &&
	test "$(json_get out global_batch)" = 48 && test "$(json_get out seq)" = null
'

test_expect_success 'estimate says the same: the longest fits, one unit more does not' '
	longest=$(json_get limits.json max_seq) && unit=$(json_get limits.json limits.max_seq.unit) &&
	test "$(fits $longest)" = true && test "$(fits $((longest + unit)))" = false &&
	perl -e "exit !($(json_get limits.json limits.max_seq.peak_bytes) <= $(json_get limits.json limits.max_seq.capacity_bytes))"
'

test_expect_success 'the batch of an answer is given, unless the answer worked it out' '
	expect_exit 0 seqplan estimate $layout --gpus 6 --seq 120000 --global-batch 5 --format json && cp out given.json &&
	expect_exit 0 seqplan estimate $layout --gpus 6 --seq 120000 --format json && cp out own.json &&
	expect_exit 0 seqplan limits --layout given.json --format json && test "$(json_get out global_batch)" = 5 &&
	test "$(json_get out limits.max_seq.global_batch)" = 5 &&
	expect_exit 0 seqplan limits --layout own.json --format json && test "$(json_get out limits.max_seq.global_batch)" = 12 && test "$(json_get out global_batch)" = null
'

test_expect_success 'the layout of a limit reads back' '
	expect_exit 0 seqplan limits $layout --gpus 6 --format json && json_get out limits.max_seq.layout >layout.json &&
	longest=$(json_get out max_seq) &&
	expect_exit 0 seqplan estimate --model llama-2-7b --hardware dgx-h100 --gpus 6 --seq $longest --layout layout.json
'

test_expect_success 'what is not given leaves its limits null, with a reason' '
	expect_exit 0 seqplan limits $layout --gpus 6 --format json && test "$(json_get out max_micro_batch)" = null &&
	test "$(json_get out min_gpus)" = null && json_get out warnings | grep "max_micro_batch: needs --seq" &&
	expect_exit 0 seqplan limits $layout --seq 120000 --format json && test "$(json_get out max_seq)" = null &&
	json_get out warnings | grep "max_seq: needs --gpus" && test "$(json_get out min_gpus)" = 6 &&
	test "$(json_get out binding)" = "gpus: tp x sp x pp"
'

test_expect_success 'a length that breaks a rule has a longest one beside it all the same' '
	expect_exit 0 seqplan limits $layout --gpus 6 --seq 262144 --format json && test "$(json_get out max_seq)" -gt 262144 &&
	test "$(json_get out max_micro_batch)" = null && json_get out warnings | grep "max_micro_batch: sequence 262144 does not divide by 12" &&
	expect_error 2 "sequence 262144 does not divide by 12" seqplan limits $layout --seq 262144
'

test_expect_success 'nothing fits: null, exit code 1, and what it needs' '
	expect_exit 1 seqplan limits --model llama-3.1-405b --hardware dgx-h100 --gpus 6 --sp 6 --format json &&
	test "$(json_get out max_seq)" = null && json_get out warnings | grep "not even 12 tokens fit" &&
	test "$(json_get out limits.max_seq.fits)" = false && test "$(json_get out limits.max_seq.seq)" = 12 &&
	expect_exit 1 seqplan limits --model llama-3.1-405b --hardware dgx-h100 --gpus 6 --sp 6 &&
	grep "longest sequence  *none  *hbm: " out && grep "the smallest, [0-9.]* GiB at its peak, which does not fit" out &&
	grep "^  warning  *largest micro-batch: needs --seq" out &&
	grep "longest sequence  *none .*hbm: " out && within_100 out
'

test_expect_success 'everything fits: the limit is there or beyond' '
	expect_exit 0 seqplan limits $layout --gpus 6 --set gpu.hbm_capacity=99TB --set model.num_hidden_layers=3 --format json &&
	test "$(json_get out limits.max_seq.is_beyond)" = true && test "$(json_get out max_seq)" -gt 1073700000 &&
	json_get out warnings | grep "longer ones are not looked at" &&
	expect_exit 0 seqplan limits $layout --gpus 6 --set gpu.hbm_capacity=99TB --set model.num_hidden_layers=3 &&
	grep "longest sequence  *[0-9]* or more" out
'

test_expect_success 'a row for each method of a list, and the longest at the top' '
	expect_exit 0 seqplan limits --model llama-2-7b --hardware dgx-h100 --gpus 6 --sp 6 --zero 3 \
		--sp-method naive,allgather,ulysses,ring,zigzag --format json && cp out rows.json &&
	test "$(json_get out rows.0.sp_method)" = naive && test "$(json_get out rows.0.limits.max_seq.layout.dp)" = 6 &&
	test "$(json_get out rows.1.binding)" = "hbm: attention buffers" &&
	test -n "$(json_get out rows.2.error.rule)" && test "$(json_get out rows.2.max_seq)" = null &&
	test "$(json_get out max_seq)" = "$(json_get out rows.4.max_seq)" && test "$(json_get out sp_method)" = zigzag &&
	test "$(json_get out rows.0.max_seq)" -lt 65536 && test "$(json_get out rows.1.max_seq)" -lt "$(json_get out rows.4.max_seq)" &&
	expect_exit 0 seqplan limits --model llama-2-7b --hardware dgx-h100 --gpus 6 --sp 6 --zero 3 \
		--sp-method naive,allgather,ulysses,ring,zigzag && within_100 out && grep "^  naive  *ideal  *2.K" out &&
	grep "refused ulysses over 6 ranks" out
'

test_expect_success 'Markdown and CSV' '
	expect_exit 0 seqplan limits $layout --gpus 6 --seq 120000 --format markdown && grep "^| longest sequence *|" out &&
	expect_exit 0 seqplan limits $layout --gpus 6 --seq 120000 --format csv && test "$(wc -l <out)" -eq 2 &&
	head -n 1 out | grep "max_seq,max_micro_batch,min_gpus,binding" &&
	expect_exit 0 seqplan limits $layout --gpus 6 --sp-method allgather,zigzag --format csv && test "$(wc -l <out)" -eq 3
'

test_expect_success 'of any layout: at least as long as each of them, and found by a few searches' '
	expect_exit 0 seqplan limits $space --gpus 6 --format json && test "$(json_get out of)" = "any layout" &&
	test "$(json_get out max_seq)" -ge "$(json_get limits.json max_seq)" && cp out any.json &&
	json_get out limits.max_seq.layout >layout.json && longest=$(json_get out max_seq) &&
	expect_exit 0 seqplan estimate --model llama-2-7b --hardware dgx-h100 --gpus 6 --seq $longest --layout layout.json &&
	expect_exit 0 seqplan limits $space --gpus 6 --seq 120000 && within_100 out && grep "^  fewest GPUs " out
'

test_expect_success 'a batch that is given is kept' '
	expect_exit 0 seqplan limits $layout --gpus 6 --seq 120000 --global-batch 15 --format json &&
	test "$(json_get out limits.max_seq.global_batch)" = 15 && test $((15 % $(json_get out max_micro_batch))) = 0 &&
	expect_error 2 "expected --global-batch in sequences" seqplan limits $layout --gpus 6 --global-batch 3Mtok
'

test_expect_success 'errors name what is missing, what is broken and what to do' '
	expect_error 2 "--model is missing" seqplan limits --hardware dgx-h100 --gpus 6 &&
	expect_error 2 "--hardware is missing" seqplan limits --model llama-2-7b --gpus 6 &&
	expect_error 2 "--gpus (for lengths) or --seq (for clusters) is missing" \
		seqplan limits --model llama-2-7b --hardware dgx-h100 &&
	expect_error 2 "32 query heads do not divide by 6" seqplan limits $layout --gpus 6 --sp-method ulysses &&
	expect_error 2 "expected at most 131072 ranks together" seqplan limits --model llama-2-7b --hardware dgx-h100 --gpus 8 \
		--tp 1099511627776 --sp 1099511627776 &&
	expect_error 2 "give --sp" seqplan limits --model llama-2-7b --hardware dgx-h100 --gpus 6 --sp-method zigzag,ring &&
	expect_error 2 "given twice" seqplan limits $layout --gpus 6 --sp-method zigzag,zigzag &&
	expect_error 2 "leave out --only and --tokens" seqplan limits $layout --gpus 6 --only attention &&
	expect_error 2 "give --layout a file" seqplan limits --gpus 6 --layout - &&
	expect_error 3 "llama-2-7" seqplan limits --model llama-2-8b --hardware dgx-h100 --gpus 6 &&
	expect_error 3 "dgx-h100" seqplan limits --model llama-2-7b --hardware dgx-h10 --gpus 6
'

test_expect_success 'help lists what limits takes, and a refusal says what the tokens/s are of' '
	seqplan help limits >out && ! grep -e "--tokens" -e "--only" out && grep -e "--seq" out &&
	expect_error 2 "the tokens/s beside one are of its own step" seqplan limits $layout --gpus 6 --tokens 1T &&
	expect_exit 0 seqplan limits $space --gpus 6 && head -n 1 out | grep "limits of any layout$"
'

test_expect_success 'clusters of many nodes are told as at most so many, with a reason' '
	expect_exit 0 seqplan limits $space --seq 12M && grep "fewest GPUs  *at most [0-9]" out &&
	grep "warning  fewest GPUs: sizes are tried in steps" out && within_100 out &&
	expect_exit 0 seqplan limits $space --seq 12M --format json && test "$(json_get out limits.min_gpus.is_at_most)" = true &&
	expect_exit 0 seqplan limits $space --seq 180180 --format json && test "$(json_get out limits.min_gpus.is_at_most)" = false
'

test_expect_success 'an answer read by --layout says model, cluster and length' '
	expect_exit 0 seqplan estimate $layout --gpus 6 --seq 60000 --format json && cp out answer.json &&
	expect_exit 0 seqplan limits --layout answer.json --format json &&
	test "$(json_get out max_seq)" = "$(json_get limits.json max_seq)" && test "$(json_get out max_micro_batch)" -gt 0
'

test_expect_success 'where no network joins nodes, more GPUs are told to need one' '
	expect_exit 1 seqplan limits --model llama-3.1-70b --hardware h100-pcie-4 --seq 8K --tp 4 --zero 3 &&
	grep -q "nothing fits on up to 4 GPUs, and more need a network: add --network NAME" out &&
	expect_exit 1 seqplan limits --model llama-3.1-70b --hardware h100-pcie-4 --gpus 4 --seq 64K --offload none &&
	grep -q "more need a network" out &&
	expect_exit 1 seqplan plan --model llama-3.1-70b --hardware h100-pcie-4 --gpus 4 --seq 64K --framework megatron &&
	grep -q "need a network between nodes" out
'

test_expect_success 'a dp that does not fit the cluster is refused for that, not for a batch that nobody gave' '
	expect_exit 2 seqplan limits --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 64K --dp 3 --sp 2 &&
	grep "with this tp, sp and pp, dp is 4$" err
'

test_done
