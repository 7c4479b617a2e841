#!/bin/sh
test_description='validate: tables, sheets and stored runs; what judges; errors recomputed; the page; pictures'
. "$(dirname "$0")/lib-seqplan.sh"

test_expect_success 'the page of docs is what the command prints (make validate renews it)' '
	expect_exit 0 seqplan validate --format page &&
	test ! -s err &&
	diff -u "$top/docs/validation.md" out
'

# Mean, median, largest and bias of each quantity from the rows, apart from the program.
cat >recompute.pl <<'PERL'
use strict; use warnings; use JSON::PP;
local $/; my $answer = JSON::PP->new->decode(<STDIN>);
my (%errors, %within, $failed);
for my $row (@{$answer->{rows}}) {
	my $error = $row->{predicted} / ($row->{measured} || 1) - ($row->{quantity} eq 'fits' ? $row->{measured} : 1);
	$error = abs $error if $row->{quantity} eq 'fits';
	$failed .= "$row->{name}: error\n" if abs($error - $row->{error_frac}) > 1e-9;
	push @{$errors{$row->{role}}{$row->{quantity}}}, $error;
	my $is_within = defined $row->{low} && $row->{measured} >= $row->{low} && $row->{measured} <= $row->{high};
	$failed .= "$row->{name}: within\n" if defined $row->{low} && ($is_within xor $row->{within});
	push @{$within{$row->{role}}{$row->{quantity}}}, $is_within ? 1 : 0 if defined $row->{low};
}
for (['summary', 'judge'], ['summary_fit', 'fit']) {
	my ($key, $role) = @$_;
	my %found = %{$answer->{$key}};
	$failed .= "$key: quantities\n" if join(' ', sort keys %found) ne join(' ', sort keys %{$errors{$role}});
	for my $quantity (keys %found) {
		my @signed = @{$errors{$role}{$quantity} || []};
		my @sizes = sort { $a <=> $b } map { abs } @signed;
		my ($n, $mean, $bias) = (scalar @sizes, 0, 0);
		$mean += $_ / $n for @sizes;
		$bias += $_ / $n for @signed;
		my %own = (n => $n, mape_frac => $mean, bias_frac => $bias, max_frac => $sizes[-1],
			median_frac => ($sizes[int(($n - 1) / 2)] + $sizes[int($n / 2)]) / 2);
		my @within = @{$within{$role}{$quantity} || []};
		my $coverage = $found{$quantity}{coverage_frac};
		$failed .= "$key.$quantity.coverage_frac\n" if @within
			? abs($coverage - (grep { $_ } @within) / @within) > 1e-9 : defined $coverage;
		for (keys %own) {
			$failed .= "$key.$quantity.$_\n" if abs($found{$quantity}{$_} - $own{$_}) > 1e-9;
		}
	}
}
print $failed ? $failed : scalar(@{$answer->{rows}}) . " rows\n";
exit($failed ? 1 : 0);
PERL

# Three sources of all, with rows of both roles, where one would do as well as all.
few=
for name in llama3-herd torchtitan trl-million-token
do
	few="$few $top/tests/validation/$name.json"
done

test_expect_success 'JSON: rows and summaries agree; fitted rows are in none of those that judge' '
	expect_exit 0 seqplan validate --format json && cp out all.json &&
	test "$(json_get all.json schema)" = seqplan.validate/1 &&
	perl recompute.pl <all.json >rows && cat rows &&
	test "$(json_get all.json summary.fits.coverage_frac)" = null &&
	for key in source quantity measured predicted error_frac low high within name group role framework method seq
	do
		json_get all.json rows.0.$key || return 1
	done
'

test_expect_success 'every source says how many rows judge, and of each fitted row what was fitted' '
	perl -MJSON::PP -e "local \$/; my \$a = JSON::PP->new->decode(<>);
		for my \$s (@{\$a->{sources}}) {
			my %n;
			\$n{\$_->{role}}++ for grep { \$_->{source} eq \$s->{name} } @{\$a->{rows}};
			(\$n{judge} || 0) == \$s->{n_judge} && (\$n{fit} || 0) == \$s->{n_fit} or die \$s->{name};
			\$s->{n_fit} == 0 || @{\$s->{fitted}} or die \"\$s->{name}: fitted to what?\";
			\$s->{own} || \$s->{grade} or die \"\$s->{name}: no grade\";
		}" all.json
'

test_expect_success '--only lists rows of one role; summaries stay' '
	expect_exit 0 seqplan validate $few --format csv && cp out both.csv &&
	expect_exit 0 seqplan validate $few --only judge --format csv && cp out judge.csv && ! grep ",fit," judge.csv &&
	expect_exit 0 seqplan validate $few --only fit --format csv && ! grep ",judge," out &&
	test $(($(wc -l <judge.csv) + $(wc -l <out) - 1)) = "$(wc -l <both.csv)" &&
	expect_exit 0 seqplan validate $few --only fit && grep "they judge nothing" out
