#!/bin/sh
test_description='measure: a device program that is run, that dies, that prints garbage; runs resumed, shown, written, read'
. "$(dirname "$0")/lib-seqplan.sh"
. "$top/tests/cli/lib-sweep.sh"

expected=$SHARNESS_TEST_SRCDIR/expected
export expected

# A device program. FAKE_GPU: what it runs on. FAKE_DIES: after how many measurements, in the middle of a line. FAKE_STOPS: the
# same with exit code 4 and a reason. FAKE_PAUSE_S: before each. FAKE_GARBAGE: a file that it prints in between.
cat >fake <<'EOS'
#!/bin/sh
echo "$*" >>calls
done=/dev/null
while test $# -gt 0
do
	case $1 in
	--done) done=$2 && shift ;;
	esac
	shift
done
cat "$done" >done.keys
test -z "$FAKE_SAYS" || echo "seqplan-device: $FAKE_SAYS" >&2
test -z "$FAKE_NO_GPU" || exit 4
printf '{"kind":"machine","schema":"seqplan.device/1","gpu":"%s","gpus":2,"sm_count":132,"hbm_bytes":150000000000' "${FAKE_GPU:-NVIDIA H200}"
printf ',"driver":"570.86","cuda":"12.8","nccl":"2.28.3","host":"node61","date":"2026-11-29T23:30:%02dZ"' "$(wc -l <calls)"
echo ',"sm_clock_hz":1980000000,"memory_clock_hz":3201000000,"power_limit_w":700}'
echo "{\"kind\":\"plan\",\"total\":$((25 - $(wc -l <done.keys)))}"
n=0
next() {
	test -z "$FAKE_PAUSE_S" || sleep "$FAKE_PAUSE_S"
	n=$((n + 1))
	if test "$n" = "$FAKE_DIES"
	then
		printf '{"kind":"measurement","group":"gemm","ke' && kill -KILL $$
	elif test "$n" = "$FAKE_STOPS"
	then
		echo "an illegal memory access was encountered" >&2 && exit 4
	fi
	test "$n" != 3 || test -z "$FAKE_GARBAGE" || cat "$FAKE_GARBAGE"
}
# timed GROUP KEY PARAMETERS MEDIAN FLOP BYTES [THROTTLE]
timed() {
	grep -qxF "$2" done.keys && return
	next
	printf '{"kind":"measurement","group":"%s","key":"%s","parameters":%s,"unit":"s"' "$1" "$2" "$3"
	printf ',"median":%s,"min":%s0,"low":%s0,"high":%s1' "$4" "$4" "$4" "$4"
	printf ',"count":20,"flop":%s,"bytes":%s,"sm_clock_hz":1755000000,"power_w":650.5' "$5" "$6"
	printf ',"temperature_c":41,"throttle":"%s"}\n' "${7:-none}"
}
for mib in 1 61 4096
do
	timed copy "copy ${mib}MiB" "{\"operation\":\"copy\",\"bytes\":$((mib * 1048576))}" 0.0$((mib + 1000)) 0 $((mib * 2097152))
done
for shape in "6144 4096 4096" "28672 4096 4096" "4096 14336 8192"
do
	set -- $shape
	for pass in forward input weight
	do
		timed gemm "gemm $pass $1x$2x$3" "{\"pass\":\"$pass\",\"n\":$1,\"k\":$2,\"m\":$3}" 0.0061 $((2 * $1 * $2 * $3)) 3e8 power
	done
done
for tokens in 8192 65536
do
	for pass in forward backward
	do
		timed attention "attention $pass $tokens" "{\"pass\":\"$pass\",\"mask\":\"causal\",\"tokens\":$tokens,\"heads\":40}" 0.01 6.1e12 1e9
	done
done
timed latency launch '{}' 0.0000021 0 0
if test -z "$FAKE_CLEAN"
then
	next
	echo '{"kind":"refused","group":"latency","key":"graph","reason":"spread of 14 % over 20 runs: is another program using the GPU?"}'
else
	timed latency graph '{}' 0.0000013 0 0
