#!/bin/sh
test_description='launch: a layout as the arguments of the program that trains with it'
. "$(dirname "$0")/lib-seqplan.sh"

expected=$SHARNESS_TEST_SRCDIR/expected
export expected
eight='--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 128K --sp 8'
moe='--model qwen3-235b-a22b --hardware dgx-h200 --gpus 128 --seq 64K'
export eight moe

# lines LAUNCHER OPTIONS: what is printed is the golden file's, without the warnings, whose figures are the estimate's.
lines() {
	launcher=$1
	options=$2
	# shellcheck disable=SC2016 # expanded when the test runs
	test_expect_success "the lines for $launcher" '
		code=0 && seqplan launch $options --for $launcher >out 2>err || code=$? &&
		test $code -le 1 &&
		awk "/^# warning/ { skip = 1; next } skip && /^#   / { next } { skip = 0; print }" out >lines &&
		golden "$expected/launch-$launcher.txt" lines &&
		awk "length > 110 { print; bad = 1 } END { exit bad }" out >&2
	'
	export launcher options
}

lines megatron-lm "$moe --tp 2 --sp 8 --sp-method usp --sp-ulysses 2 --pp 4 --pp-layers auto --ep 8 --global-batch 64"
lines megatron-bridge "$eight --sp-method allgather --offload optimizer"
lines deepspeed "$eight --framework alst --sp-method ulysses --zero 3 --offload optimizer,parameters"
lines torchtitan "--model llama-3.1-70b --hardware dgx-h100 --gpus 64 --seq 32K --tp 8 --sp 2 --pp 4 --vpp 2 \
	--pp-layers auto --zero 3 --sp-method allgather --global-batch 32"
lines openrlhf "$eight --sp-method allgather --zero 3 --offload optimizer"
lines accelerate "$eight --sp-method allgather --zero 3 --offload optimizer,parameters"
lines axolotl "$eight --sp-method ring --zero 2"
lines verl "$eight --sp-method ulysses --framework torch --zero 3"
lines nemo-automodel "$eight --sp-method allgather --zero 3 --train lora:16"
lines maxtext "$eight --sp-method striped --zero 3"

test_expect_success 'a shell reads every word as it is' '
	seqplan launch $moe --tp 2 --sp 8 --pp 4 --pp-layers auto --ep 8 --for megatron-lm >out || test $? -eq 1 &&
	{ sed "/^torchrun /d" out && echo "printf \"%s\\n\" \"\${LAYOUT_ARGS[@]}\""; } >words.sh &&
	bash words.sh >words &&
	grep -x "Et\*23|t\*24|t\*24|t\*23L" words && ! grep "#" words &&
	bash -n out
'

test_expect_success 'the configuration of DeepSpeed is JSON, its lines are Python' '
	seqplan launch $eight --framework alst --sp-method ulysses --zero 3 >out || test $? -eq 1 &&
	sed "/^deepspeed /d" out >files.sh && bash files.sh &&
	test "$(json_get ds_config.json sequence_parallel_size)" = 8 &&
	test "$(json_get ds_config.json zero_optimization.stage)" = 3 &&
	if command -v python3 >/dev/null
	then
		python3 -c "import ast; ast.parse(open(\"sequence_parallel.py\").read())"
	fi
'

test_expect_success 'without --for: the launcher of the framework' '
	expect_exit 0 seqplan launch $eight --format json && cp out a.json &&
	test "$(json_get a.json launcher)" = megatron-lm && test "$(json_get a.json schema)" = seqplan.launch/1 &&
	expect_exit 0 seqplan launch $eight --framework torch --zero 3 --format json && cp out a.json &&
	test "$(json_get a.json launcher)" = torchtitan &&
	expect_error 2 "no launcher runs framework ideal" seqplan launch $eight --framework ideal
'

test_expect_success 'without --framework: the one that the launcher runs' '
	expect_exit 0 seqplan launch $eight --zero 3 --for accelerate --format json && cp out a.json &&
	test "$(json_get a.json layout.framework)" = torch &&
	expect_exit 0 seqplan launch $eight --zero 3 --sp-method ulysses --for accelerate --format json && cp out a.json &&
	test "$(json_get a.json layout.framework)" = alst
'

test_expect_success 'a layout that was printed is launched as it is' '
	seqplan launch $eight --zero 3 --for megatron-bridge >direct &&
	seqplan estimate $eight --zero 3 --format json >answer.json &&
	seqplan launch --layout answer.json --for megatron-bridge >out && cmp direct out &&
	seqplan launch --layout - --for megatron-bridge <answer.json >out && cmp direct out
'

test_expect_success 'what is printed by launch is a layout again' '
	seqplan launch $eight --zero 3 --format json >launch.json &&
	perl -MJSON::PP -e "local \$/; my \$j = decode_json(<>); print encode_json(\$j->{layout})" launch.json >layout.json &&
	seqplan launch $eight --layout layout.json --format json >again.json &&
	cmp launch.json again.json
'

test_expect_success 'arguments are words of the JSON, and variables its members' '
	seqplan launch $eight --format json >out &&
	test "$(json_get out environment.CUDA_DEVICE_MAX_CONNECTIONS)" = 1 &&
	json_get out arguments >words && grep "\"--cp-comm-type\",\"p2p\"" words &&
	json_get out comments >words && grep "TransformerEngine 1208" words
'

test_expect_success 'markdown is a block to paste, CSV one line' '
	seqplan launch $eight --format markdown >out && head -n 1 out | grep -x "\`\`\`bash" && tail -n 1 out | grep -x "\`\`\`" &&
	seqplan launch $eight --format csv >out && test "$(wc -l <out)" -eq 2 && head -n 1 out | grep "launcher"
'

test_expect_success 'what the launcher cannot is refused: the reason and the nearest' '
	expect_error 2 "nearest: --zero 2" seqplan launch $eight --for torchtitan &&
	expect_error 2 "nearest: --sp-method allgather" seqplan launch $eight --zero 3 --for axolotl &&
	expect_error 2 "priced as torch: price and launch it with --framework megatron" \
		seqplan launch $eight --zero 3 --framework torch --for megatron-lm &&
	expect_error 2 "does not combine its sequence parallelism with tp 2" seqplan launch --model llama-3.1-8b \
		--hardware dgx-h100 --gpus 8 --seq 128K --tp 2 --framework deepspeed &&
	expect_error 2 "megatron-lm" seqplan launch $eight --for megatron &&
	expect_error 2 "--only" seqplan launch $eight --only attention &&
	expect_error 2 "are missing" seqplan launch --for verl &&
	expect_error 2 "unknown option" seqplan launch $eight --vary tp=1,2
'

test_expect_success 'a layout that does not fit is said and printed, exit code 1' '
	expect_exit 1 seqplan launch --model llama-3.1-405b --hardware dgx-h100 --gpus 8 --seq 8K --tp 8 &&
	test -s out && grep "does not fit" err
'

test_done
