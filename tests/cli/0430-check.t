#!/bin/sh
test_description='check: claims against the model and against what no run can pass; files of claims; docs/claims.md'
. "$(dirname "$0")/lib-seqplan.sh"

question='--model llama-2-7b --hardware dgx-h100 --gpus 8 --sp 8 --sp-method allgather --seq 128K --zero 3'
expected=$SHARNESS_TEST_SRCDIR/expected
export question expected

# within_100 FILE: no line is longer than a screen, none ends in a space.
within_100() {
	awk 'length > 100 || / $/ { print FILENAME ":" FNR ": " $0; bad = 1 } END { exit bad }' "$1" >&2
}

test_expect_success 'the page of docs is what the command prints (make claims renews it)' '
	ln -s "$top/claims" claims && expect_exit 1 seqplan check --format page claims/*.json && test ! -s err &&
	golden "$top/docs/claims.md" out
'

# Wide enough for small changes of the model: when it fails, claims/bounds/published.json has to be renewed.
test_expect_success 'the range of published steps is that of the rows that judge' '
	expect_exit 0 seqplan validate --format json && perl -MJSON::PP -e "
		local \$/;
		open my \$in, q{<}, q{$top/claims/bounds/published.json} or die;
		my \$file = JSON::PP->new->decode(<\$in>)->{step_time_factor};
		my \$all = JSON::PP->new->decode(<STDIN>);
		my %grade = map { (\$_->{name}, \$_->{own} ? q{} : \$_->{grade}) } @{\$all->{sources}};
		my %sign = (step_time_s => 1, tokens_per_s_per_gpu => -1, flop_per_s_per_gpu => -1, mfu_frac => -1);
		my @factors = sort { \$a <=> \$b } map { (\$_->{measured} / \$_->{predicted}) ** \$sign{\$_->{quantity}} }
			grep { \$sign{\$_->{quantity}} && \$_->{role} eq q{judge} && \$grade{\$_->{source}} eq q{A} } @{\$all->{rows}};
		my %found = (value => .5, low => .05, high => .95);
		\$_ = \$factors[\$_ * \$#factors] for values %found;
		printf qq{%s: %.3f found, %.3f in the file\n}, \$_, \$found{\$_}, \$file->{\$_} for sort keys %found;
		exit !(@factors > 100 && !grep { abs(\$found{\$_} / \$file->{\$_} - 1) > .15 } keys %found);" <out
'

# 989e12 FLOP/s over 1.427e11 FLOP a token are 6930 tokens/s.
test_expect_success 'an impossible claim: exit code 1, the contract keys' '
	expect_exit 1 seqplan check $question --claim tokens_per_s_per_gpu=48000 --format json && test ! -s err &&
	test "$(json_get out schema)" = seqplan.check/1 &&
	test "$(json_get out claim)" = "{\"quantity\":\"tokens_per_s_per_gpu\",\"value\":48000}" &&
	test "$(json_get out verdict)" = impossible && test "$(json_get out limit)" = peak_flop_rate &&
	json_get out implied_mfu_frac | grep "^6\.92" && json_get out limit_value | grep "^6929\." &&
	json_get out reason | grep "MFU of 693 %.* dense bf16 peak of 989" && test "$(json_get out likely_cause)" = null &&
	perl -e "exit !(abs($(json_get out ratio) - 48000 / $(json_get out computed)) < 1e-9)"
'

test_expect_success 'a plausible claim: exit code 0' '
	expect_exit 0 seqplan check $question --claim tokens_per_s_per_gpu=1200 --format json &&
	test "$(json_get out verdict)" = plausible && test "$(json_get out agrees)" = false &&
	json_get out implied_mfu_frac | grep "^0\.17"
'

# Halves of the figure: of the sparse peak, or a slow run.
test_expect_success 'a claim that is worse has a convention only perhaps' '
	expect_exit 0 seqplan check $question --claim mfu_frac=17% --format json &&
	test "$(json_get out causes.0.cause)" = sparse_peak && json_get out likely_cause | grep "^perhaps the sparse peak"
'

test_expect_success 'the computed figure is that of estimate' '
	expect_exit 0 seqplan estimate $question --format json && cp out estimate.json &&
	for quantity in tokens_per_s_per_gpu tokens_per_s mfu_frac step_time_s peak_bytes
	do
		value=$(json_get estimate.json $quantity) &&
		expect_exit 0 seqplan check $question --claim $quantity=$value --format json &&
		test "$(json_get out computed)" = "$value" && test "$(json_get out ratio)" = 1 &&
		test "$(json_get out agrees)" = true || return 1
	done
'

test_expect_success 'several claims: the gravest stands at the top, each in its place' '
	expect_exit 1 seqplan check $question --claim mfu_frac=60% --claim peak_bytes=257GiB --claim step_time_s=869 --format json &&
	test "$(json_get out claim.quantity)" = peak_bytes && test "$(json_get out limit)" = capacity &&
	test "$(json_get out claims.0.verdict)" = optimistic && test "$(json_get out claims.2.verdict)" = plausible &&
	test "$(json_get out claims.0.causes.0.cause)" = attention_in_full &&
	test "$(json_get out claims.1.causes.0.cause)" = node_as_one
'

test_expect_success 'a table, Markdown and CSV' '
	set -- --claim tokens_per_s_per_gpu=48000 --claim mfu_frac=60% --claim peak_bytes=42GB \
		--claim hbm_bytes_per_s_per_node=4.8TB/s &&
	expect_exit 1 seqplan check $question "$@" && test ! -s err && within_100 out && golden "$expected/check.txt" out &&
	expect_exit 1 seqplan check $question "$@" --format markdown && grep "^| tokens_per_s_per_gpu=48000 | impossible |" out &&
	expect_exit 1 seqplan check $question "$@" --format csv && test "$(wc -l <out)" -eq 5 &&
	head -n 1 out | grep "^claim.quantity,claim.value,computed,ratio,"
'

test_expect_success 'the FLOP convention of the question is that of the claim' '
	expect_exit 0 seqplan check $question --claim mfu_frac=0.6 --format json &&
	test "$(json_get out verdict)" = optimistic &&
	expect_exit 0 seqplan check $question --claim mfu_frac=0.6 --flops full --format json &&
	test "$(json_get out agrees)" = true
'

test_expect_success 'a layout is read back' '
	seqplan estimate $question --format json >answer.json &&
	expect_exit 0 seqplan check --layout answer.json --claim mfu_frac=0.3 --format json &&
	test "$(json_get out layout.sp_method)" = allgather
'

test_expect_success 'bad claims: what was expected, what was found' '
	expect_error 2 "--claim is missing" seqplan check $question &&
	expect_error 2 "expected WHAT=VALUE" seqplan check $question --claim 1200 &&
	expect_error 2 "expected WHAT=VALUE" seqplan check $question --claim =1200 &&
	expect_error 2 "did you mean \"tokens_per_s_per_gpu\"" seqplan check $question --claim token_per_s_per_gpu=1 &&
	expect_error 2 "expected one of tokens_per_s_per_gpu, tokens_per_s" seqplan check $question --claim speed=1 &&
	expect_error 2 "unknown quantity \"max_seq\"" seqplan check $question --claim max_seq=1 &&
	expect_error 2 "--claim peak_bytes: expected a size" seqplan check $question --claim peak_bytes=42GB/s &&
	expect_error 2 "--claim mfu_frac: expected a share" seqplan check $question --claim mfu_frac=half &&
	expect_error 2 "above 0" seqplan check $question --claim step_time_s=0 &&
	expect_error 2 "below 1e30, found \"1e308\"" seqplan check $question --claim tokens_per_s=1e308 &&
	for claim in tokens_per_s=1e29 step_time_s=1e-29 mfu_frac=1e-29 peak_bytes=1e29 hbm_bytes_per_s=1e-29
	do
		code=0
		seqplan check $question --claim $claim --format json >out || code=$?
		test $code -le 1 && json_get out ratio || return 1
	done &&
	expect_error 2 "found \"48K\"" seqplan check $question --claim tokens_per_s=48K &&
	expect_error 2 "leave out --only" seqplan check $question --claim mfu_frac=0.3 --only attention &&
	expect_error 2 "leave out --only and --tokens" seqplan check $question --claim mfu_frac=0.3 --tokens 1T &&
	expect_error 2 "--seq is missing" seqplan check --model llama-2-7b --hardware dgx-h100 --gpus 8 --claim mfu_frac=1 &&
	expect_error 2 "of files of claims" seqplan check $question --claim mfu_frac=0.3 --format page
'

# claims CLAIM...: a file with these claims.
claims() {
	list=
	for claim
	do
		list="$list${list:+,}$claim"
	done
	printf "{\"schema\": \"seqplan.claims/1\", \"title\": \"T\", \"about\": \"A.\", \"claims\": [%s]}\n" "$list" >claims.json
}

test_expect_success 'a file of claims: each with its question' '
	ask="\"question\": {\"model\": \"llama-2-7b\", \"hardware\": \"dgx-h100\", \"gpus\": 8, \"sp\": 8, \"zero\": 3, \"seq\": \"128K\"}" &&
	claims "{\"section\": \"1\", \"claim\": \"fast\", $ask, \"quantity\": \"tokens_per_s_per_gpu\", \"value\": \"48000\"}" \
		"{\"section\": \"2\", \"claim\": \"reach\", $ask, \"quantity\": \"max_seq\", \"value\": \"128K\"}" \
		"{\"section\": \"2\", \"claim\": \"words\", \"no_question\": \"no figure\"}" &&
	expect_exit 1 seqplan check claims.json --format json && test "$(json_get out rows.0.verdict)" = impossible &&
	test "$(json_get out rows.1.verdict)" = agrees && test "$(json_get out rows.2.verdict)" = "no question" &&
	json_get out rows.0.question | grep "^--model llama-2-7b .*--seq 128K$" &&
	expect_exit 1 seqplan check claims.json && within_100 out && grep "no figure" out &&
	expect_exit 1 seqplan check claims.json claims.json --format csv && test "$(wc -l <out)" -eq 7 &&
	claims "{\"section\": \"2\", \"claim\": \"words\", \"no_question\": \"no figure\"}" && expect_exit 0 seqplan check claims.json
'

test_expect_success 'bad files of claims name the place' '
	ask="\"section\": \"1\", \"claim\": \"c\", \"question\": {\"model\": \"llama-2-7b\", \"hardware\": \"dgx-h100\", \"gpus\": 8, \"seq\": \"8K\"}" &&
	expect_error 3 nowhere.json seqplan check nowhere.json &&
	echo "[]" >claims.json && expect_error 3 "seqplan.claims/1" seqplan check claims.json &&
	echo "{\"schema\": \"x\", \"title\": \"\", \"about\": \"\", \"claims\": []}" >claims.json &&
	expect_error 3 "\$.schema: expected \"seqplan.claims/1\", found \"x\"" seqplan check claims.json &&
	claims 1 && expect_error 3 "\$.claims[0]: expected an object" seqplan check claims.json &&
	claims "{\"section\": \"1\", \"claim\": \"c\"}" && expect_error 3 "either a question or no_question" seqplan check claims.json &&
	claims "{\"section\": \"1\"}" && expect_error 3 "\$.claims[0].claim: expected a text, found nothing" seqplan check claims.json &&
	claims "{\"sction\": \"1\"}" && expect_error 3 "unknown key \"sction\"" seqplan check claims.json &&
	claims "{$ask, \"quantity\": \"speed\", \"value\": \"1\"}" && expect_error 3 "unknown quantity \"speed\"" seqplan check claims.json &&
	claims "{$ask, \"quantity\": \"mfu_frac\", \"from\": \"1%\", \"to\": \"2%\"}" &&
	expect_error 3 "\$.claims[0].value: expected one value" seqplan check claims.json &&
	claims "{$ask, \"quantity\": \"max_seq\", \"from\": \"2K\", \"to\": \"1K\"}" &&
	expect_error 3 "expected from to be below to" seqplan check claims.json &&
	claims "{$ask, \"quantity\": \"peak_bytes\", \"value\": 42}" && expect_error 3 "\$.claims[0].value: expected a text" seqplan check claims.json &&
	claims "{$ask, \"quantity\": \"peak_bytes\", \"value\": \"42W\"}" && expect_error 3 "\$.claims[0].value: expected a size" seqplan check claims.json &&
	claims "{\"section\": \"1\", \"claim\": \"c\", \"question\": {\"modle\": \"x\"}, \"quantity\": \"mfu_frac\", \"value\": \"1\"}" &&
	expect_error 3 "\$.claims[0]: unknown option" seqplan check claims.json &&
	claims "{\"section\": \"1\", \"claim\": \"c\", \"question\": {\"model\": []}, \"quantity\": \"mfu_frac\", \"value\": \"1\"}" &&
	expect_error 3 "expected a text or a number" seqplan check claims.json &&
	claims "{\"section\": \"1\", \"claim\": \"c\", \"question\": {\"layout\": \"-\"}, \"quantity\": \"mfu_frac\", \"value\": \"1\"}" &&
	expect_error 3 "leave out only, tokens and layout" seqplan check claims.json &&
	expect_error 2 "have their own questions" seqplan check claims.json --claim mfu_frac=1 &&
	expect_error 2 "have their own questions" seqplan check claims.json --model llama-2-7b
'

test_done
