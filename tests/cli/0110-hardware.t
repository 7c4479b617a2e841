#!/bin/sh
test_description='hardware: files by name and by path, other networks, and data folders'
. "$(dirname "$0")/lib-seqplan.sh"

# estimate OPTION...
estimate() {
	seqplan estimate --model llama-3.1-8b --gpus 16 --sp 16 --seq 128K --zero 3 --global-batch 1 "$@"
}

test_expect_success 'a file by path is the file by name' '
	expect_exit 0 estimate --hardware dgx-h100 --format json && mv out by-name &&
	expect_exit 0 estimate --hardware "$top/hardware/dgx-h100.json" --format json &&
	test "$(json_get by-name step_time_s)" = "$(json_get out step_time_s)"
'

test_expect_success 'a name that is not there gets the nearest' '
	expect_error 3 "unknown hardware \"dgx-h10\": did you mean \"dgx-h100\"?" estimate --hardware dgx-h10 &&
	expect_error 3 "unknown network \"ib-ndrr\": did you mean \"ib-ndr\"?" \
		estimate --hardware dgx-h100 --network ib-ndrr &&
	expect_error 3 "./dgx-h100: cannot open" estimate --hardware ./dgx-h100
'

test_expect_success 'a slower network costs time, an ideal one never does' '
	for network in ib-ndr eth-100g ideal
	do
		expect_exit 0 estimate --hardware dgx-h100 --network $network --format json &&
		json_get out step_time_s >time-$network || return 1
	done &&
	perl -e "exit !(\$ARGV[0] > \$ARGV[1] && \$ARGV[2] <= \$ARGV[1])" \
		"$(cat time-eth-100g)" "$(cat time-ib-ndr)" "$(cat time-ideal)"
'

test_expect_success 'fp8 needs measured products of the GPU' '
	expect_error 2 "precision fp8: a100-sxm-80 has no table of fp8 products; GPUs with one: b200-sxm" \
		estimate --hardware dgx-a100 --precision fp8 &&
	expect_exit 0 estimate --hardware dgx-h100 --precision fp8 --format json &&
	json_get out assumed | grep -q "fp8 GEMM curve"
'

test_expect_success 'a kernel that was measured for one mask only is refused on reading' '
	mkdir -p half/hardware/gpus &&
	grep -v "\[\"backward\", \"full\"" "$top/hardware/gpus/h200-sxm.json" | perl -0pe "s/\],(\s*\])/]\$1/g" \
		>half/hardware/gpus/h200-sxm.json &&
	expect_error 3 "expected rows of both passes and both masks for head_dim" \
		env SEQPLAN_PATH=half seqplan estimate --model llama-3.1-8b --hardware dgx-h200 --gpus 8 --seq 8K
'

test_expect_success 'clusters are parts of a node or whole nodes' '
	expect_error 2 "12 gpus: expected up to the 8 of a node or a multiple of 8; nearest: 8, 16" \
		seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 12 --seq 8K &&
	expect_error 2 "24 gpus are 3 nodes of 8, not the 2 of --nodes" \
		seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 24 --nodes 2 --seq 8K &&
	expect_exit 0 seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --nodes 2 --seq 8K --format json &&
	test "$(json_get out gpus)" = 16
'

test_expect_success 'a folder of SEQPLAN_PATH comes first' '
	mkdir -p mine/models &&
	sed "s/\"num_hidden_layers\": 32/\"num_hidden_layers\": 3/" "$top/models/llama-3.1-8b.json" >mine/models/llama-3.1-8b.json &&
	cp mine/models/llama-3.1-8b.json mine/models/tiny.json &&
	expect_exit 0 seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 8K --format json &&
	json_get out parameters.total >shipped &&
	expect_exit 0 env SEQPLAN_PATH=mine seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 8K --format json &&
	json_get out parameters.total >own &&
	perl -e "exit !(\$ARGV[0] < 0.4 * \$ARGV[1])" "$(cat own)" "$(cat shipped)" &&
	expect_exit 0 env SEQPLAN_PATH=mine seqplan estimate --model tiny --hardware dgx-h100 --gpus 8 --seq 8K &&
	expect_error 3 "unknown model \"tiny\"" seqplan estimate --model tiny --hardware dgx-h100 --gpus 8 --seq 8K
'

test_expect_success 'an installed program finds its data' '
	options="--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 8K" &&
	mkdir -p prefix/bin prefix/share/seqplan &&
	cp "$SEQPLAN" prefix/bin/seqplan &&
	expect_error 3 "SEQPLAN_PATH" prefix/bin/seqplan estimate $options &&
	cp -R "$top/models" "$top/hardware" "$top/frameworks" prefix/share/seqplan &&
	expect_exit 0 prefix/bin/seqplan estimate $options
'

test_done
