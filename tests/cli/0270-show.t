#!/bin/sh
test_description='show lists what there is, and where figures come from'
. "$(dirname "$0")/lib-seqplan.sh"

while IFS= read -r topic
do
	# shellcheck disable=SC2086
	test_expect_success "every format: show $topic" '
		expect_exit 0 seqplan show $topic && test -s out && test ! -s err &&
		awk "length > 100 && NF > 2 { print; bad = 1 } / $/ { bad = 1 } END { exit bad }" out >&2 &&
		expect_exit 0 seqplan show $topic --format json && test "$(json_get out schema)" = seqplan.show/1 &&
		test "$(json_get out rows)" != "[]" &&
		expect_exit 0 seqplan show $topic --format markdown && grep "^| --- " out &&
		expect_exit 0 seqplan show $topic --format csv && test "$(wc -l <out)" -gt 1
	'
done <<'EOF'
models
model llama-3.1-70b
hardware
hardware dgx-h100
hardware dgx-h200 --source
networks
network ib-ndr --source
methods
frameworks
framework megatron --source
kernels
kernels te
losses
loss fused
fields
fields hardware
fields software
fields run
fields model
fields layout
EOF

test_expect_success 'every model of the tree is listed, and shown with its parameters' '
	seqplan show models --format csv >models.csv &&
	for file in "$top"/models/*.json
	do
		grep "^$(basename "$file" .json)," models.csv || return 1
	done &&
	seqplan show model llama-3.1-8b --format csv >model.csv &&
	grep "^parameters_total,8030261248," model.csv && grep "^kv_heads,8," model.csv
'

test_expect_success 'a figure has its kind, interval, source and note' '
	seqplan show hardware dgx-h100 --source >hardware &&
	grep -A 2 "^  gpu.hbm_bandwidth  *3350 GB/s  *datasheet" hardware | grep "^      source " &&
	grep "gpu.elementwise_bandwidth .* to " hardware &&
	grep "^  gpu.attention (cudnn)  *[0-9]* points" hardware &&
	seqplan show hardware dgx-h100 --format json >hardware.json &&
	test "$(json_get hardware.json rows.0.path)" = gpu.hbm_capacity &&
	test "$(json_get hardware.json rows.0.value)" = 85520809984 &&
	test -n "$(json_get hardware.json rows.0.source)"
'

test_expect_success 'the text of a figure is what --set takes' '
	seqplan show hardware dgx-h100 --format csv >hardware.csv &&
	seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 8K --format json >before.json &&
	set -- && while IFS=, read -r path value text kind rest
	do
		case $text:$kind in
		path:* | text:* | *points:* | :* | *:none) ;;
		*) set -- "$@" --set "$path=$text" ;;
		esac
	done <hardware.csv &&
	test $# -gt 20 &&
	seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 8K --format json "$@" >after.json &&
	test "$(json_get before.json step_time_s)" = "$(json_get after.json step_time_s)" &&
	test "$(json_get before.json peak_bytes)" = "$(json_get after.json peak_bytes)"
'

test_expect_success 'the methods are those of the contract' '
	seqplan show methods --format json >methods.json &&
	test "$(json_get methods.json rows.0.method)" = none && test "$(json_get methods.json rows.0.megatron)" = home &&
	test "$(json_get methods.json rows.5.method)" = zigzag && test "$(json_get methods.json rows.5.megatron)" = home &&
	test -z "$(json_get methods.json rows.5.deepspeed)"
'

test_expect_success 'no legal pair is left without a row' '
	seqplan show methods >methods && ! grep "not built" methods && grep "^  double-ring  *home$" methods &&
	grep "^  ulysses  *yes  *yes  *home  *yes  *yes$" methods
'

test_expect_success 'a model of several kinds of layers shows each' '
	seqplan show model gpt-oss-20b --format csv >model.csv &&
	grep "^layers_kind_1,12,expert layers with a window of 128$" model.csv &&
	grep "^layers_kind_2,12,expert layers$" model.csv && grep "^parameters_layer_kind_2," model.csv &&
	seqplan show model deepseek-v3 --format csv >model.csv && grep "^layers_kind_1,3,dense layers$" model.csv &&
	grep "^layers_kind_2,58,expert layers$" model.csv && grep "^kv_lora_rank,512," model.csv &&
	seqplan show model llama-3.1-8b --format csv >model.csv && ! grep "layers_kind" model.csv &&
	grep "^parameters_layer,218112000,one dense layer, norms included\|^parameters_layer,.*\"one dense layer" model.csv
'

test_expect_success 'the fields of a model are those of its config.json' '
	seqplan show fields model --format csv >fields.csv && grep "^model.num_hidden_layers," fields.csv &&
	grep "^model.sliding_window," fields.csv && test "$(wc -l <fields.csv)" -gt 20
'

test_expect_success 'singular and plural are the same topic' '
	seqplan show models >plural && seqplan show model >singular && cmp plural singular
'

test_expect_success 'what there is not' '
	expect_error 2 "needs a topic" seqplan show &&
	expect_error 2 "did you mean '\''models'\''" seqplan show modls &&
	expect_error 2 "expected one of models" seqplan show frobnicate &&
	expect_error 2 "unexpected argument" seqplan show methods zigzag &&
	expect_error 2 "unexpected argument" seqplan show model a b &&
	expect_error 2 "hardware, software, run" seqplan show fields frobnicate &&
	expect_error 3 "llama-3.1-8b" seqplan show model llama-3.1-8c &&
	expect_error 3 "dgx-h100" seqplan show hardware dgx-h10 &&
	expect_error 3 "ib-ndr" seqplan show network ib-ndx &&
	expect_error 3 "no figures of its own" seqplan show network ideal &&
	expect_error 3 "megatron" seqplan show framework megatrom &&
	expect_error 2 "unknown option" seqplan show models --vary seq=1
'

test_done
