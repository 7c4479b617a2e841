#!/bin/sh
test_description='estimate --sensitivity: how far the step time depends on the machine'
. "$(dirname "$0")/lib-seqplan.sh"

base='--model llama-3.1-8b --hardware dgx-h100 --gpus 48 --seq 96K --tp 2 --sp 6 --zero 3'
export base

# close A B: within 1e-9 of each other.
close() {
	perl -e 'exit !(abs($ARGV[0] - $ARGV[1]) < 1e-9)' -- "$1" "$2" || {
		echo "$1 is not $2" >&2
		return 1
	}
}

test_expect_success 'an answer without it is what it was' '
	expect_exit 0 seqplan estimate $base --format json && cp out plain.json && ! grep sensitivity plain.json &&
	expect_exit 0 seqplan estimate $base --sensitivity --format json && cp out with.json &&
	for path in step_time_s peak_bytes layout time_s memory_bytes communication warnings assumed
	do
		test "$(json_get plain.json $path)" = "$(json_get with.json $path)" || return 1
	done
'

test_expect_success 'a change is what --set gives' '
	now=$(json_get plain.json step_time_s) &&
	for case in "hbm_bandwidth gpu.hbm_bandwidth 3015GB/s 3685GB/s" "intra_bandwidth intra.bandwidth 405GB/s 495GB/s" \
		"network_bandwidth network.bandwidth 360Gb/s 440Gb/s"
	do
		set -- $case &&
		expect_exit 0 seqplan estimate $base --set $2=$3 --format json &&
		close "$(json_get with.json sensitivity.$1.down.step_time_change_frac)" \
			"$(perl -e "print $(json_get out step_time_s) / $now - 1")" &&
		expect_exit 0 seqplan estimate $base --set $2=$4 --format json &&
		close "$(json_get with.json sensitivity.$1.up.step_time_change_frac)" \
			"$(perl -e "print $(json_get out step_time_s) / $now - 1")" || return 1
	done
'

test_expect_success 'every figure has its paths, and only the network of one node changes nothing' '
	test "$(json_get with.json sensitivity.latency.paths)" = \
		"[\"network.latency\",\"intra.latency\",\"gpu.kernel_latency\",\"gpu.launch_latency\"]" &&
	expect_exit 0 seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 6 --seq 48K --sp 6 --zero 3 \
		--sensitivity --format json &&
	test "$(json_get out sensitivity.network_bandwidth.up.step_time_change_frac)" = 0 &&
	test "$(json_get out sensitivity.flop_rate.up.step_time_change_frac)" != 0
'

test_expect_success 'the table has a block of it, and so has Markdown' '
	expect_exit 0 seqplan estimate $base --sensitivity && grep "^  step time with  *now  10 % more  10 % less$" out &&
	grep "^  NVLink  *450 GB/s  *-" out && grep "^  HBM capacity  *79.6 GiB  *fits  *fits$" out &&
	awk "length > 100 || / \$/ { bad = 1 } END { exit bad }" out &&
	expect_exit 0 seqplan estimate $base --sensitivity --format markdown && grep "^| NVLink *| *450 GB/s" out &&
	expect_exit 0 seqplan estimate $base --sensitivity --format csv &&
	head -n 1 out | grep "sensitivity.flop_rate.up.step_time_change_frac"
'

test_expect_success 'a layout that fits by less than a tenth of the memory is told of' '
	peak=$(json_get plain.json peak_bytes) &&
	expect_exit 0 seqplan estimate $base --sensitivity --format json \
		--set gpu.hbm_capacity=$(perl -e "printf q(%.0fB), 1.05 * $peak") &&
	test "$(json_get out sensitivity.hbm_capacity.down.fits)" = false &&
	test "$(json_get out sensitivity.hbm_capacity.up.fits)" = true
'

test_expect_success 'it is of one layout' '
	expect_error 2 "--sensitivity is of one layout: leave out --vary" seqplan estimate $base --sensitivity --vary seq=48K,96K
'

space='--model llama-2-7b --hardware dgx-h100 --gpus 8 --zero 1 --recompute full --offload none --framework megatron'
export space

test_expect_success 'a plan says which layout wins with other figures' '
	expect_exit 0 seqplan plan $space --seq 64K --format json && cp out plan.json &&
	winner=$(json_get plan.json sensitivity.flop_rate.up.winner) &&
	echo "$winner" | grep "^tp [0-9]* sp [0-9]* .*, megatron$" &&
	for figure in hbm_bandwidth intra_bandwidth network_bandwidth flop_rate latency hbm_capacity
	do
		json_get plan.json sensitivity.$figure.above && json_get plan.json sensitivity.$figure.below || return 1
	done &&
	test "$(json_get plan.json sensitivity.network_bandwidth.above)" = null &&
	perl -e "exit !($(json_get plan.json sensitivity.hbm_capacity.below.value) > 0)"
'

# winner_at SETTING QUESTION: the layout that wins with it.
winner_at() {
	setting=$1 && shift && expect_exit 0 seqplan plan "$@" --set "$setting" --format json && json_get out plans.0.layout
}

test_expect_success 'plans just before and just after a crossing are of the old and of another layout' '
	for asked in "--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 128K --framework megatron" \
		"--model llama-3.1-8b --hardware dgx-h100 --gpus 16 --seq 64K --framework megatron"
	do
		expect_exit 0 seqplan plan $asked --format json && cp out asked.json &&
		old=$(json_get asked.json plans.0.layout) &&
		for crossing in "hbm_capacity gpu.hbm_capacity B" "flop_rate gpu.peak_bf16 FLOP/s"
		do
			set -- $crossing && value=$(json_get asked.json sensitivity.$1.above.value) &&
			test "$(json_get asked.json sensitivity.$1.above.is_bound)" = false &&
			before=$(winner_at $2=$(perl -e "printf q(%.0f%s), $value / 1.0015, q($3)") $asked) && test "$before" = "$old" &&
			after=$(winner_at $2=$(perl -e "printf q(%.0f%s), $value * 1.0001, q($3)") $asked) && test "$after" != "$old" ||
				return 1
		done || return 1
	done
'

test_expect_success 'a plan in which nothing fits says what would' '
	expect_exit 1 seqplan plan $space --seq 1M --format json && test "$(json_get out sensitivity)" = null &&
	json_get out nearest_miss.changes.0 | grep "^--zero 3 fits: tp 1 sp 8 " &&
	json_get out nearest_miss.changes | grep "GPUs of 1[0-9.]* GiB, such as H200" &&
	expect_exit 1 seqplan plan $space --seq 1M && grep "^  try  *--zero 3 fits: " out && grep "^  or  *--gpus 16 fits: " out
'

test_expect_success 'advice is in the options that were typed, and can be run' '
	one_node=$(echo "$space" | sed "s/--gpus 8/--nodes 1/") && two_nodes=$(echo "$space" | sed "s/--gpus 8/--nodes 2/") &&
	expect_exit 1 seqplan plan $one_node --seq 1M && grep "^  or  *--nodes 2 fits: " out && ! grep -e "--gpus 16 fits" out &&
	grep "^  or  *--offload [a-z+]* fits: " out && offload=$(sed -n "s/^  or  *--offload \([a-z+]*\) fits: .*/\1/p" out) &&
	expect_exit 0 seqplan plan $one_node --seq 1M --offload $offload &&
	expect_exit 0 seqplan plan $two_nodes --seq 1M
'

test_done
