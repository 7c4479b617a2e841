#!/bin/sh
test_description='what plan is asked: constraints that ask for nothing or too much, axes that exclude each other'
. "$(dirname "$0")/lib-seqplan.sh"

base='--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 96K'
small='--framework megatron --recompute none,full --zero 1,3 --offload none --sp-method zigzag,ulysses'
export base small

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

test_done
