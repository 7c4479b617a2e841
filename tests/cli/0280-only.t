#!/bin/sh
test_description='--only attention prices one layer, --tokens a whole run'
. "$(dirname "$0")/lib-seqplan.sh"

expected=$SHARNESS_TEST_SRCDIR/expected
export expected
one='--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --sp 8 --seq 128K --zero 3'
export one

# shape FILE: its words and signs, each figure a #, without remarks: what holds whatever the models say.
shape() {
	sed '/^  \(warning\|assumed\) /,$d; s/[0-9][0-9.]*/#/g; s/  */ /g' "$1"
}

# close_to A B FRAC: A and B differ by at most FRAC of B.
close_to() {
	perl -e 'my ($a, $b, $frac) = @ARGV; exit(abs($a - $b) <= $frac * abs($b) ? 0 : 1)' "$1" "$2" "$3" || {
		echo "expected $2 to $3, found $1" >&2
		return 1
	}
}

test_expect_success 'the answer is of one layer, and its passes add up' '
	expect_exit 0 seqplan estimate $one --only attention --format json && test ! -s err && cp out only.json &&
	test "$(json_get only.json only)" = attention &&
	forward=$(json_get only.json forward_s) && backward=$(json_get only.json backward_s) &&
	close_to "$(perl -e "print $forward + $backward")" "$(json_get only.json step_time_s)" 1e-12 &&
	for item in gemm elementwise dp_exposed bubble optimizer other
	do
		test "$(json_get only.json time_s.$item)" = 0 || return 1
	done
'

test_expect_success 'it is what a layer of the whole step has' '
	expect_exit 0 seqplan estimate $one --seq 32K --only attention --format json && cp out only.json &&
	expect_exit 0 seqplan estimate $one --seq 32K --recompute none --global-batch 1 --format json && cp out step.json &&
	layer=$(perl -e "print $(json_get step.json time_s.attention) / 32") &&
	close_to "$(json_get only.json time_s.attention)" "$layer" 1e-9 &&
	test "$(json_get only.json communication.0.axis)" = sp &&
	test "$(json_get only.json communication.0.bytes_per_layer_per_gpu)" = \
		"$(json_get step.json communication.0.bytes_per_layer_per_gpu)" &&
	perl -MJSON::PP -e "
		open my \$in, q(<), q(only.json) or die;
		exit((grep { \$_->{axis} ne q(sp) } @{decode_json(do { local \$/; <\$in> })->{communication}}) ? 1 : 0)"
'

test_expect_success 'the table has both passes' '
	expect_exit 0 seqplan estimate $one --only attention && test ! -s err &&
	grep "^  layer  .*tokens/s/GPU" out && ! grep "^  step " out && ! grep "^  gemm" out &&
	grep "^  attention of one layer  *forward  *backward  *both$" out &&
	grep "^  exposed ms " out && grep "^  sent by a GPU MB  *470  *940  *1409$" out && grep "^  TFLOP/s per GPU " out &&
	awk "/^  (attention|exposed) ms/ { f += \$3; b += \$4; t += \$5 }
		/^  total ms/ { exit (\$3 - f) ^ 2 > 0.05 || (\$4 - b) ^ 2 > 0.05 || (\$5 - t) ^ 2 > 0.05 }" out
'

test_expect_success 'the shape of the table' '
	expect_exit 0 seqplan estimate $one --sp-method ring --only attention && shape out >found &&
	golden "$expected/only-attention.txt" found
'

test_expect_success 'a contiguous ring shows its imbalance; one rank sends nothing' '
	expect_exit 0 seqplan estimate $one --sp-method ring --only attention && grep "^  imbalance ms " out &&
	expect_exit 0 seqplan estimate $one --sp 1 --seq 8K --only attention && ! grep "imbalance\|sent by" out
'

test_expect_success 'markdown, csv, --vary and --explain know it' '
	expect_exit 0 seqplan estimate $one --only attention --format markdown && grep "^| exposed ms | " out &&
	grep "^- \*\*layer " out &&
	expect_exit 0 seqplan estimate $one --only attention --format csv && head -n 1 out | grep ",only,.*,forward_s,backward_s," &&
	expect_exit 0 seqplan estimate $one --only attention --vary seq=64K,128K && grep "only attention" out &&
	expect_exit 0 seqplan estimate $one --only attention --explain && grep "micro-batch x seq / layer = 1 x 131072 / " out &&
	! grep "global batch x seq" out
'

