#!/bin/sh
test_description='models: any config.json as it stands, or a reason why not'
. "$(dirname "$0")/lib-seqplan.sh"

# config FILE MEMBERS: a dense Llama of 61 layers with more members behind it.
config() {
	cat >"$1" <<-END
	{"architectures": ["LlamaForCausalLM"], "hidden_size": 3840, "intermediate_size": 10240,
	 "num_hidden_layers": 61, "num_attention_heads": 40, "num_key_value_heads": 8,
	 "vocab_size": 50021, "max_position_embeddings": 131072${2:+, $2}}
	END
}

# estimate OPTION...
estimate() {
	seqplan estimate --hardware dgx-h100 --gpus 512 --seq 4K --zero 3 "$@"
}

# priced OPTION...: the answer in out, whether it fits or not.
priced() {
	code=0
	estimate "$@" --format json >out 2>err || code=$?
	test "$code" -le 1
}

test_expect_success 'shipped models are answered' '
	for model in llama-2-7b llama-3.1-8b llama-3.1-70b llama-3.1-405b qwen3-8b qwen3-32b qwen2.5-7b-1m \
		qwen3-235b-a22b mixtral-8x7b deepseek-v3 kimi-k2 gpt-oss-20b
	do
		priced --model $model && test "$(json_get out model)" = $model || return 1
	done
'

test_expect_success 'experts: all of them are stored, a token passes through a few' '
	expect_exit 0 estimate --model mixtral-8x7b --format json &&
	# 32 layers of attention and norms 41,951,232, router 32,768 and 8 or 2 experts of 176,160,768; a table 131,072,000
	test "$(json_get out parameters.total)" = $((32 * (41951232 + 32768 + 8 * 176160768) + 2 * 131072000 + 4096)) &&
	test "$(json_get out parameters.active)" = $((32 * (41951232 + 32768 + 2 * 176160768) + 131072000 + 4096)) &&
	expect_exit 0 estimate --model mixtral-8x7b --set model.num_experts_per_tok=1 --format json &&
	test "$(json_get out parameters.active)" = $((32 * (41951232 + 32768 + 176160768) + 131072000 + 4096))
'

test_expect_success 'weights that are stored quantised train in --precision, and that is said' '
	expect_exit 0 estimate --model gpt-oss-20b --format json &&
	json_get out warnings | grep -q "quantization_config (an object) is not modelled: training is priced with weights of --precision"
'

test_expect_success 'a window of the model is less work, unless it is taken away' '
	priced --model gpt-oss-20b --seq 64K && json_get out step_time_s >windowed &&
	priced --model gpt-oss-20b --seq 64K --set model.layer_types=null --set model.sliding_window=null &&
	json_get out step_time_s >whole &&
	perl -e "exit !(\$ARGV[0] < \$ARGV[1])" "$(cat windowed)" "$(cat whole)"
'

test_expect_success 'a config.json is named after its folder' '
	mkdir -p llama-61 && config llama-61/config.json &&
	expect_exit 0 estimate --model llama-61/config.json --format json &&
	test "$(json_get out model)" = llama-61 &&
	# 61 layers of 153,361,920, two tables of 50,021 x 3,840, one norm
	test "$(json_get out parameters.total)" = $((61 * 153361920 + 2 * 50021 * 3840 + 3840)) &&
	test "$(json_get out warnings)" = "[]"
'

test_expect_success 'GPT-2 is read by its own names: biases everywhere and a table of positions' '
	file=$top/tests/validation/models/gpt-22b.json &&
	# a layer: 12 squares of 6,144 and 13 vectors of biases and norms; rows of 51,200 words and 2,048 positions; a norm
	layer=$((12 * 6144 * 6144 + 13 * 6144)) &&
	total=$((48 * layer + (51200 + 2048) * 6144 + 2 * 6144)) &&
	seqplan show model "$file" --format csv >model.csv &&
	grep "^parameters_total,$total," model.csv && grep "^kv_heads,64," model.csv &&
	priced --model "$file" --seq 2K --set model.n_layer=24 &&
	test "$(json_get out parameters.total)" = $((total - 24 * layer)) &&
	test "$(json_get out parameters.active)" = $((total - 24 * layer - 2048 * 6144)) &&
	sed "s/\"n_embd\": 6144/\"n_embd\": 6145/" "$file" >odd.json &&
	expect_error 3 "odd.json: \$.n_head: expected a divisor of n_embd 6145, found 64" estimate --model odd.json
'

test_expect_success 'what changes memory or time and is not modelled is warned by name' '
	config drop.json "\"attention_dropout\": 0.1, \"wobble\": 3, \"torch_dtype\": \"bfloat16\"" &&
	expect_exit 0 estimate --model drop.json --format json &&
	json_get out warnings >warnings &&
	grep -q "attention_dropout (0.1) is not modelled" warnings &&
	grep -q "unknown to seqplan.*: wobble\"" warnings &&
	! grep -q torch_dtype warnings
'

test_expect_success 'a name that is not there gets the nearest' '
	expect_error 3 "unknown model \"lama-3.1-8b\": did you mean \"llama-3.1-8b\"?" \
		estimate --model lama-3.1-8b &&
	expect_error 3 "/nonexistent.json: cannot open" estimate --model /nonexistent.json &&
	expect_error 3 "config.json" estimate --model ./config.json
'

test_expect_success 'files that are no model' '
	printf "../../blobs/c360f5f4046ca9d7f2ea7d098126ecab" >pointer.json &&
	expect_error 3 "pointer.json: line 1, column 1: expected a JSON value" estimate --model pointer.json &&
	config infinite.json "\"time_step_limit\": [0.0, Infinity]" &&
	expect_error 3 "NaN and Infinity are not JSON" estimate --model infinite.json &&
	mkdir -p folder.json &&
	expect_error 3 "folder.json" estimate --model folder.json &&
	: >empty.json &&
	expect_error 3 "empty.json" estimate --model empty.json
'

test_expect_success 'models of other kinds are refused by name' '
	config moe.json "\"num_local_experts\": 8" &&
	expect_error 3 "moe.json: LlamaForCausalLM (mixture of experts) is not built yet" estimate --model moe.json &&
	echo "{\"architectures\": [\"BertForMaskedLM\"], \"hidden_size\": 768}" >bert.json &&
	expect_error 3 "bert.json: BertForMaskedLM is not built yet" estimate --model bert.json &&
	sed "s/LlamaForCausalLM/DeepseekV4ForCausalLM/" moe.json >v4.json &&
	expect_error 3 "v4.json: DeepseekV4ForCausalLM (mixture of experts) is not built yet" estimate --model v4.json
'

test_expect_success 'impossible sizes name the field' '
	for pair in num_hidden_layers:0 hidden_size:1e300 vocab_size:-5 num_attention_heads:40.5
	do
		config whole.json &&
		sed "s/\"${pair%%:*}\": [0-9]*/\"${pair%%:*}\": ${pair#*:}/" whole.json >bad.json &&
		expect_error 3 "bad.json: \$.${pair%%:*}: expected a whole number from 1 to" \
			estimate --model bad.json || return 1
	done
'

test_done
