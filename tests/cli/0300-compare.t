#!/bin/sh
test_description='compare puts the sequence-parallel methods side by side'
. "$(dirname "$0")/lib-seqplan.sh"

expected=$SHARNESS_TEST_SRCDIR/expected
base='--model llama-2-7b --hardware dgx-h100 --gpus 8 --sp 8 --zero 3'
export expected base

# methods FILE: the methods of a table in JSON, in order.
methods() {
	perl -MJSON::PP -e '
		open my $in, "<", $ARGV[0] or die;
		print join(" ", map { $_->{layout}{sp_method} } @{decode_json(do { local $/; <$in> })->{rows}}), "\n";
	' "$1"
}

# row FILE METHOD PATH: the value at a path of the row of a method.
row() {
	at=$(methods "$1" | tr ' ' '\n' | grep -n -x -e "$2" | cut -d : -f 1) &&
	json_get "$1" "rows.$((at - 1)).$3"
}

# within_100 FILE: no line is longer than a screen, none ends in a space.
within_100() {
	awk 'length > 100 || / $/ { print FILENAME ":" FNR ": " $0; bad = 1 } END { exit bad }' "$1" >&2
}

# shape FILE: its words and signs, each figure a #, without remarks: what holds whatever the models say.
shape() {
	sed '/^  \(warning\|assumed\) /,$d; s/[0-9][0-9.]*/#/g; s/  */ /g' "$1"
}

test_expect_success 'every method that is built has a row, each of its home framework' '
	expect_exit 0 seqplan compare $base --seq 128K --format json && test ! -s err && cp out compare.json &&
	test "$(json_get compare.json schema)" = seqplan.table/1 &&
	test "$(methods compare.json)" = \
		"naive none allgather ulysses ring zigzag striped usp double-ring fused-ring" &&
	test "$(row compare.json ulysses layout.framework)" = deepspeed &&
	test "$(row compare.json zigzag layout.framework)" = megatron &&
	test "$(row compare.json ring layout.framework)" = ring-flash-attn
'

test_expect_success 'a row is the answer of its own question' '
	for method in allgather ulysses ring zigzag usp
	do
		expect_exit 0 seqplan estimate $base --seq 128K --sp-method $method --format json &&
		for path in step_time_s peak_bytes tokens_per_s_per_gpu layout communication memory_bytes warnings assumed
		do
			test "$(json_get out $path)" = "$(row compare.json $method $path)" || return 1
		done || return 1
	done
'

test_expect_success 'naive and none do not split the sequence: sp 1, more dp, the same batch' '
	for method in naive none
	do
		test "$(row compare.json $method layout.sp)" = 1 && test "$(row compare.json $method layout.dp)" = 8 &&
		test "$(row compare.json $method global_batch)" = "$(row compare.json zigzag global_batch)" || return 1
	done &&
	test "$(row compare.json naive fits)" = false && test "$(row compare.json none fits)" = true
'

test_expect_success 'a batch that would follow from dp is one for all, and stays named as assumed' '
	large="--model llama-3.1-70b --hardware dgx-h100 --gpus 512 --seq 1M --tp 8 --sp 8 --pp 8" &&
	expect_exit 0 seqplan compare $large --sp-method none,zigzag --format json && test "$(json_get out rows.0.global_batch)" = 64 &&
	test "$(json_get out rows.1.global_batch)" = 64 && json_get out rows.1.assumed | grep "\"global batch 64\"" &&
	expect_exit 0 seqplan compare $large --sp-method none,zigzag --global-batch 128 --format json && test "$(json_get out rows.1.global_batch)" = 128 &&
	json_get out rows.1.assumed >assumed && ! grep "global batch" assumed &&
	expect_exit 0 seqplan estimate $large --sp-method zigzag --format json && test "$(json_get out global_batch)" = 16
'

test_expect_success '--dp of those that split becomes dp x sp' '
	expect_exit 0 seqplan compare --model llama-2-7b --hardware dgx-h100 --gpus 8 --sp 4 --dp 2 --zero 3 --seq 64K \
		--sp-method none,zigzag --format json &&
	test "$(json_get out rows.0.layout.dp)" = 8 && test "$(json_get out rows.1.layout.dp)" = 2
