#!/bin/sh
test_description='plan searches the layouts of a question and ranks what fits'
. "$(dirname "$0")/lib-seqplan.sh"

expected=$SHARNESS_TEST_SRCDIR/expected
base='--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 96K'
small='--framework megatron,torch --recompute none,full,block:7 --zero 1,3 --offload none --sp-method zigzag,ulysses,allgather'
tight='--model llama-3.1-70b --hardware dgx-h100 --gpus 8 --seq 1M --framework megatron --zero 1 --offload none --recompute none,full'
export expected base small tight

# plan_check FILE CODE: runs Perl over the plan in FILE, as $p.
plan_check() {
	perl -MJSON::PP -e '
		open my $in, "<", $ARGV[0] or die;
		our $p = decode_json(do { local $/; <$in> });
		eval $ARGV[1];
		die $@ if $@;
	' "$1" "$2"
}

# within_100 FILE: no line is longer than a screen, none ends in a space.
within_100() {
	awk 'length > 100 || / $/ { print FILENAME ":" FNR ": " $0; bad = 1 } END { exit bad }' "$1" >&2
}

# shape FILE: its words and signs, each figure a #, without remarks: what holds whatever the models say.
shape() {
	sed '/^  \(warning\|assumed\) /,$d; s/[0-9][0-9.]*/#/g; s/  */ /g' "$1"
}

test_expect_success 'the keys of a plan, and what adds up' '
	expect_exit 0 seqplan plan $base $small --global-batch 24 --format json && test ! -s err && cp out plan.json &&
	test "$(json_get plan.json schema)" = seqplan.plan/1 && test "$(json_get plan.json objective)" = throughput &&
	test "$(json_get plan.json nearest_miss)" = null && json_get plan.json elapsed_s >/dev/null &&
	plan_check plan.json '\''
		my $n = $p->{evaluated};
		$n += $_->{count} for @{$p->{rejected}};
		die "considered $p->{considered}, counted $n\n" if $n != $p->{considered};
		die "a reason without example\n" if grep { !length $_->{example} && $_->{reason} ne "bound" } @{$p->{rejected}};
		my $plans = @{$p->{plans}};
		die "few plans\n" if $plans < 5;
		die "lists of unlike length\n" if @{$p->{differs}} != $plans || @{$p->{options}} != $plans;
		die "a plan without words\n" if grep { !length } @{$p->{differs}};
		die "a plan that does not fit\n" if grep { !$_->{fits} } @{$p->{plans}};
	'\''
'

test_expect_success 'plans are ranked, and pareto names those that nothing beats' '
	plan_check plan.json '\''
		my @plans = @{$p->{plans}};
		for my $i (1 .. $#plans) {
			die "$i is faster than what stands before\n" if $plans[$i]{step_time_s} < $plans[$i - 1]{step_time_s};
		}
		my %is_front = map { $_ => 1 } @{$p->{pareto}};
		die "no front\n" unless $is_front{0};
		for my $i (0 .. $#plans) {
			my ($t, $m) = @{$plans[$i]}{qw(step_time_s peak_bytes)};
			my $beaten = grep { $_->{step_time_s} <= $t && $_->{peak_bytes} <= $m &&
				($_->{step_time_s} < $t || $_->{peak_bytes} < $m) } @plans;
			die "$i is beaten and on the front\n" if $beaten && $is_front{$i};
		}
	'\''
'

test_expect_success 'the options of every plan give its answer' '
	plan_check plan.json "print map { qq(\$_\n) } @{\$p->{options}}" >options &&
	number=0 &&
	while read -r options
	do
		seqplan estimate $options --format json >answer.json || return 1
		for key in step_time_s peak_bytes layout model gpus seq global_batch warnings
		do
			test "$(json_get answer.json $key)" = "$(json_get plan.json plans.$number.$key)" || {
				echo "$key: $options" >&2
				return 1
			}
		done
		number=$((number + 1))
	done <options && test $number -gt 5
'

test_expect_success 'the first layout reads back through --layout' '
	json_get plan.json plans.0.layout >layout.json &&
	expect_exit 0 seqplan estimate $base --global-batch 24 --layout layout.json --format json &&
	test "$(json_get out step_time_s)" = "$(json_get plan.json plans.0.step_time_s)"
'

