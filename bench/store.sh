#!/usr/bin/env bash
# Compares evenkeel's store with client-go's: both programs in turns, several rounds, and a table of ratios.
#
#   bench/store.sh [ROUNDS] [--json FILE] [arguments of both programs, such as --objects 50000 --threads 2]
#
# Needs Go for client-go's side and python3 for the table.
#
# A ratio is client-go's time over evenkeel's: above 1 evenkeel is faster. Times are medians of the rounds; the range is that of the
# ratios of single rounds. "CPU" compares the processor time of the measuring threads, which other programs on the machine
# disturb less; it excludes client-go's garbage collector.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=measured
rounds=${1:-5}
shift || true
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

cargo build --quiet --profile "$profile" -p evenkeel-bench
theirs=()
if command -v go >/dev/null; then
    (cd bench/go && go build -o "$out/client-go" ./store)
    theirs=(--client-go "$out/client-go")
else
    echo "go is not installed: evenkeel's figures only" >&2
fi
PYTHONPATH=bench python3 -B -m report.store "$rounds" --ours "target/$profile/evenkeel-bench" "${theirs[@]}" "$@"
