#!/usr/bin/env bash
# Our work queue beside client-go's and controller-runtime's: the programs in turns, several rounds, and a table of ratios.
#
#   bench/queue.sh [ROUNDS] [--keys N for a quick run, with the same number of keys in all cases]
#
# Needs Go for the others' sides and python3 for the table; memory and processor time are read from /proc.
#
# Figures are medians of the rounds, for each key: nanoseconds, or bytes for memory. A ratio is the other's figure over ours:
# above 1 ours is less. The range is that of the ratios of single rounds. "cpu" compares processor time of all threads, the
# collector's too, which other programs on the machine disturb less.
#
# The plain cases compare queues without name and limiter, whose keys are strings that were made before; workers do not call
# Forget. "plain-threads" is ours with threads that block, beside the same goroutines as "plain-workers", which is ours with tasks.
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
rounds=${1:-5}
shift || true
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

cargo build --quiet --release -p evenkeel-cli
if ! command -v go >/dev/null; then
    echo "go is not installed: our figures only"
    exec target/release/evenkeel bench queue "$@"
fi
(cd bench/go && go build -o "$out/go" ./queue)

python3 - "$out" "$rounds" "$@" <<'PYTHON'
import json, statistics, subprocess, sys

folder, rounds, arguments = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
million = 1_000_000
cases = [
    ("add", million, 1),
    ("get-done", million, 1),
    ("workers", million, 1),
    ("workers", million, 4),
    ("workers", million, 16),
    ("plain-add", million, 1),
    ("plain-get-done", million, 1),
    ("plain-workers", million, 1),
    ("plain-workers", million, 4),
    ("plain-workers", million, 16),
    ("plain-threads", million, 1),
    ("plain-threads", million, 4),
    ("plain-threads", million, 16),
    ("delayed", million // 5, 1),
    ("delayed", 10 * million, 1),
    ("rate-limited", million, 1),
    ("waiting-memory", 10 * million, 1),
    ("back-off-memory", million, 1),
]
if arguments:
    if len(arguments) != 2 or arguments[0] != "--keys" or not arguments[1].isdigit() or int(arguments[1]) == 0:
        sys.exit("the only argument behind the number of rounds is --keys N")
    cases = list(dict.fromkeys((case, int(arguments[1]), workers) for case, _, workers in cases))
sides = {
    "ours": ["target/release/evenkeel", "bench", "queue"],
    "client-go": [f"{folder}/go", "--queue", "client-go"],
    "controller-runtime": [f"{folder}/go", "--queue", "controller-runtime"],
}

runs = {}
for round in range(rounds):
    for case, keys, workers in cases:
        for side, command in sides.items():
            if (side, case) == ("controller-runtime", "delayed"):
                continue
            if sys.stderr.isatty():
                print(f"\r\x1b[Kround {round + 1} of {rounds}: {case}, {keys} keys, {side}", end="", file=sys.stderr)
            # Goroutines are the only workers of the others.
            theirs = {"plain-threads": "plain-workers"}.get(case, case)
            options = ["--case", case if side == "ours" else theirs, "--keys", str(keys), "--workers", str(workers)]
            output = subprocess.run(command + options, check=True, stdout=subprocess.PIPE).stdout
            runs.setdefault((case, keys, workers, side), []).append(json.loads(output))
if sys.stderr.isatty():
    print("\r\x1b[K", end="", file=sys.stderr)


def ratio(own, their):
    ratios = sorted(b / a for a, b in zip(own, their) if a > 0)
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})" if ratios else "-"


print(f"{'case':<28}{'keys':>9}{'ours':>8}", end="")
print(f"{'client-go':>11}  {'ratio (range)':<24}{'ratio, cpu (range)':<24}{'c-runtime':>10}  {'ratio (range)':<24}")
for case, keys, workers in cases:
    ours = runs[case, keys, workers, "ours"]
    # Each row: what it is called, our figure, and theirs.
    memory = [(f"{case}, {kind}", "resident_bytes_per_key", f"{kind}_bytes_per_key") for kind in ("resident", "live")]
    rows = {
        "workers": [(f"{case}, {workers}", "ns_per_key", "ns_per_key")],
        "plain-workers": [(f"{case}, {workers}", "ns_per_key", "ns_per_key")],
        "plain-threads": [(f"{case}, {workers}", "ns_per_key", "ns_per_key")],
        "delayed": [(f"{case}, {way}", f"ns_per_key_{way}", f"ns_per_key_{way}") for way in ("in", "out")],
        "waiting-memory": memory,
        "back-off-memory": memory,
    }
    for name, own_field, their_field in rows.get(case, [(case, "ns_per_key", "ns_per_key")]):
        own = [run[own_field] for run in ours]
        line = f"{name:<28}{keys:>9}{statistics.median(own):>8.0f}"
        for side in ("client-go", "controller-runtime"):
            width = 11 if side == "client-go" else 10
            theirs = runs.get((case, keys, workers, side))
            if theirs is None:
                line += f"{'-':>{width}}  {'-':<24}"
                continue
            their = [run[their_field] for run in theirs]
            line += f"{statistics.median(their):>{width}.0f}  {ratio(own, their):<24}"
            if side == "client-go":
                cpu = "cpu_" + own_field
                has_cpu = cpu in ours[0]
                cpus = ratio([run[cpu] for run in ours], [run[cpu] for run in theirs]) if has_cpu else "-"
                line += f"{cpus:<24}"
        print(line.rstrip())
PYTHON
