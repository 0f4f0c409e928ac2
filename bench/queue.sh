#!/usr/bin/env bash
# Our work queue beside client-go's and controller-runtime's: the programs in turns, several rounds, and a table of ratios.
#
#   bench/queue.sh [ROUNDS] [--json FILE] [--keys N for a quick run, with the same number of keys in all cases]
#
# Needs Go for the others' sides and python3 for the table; memory and processor time are read from /proc.
#
# Figures are medians of the rounds, for each key: nanoseconds, or bytes for memory. A ratio is the other's figure over ours:
# above 1 ours is less. The range is that of the ratios of single rounds. "CPU" compares processor time of all threads, the
# collector's too, which other programs on the machine disturb less.
#
# The plain cases compare queues without name and limiter, whose keys are strings that were made before; workers do not call
# Forget. Threads are our workers that block, beside the same goroutines as workers, which are our tasks.
#
# In the other cases all have the same keys, the same delays and the same limiter. Ours and client-go's have a name and no recorder for
# metrics; ours keeps its times all the same, client-go's then does not. controller-runtime's has no name, since with one it
# always records, and no clock can be given to it, so the delayed cases are left out. It puts adds aside for another thread;
# a case ends when they are in the queue.
#
# How much of our memory is live is not measured, only what is resident; client-go's is shown both ways, and both are held
# against what is resident of ours.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=measured
rounds=${1:-5}
shift || true
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

cargo build --quiet --profile "$profile" -p evenkeel-cli
theirs=()
if command -v go >/dev/null; then
    (cd bench/go && go build -o "$out/go" ./queue)
    theirs=(--go "$out/go")
else
    echo "go is not installed: our figures only" >&2
fi
PYTHONPATH=bench python3 -B -m report.queue "$rounds" --ours "target/$profile/evenkeel" "${theirs[@]}" "$@"
