#!/bin/sh
test_description='import: logs, topologies and measurement files, what is taken and what is skipped, and what is refused'
. "$(dirname "$0")/lib-seqplan.sh"

expected=$SHARNESS_TEST_SRCDIR/expected
logs=$top/tests/import
export expected logs
ln -s "$logs" logs

test_expect_success 'a log of nccl-tests: what was taken, where it is' '
	expect_exit 0 seqplan import logs/nccl/b200_2nodes_1gpu_1nic_allgather_gke.txt --db a.db && cp out answer &&
	grep "26 lines taken, 2 skipped (2 an empty message): 52 measurements, all new, in run 1" err &&
	test "$(wc -l <err)" -eq 1 && golden "$expected/import.txt" answer &&
	expect_exit 0 seqplan show run 1 --db a.db && sed "s/20[0-9-]*T[0-9:]*Z/DATE/" out >run &&
	golden "$expected/import-run.txt" run
'

test_expect_success 'the same again adds nothing, under another name and with other tags either' '
	sed "s/^/[1,0]<stdout>:/" logs/nccl/b200_2nodes_1gpu_1nic_allgather_gke.txt >tagged.txt &&
	expect_exit 0 seqplan import logs/nccl/b200_2nodes_1gpu_1nic_allgather_gke.txt tagged.txt --db a.db &&
	grep "^seqplan: logs/.*: 52 measurements, none new, in run 1" err &&
	grep "^seqplan: tagged.txt: .*: 52 measurements, none new, in run 1" err &&
	expect_exit 0 seqplan show runs --db a.db --format csv && test "$(wc -l <out)" -eq 2 &&
	grep "import nccl-tests all-gather, 2 ranks on 2 nodes: NVIDIA B200" out
'

test_expect_success 'the answer for programs' '
	expect_exit 0 seqplan import logs/nccl/h100_2xp5_efa_x16_allreduce_eks_prefixed.txt --gpu h100-sxm --nodes 2 \
		--db b.db --format json && cp out answer.json &&
	test "$(json_get answer.json schema)" = seqplan.import/1 &&
	test "$(json_get answer.json files.0.kind)" = nccl-tests &&
	test "$(json_get answer.json files.0.taken)" = 6 &&
	test "$(json_get answer.json files.0.skipped)" = 1 &&
	test "$(json_get answer.json files.0.skipped_for)" = "{\"an empty message\":1}" &&
	test "$(json_get answer.json files.0.measurements)" = 12 &&
	test "$(json_get answer.json files.0.added)" = 12 &&
	test "$(json_get answer.json files.0.runs.0.id)" = 1 &&
	test "$(json_get answer.json files.0.hardware)" = null &&
	test_must_fail json_get answer.json files.0.lines
'

test_expect_success 'line by line' '
	expect_exit 0 seqplan import logs/nccl/h100_2xp5_efa_x16_allreduce_eks_prefixed.txt --gpu h100-sxm --nodes 2 -v \
		--db b.db --format json && cp out answer.json &&
	grep "eks_prefixed.txt: line 5: skipped: the message has no bytes" err &&
	grep "eks_prefixed.txt: line 7: taken: all-reduce of 67108864 bytes, 2 of 2 halves" err &&
	test "$(grep -c ": line [0-9]*: " err)" -eq 7 &&
	test "$(json_get answer.json files.0.lines.0)" = "{\"line\":5,\"taken\":false,\"text\":\"the message has no bytes\"}"
'

# 32 rows, 64 halves; every in-place half gets wrong values.
test_expect_success 'halves and rows that are lost are counted and the first of them named' '
	log=logs/nccl/h100_x8_nvlink_allreduce_dgxc.txt && sed "s/  0\$/  5/" "$log" >wrong.txt &&
	expect_exit 0 seqplan import wrong.txt --db lost.db --format json && cp out answer.json &&
	grep "wrong.txt: line [0-9]*: taken: .*in place: 5 values of the result were wrong" err &&
	test "$(grep -c ": line [0-9]*: taken" err)" -eq 5 && grep "lines more, which --verbose names" err &&
	grep "results of the table at line [0-9]* had wrong values: look for the cause" err &&
	test "$(json_get answer.json files.0.skipped)" = 0 &&
	lost=$(json_get answer.json files.0.halves_left_out) && test "$lost" -gt 5 &&
	grep ", 0 skipped, $lost halves left out ($lost a wrong result): $((64 - lost)) measurements" err &&
	test "$(json_get answer.json files.0.halves_left_out_for)" = "{\"a wrong result\":$lost}"
