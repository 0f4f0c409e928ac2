"""Measures the work queue beside client-go's and controller-runtime's; `bench/queue.sh` builds the programs and describes the
figures."""

import argparse
import json
import subprocess
import sys

from report import figures

MILLION = 1_000_000
CASES = [
    ("plain-add", MILLION, 1),
    ("plain-get-done", MILLION, 1),
    ("plain-workers", MILLION, 1),
    ("plain-workers", MILLION, 4),
    ("plain-workers", MILLION, 16),
    ("plain-threads", MILLION, 1),
    ("plain-threads", MILLION, 4),
    ("plain-threads", MILLION, 16),
    ("add", MILLION, 1),
    ("get-done", MILLION, 1),
    ("workers", MILLION, 1),
    ("workers", MILLION, 4),
    ("workers", MILLION, 16),
    ("delayed", MILLION // 5, 1),
    ("delayed", 10 * MILLION, 1),
    ("rate-limited", MILLION, 1),
    ("waiting-memory", 10 * MILLION, 1),
    ("back-off-memory", MILLION, 1),
]
TITLES = {
    "add": "add",
    "get-done": "get and done",
    "workers": "workers",
    "threads": "threads",
    "delayed": "delayed keys",
    "rate-limited": "rate-limited add",
    "waiting-memory": "memory of a delayed key",
    "back-off-memory": "memory of a key in backoff",
}


def rows(case, keys, workers):
    """Returns the rows of a case: what each is called, our figure, and theirs."""
    plain = case.startswith("plain-")
    kind = case.removeprefix("plain-")
    title = TITLES[kind]
    if kind in ("workers", "threads"):
        title = f"{workers} {title if workers > 1 else title.removesuffix('s')}"
    if plain:
        title = f"plain, {title}"
    if kind == "delayed":
        return [(f"{title}, {way}, {keys:,}, ns", f"ns_per_key_{way}", f"ns_per_key_{way}") for way in ("in", "out")]
    if kind.endswith("memory"):
        # How much of our memory is live is not measured.
        return [(f"{title}, {what}, bytes", "resident_bytes_per_key", f"{what}_bytes_per_key") for what in ("resident", "live")]
    return [(f"{title}, ns", "ns_per_key", "ns_per_key")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", type=int)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--go")
    parser.add_argument("--json")
    parser.add_argument("--keys", type=int, help="the same number in all cases, for a quick run")
    options = parser.parse_args()
    cases = CASES
    if options.keys:
        cases = list(dict.fromkeys((case, options.keys, workers) for case, _, workers in cases))
    sides = {figures.OURS: [options.ours, "bench", "queue"]}
    if options.go:
        sides["client-go"] = [options.go, "--queue", "client-go"]
        sides["controller-runtime"] = [options.go, "--queue", "controller-runtime"]

    table = figures.Table("work queue", options.rounds)
    for round in range(options.rounds):
        for case, keys, workers in cases:
            for side, command in sides.items():
                if (side, case) == ("controller-runtime", "delayed"):
                    continue
                if sys.stderr.isatty():
                    print(f"\r\x1b[Kround {round + 1} of {options.rounds}: {case}, {keys} keys, {side}", end="", file=sys.stderr)
                # Goroutines are the only workers of the others.
                theirs = {"plain-threads": "plain-workers"}.get(case, case)
                name = case if side == figures.OURS else theirs
                arguments = ["--case", name, "--keys", str(keys), "--workers", str(workers)]
                output = subprocess.run(command + arguments, check=True, stdout=subprocess.PIPE).stdout
                run = json.loads(output)
                for title, own, their in rows(case, keys, workers):
                    field = own if side == figures.OURS else their
                    # Threads that have ended are missing in the processor time of our process.
                    cpu = None if case == "plain-threads" else run.get(f"cpu_{field}")
                    table.add(title, side, round, run[field], cpu=cpu)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    if options.json:
        figures.save(options.json, {"queue": table})
    print(figures.markdown(table.content), end="")


if __name__ == "__main__":
    main()