'

test_expect_success '--by: each in the table and in JSON' '
	for by in method seq framework source
	do
		expect_exit 0 seqplan validate $few --by $by && grep "^  $by  *quantity" out &&
		expect_exit 0 seqplan validate $few --by $by --format json && json_get out by_$by.0.$by || return 1
	done &&
	expect_error 2 "--by: expected one of quantity, method, seq, framework, source" seqplan validate --by length
'

test_expect_success 'pairs of methods: counted, and the wrong ones named' '
	test "$(json_get all.json order.n)" -gt 50 &&
	test "$(json_get all.json order_all.n)" -gt "$(json_get all.json order.n)" &&
	json_get all.json order.wrong.0 | grep "against .*measured"
'

test_expect_success 'tables are at most 100 columns, in order of what matters' '
	expect_exit 0 seqplan validate && ! grep -E "^.{101,}" out &&
	head -1 out | grep "^Predicted beside measured: .* judge" && grep "^  order .* pairs of methods" out &&
	expect_exit 0 seqplan validate $few --rows && test "$(grep -c " judge " out)" -gt 10 &&
	expect_exit 0 seqplan validate $few --format markdown && grep "^| --- |" out
'

cat >runs.csv <<'END'
name,model,hardware,gpus,seq,sp,zero,global-batch,step_time_s,peak_allocated_gib,fits,role
long,llama-3.1-8b,dgx-h100,8,384K,8,3,3,61.5,60.25,yes,
"short, fitted",llama-3.1-8b,dgx-h100,8,40K,8,3,5,3.25,,,fit
odd,llama-3.1-8b,dgx-h100,8,40001,8,3,5,3.25,,,
END

test_expect_success 'a sheet: predicted is what estimate says, rows that are refused say why' '
	expect_exit 0 seqplan validate runs.csv --format json && cp out runs.json &&
	expect_exit 0 seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 384K --sp 8 --zero 3 --global-batch 3 --format json &&
	test "$(json_get runs.json rows.0.predicted)" = "$(json_get out step_time_s)" &&
	test "$(json_get runs.json rows.1.predicted)" = "$(json_get out peak_allocated_bytes)" &&
	test "$(json_get runs.json rows.1.measured)" = 64692944896 &&
	test "$(json_get runs.json rows.3.role)" = fit &&
	test "$(json_get runs.json summary.step_time_s.n)" = 1 &&
	test "$(json_get runs.json left_out.0.state)" = refused &&
	json_get runs.json left_out.0.reason | grep "40001" &&
	expect_exit 0 seqplan validate runs.csv && grep "left out  runs, odd: .*40001" out
'

test_expect_success 'what is wrong with a sheet or a table is one line with its place' '
	sed "s/61.5/about 61/" runs.csv >bad.csv &&
	expect_error 3 "bad.csv: line 2, column 9 (step_time_s): expected a number above 0" seqplan validate bad.csv &&
	sed "1s/zero/zeros/" runs.csv >bad.csv &&
	expect_error 3 "bad.csv: line 1, column 7: expected an option of estimate" seqplan validate bad.csv &&
	expect_error 3 "none.csv: cannot open: No such file" seqplan validate none.csv &&
	mkdir -p folder.csv && expect_error 3 "folder.csv: expected a file, found a folder" seqplan validate folder.csv &&
	cp runs.csv runs.txt && expect_error 3 "a sheet is a file whose name ends in .csv: runs.txt: line 1" seqplan validate runs.txt &&
	expect_error 3 "expected an object of schema seqplan.validation/1" seqplan validate "$top/models/llama-2-7b.json" &&
	expect_error 3 "none.json: cannot open" seqplan validate none.json
'

test_expect_success 'a step is not held against attention alone; what attention has is' '
	sed -e "1s/\$/,only/" -e "2,\$s/\$/,attention/" -e "1s/fits/attention_forward_s/" -e "s/,yes,/,1.5,/" runs.csv >part.csv &&
	expect_exit 0 seqplan validate part.csv --format json && cp out part.json &&
	test "$(json_get part.json rows.1.quantity)" = attention_forward_s &&
	test "$(json_get part.json left_out.0.quantity)" = step_time_s &&
	json_get part.json left_out.0.reason | grep "price attention alone: leave only=attention out"
'

test_expect_success 'several files, a name twice, standard input' '
	expect_exit 0 seqplan validate runs.csv "$top/tests/validation/llama3-herd.json" && grep "of 2 sources" out &&
	expect_exit 0 sh -c "seqplan validate - <\"$top/tests/validation/llama3-herd.json\"" && grep "3 rows judge" out
'

