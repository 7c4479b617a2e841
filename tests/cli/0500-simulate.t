#!/bin/sh
test_description='simulate: a step in discrete events beside the estimate, disturbances, trace and chart'
. "$(dirname "$0")/lib-seqplan.sh"

step='--model llama-3.1-8b --hardware dgx-h100 --gpus 24 --seq 96K --tp 2 --sp 4 --pp 3 --pp-layers auto --framework megatron --global-batch 6'
export step

if test -c /dev/full
then
	test_set_prereq DEV_FULL
fi

# within_100 FILE: no line is longer than a screen, none ends in a space.
within_100() {
	awk 'length > 100 || / $/ { print FILENAME ":" FNR ": " $0; bad = 1 } END { exit bad }' "$1" >&2
}

# same FILE FILE PATH...: both answers have the same there.
same() {
	first=$1
	second=$2
	shift 2
	for path
	do
		test "$(json_get "$first" "$path")" = "$(json_get "$second" "$path")" || {
			echo "$path differs" >&2
			return 1
		}
	done
}

# holds EXPRESSION: of numbers, in Perl.
holds() {
	perl -e "exit !($1)" || {
		echo "does not hold: $1" >&2
		return 1
	}
}

test_expect_success 'the keys of the contract, and the estimate as estimate says it' '
	expect_exit 0 seqplan simulate $step --format json && test ! -s err && cp out step.json &&
	test "$(json_get out schema)" = seqplan.simulate/1 && test "$(json_get out spans_file)" = null &&
	for key in step_time_s estimate_step_time_s events elapsed_s events_per_s peak_bytes
	do
		holds "$(json_get out $key) > 0" || return 1
	done &&
	expect_exit 0 seqplan estimate $step --format json &&
	test "$(json_get step.json estimate_step_time_s)" = "$(json_get out step_time_s)" &&
	same step.json out model hardware network gpus seq global_batch micro_batches layout warnings assumed &&
	holds "abs($(json_get step.json peak_bytes) / $(json_get out peak_bytes) - 1) < 1e-9"
'