'

test_expect_success 'methods in the order asked for' '
	expect_exit 0 seqplan compare $base --seq 128K --sp-method zigzag,ulysses,none --format json &&
	test "$(methods out)" = "zigzag ulysses none"
'

test_expect_success 'of a framework, every method that it has' '
	expect_exit 0 seqplan compare $base --seq 128K --framework megatron --format json &&
	test "$(methods out)" = "none allgather ulysses zigzag usp" && test "$(row out ulysses layout.framework)" = megatron &&
	expect_exit 0 seqplan compare $base --seq 128K --framework ideal --format json && test "$(methods out | wc -w)" = 10
'

test_expect_success 'a method that breaks a rule is a row that says so' '
	expect_exit 0 seqplan compare $base --seq 128K --sp-method ulysses,ring --framework ring-flash-attn --format json &&
	test "$(json_get out rows.0.layout.sp_method)" = ulysses && test -n "$(json_get out rows.0.error.rule)" &&
	test "$(json_get out rows.1.fits)" = true &&
	expect_exit 0 seqplan compare --model qwen2.5-7b-1m --hardware dgx-h100 --gpus 8 --sp 8 --seq 128K --zero 3 &&
	grep "refused: ulysses over 8 ranks: 28 query heads do not divide by 8" out && within_100 out
'

test_expect_success 'when every method that splits is refused the others still have their heading' '
	expect_exit 0 seqplan compare $base --sp 3 --seq 32K --sp-method none,zigzag && grep "^      refused: 8 gpus are not" out &&
	head -n 1 out | grep "^model llama-2-7b, seq 32K, gpus 8, " &&
	expect_exit 1 seqplan compare $base --gpus 12 --seq 32K && head -n 1 out | grep "^  method  *framework$" &&
	grep "^  fastest  no method keeps the rules$" out
'

test_expect_success 'the best interconnect is the slowest that costs at most 5 %' '
	perl -MJSON::PP -e '\''
		open my $in, "<", "compare.json" or die;
		for my $row (@{decode_json(do { local $/; <$in> })->{rows}}) {
			my $method = $row->{layout}{sp_method};
			my @links = @{$row->{interconnects}};
			my ($fastest) = sort { $a <=> $b } map { $_->{step_time_s} } @links;
			my @cheap = grep { $_->{name} ne "ideal" && $_->{step_time_s} <= 1.05 * $fastest } @links;
			my $best = $row->{best_interconnect};
			# links are listed by rate, the fastest first
			die "$method: $best, not $cheap[-1]{name}\n" if $best ne $cheap[-1]{name};
			my ($own) = grep { $_->{name} eq "nvlink" } @links;
			die "$method: nvlink is not its own time\n" if $own->{step_time_s} != $row->{step_time_s};
			my %names = map { $_->{name} => 1 } @links;
			die "$method: links missing\n" if grep { !$names{$_} } qw(nvlink ib-ndr ib-xdr eth-100g ideal);
		}
	'\''
'

test_expect_success 'over several nodes the links are networks, and slower ones are not faster' '
	expect_exit 0 seqplan compare --model llama-3.1-8b --hardware dgx-h100 --gpus 32 --sp 32 --seq 256K --zero 3 \
		--sp-method zigzag --format json &&
	perl -MJSON::PP -e '\''
		open my $in, "<", "out" or die;
		my $row = decode_json(do { local $/; <$in> })->{rows}[0];
		my %time = map { $_->{name} => $_->{step_time_s} } @{$row->{interconnects}};
		die "nvlink\n" if exists $time{nvlink};
		die "ib-ndr is its own\n" if $time{"ib-ndr"} != $row->{step_time_s};
		die "order\n" unless $time{"ib-xdr"} <= $time{"ib-ndr"} && 1.5 * $time{"ib-ndr"} < $time{"eth-100g"};
		die "best: $row->{best_interconnect}\n" if $row->{best_interconnect} eq "eth-100g";
	'\''
'