test_expect_success 'a file counts once whatever it is called; files of one name are told apart' '
	expect_exit 0 seqplan validate runs.csv --format csv && cp out once.csv &&
	mkdir -p other && ln -s ../runs.csv other/link.csv && sed "s/61.5/62.5/" runs.csv >other/runs.csv &&
	expect_exit 0 seqplan validate runs.csv ./runs.csv other/link.csv --format csv && diff once.csv out &&
	grep "^seqplan: ./runs.csv is runs.csv: counted once$" err && grep "^seqplan: other/link.csv is runs.csv: counted once$" err &&
	expect_exit 0 seqplan validate runs.csv runs.csv --format csv && diff once.csv out && grep "counted once" err &&
	expect_exit 0 seqplan validate runs.csv other/runs.csv --format csv &&
	grep "^runs.csv,long,all,step_time_s,.*,61.5," out && grep "^other/runs.csv,long,all,step_time_s,.*,62.5," out
'

test_expect_success 'options that do not go together' '
	expect_error 2 "files, --run and --device: give one of them" seqplan validate runs.csv --run 1 &&
	expect_error 2 "files, --run and --device: give one of them" seqplan validate --device --run 1 &&
	expect_error 2 "--hardware is of stored runs" seqplan validate --hardware dgx-h200 &&
	expect_error 2 "--attention is of stored runs" seqplan validate --attention fa2 runs.csv &&
	expect_error 2 "--db is of stored runs" seqplan validate --db x.db &&
	expect_error 2 "leave out --by, --only and --rows" seqplan validate --format page --only judge &&
	expect_error 2 "--plot: expected a name that ends in .svg, .png or .pdf" seqplan validate --plot errors.gif &&
	expect_error 2 "--residuals: expected a name that ends in" seqplan validate --residuals errors &&
	expect_error 2 "--only: expected one of judge, fit" seqplan validate --only test
'

# ---- stored runs ----------------------------------------------------------------------------------------------------

run=$top/tests/validation/measured/h200-x2-methods.jsonl
timed=$(grep -c '"kind":"measurement"' "$run")
export timed
test_expect_success 'a stored run: every line is there, and half of the methods and layers judge' '
	expect_exit 0 seqplan measure --from "$run" &&
	expect_exit 0 seqplan validate --run 1 --format json && cp out run.json &&
	grep "predicted for dgx-h200 (--hardware names another)" err &&
	perl -MJSON::PP -e "local \$/; my \$a = JSON::PP->new->decode(<>);
		my @rows = (@{\$a->{rows}}, @{\$a->{left_out}});
		@rows == $timed or die scalar @rows;
		my \$judge = grep { \$_->{role} eq q(judge) } @rows;
		\$judge > 0.4 * @rows && \$judge < 0.6 * @rows or die \$judge;" run.json &&
	expect_exit 0 seqplan validate --run 1 --hardware dgx-h200 --format json && cmp out run.json &&
	test ! -s err
'

test_expect_success 'runs and machines that are not there' '
	expect_error 3 "no run of measurements 61" seqplan validate --run 61 &&
	expect_error 3 "no run 1: nothing is stored yet" seqplan validate --run 1 --db other.db &&
	sed "s/NVIDIA H200/NVIDIA X61/" "$run" | head -5 >x61.jsonl &&
	expect_exit 0 seqplan measure --from x61.jsonl --db x61.db &&
	expect_error 2 "no shipped hardware is named after the GPU of this run (NVIDIA X61" seqplan validate --run 1 --db x61.db &&
	expect_exit 0 seqplan validate --run 1 --db x61.db --hardware dgx-h200
'

test_expect_success 'steps of a training log: priced as the log and --settings say' '
	more="--model llama-3.1-8b --recompute full" &&
	expect_exit 0 seqplan import "$top/tests/import/training/megatron.log" --gpu "NVIDIA H100" --db log.db &&
	expect_exit 0 seqplan validate --run 1 --db log.db --settings "$more" --format json && cp out steps.json &&
	expect_exit 0 seqplan estimate $more --hardware dgx-h100 --framework megatron --gpus 48 --tp 4 --sp 3 --pp 2 --seq 98304 \
		--global-batch 36 --micro-batch 1 --format json &&
	test "$(json_get steps.json rows.0.predicted)" = "$(json_get out step_time_s)" &&
	test "$(json_get steps.json rows.0.measured)" = 8.1103 &&
	test "$(json_get steps.json rows.1.predicted)" = "$(json_get out peak_allocated_bytes)" &&
	test "$(json_get steps.json rows.1.measured)" = 63966543872 &&
	expect_exit 0 seqplan validate --run 1 --db log.db && tr -s "\n " " " <out >flat &&
	grep "left out .*--model is missing; for example: --settings \"--model llama-3.1-8b --recompute full\"" flat &&
	test "$(json_get steps.json rows.0.role)" = judge &&
	expect_exit 0 seqplan import "$top/tests/import/training/nanotron.log" --gpu "NVIDIA H100" --db other.log.db &&
	expect_exit 0 seqplan validate --run 1 --db other.log.db --settings "--model llama-2-7b" --format json && cp out fit.json &&
	test "$(json_get fit.json left_out.0.role)" = fit && test "$(json_get fit.json sources.0.n_judge)" = 0 &&
	json_get fit.json sources.0.fitted.0 | grep "the half that models are found with"
