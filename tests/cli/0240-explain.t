#!/bin/sh
test_description='--explain shows the rows that the figures are sums of'
. "$(dirname "$0")/lib-seqplan.sh"

# sums FILE: operators add up to every time item, tensors to every memory item, the moments hold the peak.
sums() {
	perl -MJSON::PP -e '
		open my $in, "<", $ARGV[0] or die;
		my $answer = decode_json(do { local $/; <$in> });
		my (%time, %memory);
		$time{$_->{item}} += $_->{count} * $_->{time_s} for @{$answer->{operators}};
		$memory{$_->{item}} += $_->{bytes} for @{$answer->{tensors}};
		my $bad = 0;
		for (["time_s", \%time, "step_time_s"], ["memory_bytes", \%memory, "peak_bytes"]) {
			my ($list, $sum, $total) = @$_;
			for my $item (sort keys %{$answer->{$list}}) {
				my ($claimed, $found) = ($answer->{$list}{$item}, $sum->{$item} // 0);
				next if abs($claimed - $found) <= 1e-9 * $answer->{$total};
				warn "$list.$item: $claimed, its rows add up to $found\n";
				$bad = 1;
			}
		}
		my ($highest) = sort { $b <=> $a } values %{$answer->{moment_bytes}};
		if (abs($highest - $answer->{moment_bytes}{$answer->{peak_moment}}) > 0) {
			warn "the peak is at $answer->{peak_moment}, another moment is higher\n";
			$bad = 1;
		}
		for my $row (@{$answer->{operators}}, @{$answer->{tensors}}) {
			next if length $row->{formula};
			warn "$row->{name} has no formula\n";
			$bad = 1;
		}
		exit $bad;
	' "$1"
}

while IFS= read -r question
do
	# shellcheck disable=SC2086
	test_expect_success "rows add up: $question" '
		{ seqplan estimate --hardware dgx-h100 $question --explain --format json >answer.json || test $? -eq 1; } &&
		sums answer.json
	'

	# shellcheck disable=SC2086
	test_expect_success "the answer is the same with and without: $question" '
		{ seqplan estimate --hardware dgx-h100 $question --format json >plain.json || test $? -eq 1; } &&
		test "$(json_get plain.json step_time_s)" = "$(json_get answer.json step_time_s)" &&
		! json_get plain.json operators 2>absent && grep "no .operators" absent
	'
done <<'EOF'
--model llama-3.1-8b --gpus 1 --seq 8K
--model llama-3.1-8b --gpus 8 --seq 128K --sp 8 --zero 3
--model llama-3.1-8b --gpus 8 --seq 128K --sp 8 --sp-method ulysses --recompute none
--model llama-2-7b --gpus 8 --seq 64K --sp-method naive
--model llama-3.1-70b --gpus 512 --seq 1M --tp 8 --sp 8 --pp 8 --recompute selective
EOF

test_expect_success 'the table follows the answer and stays within the screen' '
	question="--model llama-3.1-70b --hardware dgx-h100 --gpus 512 --seq 1M --tp 8 --sp 8 --pp 8" &&
	expect_exit 0 seqplan estimate $question && cp out answer &&
	expect_exit 0 seqplan estimate $question --explain && test ! -s err &&
	head -n "$(wc -l <answer)" out | cmp - answer &&
	awk "length > 100 && NF > 1 { print; bad = 1 } / $/ { bad = 1 } END { exit bad }" out >&2 &&
	grep "global batch x seq / step = 16 x 1048576 / " out &&
	grep "MFU .* model FLOP/s/GPU / dense bf16 peak = " out &&
	grep "^time: attention .* the sum of" out &&
	grep "^      formula 2 m n k" out &&
	grep "^      source " out &&
	grep "the peak" out
'

test_expect_success 'markdown has the same as tables' '
	expect_exit 0 seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 1 --seq 8K --explain --format markdown ||
	test "$code" = 1 &&
	grep "^### time: attention" out && grep "^| operator | pass | count |" out
'

test_done