test_expect_success '--set network.* is about the network asked for alone' '
	many="--model llama-3.1-8b --hardware dgx-h100 --gpus 32 --sp 32 --seq 128K --zero 3 --sp-method zigzag" &&
	expect_exit 0 seqplan compare $many --format json && cp out before.json &&
	expect_exit 0 seqplan compare $many --set network.bandwidth=10Gb/s --format json && cp out after.json &&
	links() {
		perl -MJSON::PP -e "
			open my \$in, q(<), \$ARGV[0] or die;
			my \$row = decode_json(do { local \$/; <\$in> })->{rows}[0];
			my (\$link) = grep { \$_->{name} eq \$ARGV[1] } @{\$row->{interconnects}};
			print \$link->{step_time_s}" "$1" "$2"
	} &&
	test "$(links before.json eth-100g)" = "$(links after.json eth-100g)" &&
	test "$(links before.json ib-ndr)" != "$(links after.json ib-ndr)"
'

test_expect_success 'nodes without a NIC are priced on their own links alone' '
	expect_exit 1 seqplan compare --model llama-3.1-8b --hardware h100-pcie-2 --gpus 2 --sp 2 --seq 32K --zero 3 \
		--sp-method zigzag --format json &&
	test "$(json_get out rows.0.best_interconnect)" = nvlink && ! json_get out rows.0.interconnects.1 2>absent &&
	grep "no .1." absent
'

test_expect_success 'usp keeps its factors on every link' '
	expect_exit 0 seqplan compare $base --seq 128K --sp-method usp --sp-ulysses 4 --format json && cp out given.json &&
	test "$(json_get given.json rows.0.layout.sp_ulysses)" = 4 &&
	expect_exit 0 seqplan compare $base --seq 128K --sp-method usp --format json && cp out default.json &&
	factor=$(json_get default.json rows.0.layout.sp_ulysses) && test "$factor" -gt 1 &&
	expect_exit 0 seqplan compare $base --seq 128K --sp-method usp --sp-ulysses "$factor" --format json &&
	test "$(json_get out rows.0.interconnects)" = "$(json_get default.json rows.0.interconnects)" &&
	expect_exit 0 seqplan compare $base --seq 128K --sp-method usp,ulysses,zigzag --sp-ulysses 4 --format json &&
	test "$(json_get out rows.0.layout.sp_ulysses)" = 4 && test "$(json_get out rows.1.layout.sp_ulysses)" = 8 &&
	test "$(json_get out rows.2.layout.sp_ulysses)" = 1
'

test_expect_success 'the table: heading, columns, why not, and words' '
	expect_exit 0 seqplan compare $base --seq 128K && test ! -s err && within_100 out &&
	head -n 3 out | tr "\n" " " | grep "model llama-2-7b, seq 128K, gpus 8, .*sp 8, .*; sp 1, dp 8 for naive and none" &&
	grep "^  method  *framework  *GB/layer  *GiB  *fits  *step s  *tokens/s  *MFU %  *bound  *best link$" out &&
	grep "^  zigzag  *megatron  *1.88+3.76 .* yes " out &&
	grep "^  ulysses  *deepspeed  *0.470+0.470 " out &&
	grep "does not fit: .* GiB missing; .* for matrices of S x S scores" out &&
	grep "^  fastest  .* tokens/s/GPU) of those that fit$" out &&
	grep "^ .* striped: .* % faster than ring, whose ranks wait for the one with most work (+" out &&
	grep "best link: the slowest that costs at most 5 %" out
'

test_expect_success 'the seed question at 1M: naive needs terabytes, zig-zag beats the ring' '
	expect_exit 0 seqplan compare $base --seq 1M --format json &&
	perl -e "exit(\$ARGV[0] > 2e12 && \$ARGV[1] > 1.3 * \$ARGV[2] ? 0 : 1)" "$(row out naive peak_bytes)" \
		"$(row out ring step_time_s)" "$(row out zigzag step_time_s)"
'

test_expect_success 'the words are about the rows' '
	expect_exit 0 seqplan compare $base --seq 128K --sp-method ulysses,zigzag --format json && cp out two.json &&
	expect_exit 0 seqplan compare $base --seq 128K --sp-method ulysses,zigzag &&
	percent=$(perl -e "printf q(%.1f), 100 * ($(row two.json zigzag tokens_per_s_per_gpu) /
		$(row two.json ulysses tokens_per_s_per_gpu) - 1)") &&
	grep "^  why      zigzag: $percent % faster than ulysses, whose " out && ! grep "sp 1, dp 8" out