'

test_expect_success 'Markdown and CSV' '
	expect_exit 0 seqplan import logs/nccl/a40_2nodes_x2_sendrecv_small.txt --db b.db --format markdown &&
	grep "^| logs/nccl/a40.*| nccl-tests | *5 | *0 | *10 | *10 | run 2 *|" out &&
	expect_exit 0 seqplan import logs/nccl/a40_2nodes_x2_sendrecv_small.txt --db b.db --format csv &&
	head -n 1 out | grep "^file,kind,taken,skipped," && sed -n 2p out | grep "sendrecv_small.txt,nccl-tests,5,0,"
'

test_expect_success 'standard input, and a kind that is told' '
	seqplan import - --db c.db <logs/nccl/a40_2nodes_x2_sendrecv_small.txt >out 2>err && grep "^seqplan: standard input: nccl-tests" err &&
	expect_exit 0 seqplan import logs/nccl/a40_2nodes_x2_sendrecv_small.txt --kind nccl-tests --db c.db &&
	expect_error 3 "no step of megatron" seqplan import logs/nccl/a40_2nodes_x2_sendrecv_small.txt --kind megatron --db c.db &&
	expect_error 2 "nccl-tests" seqplan import logs/nccl/a40_2nodes_x2_sendrecv_small.txt --kind mpi --db c.db
'

test_expect_success 'what a log leaves out is asked for, and what contradicts it is refused' '
	expect_error 3 "the log does not say how many ranks, how many nodes, which GPU: add --ranks N --nodes N --gpu NAME" \
		seqplan import logs/nccl/h20_2nodes_x16_nvlstree_allreduce_oldformat_small.txt --db d.db &&
	expect_error 3 "no row fits 64 ranks: sizes and bandwidths are those of all-reduce over 96 ranks" \
		seqplan import logs/nccl/h100_x64_ib_allreduce_coreweave.txt --ranks 64 --nodes 8 --gpu h100-sxm --db d.db &&
	expect_error 3 "each process ran on its own rank alone" \
		seqplan import logs/nccl/h100_malformed_built_without_mpi_allreduce.txt --db d.db &&
	expect_error 3 "only the average, which is of no size" \
		seqplan import logs/nccl/b200_4podsx4_x16_allgather_gke_misaligned_summary.txt --db d.db &&
	test ! -e d.db
'

test_expect_success 'one file that is refused, and nothing of any is stored' '
	expect_error 3 "each process ran" seqplan import logs/nccl/a40_2nodes_x2_sendrecv_small.txt \
		logs/nccl/h100_malformed_built_without_mpi_allreduce.txt --db d.db &&
	test ! -e d.db
'

test_expect_success 'files that cannot be read, and commands that make no sense' '
	mkdir -p folder && : >empty.txt && head -c 3000 "$SEQPLAN" >noise.txt && printf "%s" "{\"kind\"" >half.jsonl &&
	expect_error 2 "expected files" seqplan import --db d.db &&
	expect_error 3 "nowhere.txt: cannot be opened" seqplan import nowhere.txt --db d.db &&
	expect_error 3 "folder: cannot be read" seqplan import folder --db d.db &&
	expect_error 3 "empty.txt: is empty" seqplan import empty.txt --db d.db &&
	expect_error 3 "noise.txt: no output that is known" seqplan import noise.txt --db d.db &&
	expect_error 3 "half.jsonl: no output that is known" seqplan import half.jsonl --db d.db &&
	expect_error 2 "-o is for the hardware file of a topology" \
		seqplan import logs/nccl/a40_2nodes_x2_sendrecv_small.txt -o x.json --db d.db &&
	expect_error 2 "--warmup is for training logs: leave it out" \
		seqplan import logs/nccl/a40_2nodes_x2_sendrecv_small.txt --warmup 3 --db d.db &&
	expect_error 2 "--nodes is for output of nccl-tests: leave it out" \
		seqplan import logs/training/megatron.log --gpu H200 --nodes 3 --db d.db &&
	expect_error 2 "--gpu: expected a name" seqplan import logs/training/megatron.log --gpu "" --db d.db &&
	expect_error 2 "--gpu: expected a name" seqplan import logs/training/megatron.log --gpu "$(printf "H\001")" --db d.db &&
	test ! -e d.db && test ! -e x.json
'

