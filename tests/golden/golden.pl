#!/usr/bin/perl
# Reduces "seqplan.table/1" JSON on standard input to one CSV line per row: the varied values, then what people decide by,
# with six significant digits, so that a diff shows which figures moved and no rounding does.
use strict;
use warnings;
use JSON::PP;

my ($label) = @ARGV;
my $table = JSON::PP->new->decode(do { local $/; <STDIN> });
for my $row (@{ $table->{rows} }) {
    my $layout = $row->{layout} || {};
    my $varied = join ' ', map { "$_=$row->{vary}{$_}" } sort keys %{ $row->{vary} || {} };
    if ($row->{error}) {
        print join(',', $label, $varied, "refused: $row->{error}{rule}"), "\n";
        next;
    }
    my $largest = (sort { $row->{time_s}{$b} <=> $row->{time_s}{$a} || $a cmp $b } keys %{ $row->{time_s} })[0];
    print join(',', $label, $varied, sprintf('%.6g', $row->{step_time_s}), sprintf('%.6g', $row->{peak_bytes}),
        $row->{fits} ? 'fits' : 'too large', sprintf('%.4f', $row->{mfu_frac}), "stage $row->{peak_stage} $row->{peak_moment}", $largest), "\n";
}
