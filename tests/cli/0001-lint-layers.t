#!/bin/sh
test_description='tools/lint-layers complains of each breach of the rules, and of nothing else'
. "$(dirname "$0")/lib-seqplan.sh"

# put FILE LINE...: a source of the small tree in src/.
put() {
	mkdir -p "src/$(dirname "$1")" && file=src/$1 && shift && printf '%s\n' "$@" >"$file"
}

# complains TEXT: exactly this one complaint.
complains() {
	expect_exit 1 "$top/tools/lint-layers" src && echo "$1" >expected && diff -u expected out
}

# body N: the lines of a function with N lines between its braces.
body() {
	echo 'int long_one(int a) {' && seq -f '    a += %g;' "$1" && echo '}'
}

fresh() {
	rm -rf src && put base/base.h 'int base(void);' && put cmd/main.c 'int main(void) { exit(1); }'
}

test_expect_success 'the sources of this tree are clean' '
	expect_exit 0 env -C "$top" tools/lint-layers src &&
	test ! -s out
'

test_expect_success 'what is allowed stays silent' '
	fresh &&
	put base/json.c "#include \"base/base.h\"" "#include <cjson/cJSON.h>" &&
	put base/arena.c "void f(void) { exit(4); }" &&
	put fit/curve.c "#include \"store/store.h\"" "#include <gsl/gsl_fit.h>" &&
	put store/store.c "#include \"base/base.h\"" "#include <sqlite3.h>" &&
	put cmd/ranks_mpi.c "#include <mpi.h>" &&
	put cost/cost.h "/* strcpy(a); exit(1);" " * #include \"cmd/cmd.h\" */" "// sprintf( and link_bps" \
		"const char *text = \"strcpy(a) /* not a comment\";" "int my_atoi(int);" "double rate_flop_per_s;" &&
	put cuda/kernel.h "strcpy(a, b); #include \"cmd/cmd.h\"" &&
	body 60 >src/cost/long.c &&
	{ echo "static const int table[] = {" && seq -f "%g," 100 && echo "};"; } >src/cost/table.c &&
	expect_exit 0 "$top/tools/lint-layers" src &&
	test ! -s out
'

test_expect_success 'an include that points up' '
	fresh && put cost/time.c "#include \"base/base.h\"" "#include \"method/method.h\"" &&
	complains "src/cost/time.c:2: layer cost includes '\''method/method.h'\'' of the higher layer method"
'

test_expect_success 'every layer but the last is below the next' '
	for pair in base:store store:spec spec:cost cost:method method:step step:sim sim:search search:fit fit:report report:cmd
	do
		fresh &&
		put "${pair%:*}/low.h" "#include \"${pair#*:}/high.h\"" &&
		put "${pair#*:}/high.h" "#include \"${pair%:*}/low.h\"" &&
		complains "src/${pair%:*}/low.h:1: layer ${pair%:*} includes '\''${pair#*:}/high.h'\'' of the higher layer ${pair#*:}" ||
			return 1
	done
'

test_expect_success 'an include without its layer' '
	fresh && put cost/time.c "#include \"time.h\"" &&
	complains "src/cost/time.c:1: '\''time.h'\'' names no layer: include it as \"LAYER/FILE.h\""
'

test_expect_success 'third-party headers away from home' '
	fresh && put base/text.c "#include <cJSON.h>" &&
	complains "src/base/text.c:1: '\''cJSON.h'\'' belongs only in base/json.c" &&
	fresh && put base/text.c "#include \"cjson/cJSON.h\"" &&
	complains "src/base/text.c:1: '\''cjson/cJSON.h'\'' belongs only in base/json.c" &&
	fresh && put fit/store.c "#include <sqlite3.h>" &&
	complains "src/fit/store.c:1: '\''sqlite3.h'\'' belongs only in store/" &&
	fresh && put cmd/sweep.c "#include <mpi.h>" &&
	complains "src/cmd/sweep.c:1: '\''mpi.h'\'' belongs only in cmd/ranks_mpi.c" &&
	fresh && put report/trace.c "#include <zlib.h>" &&
	complains "src/report/trace.c:1: '\''zlib.h'\'' belongs only in report/whole_file.c" &&
	fresh && put cost/curve.c "#include <gsl/gsl_fit.h>" &&
	complains "src/cost/curve.c:1: '\''gsl/gsl_fit.h'\'' belongs only in fit/"
'

test_expect_success 'banned calls' '
	for call in strcpy:snprintf sprintf:snprintf strcat:snprintf gets:fgets strtok:strcspn atoi:strtol
	do
		fresh && put base/text.c "int x;" "int y = ${call%:*} (a);" &&
		complains "src/base/text.c:2: ${call%:*}() is banned: use ${call#*:}" || return 1
	done
'

test_expect_success 'exit outside its two files' '
	fresh && put cmd/estimate.c "int f(void) { exit(2); }" &&
	complains "src/cmd/estimate.c:1: exit() belongs only in cmd/main.c and base/arena.c: return an error"
'

test_expect_success 'a function over 60 lines' '
	fresh && mkdir -p src/cost && body 61 >src/cost/long.c &&
	complains "src/cost/long.c:63: function of 61 lines, over 60, began in line 1"
'

test_expect_success 'ambiguous suffixes, in names and in keys' '
	fresh && put cost/link.h "extern double link_bps;" &&
	complains "src/cost/link.h:1: _bps and _flops are ambiguous: use _bytes_per_s, _flop or _flop_per_s" &&
	fresh && put report/keys.c "const char *key = \"peak_flops\";" &&
	complains "src/report/keys.c:1: _bps and _flops are ambiguous: use _bytes_per_s, _flop or _flop_per_s"
'

test_expect_success 'two sources of one name' '
	fresh && put cost/memory.c "int a;" && put step/memory.c "int b;" &&
	complains "src/step/memory.c:1: name of a source is not unique: also src/cost/memory.c"
'

test_expect_success 'a folder that is no layer' '
	fresh && put util/misc.c "int a;" &&
	complains "src/util/misc.c:1: not in the folder of a layer"
'

test_expect_success 'a tree that is not there' '
	expect_exit 2 "$top/tools/lint-layers" nowhere
'

test_done