test_expect_success 'training logs are measured steps' '
	expect_error 3 "torchtitan.log: the log names the GPU NVIDIA H100 80GB HBM3, --gpu says NVIDIA H200: leave --gpu out" \
		seqplan import logs/training/torchtitan.log --gpu "NVIDIA H200" --db e.db &&
	expect_exit 0 seqplan import logs/training/megatron.log logs/training/torchtitan.log logs/training/nanotron.log \
		logs/training/deepspeed.log --gpu "NVIDIA H100" --db e.db --format json && cp out answer.json &&
	for i in 0 1 2 3
	do
		test "$(json_get answer.json files.$i.measurements)" = 1 || return 1
	done &&
	test "$(json_get answer.json files.1.kind)" = torchtitan &&
	grep "megatron.log: megatron: 9 lines taken, 5 skipped (3 warm-up, 1 no optimizer step, 1 cut off)" err &&
	expect_exit 0 seqplan show run 1 --db e.db && grep "^  step  .*time" out && grep "framework=megatron gpus=48 .* 8.11 s" out &&
	expect_exit 0 seqplan show run 1 --db e.db --format json && cp out run.json &&
	test "$(json_get run.json measurements.0.group)" = step &&
	test "$(json_get run.json measurements.0.median)" = 8.1103 &&
	test "$(json_get run.json measurements.0.parameters.cp)" = 3
'

test_expect_success 'warm-up by number, and steps are nothing that a GPU program measures' '
	expect_exit 0 seqplan import logs/training/deepspeed.log --gpu H200 --warmup 0 --db e.db &&
	grep "6 lines taken, 0 skipped" err &&
	expect_error 2 "no GPU program measures step" seqplan measure --only step --device /bin/true
'

test_expect_success 'lines of seqplan-device, as measure --from stores them' '
	cp "$top/tests/validation/measured/h200-x2-collective.jsonl" mine.jsonl &&
	expect_exit 0 seqplan import mine.jsonl --db f.db && grep "mine.jsonl: measurements: 38 lines taken" err &&
	expect_exit 0 seqplan measure --from mine.jsonl --db f.db && grep "adds nothing to run 1" err &&
	expect_exit 0 seqplan measure --run 1 -o back.jsonl --db f.db &&
	expect_exit 0 seqplan import back.jsonl --db g.db && expect_exit 0 seqplan import back.jsonl --db f.db &&
	grep "none new, in run 1" err
'

test_expect_success 'lines of seqplan-device that cannot be read are skipped and named' '
	{ sed -n 1,4p mine.jsonl && echo "{\"kind\":\"measurement\"}" && sed -n 5p mine.jsonl && head -c 61 mine.jsonl; } >torn.jsonl &&
	expect_exit 0 seqplan import torn.jsonl --verbose --db torn.db --format json && cp out answer.json &&
	grep "torn.jsonl: line 5: skipped: .*group" err && grep "torn.jsonl: line 6: taken: collective operation=" err &&
	grep "measurements: 3 lines taken, 1 skipped (1 not readable): 3 measurements, all new" err &&
	test "$(json_get answer.json files.0.skipped)" = 1 && test "$(json_get answer.json files.0.lines.2.line)" = 5
'

test_expect_success 'an imported run goes to a file and into another store' '
	seqplan import logs/nccl/a40_2nodes_x2_sendrecv_small.txt --db h.db &&
	expect_exit 0 seqplan measure --run 1 -o a40.jsonl --db h.db &&
	expect_exit 0 seqplan import a40.jsonl --db i.db && grep "10 measurements, all new, in run 1" err &&
	expect_exit 0 seqplan import logs/nccl/a40_2nodes_x2_sendrecv_small.txt --db i.db && grep "none new, in run 1" err
'

test_expect_success 'a topology becomes a hardware file that estimate reads' '
	expect_exit 0 seqplan import logs/topo/b200_dgx_8gpu_16nic.txt --gpu b200-sxm --network ib-ndr -o my-node.json &&
	grep "written to my-node.json" err && grep "8 of 16 NICs are farther from every GPU and left out: mlx5_0," err &&
	test "$(json_get my-node.json node.nics.value)" = 8 && test "$(json_get my-node.json name)" = my-node &&
	test "$(json_get my-node.json network)" = ib-ndr &&
	expect_exit 0 seqplan estimate --model llama-3.1-8b --hardware my-node.json --gpus 16 --seq 64K --sp 8 --format json &&
	cp out mine.json &&
	expect_exit 0 seqplan estimate --model llama-3.1-8b --hardware dgx-b200 --gpus 16 --seq 64K --sp 8 --format json &&
	test "$(json_get mine.json step_time_s)" = "$(json_get out step_time_s)"
'

