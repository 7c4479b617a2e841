#!/bin/sh
test_description='help of the program and of every command'
. "$(dirname "$0")/lib-seqplan.sh"

expected=$SHARNESS_TEST_SRCDIR/expected
export expected
all='estimate compare plan limits simulate diff check plot report measure import calibrate validate launch show help'

test_expect_success 'help, -h and --help list every command' '
	expect_exit 0 seqplan help && test ! -s err && cp out help &&
	for command in $all
	do
		grep "^  $command " help || return 1
	done &&
	expect_exit 0 seqplan -h && cmp help out && expect_exit 0 seqplan --help && cmp help out &&
	golden "$expected/help.txt" help
'

for command in $all
do
	test_expect_success "help $command, and $command -h" '
		expect_exit 0 seqplan help $command && test ! -s err && cp out help &&
		head -n 1 help | grep "^usage: seqplan $command" &&
		awk "length > 100 { print; bad = 1 } END { exit bad }" help >&2 &&
		expect_exit 0 seqplan $command -h && { test $command = help || cmp help out; } &&
		expect_exit 0 seqplan $command --help && { test $command = help || cmp help out; }
	'
done

for command in estimate compare plan simulate diff check measure import calibrate launch show
do
	test_expect_success "the text of help $command" '
		seqplan help $command >help && golden "$expected/help-$command.txt" help
	'
done

test_expect_success 'help of estimate names every shared option' '
	seqplan help estimate >help &&
	for option in model hardware network gpus nodes seq global-batch micro-batch tp sp cp pp vpp dp ep etp sp-method sp-ulysses \
		sp-inner framework tp-sp pp-layers schedule recompute zero offload precision attention kernels mask documents mode \
		train tokens layout set vary format only explain flops no-color
	do
		grep -e "--$option\( \|,\|\$\)" help || return 1
	done &&
	grep "^Examples:" help
'

test_expect_success 'help with a request that makes no sense' '
	expect_error 2 "did you mean '\''estimate'\''" seqplan help estimat &&
	expect_error 2 "frobnicate" seqplan help frobnicate &&
	expect_error 2 "one command" seqplan help estimate show
'

test_expect_success '--version is one line' '
	expect_exit 0 seqplan --version && test "$(wc -l <out)" -eq 1 && grep "^seqplan [0-9]" out &&
	seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 8K --format json >answer.json &&
	test "seqplan $(json_get answer.json seqplan.version)" = "$(cat out)"
'

test_done
