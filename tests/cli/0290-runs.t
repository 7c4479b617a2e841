#!/bin/sh
test_description='show runs: where the store is, and what it says of files that are no store'
. "$(dirname "$0")/lib-seqplan.sh"

default=$XDG_DATA_HOME/seqplan/seqplan.db
export default

test_expect_success 'no store yet: it says so, and makes nothing' '
	expect_exit 0 seqplan show runs && test ! -s err &&
	echo "no runs are stored yet in $default" >expected && tr -s "\n" " " <out | sed "s/ *$/\n/" >found &&
	diff -u expected found && test ! -e "$XDG_DATA_HOME" &&
	expect_exit 0 seqplan show runs --db here.db && test ! -e here.db && grep "are stored yet in here.db" out &&
	expect_exit 0 seqplan show runs --format json && test "$(json_get out rows)" = "[]" &&
	expect_exit 0 seqplan show runs --format markdown && grep "no runs are stored yet" out &&
	expect_exit 0 seqplan show runs --format csv && test ! -e "$XDG_DATA_HOME"
'

test_expect_success 'one run of no store' '
	expect_error 3 "no run 61: no runs are stored yet in $default" seqplan show run 61 &&
	expect_error 3 "no run 61: " seqplan show run 61 --format json &&
	expect_error 2 "expected the number of a run, as '\''seqplan show runs'\'' lists them, found \"6x\"" seqplan show run 6x
'

test_expect_success 'the data folder follows HOME where XDG_DATA_HOME is not set or relative' '
	expect_exit 0 env -u XDG_DATA_HOME HOME=/nowhere/home seqplan show runs &&
	tr -s "\n" " " <out | grep "are stored yet in /nowhere/home/.local/share/seqplan/seqplan.db" &&
	expect_exit 0 env XDG_DATA_HOME=relative HOME=/nowhere/home seqplan show runs &&
	tr -s "\n" " " <out | grep "are stored yet in /nowhere/home/.local/share/seqplan/seqplan.db" &&
	expect_error 4 "found neither; give a file with --db" env -u XDG_DATA_HOME -u HOME seqplan show runs
'

test_expect_success 'what is no store has exit code 4, its path and advice' '
	echo "model: llama" >text.db && seq 3000 >long.db && mkdir folder.db &&
	expect_error 4 "text.db: is no SQLite database: give another file with --db" seqplan show runs --db text.db &&
	expect_error 4 "long.db: is no SQLite database" seqplan show runs --db long.db &&
	expect_error 4 "folder.db: cannot be opened: expected a file" seqplan show runs --db folder.db &&
	: >empty.db && expect_exit 0 seqplan show runs --db empty.db && test -f empty.db && test ! -s empty.db &&
	test "$(cat text.db)" = "model: llama" && seq 3000 | cmp - long.db &&
	expect_exit 0 seqplan show runs --db text.db/x.db && tr -s "\n" " " <out | grep "are stored yet in text.db/x.db"
'

test_expect_success 'an empty --db, and --db where it says nothing' '
	expect_error 2 "expected a file" seqplan show runs --db "" &&
	expect_error 2 "show runs: --source tells where the figures of files come from" seqplan show runs --source &&
	expect_error 2 "show models: --db belongs to" seqplan show models --db x.db
'

test_expect_success 'names that SQLite would take for something else are files' '
	expect_exit 0 seqplan show runs --db :memory: && tr -s "\n" " " <out | grep "are stored yet in :memory:" &&
	for name in :memory: "file:x?mode=ro#%41"
	do
		echo text >"$name" && expect_error 4 "$name: is no SQLite database" seqplan show runs --db "$name" || return 1
	done
'

test_done
