#!/bin/sh
test_description='estimate refuses with one line, the right exit code, and a way out'
. "$(dirname "$0")/lib-seqplan.sh"

base='--model llama-3.1-8b --hardware dgx-h100 --gpus 8'

# refuses CODE OPTIONS TEXT...
refuses() {
	code=$1
	options=$2
	shift 2
	printf '%s\n' "$@" >texts # the script of a test has arguments of its own
	# shellcheck disable=SC2086,SC2016 # the options are words; the script is not expanded here
	test_expect_success "$code: estimate $options" '
		expect_exit $code seqplan estimate $options && one_line_error && test -s texts &&
		while IFS= read -r text
		do
			grep -F -e "$text" err || { echo "expected: $text, found: $(cat err)" >&2; return 1; }
		done <texts
	'
}

# The contract.
refuses 2 "$base --sp 3 --seq 128K" sp gpus 'legal sp'
refuses 2 '--model llama-3.1-8b --hardware dgx-h100 --gpus 24 --sp 24 --sp-method ulysses --framework deepspeed --seq 96K' \
	24 32 head
refuses 2 "$base --sp 8 --sp-method zigzag --seq 100001" 100001 16
refuses 2 '--model llama-3.1-405b --hardware dgx-h100 --gpus 128 --pp 16 --tp 8 --seq 8K' 126 16 pp-layers
refuses 2 '--model llama-3.1-8b --hardware dgx-h100 --gpus 12 --seq 8K' 12 8
refuses 2 "$base --sp 8 --sp-method usp --framework deepspeed --seq 128K" deepspeed megatron
refuses 2 "$base --sp 8 --sp-method none --seq 128K" 'none does not split'
refuses 3 '--model lama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 8K' 'did you mean "llama-3.1-8b"'
refuses 3 '--model llama-3.1-8b --hardware dgx-h10 --gpus 8 --seq 8K' 'dgx-h100'
refuses 3 '--model /nonexistent.json --hardware dgx-h100 --gpus 8 --seq 8K' /nonexistent.json
refuses 3 "$base --seq 8K --network ib-ndx" 'ib-ndr'
refuses 2 "$base --seq 8K --set gpu.hbm_bandwidth=8" gpu.hbm_bandwidth 'add a unit'
refuses 2 "$base --seq 8K --set gpu.no_such_field=8" no_such_field
refuses 2 "$base --seq 8K --set gpu.hbm_bandwith=8TB/s" 'did you mean "gpu.hbm_bandwidth"'
refuses 2 "$base --seq 8K --set gpu.hbm_bandwidth" 'PATH=VALUE'
refuses 3 "$base --seq 8K --layout /nonexistent.json" /nonexistent.json

# Options.
refuses 2 '' '--model, --hardware, --gpus (or --nodes) and --seq are missing' 'for example: seqplan estimate'
refuses 2 "$base" '--seq is missing'
refuses 2 '--hardware dgx-h100 --gpus 8 --seq 8K' '--model is missing'
refuses 2 "$base --seq 8K --fromat json" 'did you mean "--format"'
refuses 2 "$base --seq 8K --format xml" 'table, markdown, csv, json' xml
refuses 2 "$base --seq 8K --sp-method zigzac" 'zigzag'
refuses 2 "$base --seq 8Q" '--seq' 8Q
refuses 2 "$base --seq 8K --sp 0" '--sp' 0
refuses 2 "$base --seq 8K --sp -1" '--sp'
refuses 2 "$base --seq" '--seq' 'needs a value'
refuses 2 "$base --seq 8K --only gemm" 'expected attention' gemm
refuses 2 "$base --seq 8K --tokens 15X" '--tokens' '15T' 15X
refuses 2 "$base --seq 8K --tokens 15TB" '--tokens' 15TB
refuses 2 "$base --seq 8K --tokens 0" '--tokens' '"0"'
refuses 2 "$base --seq 8K --tokens 1.5" '--tokens' '"1.5"'
refuses 2 "$base --seq 8K --tokens 10000T" '--tokens' 10000T
refuses 2 "$base --seq 8K stray" stray
refuses 2 "$base --seq 8K --sp=2=3" '--sp'

# Not built yet: said, never ignored.
refuses 2 "$base --seq 8K --mode prefill" 'not built yet'

test_expect_success 'several broken rules are one line, joined' '
	expect_exit 2 seqplan estimate $base --sp 3 --seq 100001 && one_line_error &&
	grep "legal sp.*; .*100001" err
'

test_expect_success 'a file that is no JSON is named' '
	echo "{\"layout\": " >broken.json &&
	expect_error 3 broken.json seqplan estimate $base --seq 8K --layout broken.json &&
	echo "[]" >broken-model.json &&
	expect_error 3 broken-model.json seqplan estimate --model ./broken-model.json --hardware dgx-h100 --gpus 8 --seq 8K
'

test_expect_success 'commands: none, unknown, near, not built' '
	expect_error 2 "no command given" seqplan &&
	expect_error 2 frobnicate seqplan frobnicate &&
	expect_error 2 "did you mean '\''estimate'\''" seqplan estimat &&
	expect_error 2 "unknown option '\''--verson'\''" seqplan --verson &&
	for command in plot report
	do
		expect_error 2 "'\''$command'\'' is not built yet; estimate, compare, plan, limits, simulate, diff, measure, import, calibrate, check, validate, launch and show are" seqplan $command --model x || return 1
	done
'

test_done