test_expect_success 'a run: days, GPU-hours, cost and energy follow from the rate' '
	expect_exit 0 seqplan estimate $one --tokens 15T --format json && cp out run.json &&
	test "$(json_get run.json run.tokens)" = 15000000000000 &&
	rate=$(json_get run.json tokens_per_s) &&
	close_to "$(json_get run.json run.days)" "$(perl -e "print 15e12 / $rate / 86400")" 1e-12 &&
	close_to "$(json_get run.json run.gpu_hours)" "$(perl -e "print 15e12 / $rate / 3600 * 8")" 1e-12 &&
	close_to "$(json_get run.json run.cost)" "$(perl -e "print $(json_get run.json run.gpu_hours) * 3")" 1e-12 &&
	close_to "$(json_get run.json run.energy_j)" "$(perl -e "print $(json_get run.json run.days) * 86400 * 10200")" 1e-9
'

test_expect_success 'tokens of a run are decimal' '
	expect_exit 0 seqplan estimate $one --tokens 1.5G --format json && test "$(json_get out run.tokens)" = 1500000000 &&
	expect_exit 0 seqplan estimate $one --tokens 12345 --format json && test "$(json_get out run.tokens)" = 12345 &&
	expect_exit 0 seqplan estimate $one --vary tokens=1G,2G --format json && test "$(json_get out rows.1.run.tokens)" = 2000000000
'

test_expect_success 'the table has a line for it, absent when not asked' '
	expect_exit 0 seqplan estimate $one --tokens 15T &&
	grep "^  run      15T tokens: [0-9.]* days, [0-9.]*M GPU-hours, \$[0-9.]*M, [0-9]* MWh$" out &&
	expect_exit 0 seqplan estimate $one --tokens 15T --format markdown && grep "^- run 15T tokens: " out &&
	expect_exit 0 seqplan estimate $one && ! grep "^  run " out &&
	expect_exit 0 seqplan estimate $one --format json && ! json_get out run 2>absent && grep "no .run." absent
'

test_expect_success 'a price that is not known is null, and said' '
	mkdir -p mine/hardware/gpus && sed "s/\"h100-sxm\"/\"free\"/; s/\"name\": \"dgx-h100\"/\"name\": \"mine\"/" \
		"$top/hardware/dgx-h100.json" >mine/hardware/mine.json &&
	perl -MJSON::PP -e "
		open my \$in, q(<), qq(\$ARGV[0]) or die;
		my \$json = JSON::PP->new->canonical->pretty;
		my \$gpu = \$json->decode(do { local \$/; <\$in> });
		\$gpu->{name} = q(free);
		delete \$gpu->{price};
		print \$json->encode(\$gpu)" "$top/hardware/gpus/h100-sxm.json" >mine/hardware/gpus/free.json &&
	SEQPLAN_PATH=$(pwd)/mine && export SEQPLAN_PATH &&
	expect_exit 0 seqplan estimate $one --hardware mine --tokens 1T --format json &&
	test "$(json_get out run.cost)" = null && json_get out run.days &&
	expect_exit 0 seqplan estimate $one --hardware mine --tokens 1T && grep "GPU-hours, price not known, " out &&
	unset SEQPLAN_PATH
'

test_expect_success 'the answer says what was asked: documents, training, mask' '
	expect_exit 0 seqplan estimate $one --documents 8K --train lora:16 --mask full --format json &&
	test "$(json_get out documents)" = 8192 && test "$(json_get out train)" = lora:16 && test "$(json_get out mask)" = full &&
	expect_exit 0 seqplan estimate $one --documents 8K --train lora:16 && grep "documents of 8K, train lora:16" out &&
	expect_exit 0 seqplan estimate $one --format json && test "$(json_get out documents)" = null &&
	test "$(json_get out train)" = full && test "$(json_get out layout.offload)" = none &&
	expect_exit 0 seqplan estimate $one --offload optimizer --format json && test "$(json_get out layout.offload)" = optimizer
'

test_expect_success 'expert axes: rows of ep, and where it lies' '
	expect_exit 0 seqplan estimate --model mixtral-8x7b --hardware dgx-h100 --gpus 32 --seq 8K --ep 8 --zero 3 --format json &&
	test "$(json_get out layout.ep)" = 8 && test "$(json_get out layout.placement.ep)" = nvlink &&
	grep "\"axis\": \"ep\"" out &&
	expect_exit 0 seqplan estimate --model mixtral-8x7b --hardware dgx-h100 --gpus 32 --seq 8K --ep 4 --etp 2 --zero 3 &&
	grep "ep 4 (NVLink) etp 2" out
'

test_done
