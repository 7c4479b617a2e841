#!/bin/sh
test_description='diff says item by item why one layout is slower or larger than another'
. "$(dirname "$0")/lib-seqplan.sh"

shared='--model llama-3.1-70b --hardware dgx-h100 --gpus 512 --seq 1M --pp 8'
export shared

expected=$SHARNESS_TEST_SRCDIR/expected
export expected

# shape FILE: its words and signs, each figure a #, without remarks: what holds whatever the models say.
shape() {
	sed '/^  \(warning\|assumed\) /,$d; s/[0-9][0-9.]*/#/g; s/  */ /g' "$1"
}

# holds FILE: differences are A - B, and those of the items add up to that of the whole.
holds() {
	perl -MJSON::PP -e '
		open my $in, "<", $ARGV[0] or die;
		my $diff = decode_json(do { local $/; <$in> });
		for (["time_s", "step_time_s"], ["memory_bytes", "peak_bytes"]) {
			my ($list, $whole) = @$_;
			my ($total, $sum) = ($diff->{$whole}, 0);
			for my $item (sort keys %{$diff->{$list}}) {
				my $own = $diff->{$list}{$item};
				die "$item: a - b\n" if abs($own->{a} - $own->{b} - $own->{difference}) > 1e-12 * $total->{a};
				die "$item: not that of a\n" if $own->{a} != $diff->{a}{$list}{$item};
				die "$item: not that of b\n" if $own->{b} != $diff->{b}{$list}{$item};
				$sum += $own->{difference};
			}
			die "$list: $sum, not $total->{difference}\n" if abs($sum - $total->{difference}) > 1e-9 * $total->{a};
		}
	' "$1"
}

test_expect_success 'two quoted options, shared ones beside them' '
	expect_exit 0 seqplan diff "--tp 8 --sp 8" "--tp 4 --sp 16" $shared --format json && test ! -s err && cp out diff.json &&
	test "$(json_get diff.json schema)" = seqplan.diff/1 && holds diff.json &&
	test "$(json_get diff.json layout.tp)" = "[8,4]" && test "$(json_get diff.json layout.sp)" = "[8,16]" &&
	! json_get diff.json layout.pp 2>absent && test "$(json_get diff.json question)" = "{}"
'

test_expect_success 'a and b are the answers of their own questions' '
	expect_exit 0 seqplan estimate $shared --tp 8 --sp 8 --format json && cp out a.json &&
	expect_exit 0 seqplan estimate $shared --tp 4 --sp 16 --format json && cp out b.json &&
	test "$(json_get a.json .)" = "$(json_get diff.json a)" && test "$(json_get b.json .)" = "$(json_get diff.json b)"
'

test_expect_success 'answers and layouts in files give the same, and so does standard input' '
	expect_exit 0 seqplan diff a.json b.json --format json && cmp diff.json out &&
	json_get a.json layout >a-layout.json &&
	expect_exit 0 seqplan diff a-layout.json "--tp 4 --sp 16" $shared --format json && holds out &&
	test "$(json_get out step_time_s)" = "$(json_get diff.json step_time_s)" &&
	seqplan diff - b.json --format json <a.json >out && cmp diff.json out
'

test_expect_success 'options may stand before, behind and between, with = or without' '
	expect_exit 0 seqplan diff $shared "--tp=8 --sp=8" --format json "--tp=4 --sp=16" && cmp diff.json out &&
	expect_exit 0 seqplan diff $shared --tp 8 --sp 8 "" "--tp 4 --sp 16" --format json && cmp diff.json out
'

test_expect_success '--set of one side does not reach the other' '
	expect_exit 0 seqplan diff "--set network.bandwidth=100Gb/s" "--set network.bandwidth=800Gb/s --set run.loss=plain" $shared \
		--tp 8 --sp 8 --set network.latency=5us --set run.moment_dtype=bf16 --format json &&
	cp out sets.json && test "$(json_get sets.json layout)" = "{\"run.loss\":[\"fused\",\"plain\"]}" &&
	expect_exit 0 seqplan estimate $shared --tp 8 --sp 8 --set network.latency=5us --set run.moment_dtype=bf16 \
		--set network.bandwidth=100Gb/s --format json &&
	test "$(json_get out step_time_s)" = "$(json_get sets.json step_time_s.a)" &&
	test "$(json_get out peak_bytes)" = "$(json_get sets.json peak_bytes.a)"
'

test_expect_success 'the table: settings, items by size, and a last line in words' '
	expect_exit 0 seqplan diff "--tp 8 --sp 8" "--tp 4 --sp 16" $shared && test ! -s err &&
	awk "length > 100 || / \$/ { print; bad = 1 } END { exit bad }" out >&2 &&
	head -n 1 out | grep "^A    --tp 8 --sp 8$" && grep "^same model llama-3.1-70b, seq 1M, gpus 512" out &&
	grep "^  tp  *8  *4$" out && grep "^  time s  *A  *B  *A - B   memory GiB" out && grep "^  all  *[0-9]" out &&
	grep "^  sent per layer MB  *A  *B  *A - B" out &&
	tail -n 2 out | tr "\n" " " | grep "^  A is [0-9.]* % \(slower\|faster\) than B: mostly .* (.*; it needs [0-9.]* GiB *less: mostly" &&
	perl -ne "
		\$on = 1, next if /^  time s/;
		last if \$on && /^  all/;
		next unless \$on;
		my (\$size) = /^  \\S.*?[0-9.]+ +[0-9.]+ +[+-]?([0-9.]+)/ or die;
		die qq(\$size after \$last\n) if defined \$last && \$size > \$last;
		\$last = \$size;
		END { exit(defined \$last ? 0 : 1) }" out