test_expect_success 'what an option asks for is kept, what it leaves open is searched' '
	expect_exit 0 seqplan plan $base --global-batch 24 --tp 1,2 --cp 4 --sp-method zigzag,usp --sp-ulysses 2 --pp 1 \
		--micro-batch 3 --framework megatron --zero 1,3 --recompute full,block:5 --offload none,optimizer \
		--set layout.order=cp-tp-ep-dp-pp --top 40 --format json && cp out asked.json &&
	plan_check asked.json '\''
		my %seen;
		for my $plan (@{$p->{plans}}) {
			my $l = $plan->{layout};
			$seen{"$_ $l->{$_}"}++ for qw(tp sp sp_method pp micro_batch framework zero recompute offload order);
			die "ulysses\n" if $l->{sp_method} eq "usp" && $l->{sp_ulysses} != 2;
			die "dp is what is left\n" if $l->{tp} * $l->{sp} * $l->{dp} != 8;
		}
		my %asked = map { $_ => 1 } "tp 1", "tp 2", "sp 4", "sp_method zigzag", "sp_method usp", "pp 1", "micro_batch 3",
			"framework megatron", "zero 1", "zero 3", "recompute full", "recompute block:5", "offload none",
			"offload optimizer", "order cp-tp-ep-dp-pp";
		my @more = grep { !$asked{$_} } keys %seen;
		die "not asked for: @more\n" if @more;
		for my $wanted ("sp_method zigzag", "sp_method usp", "tp 2", "recompute full") {
			die "never $wanted\n" unless $seen{$wanted};
		}
	'\''
'

test_expect_success '--nodes is --gpus' '
	sed "s/\"elapsed_s\": .*//" plan.json >one.json &&
	expect_exit 0 seqplan plan $(echo "$base" | sed "s/--gpus 8/--nodes 1/") $small --global-batch 24 --format json &&
	sed "s/\"elapsed_s\": .*//" out >two.json && cmp one.json two.json
'

test_expect_success 'any number of threads gives the same' '
	for threads in 1 2 7
	do
		expect_exit 0 seqplan plan $base $small --global-batch 24 --threads $threads --format json &&
		sed "s/\"elapsed_s\": .*//" out >two.json && cmp one.json two.json || return 1
	done
'

test_expect_success 'the table: the answer first, one screen wide' '
	expect_exit 0 seqplan plan $base $small --global-batch 24 && test ! -s err && cp out table && within_100 table &&
	head -n 1 table | grep "^llama-3.1-8b, 96K tokens, 8 x H100" && grep "^  step  .* tokens/s/GPU .*MFU .*bound: " table &&
	grep "^  memory .* GiB  *fits" table && grep "^  ranked by throughput" table && grep "^  Pareto front: [0-9]* layouts" table &&
	grep "^  *dropped  *why  *for example$" table && tail -n 1 table | grep "^  searched [0-9]* layouts in .* priced in full" &&
	shape table >found && golden "$expected/plan.txt" found
'

test_expect_success 'the command of the table can be pasted' '
	sed -n "/^  seqplan estimate/,/[^\\\\]\$/p" table >pasted && grep "^  seqplan estimate " pasted &&
	expect_exit 0 sh -c "$(cat pasted) --format json" &&
	test "$(json_get out step_time_s)" = "$(json_get plan.json plans.0.step_time_s)"
'

test_expect_success '--top is how many are ranked' '
	expect_exit 0 seqplan plan $base $small --global-batch 24 --top 3 && sed -n "/^  ranked/,/^\$/p" out >ranked &&
	test "$(grep -c "^ \{2,4\}[0-9]" ranked)" = 3
'

test_expect_success 'by memory the smallest is the first' '
	expect_exit 0 seqplan plan $base $small --global-batch 24 --objective memory --format json && cp out memory.json &&
	plan_check memory.json '\''
		my @peaks = map { $_->{peak_bytes} } @{$p->{plans}};
		for my $i (1 .. $#peaks) {
			die "$i needs less than what stands before\n" if $peaks[$i] < $peaks[$i - 1];
		}
	'\'' && json_get memory.json differs.0 | grep "^smallest peak of "
'

test_expect_success 'memory filled to the brim: the option that leaves room is named, once' '
	brim="--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 128K --framework megatron --zero 3 --offload none" &&
	expect_exit 0 seqplan plan $brim && grep "only [0-9.]* GiB left" out && grep "^  try  *--headroom 5%: " out &&
	expect_exit 0 seqplan plan $brim --headroom 5% && ! grep "GiB left: fragmentation" out && ! grep "^  try " out
'

test_expect_success 'placements: the usual one without a word, and said so' '
	expect_exit 0 seqplan plan --model llama-3.1-8b --hardware dgx-h100 --gpus 64 --seq 256K --global-batch 64 --zero 2 \
		--sp-method zigzag,allgather --top 5 && cp out table && within_100 table &&
	tr "\n" " " <table | grep "as in the first; order, where *none stands: tp-cp-ep-dp-pp" && grep "^ *#.* order .*step s" table &&
	sed -n "/^  ranked/,/^\$/p" table >ranked && grep "^  *[0-9].*tp-ep-pp-dp-cp" ranked && ! grep "^  *[0-9].*tp-cp-ep-dp-pp" ranked