fi
for tokens in 65536 131072
do
	for method in allgather zigzag
	do
		timed method "$method $tokens" "{\"method\":\"$method\",\"ranks\":2,\"tokens\":$tokens}" 0.$((tokens / 61)) 0 0
	done
done
for size in 1048576 268435456
do
	timed collective "all_gather $size" "{\"operation\":\"all_gather\",\"bytes\":$size,\"ranks\":2}" 0.00$size 0 $size
done
timed layer "layer zigzag" '{"method":"zigzag","tokens":131072}' 0.61 2.5e14 0
echo '{"kind":"done"}'
EOS
chmod +x fake

with_sigint() {
	exec perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV or die' "$@"
}

# measure COMMAND...: with the fake program.
measure() {
	"$SEQPLAN" measure --device ./fake "$@"
}

test_expect_success 'everything is stored as it comes, and shown by group' '
	expect_exit 0 measure --db all.db && grep "^seqplan: stored as run 1 in all.db$" err && test "$(wc -l <err)" = 1 &&
	test "$(cat calls)" = "measure --quick" && golden "$expected/measure.txt" out &&
	expect_exit 0 seqplan show run 1 --db all.db && cmp out "$expected/measure.txt" && test ! -s err &&
	expect_exit 0 seqplan measure --run 1 --db all.db && cmp out "$expected/measure.txt" &&
	awk "length > 100 { bad = 1 } END { exit bad }" out
'

test_expect_success 'JSON has the run, the machine, the measurements and the refusals' '
	expect_exit 0 seqplan measure --run 1 --db all.db --format json && test ! -s err &&
	test "$(json_get out schema)" = seqplan.measure/1 && test "$(json_get out run.id)" = 1 &&
	test "$(json_get out run.profile)" = --quick && test "$(json_get out run.finished)" = true &&
	test "$(json_get out run.planned)" = 25 && test "$(json_get out run.stored)" = 25 &&
	test "$(json_get out machine.gpu)" = "NVIDIA H200" && test "$(json_get out machine.driver)" = 570.86 &&
	test "$(json_get out measurements.1.key)" = "copy 61MiB" && test "$(json_get out measurements.1.count)" = 20 &&
	test "$(json_get out measurements.1.parameters.bytes)" = $((61 * 1048576)) &&
	test "$(json_get out measurements.3.throttle)" = power &&
	test "$(json_get out refused.0.key)" = graph && ! json_get out refused.1 2>/dev/null && ! json_get out measurements.24 2>/dev/null &&
	cp out run.json && expect_exit 0 seqplan show run 1 --db all.db --format json && cmp out run.json
'

test_expect_success 'CSV has a line for each, Markdown the tables' '
	expect_exit 0 seqplan measure --run 1 --db all.db --format csv && test "$(wc -l <out)" = 26 &&
	head -n 1 out | grep "^kind,group,key,parameters.operation,parameters.bytes,unit,median," && grep "^refused,latency,graph," out &&
	expect_exit 0 seqplan show run 1 --db all.db --format markdown && grep "^| copy, GB/s by bytes | 1 MiB | 61 MiB | 4 GiB |" out &&
	grep "^- refused: latency, graph: spread of 14 %" out
'

test_expect_success 'what is refused has no figure' '
	! grep "^ *graph" "$expected/measure.txt" && grep "refused  *latency, graph: spread of 14 %" "$expected/measure.txt"
'

test_expect_success 'a file of the lines is read back: the same run, the same answer, and nothing twice' '
	expect_exit 0 seqplan measure --run 1 --db all.db -o run.jsonl && cmp out "$expected/measure.txt" &&
	expect_exit 0 seqplan measure --run 1 --db all.db -o - && cmp out run.jsonl && test "$(wc -l <out)" = 29 &&
	expect_exit 0 seqplan measure --from run.jsonl --db other.db && cmp out "$expected/measure.txt" &&
	test "$(cat err)" = "seqplan: run.jsonl: adds 25 measurements to run 1" &&
	expect_exit 0 seqplan measure --from run.jsonl --db other.db && test "$(cat err)" = "seqplan: run.jsonl: adds nothing to run 1" &&
	expect_exit 0 seqplan measure --from run.jsonl --db all.db && grep "adds nothing to run 1" err &&
	expect_exit 0 seqplan measure --run 1 --db other.db -o again.jsonl && cmp again.jsonl run.jsonl &&
	"$SEQPLAN" measure --from - --db third.db <run.jsonl >out 2>err && cmp out "$expected/measure.txt" &&
	grep "standard input: adds 25" err && expect_exit 0 seqplan show runs --db third.db --format csv && test "$(wc -l <out)" = 2
