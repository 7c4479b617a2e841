# shellcheck shell=sh
# What the sharness tests share. A test sets test_description and then reads this file:
#
#	test_description='errors of estimate'
#	. "$(dirname "$0")/lib-seqplan.sh"
#
# It gives: $SEQPLAN (the program under test, absolute), `seqplan` on PATH, $top (the checkout), an empty trash folder
# under build/ as the current and the home folder, and the functions below. Never pipe the program under test (its exit
# code is lost) and never write `! seqplan` (a crash passes): use expect_exit.

: "${test_description:?set test_description before reading lib-seqplan.sh}"

top=$(cd "$(dirname "$0")/../.." && pwd)
SEQPLAN=${SEQPLAN:-$top/build/seqplan}
case $SEQPLAN in
/*) ;;
*) SEQPLAN=$(pwd)/$SEQPLAN ;;
esac
SHARNESS_TEST_DIRECTORY=${SEQPLAN_TEST_OUTPUT:-$top/build/trash}
SHARNESS_TEST_SRCDIR=$top/tests/cli
SHARNESS_BUILD_DIRECTORY=$(dirname "$SEQPLAN")
SHELL_PATH=/bin/sh
mkdir -p "$SHARNESS_TEST_DIRECTORY"
export top SEQPLAN SHARNESS_TEST_DIRECTORY SHARNESS_TEST_SRCDIR SHARNESS_BUILD_DIRECTORY SHELL_PATH

# shellcheck source=/dev/null
. /usr/share/sharness/sharness.sh

# Nothing of the caller's home or settings reaches the program. Sharness has set HOME to the trash folder.
XDG_DATA_HOME=$HOME/.local/share
XDG_CONFIG_HOME=$HOME/.config
XDG_CACHE_HOME=$HOME/.cache
export XDG_DATA_HOME XDG_CONFIG_HOME XDG_CACHE_HOME
unset SEQPLAN_PATH NO_COLOR

# expect_exit CODE COMMAND...: runs it with its output in the files out and err, and checks its exit code.
expect_exit() {
	expected_code=$1
	shift
	code=0
	"$@" >out 2>err </dev/null || code=$?
	test "$code" -eq "$expected_code" && return 0
	echo "expected exit code $expected_code, found $code: $*" >&2
	sed 's/^/  err: /' err >&2
	return 1
}

# A refusal prints its one line and nothing else. After expect_exit.
one_line_error() {
	if test -s out || test "$(wc -l <err)" -ne 1 || ! grep -q '^seqplan: .' err; then
		echo "expected nothing in out and one line 'seqplan: ...' in err, found:" >&2
		sed 's/^/  out: /' out >&2
		sed 's/^/  err: /' err >&2
		return 1
	fi
}

# expect_error CODE TEXT COMMAND...: a refusal with this code whose line holds TEXT as it stands.
expect_error() {
	expected_refusal=$1
	expected_text=$2
	shift 2
	expect_exit "$expected_refusal" "$@" && one_line_error || return 1
	grep -qF -e "$expected_text" err && return 0
	echo "expected '$expected_text' in: $(cat err)" >&2
	return 1
}

# json_get FILE PATH: the value at a dotted path ("memory_bytes.weights", "rows.0.layout.tp"; "." is the whole), as
# text; objects and arrays as canonical JSON, `null` as null. Fails when the file is not JSON or has no such path.
json_get() {
	perl -MJSON::PP -e '
		my ($file, $path) = @ARGV;
		open my $in, "<", $file or die "$file: $!\n";
		my $json = JSON::PP->new->canonical->allow_nonref;
		my $value = eval { $json->decode(do { local $/; <$in> }) };
		die "$file: not JSON: $@" if $@;
		for my $key (grep { length } split /[.]/, $path) {
			my $found = ref $value eq "ARRAY" ? $key =~ /^\d+$/ && $key < @$value
				: ref $value eq "HASH" && exists $value->{$key};
			die "$file: no \x27$key\x27 of \x27$path\x27\n" unless $found;
			$value = ref $value eq "ARRAY" ? $value->[$key] : $value->{$key};
		}
		print ref $value || !defined $value ? $json->encode($value) : $value, "\n";
	' "$1" "$2"
}

# golden EXPECTED FOUND: FOUND is what the file EXPECTED of the tree holds; `make bless` makes it so.
golden() {
	if test -n "$SEQPLAN_BLESS"; then
		cmp -s "$1" "$2" || cp "$2" "$1"
	else
		diff -u "$1" "$2" || {
			echo "if the change is meant: make bless, and say in the commit what moved and why" >&2
			return 1
		}
	fi
}