'

test_expect_success 'markdown and csv' '
	expect_exit 0 seqplan plan $base $small --global-batch 24 --format markdown && head -n 1 out | grep "^\*\*llama-3.1-8b" &&
	grep "^| # | .*| step s | slower % | MFU % | GiB | front | differs |$" out && grep "^.\{3\}sh$" out &&
	grep "^- searched: " out &&
	expect_exit 0 seqplan plan $base $small --global-batch 24 --format csv && head -n 1 out | grep "^rank,pareto,differs,options,schema," &&
	test "$(wc -l <out)" = "$(plan_check plan.json "print 1 + @{\$p->{plans}}")"
'

test_expect_success 'nothing fits: exit 1, no plans, and what comes nearest' '
	expect_exit 1 seqplan plan $tight --format json && test ! -s err && cp out miss.json &&
	test "$(json_get miss.json plans)" = "[]" && test "$(json_get miss.json pareto)" = "[]" &&
	plan_check miss.json '\''
		my $miss = $p->{nearest_miss};
		die "missing\n" if abs($miss->{peak_bytes} - $miss->{capacity_bytes} - $miss->{missing_bytes}) > 1;
		die "not missing\n" if $miss->{missing_bytes} <= 0;
		die "no layout\n" if $miss->{layout}{tp} * $miss->{layout}{sp} * $miss->{layout}{pp} * $miss->{layout}{dp} != 8;
		die "changes\n" if ref $miss->{changes} ne "ARRAY";
	'\'' &&
	expect_exit 1 seqplan estimate $(json_get miss.json nearest_miss.options) --format json &&
	for key in schema layout peak_bytes step_time_s memory_bytes communication time_s bound
	do
		test "$(json_get out $key)" = "$(json_get miss.json nearest_miss.$key)" || return 1
	done
'

test_expect_success 'nothing fits, in the table' '
	expect_exit 1 seqplan plan $tight && within_100 out && sed -n 2p out | grep "^none of [0-9]* layouts fits; the nearest lacks [0-9.]* GiB:$" &&
	grep "does not fit" out && ! grep "ranked by" out && ! grep "Pareto" out &&
	expect_exit 1 seqplan plan $tight --format markdown && grep "^\*\*none of " out &&
	expect_exit 1 seqplan plan $tight --format csv && head -n 1 out | grep "^rank,pareto,differs,options,schema," &&
	test "$(wc -l <out)" = 2 && tail -n 1 out | grep "^,,none of [0-9]* layouts fits; the nearest lacks [0-9.]* GiB,--model "
'

test_expect_success 'what is asked beside memory: the memory given, MFU, a deadline' '
	expect_exit 1 seqplan plan $base $small --max-memory 7GiB &&
	sed -n 2p out | grep "^none of [0-9]* layouts fits in the 7.00 GiB asked; the nearest lacks [0-9.]* GiB:$" &&
	expect_exit 1 seqplan plan $base $small --min-mfu 71% &&
	sed -n 2p out | grep "^none of [0-9]* layouts reaches 71.0 % MFU; the fastest has [0-9.]*:$" &&
	expect_exit 1 seqplan plan $base $small --tokens 1.5T --deadline 7d && grep "^  run  *1.5T tokens: " out &&
	sed -n 2p out | grep "^none of [0-9]* layouts is done in 7.00 days; the fastest takes [0-9.]* days:$" && grep "tokens 1.5T" out &&
	expect_exit 0 seqplan plan $base $small --headroom 40% --format json &&
	plan_check out "die qq(no room\n) if grep { \$_->{headroom_bytes} < 0.4 * \$_->{capacity_bytes} } @{\$p->{plans}}" &&
	expect_exit 0 seqplan plan $base $small --max-memory 50GiB --min-mfu 30% --format json &&
	plan_check out "die qq(not kept\n) if grep { \$_->{peak_bytes} > 50 * 2**30 || \$_->{mfu_frac} < 0.3 } @{\$p->{plans}}"
'

test_expect_success 'fewest GPUs and cheapest try smaller clusters' '
	expect_exit 0 seqplan plan $base --objective gpus --format json && cp out fewest.json &&
	plan_check fewest.json '\''
		my @gpus = map { $_->{gpus} } @{$p->{plans}};
		die "not by GPUs: @gpus\n" if grep { $gpus[$_] < $gpus[$_ - 1] } 1 .. $#gpus;
		die "none smaller\n" unless $gpus[0] < 8;
	'\'' && json_get fewest.json differs.0 | grep "^fewest GPUs of " &&
	expect_exit 0 seqplan plan $base $small --objective cost && grep "\$/Gtoken" out && grep "^ *cheapest of " out &&
	within_100 out && expect_exit 0 seqplan plan --model llama-3.1-8b --hardware dgx-h100 --seq 96K $small --max-gpus 8 \
		--format json && plan_check out "die qq(larger\n) if grep { \$_->{gpus} > 8 } @{\$p->{plans}}"