'

test_expect_success 'lines of a device program that ran elsewhere, also twice over' '
	./fake measure >raw.jsonl && head -n 9 raw.jsonl >cut.jsonl && printf "{\"kind\":\"mea" >>cut.jsonl &&
	expect_exit 0 seqplan measure --from cut.jsonl --db raw.db && test "$(cat err)" = "seqplan: cut.jsonl: adds 7 measurements to run 1" &&
	grep "not finished" out && tail -n +10 raw.jsonl >>cut.jsonl && sed -i "s/^{\"kind\":\"mea{/{/" cut.jsonl &&
	expect_exit 0 seqplan measure --from cut.jsonl --db raw.db && grep "adds 18 measurements to run 1" err && ! grep "not finished" out &&
	expect_exit 0 seqplan measure --from raw.jsonl --db raw.db && grep "adds nothing to run 1" err &&
	expect_error 2 "came from a file that does not say what was to be measured" measure --resume 1 --db raw.db
'

test_expect_success 'two machines in one file, none, and no file' '
	{ cat raw.jsonl && FAKE_GPU=H100 ./fake measure; } >two.jsonl &&
	expect_error 3 "two.jsonl: line 29 is of another machine than those before" seqplan measure --from two.jsonl --db two.db &&
	tail -n 1 raw.jsonl >none.jsonl && expect_exit 3 seqplan measure --from none.jsonl --db two.db &&
	grep "none.jsonl: no line of a machine in 1 lines" err &&
	expect_error 3 "gone.jsonl: cannot be opened" seqplan measure --from gone.jsonl --db two.db &&
	expect_error 3 "cannot be read: Is a directory" seqplan measure --from . --db two.db &&
	expect_exit 0 seqplan show runs --db two.db --format csv && test "$(wc -l <out)" -le 1
'

test_expect_success 'lines that cannot be read are skipped, each with its number and reason' '
	cat >garbage <<-\EOF &&
	NVRM: Xid 61
	{"kind":"measurement","group":"copy","key":"x","parameters":{},"unit":"s","median":-1,"min":1,"low":1,"high":1,"count":3}
	{"kind":"measurement","group":"copi","key":"x"}
	{"kind":"surprise"}
	[]

	EOF
	expect_exit 0 env FAKE_GARBAGE=garbage "$SEQPLAN" measure --device ./fake --db garbage.db &&
	sed 3d out >found && sed 3d "$expected/measure.txt" | cmp - found &&
	grep "^seqplan: ./fake: line 5 is skipped: column 1: expected a JSON value, found" err &&
	grep "line 6 is skipped: \"median\": expected a number from 1e-12 to 1e+30, found -1" err &&
	grep "line 7 is skipped: unknown group \"copi\"" err && grep "line 8 is skipped: unknown kind \"surprise\"" err &&
	grep "line 9 is skipped: expected an object, found a list" err && test "$(grep -c skipped err)" = 5 &&
	perl -e "print q(x) x \$_, qq(\n) for 65536, 65537, 300000, 10" >garbage &&
	expect_exit 0 env FAKE_GARBAGE=garbage "$SEQPLAN" measure --device ./fake --db garbage.db --new &&
	sed 3d out >found && sed 3d "$expected/measure.txt" | cmp - found && test "$(grep -c "longer than 65536 bytes" err)" = 2 &&
	test "$(grep -c "is skipped" err)" = 4 && grep "line 8 is skipped" err &&
	yes "no JSON" | head -n 61 >garbage && expect_exit 0 env FAKE_GARBAGE=garbage "$SEQPLAN" measure --device ./fake --db garbage.db --new &&
	test "$(grep -c "is skipped" err)" = 10 && grep "61 lines are skipped in all" err
'

