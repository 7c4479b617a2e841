#!/bin/sh
test_description='standard output: colour, full disks, closed pipes'
. "$(dirname "$0")/lib-seqplan.sh"

one='--model llama-3.1-8b --hardware dgx-h100 --gpus 8 --sp 8 --seq 128K --zero 3'
escape=$(printf '\033')
export one escape

if command -v script >/dev/null 2>&1
then
	test_set_prereq SCRIPT
fi
if test -c /dev/full
then
	test_set_prereq DEV_FULL
fi

# on_terminal ARGUMENT...: what seqplan prints on a terminal, into out. (script(1) of util-linux.)
on_terminal() {
	script -q -e -c "TERM=xterm seqplan $*" /dev/null >out 2>err </dev/null
}

test_expect_success 'no colour where standard output is no terminal' '
	expect_exit 0 seqplan estimate $one && ! grep -q "$escape" out
'

test_expect_success SCRIPT 'colour on a terminal' '
	on_terminal estimate $one && grep "$escape\[1m" out
'

test_expect_success SCRIPT 'none with --no-color, NO_COLOR or a dumb terminal' '
	on_terminal estimate $one --no-color && ! grep -q "$escape" out &&
	NO_COLOR=1 && export NO_COLOR && on_terminal estimate $one && unset NO_COLOR && ! grep -q "$escape" out &&
	script -q -e -c "TERM=dumb seqplan estimate $one" /dev/null >out </dev/null && ! grep -q "$escape" out
'

test_expect_success SCRIPT 'an empty NO_COLOR does not count, and JSON has no colour ever' '
	NO_COLOR= && export NO_COLOR && on_terminal estimate $one && unset NO_COLOR && grep "$escape\[1m" out &&
	on_terminal estimate $one --format json && ! grep -q "$escape" out
'

test_expect_success SCRIPT 'long work says on a terminal how far it is, and cleans up' '
	on_terminal estimate $one --global-batch 8 --vary seq="$(seq -s, 4096 1024 2047000)" --format csv &&
	grep "of 1996 rows" out
'

# fails_to_write ARGUMENT...: exit 4 and one line, on a full disk.
fails_to_write() {
	code=0
	seqplan "$@" >/dev/full 2>err </dev/null || code=$?
	test "$code" -eq 4 && test "$(wc -l <err)" -eq 1 && grep "^seqplan: standard output cannot be written: " err
}

test_expect_success DEV_FULL 'a full disk is exit 4, in every format and for every command' '
	for format in table markdown csv json
	do
		fails_to_write estimate $one --format $format || return 1
	done &&
	fails_to_write help && fails_to_write help estimate && fails_to_write --version && fails_to_write show models
'

test_expect_success 'a closed standard output is exit 4' '
	code=0 && { seqplan estimate $one >&- 2>err </dev/null || code=$?; } && test "$code" -eq 4 &&
	grep "^seqplan: standard output cannot be written: " err
'

test_expect_success 'refusals keep their own exit code there' '
	code=0 && { seqplan frobnicate >&- 2>err || code=$?; } && test "$code" -eq 2
'

test_done