'

test_expect_success 'nothing to consider' '
	expect_exit 1 seqplan plan $base --tp 4,8 --sp 4 && sed -n 2p out | grep "^none of 2 layouts keeps the rules" && within_100 out &&
	expect_exit 1 seqplan plan $base --tp 4,8 --sp 4 --format json && test "$(json_get out considered)" = 2 &&
	test "$(json_get out nearest_miss)" = null
'

test_expect_success 'a single layout that breaks a rule is refused as estimate refuses it' '
	for broken in "--dp 2 --tp 8" "--recompute block:999" "--ep 2" "--sp-method none --sp 2" "--zero 1 --offload parameters" \
		"--tp 8 --micro-batch 3 --global-batch 128" "--micro-batch 2000000"
	do
		expect_exit 2 seqplan estimate $base $broken && cp err wanted && expect_exit 2 seqplan plan $base $broken &&
		test ! -s out && diff wanted err || return 1
	done &&
	expect_error 2 "ep 2, etp 1: llama-3.1-8b has no experts" seqplan plan $base --dp 2 --ep 2
'

test_expect_success 'a value that no layout has is named, and moves nothing' '
	expect_exit 0 seqplan plan $base $small --format json && batch=$(json_get out plans.0.global_batch) &&
	expect_exit 0 seqplan plan $base $small --dp 1,2,3 --format json && test "$(json_get out plans.0.global_batch)" = "$batch" &&
	json_get out remarks | grep -e "--dp 3: in no layout" && ! grep -e "--dp 1" out && grep "dp 3 does not divide 8 gpus" out &&
	expect_exit 0 seqplan plan $base $small --tp 3,8 && grep "^  warning  --tp 3: in no layout" out && within_100 out
'

command -v script >/dev/null && test_set_prereq SCRIPT
test_expect_success SCRIPT 'progress is for a terminal, on standard error, and goes away' '
	script -qec "seqplan plan $base $small --global-batch 24 --format json >answer.json" /dev/null >terminal </dev/null &&
	test "$(json_get answer.json schema)" = seqplan.plan/1 &&
	perl -0777 -ne "exit(/^\r  searched \d+ % of \d+ layouts.*\r\e\[K\z/s ? 0 : 1)" terminal
'

test_expect_success 'refusals' '
	expect_error 2 "--model, --gpus (or --nodes) and --seq are missing" seqplan plan --hardware dgx-h100 &&
	expect_error 2 "--tp: 3 does not divide 8 gpus; legal here: 1, 2, 4, 8" seqplan plan $base --tp 3,5 &&
	expect_exit 0 seqplan plan $base $small --global-batch 24 --tp 1,3 --format json &&
	grep -q "gpus_product" out &&
	expect_error 2 "--pp: \"2\" is given twice" seqplan plan $base --pp 2,4,2 &&
	expect_error 2 "--sp-method: expected some of " seqplan plan $base --sp-method zigzag,zagzig &&
	expect_error 2 "did you mean \"zigzag\"?" seqplan plan $base --sp-method zigzg &&
	expect_error 2 "--offload: expected none, activations, optimizer or parameters" seqplan plan $base --offload disk &&
	expect_error 2 "leave out --layout" seqplan plan $base --layout layout.json &&
	expect_error 2 "leave out --only" seqplan plan $base --only attention &&
	expect_error 2 "add --tokens" seqplan plan $base --deadline 30d &&
	expect_error 2 "--deadline: expected a time" seqplan plan $base --tokens 1T --deadline 30 &&
	expect_error 2 "--objective: expected one of throughput, memory, gpus, cost" seqplan plan $base --objective speed &&
	expect_error 2 "--max-gpus: expected at most the 8 of the cluster, found 16" seqplan plan $base --max-gpus 16 &&
	expect_error 2 "--top: expected 1 to 1000" seqplan plan $base --top 0 &&
	expect_error 2 "--order and --set layout.order say the same" \
		seqplan plan $base --order tp-cp-ep-dp-pp --set layout.order=tp-cp-ep-dp-pp &&
	expect_error 2 "unknown option \"--explain\"" seqplan plan $base --explain &&
	expect_error 3 "unknown model" seqplan plan $(echo "$base" | sed "s/llama-3.1-8b/lama-3.1-8b/")
'

test_done