'

test_expect_success 'the shape of the table' '
	expect_exit 0 seqplan compare $base --seq 128K --sp-method naive,ring,zigzag && shape out >found &&
	golden "$expected/compare.txt" found
'

test_expect_success 'markdown has the same table and words' '
	expect_exit 0 seqplan compare $base --seq 128K --format markdown && test ! -s err &&
	grep "^| method | framework | GB/layer | GiB | fits | " out && grep "^| zigzag | megatron | 1.88+3.76 | " out &&
	grep "^- fastest: " out && grep "^- why: " out && head -n 1 out | grep "^\*\*model llama-2-7b, "
'

test_expect_success 'csv has a line per method' '
	expect_exit 0 seqplan compare $base --seq 128K --format csv && test "$(wc -l <out)" = 11 &&
	head -n 1 out | grep "^schema,.*,best_interconnect,interconnects.0.name,"
'

test_expect_success 'exit 1 when no method fits, with the nearest' '
	expect_exit 1 seqplan compare $base --seq 4M --format json &&
	expect_exit 1 seqplan compare $base --seq 4M && grep "none fits; nearest: usp (peak " out
'

test_expect_success 'a layout file gives the settings, the methods are compared all the same' '
	expect_exit 0 seqplan estimate $base --seq 32K --recompute selective --format json && cp out answer.json &&
	expect_exit 0 seqplan compare --layout answer.json --sp-method none,ulysses,zigzag --format json &&
	test "$(row out zigzag step_time_s)" = "$(json_get answer.json step_time_s)" &&
	test "$(row out none layout.dp)" = 8 && test "$(row out ulysses layout.recompute)" = selective
'

test_expect_success '--only attention compares the layer alone' '
	expect_exit 0 seqplan compare $base --seq 128K --sp-method ring,zigzag --only attention --format json &&
	test "$(row out ring only)" = attention && test "$(row out ring time_s.gemm)" = 0
'

test_expect_success 'refusals' '
	expect_error 2 "give --sp above 1" seqplan compare --model llama-2-7b --hardware dgx-h100 --gpus 8 --seq 128K &&
	expect_error 2 "did you mean \"zigzag\"" seqplan compare $base --seq 128K --sp-method ring,zigzog &&
	expect_error 2 "given twice" seqplan compare $base --seq 128K --sp-method ring,zigzag,ring &&
	expect_error 2 "expected some of none" seqplan compare $base --seq 128K --sp-method ring, &&
	expect_error 2 "give --layout a file" seqplan compare $base --layout - &&
	expect_error 2 "missing" seqplan compare --sp 8 &&
	expect_error 3 "lama" seqplan compare --model lama --hardware dgx-h100 --gpus 8 --sp 8 --seq 128K &&
	expect_error 2 "unknown option" seqplan compare $base --seq 128K --vary seq=1,2
'

test_expect_success 'without a split only none and naive are left to compare' '
	expect_exit 0 seqplan compare --model llama-2-7b --hardware dgx-h100 --gpus 8 --zero 3 --seq 64K --sp-method naive,none &&
	grep "^  none  *megatron  *-  .* yes" out
'

test_expect_success 'experts that no layout of the cluster holds are rows with a rule' '
	for options in "--model mixtral-8x7b --gpus 4 --sp 4 --ep 8" "--model mixtral-8x7b --gpus 8 --sp 8 --ep 3" \
		"--model llama-3.1-8b --gpus 4 --sp 4 --ep 8"; do
		expect_exit 1 seqplan compare --hardware dgx-h200 --seq 8K $options --format json &&
		json_get out rows.0.error.rule | grep "^expert" && test "$(json_get out rows.0.layout.placement.ep)" = null || return 1
	done
'

test_expect_success 'a bound stands there only where it is one' '
	expect_exit 0 seqplan compare --model llama-2-7b --hardware dgx-h200 --gpus 8 --sp 8 --seq 128K --documents 8K &&
	grep "^  fastest  none" out && ! grep "^  bound " out &&
	expect_exit 0 seqplan compare --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 128K --sp 8 --zero 3 &&
	grep "^  bound    fused-ring" out
'

test_done