test_expect_success 'a node of bridged pairs, on standard output' '
	expect_exit 0 seqplan import logs/topo/a100_pcie_8gpu_4x_nv12_bridge.txt --gpu a100-pcie-80 -o - && cp out pairs.json &&
	test "$(json_get pairs.json node.nvlink_domain.value)" = 2 && test "$(json_get pairs.json network.inside_node)" = true &&
	grep "paths over PCIe differ (NODE, SYS)" err &&
	expect_exit 0 seqplan estimate --model llama-3.1-8b --hardware ./pairs.json --gpus 8 --seq 64K --sp 8 --zero 3
'

test_expect_success '-o overwrites no file that is read' '
	cp logs/topo/h100_sxm_8gpu_nonic.txt in.txt &&
	expect_error 2 "would overwrite in.txt, which is read: name another file" \
		seqplan import in.txt --gpu h100-sxm -o ./in.txt --db none.db &&
	expect_error 2 "would overwrite standard input" \
		sh -c "\"$SEQPLAN\" import - --gpu h100-sxm -o in.txt --db none.db <in.txt" &&
	cmp logs/topo/h100_sxm_8gpu_nonic.txt in.txt
'

test_expect_success 'a topology needs the name of its GPU and of the file' '
	topo=logs/topo/h100_sxm_8gpu_nonic.txt &&
	expect_error 2 "a hardware file, and names no GPU: add --gpu NAME -o FILE.json, for" seqplan import $topo &&
	expect_error 2 "a hardware file: add -o FILE.json, for" seqplan import $topo --gpu h100-sxm &&
	expect_error 2 "a hardware file, and names no GPU: add --gpu NAME, for" seqplan import $topo -o x.json &&
	expect_error 3 "h100-sxm" seqplan import logs/topo/h100_sxm_8gpu_nonic.txt --gpu h100-sxn -o x.json &&
	expect_error 3 "ib-ndr" seqplan import logs/topo/h100_sxm_8gpu_nonic.txt --gpu h100-sxm --network ib-ndx -o x.json &&
	expect_error 3 "has 12 NVLinks" seqplan import logs/topo/h100_sxm_8gpu_nonic.txt --gpu a100-sxm-80 -o x.json &&
	expect_error 4 "cannot be written" seqplan import logs/topo/h100_sxm_8gpu_nonic.txt --gpu h100-sxm -o nowhere/x.json &&
	expect_error 2 "2 topologies and one -o" seqplan import logs/topo/h100_sxm_8gpu_nonic.txt \
		logs/topo/a100_sxm_8gpu_nonic.txt --gpu h100-sxm -o x.json &&
	test ! -e x.json
'

test_expect_success 'a store that cannot be written' '
	cp logs/nccl/a40_2nodes_x2_sendrecv_small.txt a40.txt && echo "no store" >text.db &&
	expect_error 4 "no SQLite database" seqplan import a40.txt --db text.db &&
	expect_error 4 "nowhere/x.db" seqplan import a40.txt --db nowhere/x.db
'

test_expect_success 'three imports at once: each waits for the others, and the file is there once' '
	for i in 1 2 3
	do
		seqplan import logs/nccl/h100_x8_nvlink_allreduce_dgxc.txt --db once.db >/dev/null 2>err.$i || echo failed >>failures &
	done &&
	wait && test ! -e failures && test "$(cat err.1 err.2 err.3 | grep -c "all new")" -eq 1 &&
	test "$(cat err.1 err.2 err.3 | grep -c "none new")" -eq 2
'

# 48 KiB hold the file that is made, not the rows of so many logs.
test_expect_success 'a full disk: a clear error, whole files or nothing, and the same again goes on' '
	code=0 &&
	{ (ulimit -f 96 && exec seqplan import logs/nccl/h100_x8_nvlink_allreduce_dgxc.txt \
		logs/nccl/h100_2xa3mega_tcpxo_x16_allreduce_gcp.txt logs/nccl/h200_2nodes_1gpu_1nic_allreduce_gke.txt \
		--db full.db) >out 2>err || code=$?; } &&
	test "$code" -eq 4 && grep "full.db: .*run the same again" err && test ! -s out &&
	expect_exit 0 seqplan import logs/nccl/h100_x8_nvlink_allreduce_dgxc.txt \
		logs/nccl/h100_2xa3mega_tcpxo_x16_allreduce_gcp.txt logs/nccl/h200_2nodes_1gpu_1nic_allreduce_gke.txt --db full.db &&
	expect_exit 0 seqplan show runs --db full.db --format json && cp out runs.json &&
	test "$(grep -c "nccl-tests" runs.json)" -eq 3
'

test_done
