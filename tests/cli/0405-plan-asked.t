#!/bin/sh
test_description='what plan is asked: constraints that ask for nothing or too much, axes that exclude each other'
. "$(dirname "$0")/lib-seqplan.sh"

base='--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 96K'
small='--framework megatron --recompute none,full --zero 1,3 --offload none --sp-method zigzag,ulysses'
export base small

test_expect_success 'nothing fits: CSV has a line without rank that says what is missing' '
	expect_exit 1 seqplan plan $base $small --min-mfu 71% --format csv && test ! -s err && test "$(wc -l <out)" = 2 &&
	head -n 1 out | grep "^rank,pareto,differs,options,schema," &&
	tail -n 1 out | grep "^,,none of [0-9]* layouts reaches 71.0 % MFU; the fastest has [0-9.]*,--model llama-3.1-8b " &&
	expect_exit 1 seqplan plan $base $small --max-memory 7GiB --format csv &&
	tail -n 1 out | grep "^,,none of [0-9]* layouts fits in the 7.00 GiB asked; the nearest lacks [0-9.]* GiB,--model " &&
	expect_exit 1 seqplan plan $base --tp 4,8 --sp 4 --format csv &&
	printf "%s\n" "rank,pareto,differs,options" ",,none of 2 layouts keeps the rules," >wanted && cmp wanted out
'

test_expect_success 'headroom: less than a GPU has, and none is fine' '
	expect_error 2 "--headroom: 80.0 GiB is all that a GPU has: expected less than its 79.6 GiB" \
		seqplan plan $base --headroom 80GiB &&
	expect_error 2 "--headroom: 100% is all that a GPU has: expected less than its 79.6 GiB" \
		seqplan plan $base --headroom 100% &&
	expect_exit 0 seqplan plan $base $small --format json && sed "s/\"elapsed_s\": .*//" out >plain &&
	for nothing in "--headroom 0%" "--headroom 0" "--headroom 0GiB" "--min-mfu 0" "--min-mfu 0%"
	do
		expect_exit 0 seqplan plan $base $small $nothing --format json && sed "s/\"elapsed_s\": .*//" out >found &&
		cmp plain found || return 1
	done &&
	expect_error 2 "--max-memory: expected more than 0" seqplan plan $base --max-memory 0GiB
'

test_expect_success 'a limit above what a GPU has is remarked upon' '
	remark="--max-memory 93.0 GiB is above the 79.6 GiB of the GPU: no limit" &&
	expect_exit 0 seqplan plan $base $small --max-memory 93GiB && test ! -s err && grep -e "^  warning  $remark$" out &&
	expect_exit 0 seqplan plan $base $small --max-memory 93GiB --format json &&
	test "$(json_get out remarks.0)" = "$remark" &&
	expect_exit 0 seqplan plan $base $small --max-memory 61GiB --format json && test "$(json_get out remarks)" = "[]" &&
	expect_exit 1 seqplan plan $base $small --seq 6M --max-memory 93GiB &&
	sed -n 2p out | grep "layouts fits; the nearest lacks " && grep -e "^  warning  $remark$" out &&
	expect_exit 1 seqplan plan $base --tp 4,8 --sp 4 --max-memory 93GiB && grep -e "^  warning  $remark$" out
'

test_expect_success 'why not: each limit by its own size' '
	for limit in "--max-memory 5GiB" "--headroom 90%"
	do
		expect_exit 1 seqplan plan $base $limit --format json && cp out miss.json &&
		perl -MJSON::PP -e "
			my \$p = decode_json(join q(), <STDIN>);
			my %of = map { \$_->{reason} => \$_->{example} } @{\$p->{rejected}};
			die qq(memory: \$of{memory}\n) if \$of{memory} !~ /, of 79[.]6 GiB\$/;
			my (\$limit) = grep { defined } @of{qw(max_memory headroom)};
			die qq(limit: \$limit\n) if \$limit !~ /, of (5[.]00|7[.]96) GiB\$/;
		" <miss.json || return 1
	done
'

test_expect_success 'axes that exclude each other are refused, and the line says why' '
	expect_error 2 "--sp-method: zigzag is not in deepspeed; frameworks of zigzag: megatron, torch, ring-flash-attn, ideal" \
		seqplan plan $base --framework deepspeed --sp-method zigzag &&
	expect_error 2 "--sp-method: ring, zigzag are not in deepspeed, alst; frameworks of ring: ring-flash-attn, ideal" \
		seqplan plan $base --framework alst,deepspeed --sp-method zigzag,ring &&
	expect_error 2 "double-ring is not in megatron, torch" seqplan plan $base --sp-method double-ring &&
	expect_error 2 "--vpp 2,3 with pp 1: several chunks a rank need two stages or more" \
		seqplan plan $base --vpp 2,3 --pp 1 &&
	expect_error 2 "--vpp 1 is not of interleaved: interleaved has 2 chunks a rank or more, zbv 2, every other 1" \
		seqplan plan $base --schedule interleaved --vpp 1 &&
	expect_error 2 "--vpp 3 is not of 1f1b: " seqplan plan $base --framework deepspeed --vpp 3 &&
	expect_error 2 "no vpp of 2 or more divides the 61 layers over pp 4; give --vpp" \
		seqplan plan --model deepseek-v3 --hardware dgx-h100 --gpus 256 --seq 96K --schedule interleaved --pp 4 &&
	expect_exit 0 seqplan plan $base $small --vpp 1,3 --pp 1 && expect_exit 0 seqplan plan $base --framework alst --vpp 1
'

