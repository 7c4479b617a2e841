#!/bin/sh
test_description='calibrate: measurements in, a hardware file out that the other commands read'
. "$(dirname "$0")/lib-seqplan.sh"

measured=$top/tests/validation/measured
expected=$SHARNESS_TEST_SRCDIR/expected
export measured expected

test_expect_success 'files of two machines of a kind become one hardware file' '
	expect_exit 0 seqplan calibrate --hardware dgx-h200 "$measured/h200-seqplan.jsonl" "$measured/h200-x2-collective.jsonl" \
		-o mine.json &&
	grep "wrote mine.json: use it with --hardware ./mine.json" err && cp out table &&
	grep "|error| %" table && grep "worst after" table && grep "kept     send_receive over 2 GPUs as it was" table &&
	grep "next     the widest curve is" table &&
	awk "length > 100 { print; bad = 1 } END { exit bad }" table >&2 &&
	test "$(json_get mine.json schema)" = seqplan.hardware/1 && test "$(json_get mine.json name)" = mine &&
	test "$(json_get mine.json gpu.schema)" = seqplan.gpu/1 && test "$(json_get mine.json network)" = ib-ndr &&
	test "$(json_get mine.json gpu.elementwise_bandwidth.kind)" = fitted &&
	json_get mine.json gpu.elementwise_bandwidth.source | grep "^fitted to run .*, NVIDIA H200 of vm, 2026-11-29; run" &&
	test "$(json_get mine.json gpu.gemm.kind)" = fitted && json_get mine.json gpu.gemm.spread &&
	json_get mine.json gpu.gemm.fit.weight_gradient.covariance
'

test_expect_success 'what was not measured stays word for word' '
	for figure in hbm_bandwidth sm_count launch_latency price gemm_fp8.source power_exponent
	do
		json_get mine.json gpu.$figure >now && json_get "$top/hardware/gpus/h200-sxm.json" $figure >before &&
		cmp before now || return 1
	done &&
	json_get mine.json node >now && json_get "$top/hardware/dgx-h200.json" node >before && cmp before now
'

test_expect_success 'estimate and show read the file, and it is calibrated again' '
	expect_exit 0 seqplan estimate --model llama-3.1-8b --hardware ./mine.json --gpus 8 --sp 8 --seq 128K \
		--attention seqplan --format json &&
	test "$(json_get out layout.attention)" = seqplan &&
	expect_exit 0 seqplan show hardware ./mine.json --source && grep "fitted to run" out &&
	expect_exit 0 seqplan calibrate --hardware ./mine.json "$measured/h200-seqplan.jsonl" -o again.json --format json &&
	cp out first.json && expect_exit 0 seqplan show hardware ./again.json
'

test_expect_success 'the same lines on their own fit: the errors before are those after' '
	expect_exit 0 seqplan calibrate --hardware ./mine.json "$measured/h200-seqplan.jsonl" --only copy,gemm --format json &&
	perl -MJSON::PP -e "
		local \$/; my \$answer = decode_json(<STDIN>);
		for my \$group (@{\$answer->{groups}}) {
			my \$change = abs(\$group->{before}{median_frac} - \$group->{after}{median_frac});
			die qq(\$group->{group}: \$change) if \$change > 0.005;
		}
		die if @{\$answer->{groups}} != 2;
	" <out
'

test_expect_success 'stored runs, by number, give what their file gives' '
	seqplan measure --from "$measured/h200-seqplan.jsonl" --db runs.db >/dev/null 2>&1 &&
	expect_exit 0 seqplan calibrate --hardware dgx-h200 --db runs.db --run 1 --only gemm -o - && cp out stored &&
	expect_exit 0 seqplan calibrate --hardware dgx-h200 "$measured/h200-seqplan.jsonl" --only gemm -o - && cmp stored out &&
	: "a run that is given twice counts once" &&
	expect_exit 0 seqplan calibrate --hardware dgx-h200 --db runs.db --run 1,1 --only gemm -o - && cmp stored out &&
	expect_exit 0 seqplan calibrate --hardware dgx-h200 --db runs.db --run 1 "$measured/h200-seqplan.jsonl" --only gemm -o - &&
	json_get out gpu.gemm.rows >twice && json_get stored gpu.gemm.rows >once && cmp once twice
'

test_expect_success 'a shorter copy before it, and lines that are there twice: a file gives what its stored copy gives' '
	head -n 200 "$measured/h200-seqplan.jsonl" >short.jsonl &&
	{ cat "$measured/h200-seqplan.jsonl" && grep "\"group\":\"gemm\"" "$measured/h200-seqplan.jsonl"; } >double.jsonl &&
	expect_exit 0 seqplan calibrate --hardware dgx-h200 short.jsonl double.jsonl --only gemm -o - && cmp stored out &&
	seqplan measure --from double.jsonl --db double.db >/dev/null 2>&1 &&
	expect_exit 0 seqplan calibrate --hardware dgx-h200 --run 1 --db double.db --only gemm -o - && cmp stored out &&
	expect_exit 0 seqplan calibrate --hardware dgx-h200 double.jsonl --only gemm --format json &&
	grep "lines of a run repeat one that came before under the same key: only the first counts" out
'

