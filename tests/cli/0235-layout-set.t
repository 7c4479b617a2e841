#!/bin/sh
test_description='what --set overrides stands in every answer, and --layout applies it again'
. "$(dirname "$0")/lib-seqplan.sh"

shared='--model llama-3.1-8b --hardware dgx-h100 --gpus 16 --sp 16 --seq 128K'
experts='--model mixtral-8x7b --hardware dgx-h100 --gpus 16 --seq 8K --ep 8'
slow='--set network.bandwidth=10Gb/s'
export shared experts slow

# alike PATHS FILE FILE: the two answers have the same there.
alike() {
	for path in $1; do
		test "$(json_get "$2" "$path")" = "$(json_get "$3" "$path")" || {
			echo "$path differs: $(json_get "$2" "$path") $(json_get "$3" "$path")" >&2
			return 1
		}
	done
}

# reads_back WORDS: the answer of WORDS says what was set, and its file alone gives it again, to the last key.
reads_back() {
	# shellcheck disable=SC2086 # the options are words
	{ seqplan estimate $1 --format json >first.json || test $? -eq 1; } &&
	{ seqplan estimate --layout first.json --format json >second.json || test $? -eq 1; } || return 1
	diff first.json second.json
}

# moves WORDS: and it is another answer than without them.
moves() {
	# shellcheck disable=SC2086
	{ seqplan estimate $shared --format json >plain.json || test $? -eq 1; } && reads_back "$shared $1" || return 1
	test "$(json_get plain.json step_time_s) $(json_get plain.json headroom_bytes)" != \
		"$(json_get second.json step_time_s) $(json_get second.json headroom_bytes)"
}

while read -r words
do
	test_expect_success "read back: $words" '
		moves "$words" && test "$(json_get first.json set)" != "[]"
	'
done <<'LIST'
--set network.bandwidth=10Gb/s
--set network.latency=1ms
--set gpu.hbm_bandwidth=1TB/s
--set gpu.hbm_capacity=60GiB
--set kernels.forward_hidden_passes=40
--set intra.bandwidth=50GB/s
--set node.nvlink_domain=4
--set model.num_hidden_layers=16
--set framework.tp_overlap=0.5 --set framework.host_tail=10ms
--set loss.backward_bytes_per_logit=40
--set run.loss=plain --set run.gradient_dtype=bf16
--tp 8 --sp 2 --set layout.order=cp-tp-ep-dp-pp
--set gpu.hbm_bandwidth=1TB/s --set gpu.hbm_bandwidth=2TB/s --set gpu.hbm_bandwidth=1TB/s
LIST

test_expect_success 'every answer has the key, an empty list when nothing is set' '
	expect_exit 0 seqplan estimate $shared --format json && test "$(json_get out set)" = "[]" &&
	expect_exit 0 seqplan estimate $shared $slow --set gpu.price=3/h --format json &&
	test "$(json_get out set)" = "[\"network.bandwidth=10Gb/s\",\"gpu.price=3/h\"]" &&
	expect_exit 0 seqplan estimate $shared $slow --set gpu.price=3/h --set network.bandwidth=20Gb/s --format json &&
	test "$(json_get out set)" = "[\"gpu.price=3/h\",\"network.bandwidth=20Gb/s\"]"
'

test_expect_success 'the command line wins over the answer, path by path' '
	seqplan estimate $shared $slow --set gpu.hbm_bandwidth=1TB/s --format json >answer.json &&
	expect_exit 0 seqplan estimate --layout answer.json --set network.bandwidth=20Gb/s --format json && cp out again.json &&
	expect_exit 0 seqplan estimate $shared --set network.bandwidth=20Gb/s --set gpu.hbm_bandwidth=1TB/s --format json &&
	alike "step_time_s communication memory_bytes" out again.json &&
	test "$(json_get again.json set)" = "[\"gpu.hbm_bandwidth=1TB/s\",\"network.bandwidth=20Gb/s\"]" &&
	seqplan estimate --layout answer.json --set run.loss=plain --format json >plain.json &&
	expect_exit 0 seqplan estimate --layout plain.json --set run.loss=fused --format json &&
	test "$(json_get out layout.run.loss)" = fused
'

test_expect_success 'a layout alone has none' '
	json_get answer.json layout >layout.json &&
	expect_exit 0 seqplan estimate $shared --layout layout.json --format json && test "$(json_get out set)" = "[]"
'

