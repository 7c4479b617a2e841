#!/bin/sh
test_description='--set: every input by its path'
. "$(dirname "$0")/lib-seqplan.sh"

# estimate OPTION...
estimate() {
	seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 8K "$@"
}

# figure PATH SETTING...: the answer at PATH with the settings.
figure() {
	figure_path=$1 && shift
	expect_exit 0 estimate --format json "$@" && json_get out "$figure_path"
}

# less A B
less() {
	perl -e 'exit !($ARGV[0] < $ARGV[1])' "$1" "$2"
}

test_expect_success 'settings move the answer the way they should' '
	base=$(figure step_time_s) &&
	less "$(figure step_time_s --set gpu.hbm_bandwidth=8TB/s --set gpu.elementwise_bandwidth=8TB/s)" "$base" &&
	less "$base" "$(figure step_time_s --set gpu.gemm.sustained_factor=0.5)" &&
	less "$(figure step_time_s --set model.num_hidden_layers=4)" "$base" &&
	less "$(figure peak_bytes --set run.gradient_dtype=bf16)" "$(figure peak_bytes)" &&
	less "$(figure memory_bytes.optimizer --set run.master_weights=false)" "$(figure memory_bytes.optimizer)" &&
	less "$(figure peak_bytes --zero 3 --recompute none --set run.tiled_mlp=true)" \
		"$(figure peak_bytes --zero 3 --recompute none)" &&
	less "$base" "$(figure step_time_s --set gpu.power_limit=350W)"
'

test_expect_success 'the last setting of a path counts' '
	figure step_time_s >once --set framework.host_tail=1s &&
	figure step_time_s >twice --set framework.host_tail=0s --set framework.host_tail=1s &&
	cmp once twice
'

test_expect_success 'what is set is no longer assumed' '
	figure assumed >assumed && grep -q "loss fused" assumed && grep -q "gradients fp32" assumed &&
	figure assumed --set run.loss=plain --set run.gradient_dtype=fp32 >assumed &&
	! grep -q "loss fused\|loss plain" assumed && ! grep -q "gradients" assumed
'

test_expect_success 'a bare number where a unit belongs' '
	expect_error 2 "gpu.hbm_bandwidth: expected a rate such as \"4.8TB/s\", found \"8\" (add a unit)" \
		estimate --set gpu.hbm_bandwidth=8
'

test_expect_success 'unknown paths get the nearest' '
	expect_error 2 "gpu.no_such_field" estimate --set gpu.no_such_field=8 &&
	expect_error 2 "did you mean \"gpu.hbm_bandwidth\"?" estimate --set gpu.hbm_bandwith=8TB/s &&
	expect_error 2 "did you mean \"network.bandwidth\"?" estimate --set netwrok.bandwidth=8TB/s &&
	expect_error 2 "did you mean model.num_hidden_layers?" estimate --set model.num_hiden_layers=4 &&
	expect_error 2 "model.zzz: unknown field of a config.json; seqplan show fields model lists those" \
		estimate --set model.zzz=4 &&
	expect_error 2 "expected PATH=VALUE" estimate --set gpu.hbm_bandwidth &&
	expect_error 2 "only layout.order is set this way" estimate --set layout.tp=8
'

test_expect_success 'impossible models through --set are usage errors' '
	expect_error 2 "num_key_value_heads: expected a divisor of the 32 query heads, found 5" \
		estimate --set model.num_key_value_heads=5 &&
	expect_error 2 "expected a whole number from 1 to" estimate --set model.hidden_size=wide
'

test_expect_success 'layout.order is any permutation of the five axes' '
	wide="--gpus 64 --tp 8 --sp 8" &&
	expect_exit 0 estimate $wide --format json &&
	test "$(json_get out layout.placement.tp)" = nvlink &&
	test "$(json_get out layout.placement.sp)" = network &&
	expect_exit 0 estimate $wide --format json --set layout.order=cp-tp-ep-dp-pp &&
	test "$(json_get out layout.placement.tp)" = network &&
	test "$(json_get out layout.placement.sp)" = nvlink &&
	test "$(json_get out layout.order)" = cp-tp-ep-dp-pp &&
	expect_error 2 "layout.order: expected tp, cp, ep, dp and pp once each" \
		estimate --set layout.order=tp-sp-ep-dp-pp
'

test_done