test_expect_success 'resources are busy for a share of the step' '
	json_get step.json resources >resources && perl -MJSON::PP -e "
		my \$resources = decode_json(<STDIN>);
		die \"none\" if !@\$resources;
		for (@\$resources) { die \"\$_->{name}\" if \$_->{busy_frac} < 0 || \$_->{busy_frac} > 1 || !length \$_->{name} }
	" <resources
'

test_expect_success 'busy time and waits of a rank add up to the step, the critical path too' '
	json_get step.json . >whole && perl -MJSON::PP -e "
		my \$answer = decode_json(<STDIN>);
		my \$step = \$answer->{step_time_s};
		die \"no ranks\" if !@{\$answer->{ranks}};
		for my \$rank (@{\$answer->{ranks}}) {
			my \$sum = \$rank->{busy_s};
			\$sum += \$_ for values %{\$rank->{waits_s}};
			die \"rank \$rank->{rank}: \$sum of \$step\" if abs(\$sum / \$step - 1) > 1e-9;
		}
		my \$path = 0;
		\$path += \$_->{time_s} for @{\$answer->{critical_path}};
		die \"path \$path of \$step\" if abs(\$path / \$step - 1) > 1e-9;
		my \$peak = \$answer->{peak};
		my \$held = 0;
		\$held += \$_ for values %{\$peak->{bytes}};
		die \"peak \$held\" if abs(\$held / \$peak->{allocated_bytes} - 1) > 1e-9;
		my \$all = 0;
		\$all += \$_->{count} for @{\$answer->{ranks}};
		die \"\$all ranks\" if \$all != 24;
	" <whole
'

test_expect_success 'a table of one screen, the step first' '
	expect_exit 0 seqplan simulate $step && test ! -s err && within_100 out && test "$(wc -l <out)" -lt 60 &&
	grep "^  " out >body && sed -n 1p body | grep "^  step  .* s  *estimate .* s" &&
	sed -n 2p body | grep "^  memory .* GiB  *estimate .* GiB *fits" &&
	grep "^  peak  *stage [1-3], rank [0-9]*, .* into the step: " out && grep "critical path  .*at the peak" out &&
	grep "^  GPU time in %  *alike  *stage  *busy" out && grep "^  assumed " out
'

test_expect_success 'Markdown and CSV' '
	expect_exit 0 seqplan simulate $step --format markdown && grep "^- \*\*step .*\*\*, estimate" out &&
	grep "^| critical path | .* |$" out &&
	expect_exit 0 seqplan simulate $step --format csv && test "$(wc -l <out)" -eq 2 &&
	head -n 1 out | grep ",step_time_s,estimate_step_time_s,.*,ranks\.0\.waits_s\.tp,"
'

test_expect_success 'the same question has the same answer' '
	expect_exit 0 seqplan simulate $step --jitter 3% --seed 7 && cp out first && expect_exit 0 seqplan simulate $step --jitter 3% --seed 7 &&
	cmp first out && expect_exit 0 seqplan simulate $step --jitter 0.03 --seed 7 && cmp first out
'

test_expect_success 'a slow GPU has its price' '
	expect_exit 0 seqplan simulate $step --slow-gpu 13=0.8 --format json && cp out slow.json &&
	test "$(json_get out disturbed.undisturbed_step_time_s)" = "$(json_get step.json step_time_s)" &&
	test "$(json_get out disturbed.options)" = "[\"GPU 13 at 80 % of its speed\"]" &&
	holds "$(json_get out disturbed.cost_frac) > 0.05 && $(json_get out disturbed.cost_frac) < 0.3" &&
	expect_exit 0 seqplan simulate $step --slow-gpu 13=80% && within_100 out &&
	grep "^  cost  *GPU 13 at 80 % of its speed costs [0-9.]* %: .* s instead of .* s" out &&
	expect_exit 0 seqplan simulate $step --slow-gpu 13=0.8,5=0.9 --slow-gpu 7=0.95 --format json &&
	test "$(json_get out disturbed.options.2)" = "GPU 7 at 95 % of its speed" &&
	expect_exit 0 seqplan simulate $step --slow-gpu 13=1 --format json && test "$(json_get out disturbed.cost_frac)" = 0
'

test_expect_success 'slow and flapping links, background and jitter' '
	expect_exit 0 seqplan simulate $step --slow-link nic:1.5=0.05 --format json && cp out nic.json &&
	holds "$(json_get out disturbed.cost_frac) >= 0" &&
	expect_exit 0 seqplan simulate $step --slow-link "nic:*=0.02" --format json &&
	holds "$(json_get out step_time_s) > $(json_get nic.json step_time_s)" &&
	expect_exit 0 seqplan simulate $step --slow-link nvlink:3=0.25 --slow-link nic:1.5=10%,10ms,2ms --format json &&
	test "$(json_get out disturbed.options.1)" = "link nic:1.5 at 10 % of its rate for 2.00 ms in every 10.0 ms" &&
	expect_exit 0 seqplan simulate $step --background 0.5 --format json &&
	test "$(json_get out disturbed.options.0)" = "others on 50 % of the network" &&
	expect_exit 0 seqplan simulate $step --jitter 5% --format json && holds "$(json_get out disturbed.cost_frac) > 0.01" &&
	test "$(json_get out disturbed.seed)" = 1
'

test_expect_success 'a trace, plain and packed' '
	expect_exit 0 seqplan simulate $step --trace spans.json --format json && test "$(json_get out spans_file)" = spans.json &&
	expect_exit 0 seqplan simulate $step --trace spans.json.gz && grep "^  trace  *spans.json.gz, for ui.perfetto.dev" out &&
	gunzip -c spans.json.gz >unpacked && cmp unpacked spans.json &&
	json_get spans.json traceEvents.0.ph && perl -MJSON::PP -e "
		my \$events = decode_json(join q(), <STDIN>)->{traceEvents};
		my %n;
		my %end;
		for (grep { \$_->{ph} eq q(X) } @\$events) {
			\$n{X}++;
			my \$stream = \"\$_->{pid}.\$_->{tid}\";
			next if \$_->{cat} eq q(waiting);
			die \"\$_->{name} at \$_->{ts} overlaps\" if \$_->{ts} < (\$end{\$stream} // 0) - 1e-4;
			\$end{\$stream} = \$_->{ts} + \$_->{dur};
		}
		\$n{\$_->{ph}}++ for grep { \$_->{ph} ne q(X) } @\$events;
		die if !\$n{X} || !\$n{M} || !\$n{C};
	" <spans.json && test -z "$(ls -A | grep part)"
'

test_expect_success 'a chart in every format, and on the terminal' '
	for name in svg png pdf
	do
		expect_exit 0 seqplan simulate $step --gantt chart.$name && test ! -s err && test -s chart.$name || return 1
	done &&
	grep "<svg" chart.svg && grep "attention" chart.svg && grep "rank 0, stage 1" chart.svg && head -c 5 chart.pdf | grep "%PDF" &&
	expect_exit 0 seqplan simulate $step --gantt - && grep "rank 0, stage 1.*|.*AAA.*|$" out && grep "blank: waiting" out && within_100 out &&
	expect_exit 0 seqplan simulate $step --exact --gantt layer.svg --gantt-of layer && grep "rank 2, stage 1 kernels" layer.svg
'

test_expect_success 'an answer is read back as the question' '
	expect_exit 0 seqplan simulate $step --format json && cp out answer.json &&
	expect_exit 0 seqplan simulate --layout answer.json --format json && same answer.json out step_time_s peak_bytes layout.sp &&
	expect_exit 0 seqplan estimate --layout answer.json --format json &&
	test "$(json_get out step_time_s)" = "$(json_get answer.json estimate_step_time_s)"
'

test_expect_success 'rows of --vary' '
	expect_exit 0 seqplan simulate $step --vary background=0,0.5 --vary seq=48K,96K --format json && test ! -s err && cp out rows.json &&
	test "$(json_get out schema)" = seqplan.table/1 && test "$(json_get out rows.3.vary.background)" = 0.5 &&
	test "$(json_get out rows.1.step_time_s)" = "$(json_get step.json step_time_s)" && ! grep elapsed_s out &&
	expect_exit 0 seqplan simulate $step --vary sp=4,3 --vary dp=1 && grep "refused: .*tp x sp x pp x dp\|refused: " out && within_100 out &&
	expect_error 2 "of one step" seqplan simulate $step --vary seq=48K,96K --trace spans.json &&
	expect_error 2 "of one step" seqplan simulate $step --vary seq=48K,96K --gantt chart.svg
'

test_expect_success 'a layout that does not fit is simulated all the same: exit 1' '
	expect_exit 1 seqplan simulate $step --set gpu.hbm_capacity=20GB && grep "^  memory .*does not fit" out &&
	expect_exit 1 seqplan simulate $step --set gpu.hbm_capacity=20GB --format json && test "$(json_get out fits)" = false
'

while IFS='|' read -r text options
do
	export text
	test_expect_success "refused: $options" '
		rm -f refused.* && expect_error 2 "$text" seqplan simulate $step --trace refused.json --gantt refused.svg $options &&
		test -z "$(ls -A | grep refused)"
	'
done <<'EOT'
expected a GPU from 0 to 23, found "24"|--slow-gpu 24=0.5
expected a GPU from 0 to 23, found "x"|--slow-gpu x=0.5
expected GPU=SPEED as in 3=0.8, found "3"|--slow-gpu 3
expected GPU=SPEED as in 3=0.8, found "3="|--slow-gpu 3=
a share above 0|--slow-gpu 3=0
--slow-gpu 3: expected|--slow-gpu 3=1.5
GPU 3 has two speeds|--slow-gpu 3=0.5 --slow-gpu 3=0.6
found an empty one|--slow-gpu 3=0.5,,4=0.5
LINKS=SHARE as in nic:2.5=0.5|--slow-link nic:1.5
LINKS=SHARE as in nic:2.5=0.5|--slow-link =0.5
found "nic:1.5=0.5,10ms"|--slow-link nic:1.5=0.5,10ms
found "nic:1.5=0.5,10ms,2ms,1"|--slow-link nic:1.5=0.5,10ms,2ms,1
a share above 0|--slow-link nic:1.5=0
--slow-link nic:1.5: expected|--slow-link nic:1.5=0.5,10,2ms
always slow|--slow-link nic:1.5=0.5,10ms,10ms
nic|--slow-link frobnicate:3=0.5
--jitter: expected|--jitter much
--jitter: expected|--jitter -1%
a share below 1|--background 1
nothing here is random|--seed 7
--chunks|--chunks 0
leave out --only|--only attention
8 query heads of one of 4 tp ranks do not divide|--sp 3 --tp 4 --pp 2 --sp-method ulysses
EOT

test_expect_success 'names and combinations that make no sense' '
	expect_error 2 ".svg, .png or .pdf" seqplan simulate $step --gantt chart.jpeg &&
	expect_error 2 "would stand inside the json" seqplan simulate $step --gantt - --format json &&
	expect_error 2 "give --gantt FILE.svg" seqplan simulate $step --gantt-of layer &&
	expect_error 2 "expected one of" seqplan simulate $step --gantt x.svg --gantt-of ring &&
	expect_error 2 "is missing" seqplan simulate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 &&
	expect_error 3 "llama-3.1-8b" seqplan simulate $step --model llama-3.1-8c
'

test_expect_success 'files that cannot be written: exit 4, and nothing is left' '
	expect_error 4 "nowhere/spans.json: cannot be written: No such file or directory; name a file" \
		seqplan simulate $step --trace nowhere/spans.json &&
	expect_error 4 "nowhere/chart.svg: cannot be written" seqplan simulate $step --gantt nowhere/chart.svg &&
	mkdir folder && expect_error 4 "cannot be written" seqplan simulate $step --trace folder
'

test_expect_success DEV_FULL 'a full disk is said' '
	expect_error 4 "/dev/full: cannot be written to its end: No space left on device; nothing of it is kept" \
		seqplan simulate $step --trace /dev/full
'

test_expect_success 'a limit of file size leaves the old trace' '
	echo before >spans.json && code=0 && (ulimit -f 8 && exec seqplan simulate $step --trace spans.json >out 2>err) || code=$? &&
	test "$code" -eq 4 && one_line_error && grep "File too large" err && test "$(cat spans.json)" = before && test -z "$(ls -A | grep part)"
'

test_expect_success 'a run that is stopped leaves no trace, nor half of one' '
	mkdir stopped && { seqplan simulate --model llama-3.1-70b --hardware dgx-h100 --gpus 512 --seq 1M --tp 8 --sp 8 --pp 8 \
		--global-batch 64 --exact --trace stopped/spans.json >out 2>err </dev/null & pid=$!; } &&
	for i in 1 2 3 4 5 6 7 8 9
	do
		test -z "$(ls -A stopped)" || break
		sleep 1
	done &&
	test -n "$(ls -A stopped)" && test ! -e stopped/spans.json && kill -TERM $pid && code=0 && { wait $pid || code=$?; } &&
	test "$code" -gt 128 && test -z "$(ls -A stopped)" && test ! -s out
'

test_expect_success 'without gnuplot: exit 4, before the step is run' '
	mkdir -p empty && expect_error 4 "install it (gnuplot-nox" env PATH="$PWD/empty" "$SEQPLAN" simulate $step --gantt chart.svg
'

test_expect_success 'a chart that there is no room for leaves nothing' '
	expect_error 4 "File too large" sh -c "ulimit -f 8 && exec seqplan simulate $step --gantt cut.pdf" &&
	test -z "$(find . -name "*cut.*")"
'

test_expect_success 'a gnuplot that fails is quoted' '
	mkdir -p broken && printf "#!/bin/sh\ntest \"\$1\" = --version && exit 0\necho \"line 0: no such terminal\" >&2\nexit 1\n" >broken/gnuplot &&
	chmod +x broken/gnuplot && rm -f chart.svg &&
	expect_error 4 "could not draw the chart: line 0: no such terminal" env PATH="$PWD/broken:$PATH" "$SEQPLAN" simulate $step --gantt chart.svg &&
	test ! -e chart.svg
'

test_done