'

test_expect_success '--settings: for every row, last; a mistake in them is one error' '
	expect_exit 0 seqplan validate runs.csv --settings "--set gpu.hbm_bandwidth=1TB/s  --attention fa2" --format json && cp out set.json &&
	expect_exit 0 seqplan estimate --model llama-3.1-8b --hardware dgx-h100 --gpus 8 --seq 384K --sp 8 --global-batch 3 --zero 3 --attention fa2 \
		--set gpu.hbm_bandwidth=1TB/s --format json &&
	test "$(json_get set.json rows.0.predicted)" = "$(json_get out step_time_s)" &&
	expect_error 2 "--settings: unknown option" seqplan validate --settings "--modle x" &&
	expect_error 2 "leave out --settings" seqplan validate --settings "--zero 2" --format page
'

test_expect_success '--device: measures first, and says what is missing' '
	mkdir -p bin/tests/validation && cp "$SEQPLAN" bin/seqplan &&
	expect_error 4 "seqplan-device" env SEQPLAN_PATH="$top" bin/seqplan validate --device &&
	printf "#!/bin/sh\necho \"seqplan-device: no GPU: no CUDA-capable device is detected\" >&2\nexit 4\n" >bin/seqplan-device &&
	chmod +x bin/seqplan-device &&
	expect_error 4 "no CUDA-capable device" env SEQPLAN_PATH="$top" bin/seqplan validate --device --db none.db &&
	{ printf "#!/bin/sh\ncat <<\\\\END\n" && cat "$run" && printf "{\"kind\":\"done\"}\nEND\n"; } >bin/seqplan-device &&
	expect_exit 0 env SEQPLAN_PATH="$top" bin/seqplan validate --device --db device.db --format json &&
	test "$(json_get out sources.0.name)" = run-1 &&
	expect_exit 0 env SEQPLAN_PATH="$top" bin/seqplan validate --run 1 --db device.db
'

# ---- pictures -------------------------------------------------------------------------------------------------------

test_expect_success 'pictures: predicted against measured, errors by length, in each format' '
	expect_exit 0 seqplan validate $few --plot a.svg --residuals b.svg &&
	grep "Predicted against measured" a.svg && grep "Errors by length" b.svg &&
	for name in llama3-herd torchtitan trl-million-token
	do
		grep "$name" b.svg || return 1
	done &&
	expect_exit 0 seqplan validate $few --plot a.png --residuals b.pdf --only judge &&
	test "$(head -c 4 b.pdf)" = %PDF && head -c 4 a.png | grep PNG
'

test_expect_success 'pictures that cannot be drawn or written leave nothing' '
	mkdir -p empty && expect_error 4 "install it (gnuplot-nox" env PATH="$PWD/empty" "$SEQPLAN" validate --plot c.svg &&
	test ! -e c.svg && expect_error 4 "missing/c.svg" seqplan validate --plot missing/c.svg &&
	for blocks in 8 80 # of the script, of the picture: a part of one looks like one
	do
		expect_error 4 "File too large" sh -c "ulimit -f $blocks && exec seqplan validate --plot cut.svg" &&
		expect_error 4 "File too large" sh -c "ulimit -f $blocks && exec seqplan validate --residuals cut.png" &&
		test -z "$(find . -name "*cut.*")" || return 1
	done &&
	expect_error 2 "c.svg would hold one picture: name two files" seqplan validate --plot c.svg --residuals c.svg &&
	sed "2,3d" runs.csv >odd.csv &&
	expect_error 3 "c.svg: no compared row can be drawn" seqplan validate odd.csv --plot c.svg
'

# ---- installed ------------------------------------------------------------------------------------------------------

test_expect_success 'an installed program brings its tables' '
	mkdir -p usr/bin usr/share/seqplan && cp "$SEQPLAN" usr/bin/ &&
	cp -R "$top/models" "$top/hardware" "$top/frameworks" usr/share/seqplan/ &&
	cp -R "$top/tests/validation" usr/share/seqplan/validation &&
	expect_exit 0 usr/bin/seqplan validate --format page && diff "$top/docs/validation.md" out &&
	rm -r usr/share/seqplan/validation &&
	expect_error 3 "no validation tables found: name a file" usr/bin/seqplan validate
'

test_done