test_expect_success 'what is no setting is refused' '
	perl -pe "s/\"gpu.hbm_bandwidth=1TB.s\"/7/" answer.json >number.json &&
	expect_error 3 "\$.set: expected texts such as" seqplan estimate --layout number.json &&
	perl -pe "s/gpu.hbm_bandwidth=1TB/gpu.hbm_bandwith=1TB/" answer.json >misspelt.json &&
	expect_error 2 "hbm_bandwidth" seqplan estimate --layout misspelt.json
'

test_expect_success 'flops, --only and --tokens of an answer are read back too' '
	reads_back "$shared --flops full --tokens 15T" && test "$(json_get second.json run.tokens)" = 15000000000000 &&
	reads_back "$shared --only attention" && test "$(json_get second.json only)" = attention &&
	reads_back "$experts --train lora:16 --flops full" &&
	expect_exit 0 seqplan estimate --layout second.json --flops causal --tokens 1T --format json &&
	test "$(json_get out flops)" = causal && test "$(json_get out run.tokens)" = 1000000000000 &&
	perl -pe "s/\"flops\": \"full\"/\"flops\": \"half\"/" first.json >half.json &&
	expect_error 3 "\$.flops" seqplan estimate --layout half.json
'

test_expect_success 'headings say what is set, once and within the width' '
	expect_exit 0 seqplan estimate $shared $slow && grep "^set  network.bandwidth=10Gb/s$" out &&
	expect_exit 0 seqplan estimate --layout answer.json && grep "^set  network.bandwidth=10Gb/s gpu.hbm_bandwidth=1TB/s$" out &&
	expect_exit 0 seqplan estimate --layout answer.json --format markdown &&
	grep "^- set: .network.bandwidth=10Gb/s gpu.hbm_bandwidth=1TB/s.$" out &&
	expect_exit 0 seqplan estimate $shared && ! grep "^set" out &&
	expect_exit 0 seqplan compare --layout answer.json && grep "^set  network.bandwidth=10Gb/s gpu" out &&
	expect_exit 0 seqplan compare --layout answer.json --format markdown && grep "^- set: .network.bandwidth=10Gb/s gpu" out &&
	expect_exit 0 seqplan estimate $shared $slow --set gpu.hbm_bandwidth=1TB/s --set gpu.price=3/h --set run.loss=plain \
		--set intra.bandwidth=50GB/s --set framework.tp_overlap=0.5 &&
	grep -A 1 "^set  network" out | grep "^     [a-z]*[.]" && awk "length > 100 { bad = 1 } END { exit bad }" out
'

test_expect_success '--vary says what its rows share, not what they vary' '
	expect_exit 0 seqplan estimate $shared $slow --vary seq=64K,128K && grep "^set  network.bandwidth=10Gb/s$" out &&
	expect_exit 0 seqplan estimate $shared $slow --vary seq=64K,128K --format markdown &&
	grep "^- set: .network.bandwidth=10Gb/s.$" out &&
	expect_exit 0 seqplan estimate $shared --set gpu.price=3/h --vary network.bandwidth=10Gb/s,20Gb/s &&
	grep "^set  gpu.price=3/h$" out && ! grep "set network" out && ! grep "Gb/s=" out &&
	seqplan estimate $shared --format json >plain.json && seqplan estimate $shared $slow --format json >slow.json &&
	expect_exit 0 seqplan estimate --vary layout=plain.json,slow.json && grep "^ *set network.bandwidth=10Gb/s$" out
'

test_expect_success 'csv has a column when something is set' '
	expect_exit 0 seqplan estimate $shared $slow --set gpu.price=3/h --format csv && head -n 1 out | grep ",flops,set,layout.tp," &&
	sed -n 2p out | grep ",network.bandwidth=10Gb/s; gpu.price=3/h," &&
	expect_exit 0 seqplan estimate $shared --format csv && ! head -n 1 out | grep ",set," &&
	expect_exit 0 seqplan estimate $shared $slow --vary seq=64K,128K --format csv && head -n 1 out | grep ",set," &&
	expect_exit 0 seqplan compare $shared --format csv && ! head -n 1 out | grep ",set,"
'

test_expect_success 'diff lists what only one side sets, or sets otherwise' '
	expect_exit 0 seqplan diff plain.json slow.json && ! grep "same layout" out &&
	grep "^  set.network.bandwidth  *-  *10Gb/s$" out &&
	expect_exit 0 seqplan diff slow.json "--layout slow.json --set network.bandwidth=20Gb/s" --set gpu.hbm_bandwidth=1TB/s &&
	grep "^  set.network.bandwidth  *10Gb/s  *20Gb/s$" out && grep "^set  gpu.hbm_bandwidth=1TB/s$" out &&
	expect_exit 0 seqplan diff plain.json "--layout plain.json --set gpu.hbm_bandwidth=1TB/s" &&
	grep "^  set.gpu.hbm_bandwidth  *-  *1TB/s$" out &&
	expect_exit 0 seqplan diff slow.json plain.json --format json &&
	test "$(json_get out question)" = "{\"set.network.bandwidth\":[\"10Gb/s\",null]}" &&
	expect_exit 0 seqplan diff slow.json slow.json && grep "same layout" out
