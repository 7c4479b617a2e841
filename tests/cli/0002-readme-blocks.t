#!/bin/sh
test_description='the console blocks of README.md and docs/ print what they say'
. "$(dirname "$0")/lib-seqplan.sh"

# A fenced block marked `console`: lines that begin with "$ " are commands (a backslash at the end continues them), run
# in one folder a page that shows the tree's files, with the program first on PATH; the lines after a command are its
# output and errors, in which a line "..." stands for any lines. `<!-- not executed: reason -->` on the line above the
# fence skips the block. SEQPLAN_README_BLOCKS names another page to run instead of all.

cat >run-blocks.pl <<'PERL'
use strict;
use warnings;

my ($page) = @ARGV;
open my $in, '<', $page or die "$page: $!\n";
my @lines = <$in>;
chomp @lines;
my ($failed, $executed) = (0, 0);

# The expected lines as one pattern; empty lines at the end do not count.
sub matches {
	my ($found, @expected) = @_;
	pop @expected while @expected && $expected[-1] =~ /^\s*$/;
	$found =~ s/\s+\z//;
	$found .= "\n" if length $found;
	my $pattern = join '', map { $_ eq '...' ? '(?:.*\n)*?' : quotemeta($_) . '\n' } @expected;
	return $found =~ /\A$pattern\z/;
}

sub complain {
	my ($number, $text) = @_;
	print "$page:$number: $text\n";
	$failed++;
}

sub run_command {
	my ($number, $command, @expected) = @_;
	return complain($number, "'$command' is not for a test: put <!-- not executed: reason --> above the block")
		if $command =~ /^(?:sudo |time )?(?:make|git clone)\b/;
	open my $out, '-|', 'sh', '-c', "exec 2>&1 </dev/null\n$command" or die "sh: $!\n";
	my $found = do { local $/; <$out> };
	close $out;
	$executed++;
	$found = '' unless defined $found;
	complain($number, "stale: $command\n--- the page\n" . join('', map { "$_\n" } @expected) . "--- now\n$found---")
		unless matches($found, @expected);
}

sub run_block {
	my ($first, @block) = @_;
	complain($first, 'a console block without a command') unless @block && $block[0] =~ /^\$ /;
	for (my $i = 0; $i < @block;) {
		my $number = $first + $i;
		my $command = $block[$i++];
		$command =~ s/^\$ // or next;
		$command .= "\n" . $block[$i++] while $command =~ /\\\z/ && $i < @block;
		my @expected;
		push @expected, $block[$i++] while $i < @block && $block[$i] !~ /^\$ /;
		run_command($number, $command, @expected);
	}
}

for (my $i = 0; $i < @lines; $i++) {
	my ($indent, $fence, $kind) = $lines[$i] =~ /^(\s*)(```+|~~~+)\s*(\S*)/ or next;
	my $above = $i > 0 ? $lines[$i - 1] : '';
	my ($first, @block) = ($i + 2);
	while (++$i < @lines && $lines[$i] !~ /^\s*\Q$fence\E\s*$/) {
		(my $line = $lines[$i]) =~ s/^\Q$indent\E//;
		push @block, $line;
	}
	next unless $kind eq 'console';
	complain($first - 1, 'a console block that does not end') if $i >= @lines;
	next if $above =~ /^\s*<!-- not executed: \S.* -->\s*$/;
	run_block($first, @block);
}
print "$executed commands executed\n" unless $failed;
exit($failed ? 1 : 0);
PERL

# run_page PAGE: in a folder where every file of the checkout shows, so that what the commands write stays out of it.
run_page() {
	rm -rf tree && mkdir tree &&
	for entry in "$top"/*
	do
		ln -s "$entry" tree/ || return 1
	done &&
	(cd tree && perl ../run-blocks.pl "$1")
}

# What differs is shown even where the harness hides the output of tests.
check_page() {
	page=$1
	test_expect_success "$page" '
		run_page "$page" >log 2>&1 || { cat log >&6; false; }
	' 6>&2
}

if test -n "$SEQPLAN_README_BLOCKS"
then
	check_page "$SEQPLAN_README_BLOCKS"
	test_done
fi
for page in $(cd "$top" && ls README.md docs/*.md 2>/dev/null)
do
	check_page "$page"
done

# page LINE...: a page made of these lines, in page.md.
page() {
	printf '%s\n' "$@" >page.md
}

# stale TEXT: page.md fails, and what is said of it holds TEXT.
stale() {
	expect_exit 1 run_page "$(pwd)/page.md" && grep -F -e "$1" out
}

test_expect_success 'a block that is true passes' '
	page "text" "\`\`\`console" "$ echo one; echo two >&2" "one" "two" "" "$ printf \"%s\\n\" a \\" "    b c" \
		"a" "..." "c" "$ true" "\`\`\`" "\`\`\`sh" "$ false" "\`\`\`" &&
	expect_exit 0 run_page "$(pwd)/page.md" &&
	grep "^3 commands" out
'

test_expect_success 'the program under test is the one on PATH' '
	page "\`\`\`console" "$ command -v seqplan" "$SEQPLAN" "\`\`\`" &&
	expect_exit 0 run_page "$(pwd)/page.md"
'

test_expect_success 'what a command writes stays out of the checkout' '
	page "\`\`\`console" "$ echo x >written-by-block; ls Makefile written-by-block" "Makefile" "written-by-block" "\`\`\`" &&
	expect_exit 0 run_page "$(pwd)/page.md" &&
	test ! -e "$top/written-by-block"
'

test_expect_success 'other output, missing output and more output are stale' '
	page "\`\`\`console" "$ echo found" "claimed" "\`\`\`" && stale "page.md:2: stale: echo found" &&
	page "\`\`\`console" "$ true" "claimed" "\`\`\`" && stale "page.md:2: stale: true" &&
	page "\`\`\`console" "$ seq 3" "1" "2" "\`\`\`" && stale "page.md:2: stale: seq 3" &&
	page "\`\`\`console" "$ seq 3" "1" "..." "4" "\`\`\`" && stale "page.md:2: stale: seq 3" &&
	page "\`\`\`console" "$ echo a.c" "a?c" "\`\`\`" && stale "page.md:2: stale: echo a.c"
'

test_expect_success 'make and git clone must be marked, with a reason' '
	page "\`\`\`console" "$ make demo" "\`\`\`" && stale "page.md:2: '\''make demo'\'' is not for a test" &&
	page "<!-- not executed: -->" "\`\`\`console" "$ git clone x" "\`\`\`" && stale "page.md:3:" &&
	page "<!-- not executed: builds everything -->" "\`\`\`console" "$ make demo" "\`\`\`" &&
	expect_exit 0 run_page "$(pwd)/page.md"
'

test_expect_success 'a block without an end or a command fails' '
	page "\`\`\`console" "$ true" && stale "page.md:1: a console block that does not end" &&
	page "\`\`\`console" "words" "\`\`\`" && stale "page.md:2: a console block without a command"
'

test_expect_success 'this test fails on a stale page' '
	page "\`\`\`console" "$ echo found" "claimed" "\`\`\`" &&
	SEQPLAN_TEST_OUTPUT=$(pwd)/inner && SEQPLAN_README_BLOCKS=$(pwd)/page.md &&
	export SEQPLAN_TEST_OUTPUT SEQPLAN_README_BLOCKS &&
	expect_exit 1 "$top/tests/cli/0002-readme-blocks.t" &&
	grep "^not ok 1" out &&
	page "\`\`\`console" "$ echo found" "found" "\`\`\`" &&
	expect_exit 0 "$top/tests/cli/0002-readme-blocks.t"
'

test_done