test_expect_success 'every format' '
	for format in table markdown csv json
	do
		expect_exit 0 seqplan calibrate --hardware dgx-h200 "$measured/h200-seqplan.jsonl" --only elementwise,optimizer \
			--format $format && cp out $format || return 1
	done &&
	grep "nothing is written: -o FILE" err && test "$(json_get json schema)" = seqplan.calibrate/1 &&
	test "$(json_get json curves.0.model)" = "latency and bandwidth" && head -n 1 csv | grep "^group,curve,model" &&
	grep "^| " markdown
'

test_expect_success 'the latency of a launch is fitted when it is asked for' '
	expect_exit 0 seqplan calibrate --hardware dgx-h200 "$measured/h200-seqplan.jsonl" --only latency -o - &&
	test "$(json_get out gpu.launch_latency.value)" = 4163ns
'

test_expect_success 'logs of nccl-tests, inside a node and between nodes' '
	logs=$top/tests/import/nccl &&
	seqplan import "$logs/h100_x8_nvlink_allreduce_dgxc.txt" "$logs/h200_2nodes_1gpu_1nic_allreduce_gke.txt" --db logs.db \
		>/dev/null 2>&1 &&
	expect_exit 0 seqplan calibrate --hardware dgx-h100 --run 1 --db logs.db -o h100.json --format json &&
	test "$(json_get out curves.0.curve)" = "all_reduce over 8 GPUs" &&
	expect_exit 0 seqplan show hardware ./h100.json &&
	expect_exit 0 seqplan calibrate --hardware dgx-h200 --run 2 --db logs.db -o h200.json --format json &&
	test "$(json_get out curves.0.curve)" = "collectives between nodes" &&
	test "$(json_get h200.json network.latency.kind)" = fitted &&
	test "$(json_get h200.json network.bandwidth.kind)" = datasheet &&
	expect_exit 0 seqplan estimate --model llama-3.1-8b --hardware ./h200.json --nodes 2 --sp 16 --seq 128K &&
	expect_error 3 "is of an NVIDIA H100 80GB HBM3, but dgx-b200 has B200" \
		seqplan calibrate --hardware dgx-b200 --run 1 --db logs.db
'

test_expect_success '-o overwrites nothing that is read, by whatever path' '
	cp "$measured/h200-seqplan.jsonl" own.jl && ln -sf own.jl link.jl && cp mine.json kept.json &&
	for output in own.jl ./own.jl link.jl "$PWD/own.jl"
	do
		expect_error 2 "would overwrite own.jl, which is read: name another file" \
			seqplan calibrate --hardware dgx-h200 own.jl --only gemm -o "$output" || return 1
	done &&
	expect_error 2 "would overwrite standard input" \
		sh -c "\"$SEQPLAN\" calibrate --hardware dgx-h200 - --only gemm -o own.jl <own.jl" &&
	expect_error 2 "would overwrite ./mine.json" seqplan calibrate --hardware ./mine.json own.jl --only gemm -o mine.json &&
	expect_error 2 "would overwrite runs.db" seqplan calibrate --hardware dgx-h200 --run 1 --db runs.db -o runs.db &&
	expect_error 2 "would overwrite runs.db" seqplan measure --run 1 --db runs.db -o runs.db &&
	expect_error 2 "would overwrite own.jl" seqplan measure --from own.jl --db runs.db -o own.jl &&
	cmp "$measured/h200-seqplan.jsonl" own.jl && cmp kept.json mine.json && test -L link.jl &&
	expect_exit 0 seqplan show run 1 --db runs.db
'

test_expect_success 'what cannot be is refused in one line' '
	expect_error 2 "no measurements: name files of them" seqplan calibrate --hardware dgx-h200 &&
	expect_error 2 "--hardware is missing" seqplan calibrate "$measured/h200-seqplan.jsonl" &&
	expect_error 2 "--only: whole methods, layers and steps are not fitted" \
		seqplan calibrate --hardware dgx-h200 "$measured/h200-seqplan.jsonl" --only layer &&
	expect_error 2 "found \"foo\"" seqplan calibrate --hardware dgx-h200 "$measured/h200-seqplan.jsonl" --only foo &&
	test_must_fail grep -E "method|layer|step" err &&
	expect_error 2 "--run" seqplan calibrate --hardware dgx-h200 --run 1,x --db runs.db &&
	expect_error 3 "no run of measurements 61" seqplan calibrate --hardware dgx-h200 --run 61 --db runs.db &&
	expect_error 3 "nothing is stored yet" seqplan calibrate --hardware dgx-h200 --run 1 --db none.db &&
	expect_error 3 "no-such" seqplan calibrate --hardware no-such "$measured/h200-seqplan.jsonl" &&
	expect_error 3 "none.jsonl: cannot be opened" seqplan calibrate --hardware dgx-h200 none.jsonl &&
	expect_error 3 "no line of a machine" seqplan calibrate --hardware dgx-h200 /dev/null &&
	expect_error 3 "name the hardware that was measured" seqplan calibrate --hardware dgx-b200 "$measured/h200-seqplan.jsonl" &&
	expect_error 3 "nothing to fit" seqplan calibrate --hardware dgx-h200 "$measured/h200-x2-collective.jsonl" --only gemm &&
	expect_error 4 "no/such/mine.json" \
		seqplan calibrate --hardware dgx-h200 "$measured/h200-seqplan.jsonl" --only gemm -o no/such/mine.json
'

test_done