'

test_expect_success 'the links of a comparison are its own, not those of the answer' '
	expect_exit 0 seqplan compare $shared $slow --format json && cp out direct.json &&
	seqplan estimate $shared $slow --format json >slow.json &&
	expect_exit 0 seqplan compare --layout slow.json --format json &&
	alike "rows.5.interconnects rows.5.best_interconnect rows.5.set rows.7.interconnects" direct.json out
'

# the lists of pp_layers: none, auto, padded and explicit
while read -r words
do
	test_expect_success "layers by stage are read back: $words" '
		reads_back "$words"
	'
done <<'LIST'
--model llama-2-7b --hardware dgx-b300 --gpus 64 --seq 1M --sp 2 --pp 8 --vpp 4 --schedule interleaved
--model llama-2-7b --hardware dgx-b300 --gpus 64 --seq 1M --sp 2 --pp 8 --vpp 4 --schedule interleaved --pp-layers auto
--model llama-2-7b --hardware dgx-b300 --gpus 64 --seq 1M --sp 2 --pp 8 --vpp 4 --schedule interleaved --pp-layers padded
--model llama-2-7b --hardware dgx-b300 --gpus 64 --seq 1M --sp 2 --pp 8 --vpp 2 --schedule interleaved --pp-layers 5,3,4,4,4,4,5,3
--model llama-2-7b --hardware dgx-b300 --gpus 64 --seq 1M --sp 2 --pp 8
--model llama-3.1-405b --hardware dgx-h100 --gpus 1024 --seq 8K --pp 16 --tp 8 --pp-layers auto
--model llama-3.1-405b --hardware dgx-h100 --gpus 1024 --seq 8K --pp 16 --tp 8 --pp-layers padded
LIST

test_expect_success 'padded stays a word, the others a list' '
	expect_exit 0 seqplan estimate --model llama-2-7b --hardware dgx-b300 --gpus 64 --seq 1M --sp 2 --pp 8 --vpp 4 \
		--schedule interleaved --pp-layers padded --format json && test "$(json_get out layout.pp_layers)" = padded &&
	expect_exit 0 seqplan estimate --model llama-2-7b --hardware dgx-b300 --gpus 64 --seq 1M --sp 2 --pp 8 --pp-layers auto \
		--format json && test "$(json_get out layout.pp_layers)" = "[4,4,4,4,4,4,4,4]"
'

# answer FILE OPTION...: the answer in FILE, whether it fits or not.
answer() {
	file=$1 && shift && code=0
	seqplan estimate "$@" --format json >"$file" 2>err || code=$?
	test "$code" -le 1
}

# same KEY: of read.json and direct.json.
same() {
	test "$(json_get read.json "$1")" = "$(json_get direct.json "$1")"
}

test_expect_success 'what followed from a default follows anew when its origin changes' '
	one="--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 128K --global-batch 128" &&
	answer saved.json $one --sp 8 --zero 3 --set run.gradient_dtype=bf16 &&
	answer read.json --layout saved.json --tp 4 --sp 2 &&
	answer direct.json $one --zero 3 --tp 4 --sp 2 --set run.gradient_dtype=bf16 &&
	same layout.tp_sp && same peak_bytes && same step_time_s &&
	answer read.json --layout saved.json --framework torch &&
	answer direct.json $one --sp 8 --zero 3 --framework torch --set run.gradient_dtype=bf16 &&
	same layout.kernels && same peak_bytes && same step_time_s &&
	answer saved.json $one --pp 2 --vpp 2 --sp 4 && answer read.json --layout saved.json --vpp 1 &&
	test "$(json_get read.json layout.schedule)" = 1f1b &&
	answer saved.json $one --pp 2 --sp 4 && answer read.json --layout saved.json --vpp 2 &&
	test "$(json_get read.json layout.schedule)" = interleaved &&
	answer saved.json $one && answer read.json --layout saved.json --sp 2 &&
	test "$(json_get read.json layout.sp_method)" = zigzag
'

test_expect_success 'links inside a node are a network of their own file' '
	answer saved.json --model llama-3.1-8b --hardware h100-pcie-4 --gpus 4 --sp 4 --seq 8K &&
	answer read.json --layout saved.json && cmp saved.json read.json
'

test_done