'

test_expect_success 'the shape of the table' '
	expect_exit 0 seqplan diff "--sp 8" "--sp 4 --zero 1" --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 32K &&
	shape out >found && golden "$expected/diff.txt" found
'

test_expect_success 'swapped, the words and the signs turn round' '
	words=$(json_get diff.json summary) && expect_exit 0 seqplan diff b.json a.json --format json && holds out &&
	test "$(json_get out step_time_s.a)" = "$(json_get diff.json step_time_s.b)" &&
	case $words in
	*slower*) json_get out summary | grep "A is .* faster" ;;
	*) json_get out summary | grep "A is .* slower" ;;
	esac && json_get out summary | grep "GiB more"
'

test_expect_success 'the same layout differs in nothing' '
	expect_exit 0 seqplan diff a.json a.json && grep "A and B are the same layout" out &&
	grep "A is as fast as B; both need the same memory" out && ! grep "sent per layer" out &&
	expect_exit 0 seqplan diff a.json a.json --format json && test "$(json_get out layout)" = "{}" &&
	test "$(json_get out step_time_s.difference)" = 0
'

test_expect_success 'communication that only one has is there, against nothing' '
	one="--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 64K --zero 3 --global-batch 8" &&
	expect_exit 0 seqplan diff "--sp 8 --sp-method ulysses" "--sp 8 --sp-method zigzag" $one --format json && holds out &&
	perl -MJSON::PP -e '\''
		open my $in, "<", "out" or die;
		my $diff = decode_json(do { local $/; <$in> });
		my %rows = map { join(" ", @$_{qw(axis operation pass)}) => $_->{bytes_per_layer_per_gpu} } @{$diff->{communication}};
		my ($a2a, $ring) = @rows{"sp all-to-all forward", "sp ring forward"};
		die "all-to-all\n" unless $a2a->{a} > 0 && $a2a->{b} == 0 && $a2a->{difference} == $a2a->{a};
		die "ring\n" unless $ring->{a} == 0 && $ring->{difference} == -$ring->{b};
	'\'' &&
	expect_exit 0 seqplan diff "--sp 8" "--seq 128K --sp 8" $one --format json &&
	test "$(json_get out question.seq)" = "[65536,131072]"
'

test_expect_success 'markdown and csv' '
	expect_exit 0 seqplan diff a.json b.json --format markdown && head -n 1 out | grep "^\*\*A is " &&
	grep "^- A: .a.json.$" out && grep "^| tp | 8 | 4 |$" out && grep "^| tp exposed | " out &&
	expect_exit 0 seqplan diff a.json b.json --format csv && test "$(wc -l <out)" = 2 &&
	head -n 1 out | grep "^schema,summary,step_time_s.a,step_time_s.b,step_time_s.difference,"
'

test_expect_success 'exit 1 when neither fits, 0 when one does' '
	one="--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 1M --zero 3" &&
	expect_exit 1 seqplan diff "--sp 1" "--sp 2" $one && grep "neither fits" out &&
	expect_exit 0 seqplan diff "--sp 1 --seq 8K" "--sp 2" $one && tail -n 2 out | grep "only A fits"
'

test_expect_success 'refusals name the side' '
	expect_error 2 "diff takes two layouts, found 1" seqplan diff "--sp 8" $shared &&
	expect_error 2 "diff takes two layouts, found 3" seqplan diff a.json b.json a.json &&
	expect_error 2 "A: " seqplan diff "--sp 3" "--sp 8" $shared && grep "legal sp" err &&
	expect_error 2 "B: " seqplan diff "--sp 8" "--sp 3" $shared &&
	expect_error 2 "B: unknown option \"--ps\"" seqplan diff "--sp 8" "--ps 3" $shared &&
	expect_error 2 "B: unexpected argument" seqplan diff "--sp 8" "--sp 3 7" $shared &&
	expect_error 3 "A: " seqplan diff nothing.json b.json && grep nothing.json err &&
	expect_error 2 "standard input can be read once" seqplan diff - - &&
	expect_error 2 "missing" seqplan diff "--sp 8" "--sp 4"
'

test_expect_success 'a step and the attention of one layer are not compared' '
	expect_error 2 "diff: one is a whole step, the other the attention of one layer" \
		seqplan diff "" "--only attention" --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --sp 8 --seq 128K &&
	expect_exit 0 seqplan diff "--sp-method ulysses" "--sp-method zigzag" --only attention --zero 3 \
		--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --sp 8 --seq 128K &&
	expect_error 2 "--tokens asks for a whole run, --only attention for one layer" \
		seqplan estimate --tokens 15T --only attention --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --sp 8 --seq 128K
'

test_done