test_expect_success 'a program that dies keeps what was measured, and the same command goes on' '
	expect_exit 4 env FAKE_DIES=8 "$SEQPLAN" measure --device ./fake --db dies.db && one_line_error &&
	grep "seqplan: ./fake: was ended by signal 9 (Killed); run 1 keeps what was measured: --resume 1 goes on" err &&
	test "$(stored dies.db)" = 7 && expect_exit 0 seqplan show run 1 --db dies.db && grep "7 of 25 measured, 0 refused, not finished" out &&
	expect_exit 4 env FAKE_STOPS=5 "$SEQPLAN" measure --device ./fake --db dies.db &&
	grep "^seqplan: run 1 is gone on with: 7 measurements are there already (--new begins another)$" err &&
	grep "ended with exit code 4: an illegal memory access was encountered; run 1 keeps" err && test "$(stored dies.db)" = 11 &&
	: >calls && expect_exit 0 measure --db dies.db && test "$(cat calls)" = "measure --quick --done /dev/fd/3" &&
	test "$(wc -l <done.keys)" = 11 && head -n 1 done.keys | grep "^copy 1MiB$" &&
	sed 3d out >found && sed 3d "$expected/measure.txt" | cmp - found && test "$(stored dies.db)" = 25 &&
	expect_exit 0 measure --db dies.db && grep "stored as run 2" err
'

test_expect_success 'another profile or machine is another run; --new begins one, --resume names one' '
	expect_exit 4 env FAKE_DIES=3 "$SEQPLAN" measure --device ./fake --db runs.db &&
	expect_exit 4 env FAKE_DIES=3 "$SEQPLAN" measure --device ./fake --db runs.db --full &&
	expect_exit 4 env FAKE_DIES=3 "$SEQPLAN" measure --device ./fake --db runs.db --only gemm,copy && grep "run 3 keeps" err &&
	tail -n 1 calls | grep "^measure --quick --only copy,gemm$" &&
	: >calls && expect_exit 4 env FAKE_DIES=4 FAKE_GPU=H100 "$SEQPLAN" measure --device ./fake --db runs.db && grep "run 4 keeps" err &&
	test "$(wc -l <calls)" = 2 && tail -n 1 calls | grep "^measure --quick$" &&
	: >calls && expect_exit 0 measure --db runs.db && grep "run 1 is gone on with: 2 measurements are there" err &&
	test "$(wc -l <calls)" = 2 && grep "stored as run 1" err &&
	expect_error 2 "run 4 is of another machine (H100 of node61, this is NVIDIA H200 of node61;" measure --resume 4 --db runs.db &&
	expect_exit 0 measure --resume 2 --db runs.db && tail -n 1 calls | grep "^measure --full --done /dev/fd/3$" && grep "stored as run 2" err &&
	expect_exit 0 measure --new --only copy,gemm --db runs.db && grep "stored as run 5" err &&
	expect_exit 0 seqplan show runs --db runs.db && grep "^    3     2  25  " out &&
	expect_exit 0 seqplan show runs --db runs.db --format csv &&
	grep "^3,2,25,.*,\"measure --quick --only copy,gemm: NVIDIA H200 of node61 (not finished)\"," out &&
	expect_error 3 "no run of measurements 61" measure --resume 61 --db runs.db
'

test_expect_success 'what was refused is tried again with --resume, and what is measured stays' '
	expect_exit 0 env FAKE_CLEAN=1 "$SEQPLAN" measure --device ./fake --resume 1 --db all.db &&
	test "$(wc -l <done.keys)" = 24 && ! grep graph done.keys && grep "25 measured, 0 refused" out && grep "^  graph  *1.30 us" out
'

test_expect_success 'the shapes of a model' '
	expect_exit 0 measure --model llama-3.1-8b --full --db model.db &&
	tail -n 1 calls | grep "^measure --full --model-shapes 4096,32,8,128,14336,128256$" &&
	expect_error 3 "did you mean" measure --model llama-3.1-8 --db model.db &&
	expect_error 2 "latent attention" measure --model deepseek-v3 --db model.db
'

