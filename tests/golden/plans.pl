#!/usr/bin/perl
# Reduces "seqplan.plan/1" JSON on standard input to CSV lines: the counts of a plan, its three best and the two ends of its
# front, with six significant digits, so that a diff shows which figures moved and no rounding does.
use strict;
use warnings;
use JSON::PP;

my ($label) = @ARGV;
my $plan = JSON::PP->new->decode(do { local $/; <STDIN> });

sub layout_text {
    my $l = shift;
    my $part = $l->{sp_method} eq 'usp' ? " u$l->{sp_ulysses}" : $l->{sp_method} eq 'double-ring' ? " i$l->{sp_inner}" : '';
    my $offload = $l->{offload} eq 'none' ? '' : " offload $l->{offload}";
    $offload =~ s/,/+/g;
    return "$l->{framework} $l->{sp_method} tp$l->{tp} sp$l->{sp}$part pp$l->{pp} dp$l->{dp} ep$l->{ep} mb$l->{micro_batch}"
        . " $l->{schedule} vpp$l->{vpp} recompute $l->{recompute} zero$l->{zero}$offload $l->{order}";
}

sub line {
    my ($what, $p) = @_;
    my $l = $p->{layout};
    printf "%s,%s,%s,%.6g,%.6g,%.4f,%s\n", $label, $what, layout_text($l), $p->{step_time_s}, $p->{peak_bytes}, $p->{mfu_frac},
        $p->{bound};
}

my @plans = @{ $plan->{plans} };
my @front = sort { $a->{step_time_s} <=> $b->{step_time_s} } map { $plans[$_] } @{ $plan->{pareto} };
my $largest = (sort { $b->{count} <=> $a->{count} || $a->{reason} cmp $b->{reason} } @{ $plan->{rejected} })[0];
printf "%s,space,%d considered; most are dropped for %s; %d plans with %d on the front\n", $label, $plan->{considered},
    $largest->{reason}, scalar @plans, scalar @front;
for my $i (0 .. 2) {
    line('plan ' . ($i + 1), $plans[$i]) if $plans[$i];
}
line('front fastest', $front[0]) if @front;
line('front smallest', $front[-1]) if @front;
if (!@plans) {
    my $miss = $plan->{nearest_miss};
    printf "%s,nearest miss,%s,%.6g\n", $label, layout_text($miss->{layout}), $miss->{peak_bytes};
}
