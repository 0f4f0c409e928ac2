#!/usr/bin/env bash
# Compares evenkeel's store with client-go's: both programs in turns, several rounds, and a table of ratios.
#
#   bench/store.sh [ROUNDS] [arguments of both programs, such as --objects 50000 --threads 2]
#
# Needs Go for client-go's side and python3 for the table.
#
# A ratio is client-go's time over evenkeel's: above 1 evenkeel is faster. Times are medians of the rounds; the range is that of the
# ratios of single rounds. "cpu" compares the processor time of the measuring threads, which other programs on the machine
# disturb less; it excludes client-go's garbage collector.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5}
shift || true
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

cargo build --quiet --release -p evenkeel-bench
if ! command -v go >/dev/null; then
    echo "go is not installed: evenkeel's figures only"
    exec target/release/evenkeel-bench store "$@"
fi
(cd bench/go && go build -o "$out/client-go" ./store)

for round in $(seq "$rounds"); do
    target/release/evenkeel-bench store "$@" >"$out/ours.$round"
    "$out/client-go" "$@" >"$out/theirs.$round"
done

python3 - "$out" "$rounds" <<'PYTHON'
import json, statistics, sys

folder, rounds = sys.argv[1], int(sys.argv[2])


def read(side):
    runs = []
    for number in range(1, rounds + 1):
        with open(f"{folder}/{side}.{number}") as lines:
            runs.append({(run["case"], run["threads"]): run for run in map(json.loads, lines)})
    return runs


ours, theirs = read("ours"), read("theirs")
print(f"{'case':<26}{'threads':>8}{'ours':>14}{'client-go':>14}  {'ratio (range)':<22}{'ratio, cpu (range)':<22}")
for case in ours[0]:
    # A look-up in a snapshot and one in the store are both compared with client-go's get.
    other = ("get", case[1]) if case[0] == "snapshot_get" else case
    row = f"{case[0]:<26}{case[1]:>8}"
    for position, unit in enumerate(("ns_per_op", "cpu_ns_per_op", "bytes_per_object")):
        if unit not in ours[0][case]:
            continue
        own, their = ([run[key][unit] for run in runs] for runs, key in ((ours, case), (theirs, other)))
        if position != 1:
            row += f"{statistics.median(own):>14.1f}{statistics.median(their):>14.1f}  "
        ratios = sorted(b / a for a, b in zip(own, their) if a > 0)
        row += f"{f'{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})':<22}" if ratios else f"{'-':<22}"
    print(row.rstrip())
PYTHON