# The interrupt reaches the device program too, as on a terminal, or seqplan alone.
test_expect_success 'SIGINT and SIGTERM keep everything, and say how to go on' '
	for signal in INT TERM
	do
		rm -f calls && FAKE_PAUSE_S=0.1 with_sigint "$SEQPLAN" measure --device ./fake --db $signal.db >out 2>err </dev/null &
		pid=$! && wait_for_rows $signal.db && kill -$signal $pid && expect_end 4 &&
		grep "^seqplan: interrupted: run 1 keeps [0-9]* of 25 measurements (.seqplan measure --resume 1. goes on)$" err &&
		test "$(wc -l <err)" = 1 && grep "this run is not finished" out &&
		n=$(stored $signal.db) && test "$n" -gt 0 && test "$n" -lt 25 && grep "keeps $n of 25" err || return 1
	done &&
	expect_exit 0 measure --db TERM.db && grep "run 1 is gone on with" err && test "$(stored TERM.db)" = 25
'

test_expect_success 'a killed seqplan keeps what it had stored' '
	FAKE_PAUSE_S=0.1 "$SEQPLAN" measure --device ./fake --db killed.db >out 2>err </dev/null &
	pid=$! && wait_for_rows killed.db && kill -KILL $pid && expect_end 137 &&
	expect_exit 0 measure --db killed.db && grep "run 1 is gone on with: [1-9]" err && test "$(stored killed.db)" = 25
'

test_expect_success 'what is missing is said in one line' '
	cp "$SEQPLAN" ./lonely && expect_error 4 "seqplan-device is missing" ./lonely measure --db missing.db && grep "run .make. where nvcc" err &&
	grep "with --from FILE" err && test ! -e missing.db &&
	expect_error 4 "./gone: cannot be started: No such file or directory" seqplan measure --device ./gone --db missing.db &&
	expect_exit 4 env FAKE_NO_GPU=1 FAKE_SAYS="no CUDA-capable device is detected" "$SEQPLAN" measure --device ./fake --db missing.db &&
	one_line_error && grep "^seqplan: ./fake: ended with exit code 4: no CUDA-capable device is detected$" err &&
	expect_error 4 "printed no line of a machine" seqplan measure --device true --db missing.db &&
	printf "#!/bin/sh\necho \"{\\\"kind\\\":\\\"machine\\\",\\\"schema\\\":\\\"seqplan.device/2\\\"}\"\n" >newer && chmod +x newer &&
	expect_exit 4 seqplan measure --device newer --db missing.db && grep "expected \"seqplan.device/1\", found \"seqplan.device/2\"" err
'

test_expect_success 'what the program says is passed on' '
	expect_exit 0 env FAKE_SAYS="clocks are not locked" "$SEQPLAN" measure --device ./fake --db says.db &&
	grep "^seqplan-device: clocks are not locked$" err
'

test_expect_success 'options that do not go together' '
	expect_error 2 "give one of them" measure --quick --full &&
	expect_error 2 "give one of them" seqplan measure --from a --run 3 &&
	expect_error 2 "--from measures nothing" seqplan measure --from a --full &&
	expect_error 2 "--run measures nothing" measure --run 3 &&
	expect_error 2 "--resume goes on with what that run was to measure" measure --resume 3 --only copy &&
	expect_error 2 "did you mean \"gemm\"" measure --only gem --db options.db &&
	: >calls && expect_error 4 "gone/run.jsonl: cannot be written" measure -o gone/run.jsonl --db options.db && test ! -s calls &&
	expect_error 2 "expected a program" seqplan measure --device "" &&
	expect_error 3 "nothing is stored yet" seqplan measure --run 3 --db options.gone && test ! -e options.gone
'

command -v script >/dev/null && test_set_prereq SCRIPT

test_expect_success SCRIPT 'a terminal sees how far it is, and what is measured' '
	FAKE_PAUSE_S=0.1 script -qec "\"$SEQPLAN\" measure --device ./fake --db shown.db >out" /dev/null </dev/null >shown &&
	grep "[0-9]* of 25, left: [0-9]* s, gemm [a-z]* [0-9]*x4096x4096" shown && tail -n 1 shown | grep "stored as run 1"
'

test_done