test_expect_success 'parts of sp without the method that has them are refused' '
	expect_error 2 "--sp-ulysses is for usp, which --sp-method leaves out" \
		seqplan plan $base --sp-ulysses 2 --sp-method zigzag &&
	expect_error 2 "--sp-inner is for double-ring, which is not in megatron, torch, deepspeed, alst, ring-flash-attn; frameworks of double-ring: ideal" \
		seqplan plan $base --sp-inner 2 &&
	expect_error 2 "--sp-ulysses is for usp, which is not in torch; " \
		seqplan plan $base --sp-ulysses 2 --framework torch &&
	expect_error 2 "--sp-ulysses is a part of sp, which --sp 1 does not split" seqplan plan $base --sp-ulysses 2 --sp 1 &&
	expect_exit 0 seqplan plan $base --sp-ulysses 2 --framework megatron --zero 3 --offload none --recompute full &&
	expect_exit 0 seqplan plan $base --sp-inner 2 --framework ideal --zero 3 --offload none --recompute full
'

test_expect_success 'a row of --vary has the same reasons' '
	expect_exit 0 seqplan plan $base $small --vary framework=megatron,deepspeed --sp-method zigzag --format json &&
	test "$(json_get out rows.1.error.rule)" = pair
'

test_expect_success 'a price of 0 is none to rank by; what is missing comes with an example of plan' '
	expect_error 2 "--objective cost: gpu.price is 0 and must be above 0" \
		seqplan plan $base --set gpu.price=0/h --objective cost &&
	expect_error 2 "are missing; for example: seqplan plan --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 128K" seqplan plan
'

test_expect_success 'one of a kind is no plural' '
	expect_exit 1 seqplan plan --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 96K --global-batch 1 --pp 2 --max-memory 7GiB \
		--format json && grep "1 micro-batch is fewer than pp 2 stages, which the interleaved schedule refuses" out &&
	expect_exit 0 seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 1 --dp 8 --offload optimizer &&
	head -n 1 out | grep "^llama-3.1-8b, 1 token, 8 x " &&
	expect_error 2 "8 gpus are 1 node of 8, not the 2 of --nodes" \
		seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --nodes 2 --seq 96K &&
	expect_error 2 "1 gpu is 1 node of 8, not the 2 of --nodes" \
		seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 1 --nodes 2 --seq 96K
'

test_expect_success 'the options name the method of the layout at sp 1 too' '
	expect_exit 0 seqplan plan $base --sp 1 --sp-method zigzag --format json && cp out plan.json &&
	test "$(json_get plan.json plans.0.layout.sp_method)" = zigzag &&
	expect_exit 0 seqplan estimate $(json_get plan.json options.0) --format json &&
	test "$(json_get out layout)" = "$(json_get plan.json plans.0.layout)" &&
	test "$(json_get out step_time_s)" = "$(json_get plan.json plans.0.step_time_s)"
'

test_expect_success 'a long path widens the line of the command that has it, and no other' '
	folder=$(printf "%0199d" 0) && mkdir -p "$folder" &&
	cp "$top/models/llama-3.1-8b.json" "$folder/m.json" &&
	expect_exit 0 seqplan plan $base $small --model "$folder/m.json" && grep -e "^      --model $folder/m.json " out &&
	awk "length > 100 && !/ --model 0000/ { print; bad = 1 } END { exit bad }" out
'

test_expect_success 'limits far below what is usual are told in their own units' '
	expect_exit 1 seqplan plan $base $small --max-memory 1KiB && sed -n 2p out | grep "fits in the 1.00 KiB asked; " &&
	expect_exit 1 seqplan plan $base $small --tokens 1T --deadline 1s &&
	sed -n 2p out | grep "layouts is done in 1.00 s; the fastest takes [0-9]* days:$" &&
	expect_error 2 "--deadline: expected a time with its unit such as \"30d\" or \"12h\", found \"30\"" \
		seqplan plan $base --tokens 1T --deadline 30
'

test_expect_success 'what has nothing in common is not suggested' '
	expect_exit 2 seqplan plan $base --zero 4 && grep "expected some of 0, 1, 2, 3, found \"4\"$" err &&
	expect_exit 2 seqplan estimate $base --zero 4 && grep "expected one of 0, 1, 2, 3, found \"4\"$" err
'

# A plan of some seconds, on one thread. In the background of a script SIGINT is ignored unless it is set right.
large='--model deepseek-v3 --hardware dgx-h100 --gpus 2048 --seq 128K --threads 1'
interrupted() {
	# shellcheck disable=SC2086 # several options in one variable
	perl -e "\$SIG{INT} = q(DEFAULT); exec @ARGV" "$SEQPLAN" plan $large "$@" >out 2>err </dev/null &
	pid=$!
	sleep 2 && kill -INT $pid
	code=0
	wait $pid || code=$?
	test $code -eq 4
}

# shellcheck disable=SC2086
test_expect_success 'a plan that is interrupted prints what it has found' '
	interrupted --format json && test "$(json_get out interrupted)" = true && test "$(json_get out sensitivity)" = null &&
	grep "^seqplan: interrupted after [0-9]* layouts, the rest was not considered$" err && json_get out plans.0.layout &&
	json_get out remarks | grep "interrupted: the best of " && perl -MJSON::PP -e '\''
		my $p = decode_json(join "", <>);
		my $sum = $p->{evaluated};
		$sum += $_->{count} for @{$p->{rejected}};
		exit($sum == $p->{considered} ? 0 : 1);
	'\'' out &&
	interrupted && grep "^  warning  interrupted: the best of " out &&
	expect_exit 0 seqplan plan $base $small --format json && test "$(json_get out interrupted)" = false
'

test_done
