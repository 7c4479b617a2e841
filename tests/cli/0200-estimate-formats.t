#!/bin/sh
test_description='estimate answers in every format, and the formats agree'
. "$(dirname "$0")/lib-seqplan.sh"

one='--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --sp 8 --seq 128K --zero 3'
pipeline='--model llama-3.1-70b --hardware dgx-h100 --gpus 512 --seq 1M --tp 8 --sp 8 --pp 8'

# adds_up FILE LIST TOTAL: the members of LIST sum to TOTAL, to 1e-9 of it.
adds_up() {
	perl -MJSON::PP -e '
		my ($file, $list, $total) = @ARGV;
		open my $in, "<", $file or die "$file: $!\n";
		my $answer = decode_json(do { local $/; <$in> });
		my $sum = 0;
		$sum += $_ for values %{$answer->{$list}};
		exit(abs($sum - $answer->{$total}) <= 1e-9 * $answer->{$total} ? 0 : 1);
	' "$1" "$2" "$3"
}

# within_100 FILE: no line is longer than a screen, none ends in a space.
within_100() {
	awk 'length > 100 || / $/ { print FILENAME ":" FNR ": " $0; bad = 1 } END { exit bad }' "$1" >&2
}

# shellcheck disable=SC2086 # the options are words
for question in "$one" "$pipeline"
do
	test_expect_success "json: $question" '
		expect_exit 0 seqplan estimate $question --format json && test ! -s err &&
		test "$(json_get out schema)" = seqplan.estimate/1 &&
		adds_up out time_s step_time_s &&
		adds_up out memory_bytes peak_bytes &&
		test "$(json_get out fits)" = true &&
		test "$(json_get out step_time_low_s)" = null &&
		test "$(json_get out warnings)" != null
	'

	test_expect_success "table: $question" '
		expect_exit 0 seqplan estimate $question && test ! -s err &&
		within_100 out && test "$(wc -l <out)" -le 40 &&
		grep "^  step  .* tokens/s/GPU .*bound: " out &&
		grep "^  memory .* of .* GiB .*fits" out &&
		grep "^  time .*memory .*communication " out &&
		cp out default && expect_exit 0 seqplan estimate $question --format table && cmp default out
	'

	test_expect_success "markdown: $question" '
		expect_exit 0 seqplan estimate $question --format markdown &&
		grep "^- \*\*step " out && grep "^| attention | " out && grep "^| weights | " out
	'
done

test_expect_success 'csv has the keys of json joined by dots, and its values' '
	expect_exit 0 seqplan estimate $one --format json && cp out answer.json &&
	expect_exit 0 seqplan estimate $one --format csv && test "$(wc -l <out)" -eq 2 &&
	perl -MJSON::PP -e '\''
		sub flat {
			my ($key, $value, $cells) = @_;
			my $dot = length $key ? "." : "";
			if (ref $value eq "HASH") { flat("$key$dot$_", $value->{$_}, $cells) for keys %$value }
			elsif (ref $value eq "ARRAY" && @$value && ref $value->[0]) {
				flat("$key$dot$_", $value->[$_], $cells) for 0 .. $#$value;
			} elsif (ref $value eq "ARRAY") { $cells->{$key} = join "; ", @$value }
			elsif (ref $value) { $cells->{$key} = $value ? "true" : "false" }
			else { $cells->{$key} = $value // "" }
		}
		sub cells {
			my ($line, @cells) = @_;
			while ($line =~ /\G(?:"((?:[^"]|"")*)"|([^",]*))(,|$)/g) {
				push @cells, defined $1 ? $1 =~ s/""/"/gr : $2;
				last if $3 eq "";
			}
			return @cells;
		}
		local $/;
		open my $json, "<", "answer.json" or die;
		my %expected;
		flat("", decode_json(<$json>), \%expected);
		delete $expected{set} if $expected{set} eq ""; # a column only where something is set
		open my $csv, "<", "out" or die;
		my ($head, $row) = split /\n/, <$csv>;
		my (@names, @values) = cells($head);
		my %found;
		@found{@names} = cells($row);
		for my $key (sort keys %expected) {
			next if defined $found{$key} && ($found{$key} eq $expected{$key} || $found{$key} == $expected{$key});
			die "$key: expected $expected{$key}, found ", $found{$key} // "nothing", "\n";
		}
		die "other columns\n" if keys %found != keys %expected;
	'\''
'

test_expect_success 'what does not fit is exit 1, priced in full' '
	expect_exit 1 seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 1M --format json &&
	test ! -s err && test "$(json_get out fits)" = false &&
	adds_up out memory_bytes peak_bytes && adds_up out time_s step_time_s &&
	expect_exit 1 seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 1M &&
	grep "does not fit, .* GiB over" out
'

test_expect_success 'the same question gives the same bytes' '
	expect_exit 0 seqplan estimate $pipeline --format json && cp out first &&
	expect_exit 0 seqplan estimate $pipeline --format json && cmp first out
'

test_expect_success 'the network of the answer is the one asked for' '
	expect_exit 0 seqplan estimate $pipeline --network ideal --format json &&
	test "$(json_get out network)" = ideal && test "$(json_get out layout.placement.sp)" = network &&
	expect_exit 0 seqplan estimate $pipeline --network ideal && head -n 1 out | grep "ideal network" &&
	expect_exit 0 seqplan estimate $pipeline --network eth-100g --format json &&
	test "$(json_get out network)" = eth-100g
'

test_expect_success 'an option given twice takes the last value, --cp is --sp, = works' '
	expect_exit 0 seqplan estimate $one --seq 16K --format csv --cp 4 --cp=2 --dp 4 --format json &&
	test "$(json_get out layout.sp)" = 2 && test "$(json_get out layout.dp)" = 4
'

test_expect_success '--set is heard, and the last of two wins' '
	expect_exit 0 seqplan estimate $one --format json && base=$(json_get out step_time_s) &&
	expect_exit 0 seqplan estimate $one --set gpu.elementwise_bandwidth=100GB/s --format json &&
	slow=$(json_get out step_time_s) && test "$slow" != "$base" &&
	expect_exit 0 seqplan estimate $one --set gpu.elementwise_bandwidth=1GB/s \
		--set gpu.elementwise_bandwidth=100GB/s --format json &&
	test "$(json_get out step_time_s)" = "$slow"
'

test_expect_success 'the data hash is that of the files, not of options' '
	expect_exit 0 seqplan estimate $one --format json && hash=$(json_get out seqplan.data_hash) &&
	printf "%s\n" "$hash" | grep "^[0-9a-f]\{16\}$" &&
	expect_exit 0 seqplan estimate $one --seq 16K --recompute none --format json && test "$(json_get out seqplan.data_hash)" = "$hash" &&
	mkdir -p mine/models && sed "s/\"vocab_size\"/ &/" "$top/models/llama-3.1-8b.json" >mine/models/llama-3.1-8b.json &&
	SEQPLAN_PATH=$(pwd)/mine expect_exit 0 seqplan estimate $one --format json &&
	test "$(json_get out seqplan.data_hash)" != "$hash"
'

test_done
