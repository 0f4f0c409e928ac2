"""Runs programs that print their figures as lines of JSON, in turns for several rounds, and collects them in one table.

    python3 -m report.cases ROUNDS --name NAME --title TITLE [--json FILE] [--of PROGRAM COMMAND] COMMAND…

A line is {"title": …, "value": …, "more": …}, or the last line of the benchmark `reconcile`. `--of` adds another program than
evenkeel.
"""

import argparse
import json
import shlex
import subprocess

from report import figures


def lines(line):
    """Returns title, value, whether more is better, and processor time of each figure of a line."""
    if line.get("benchmark") != "reconcile":
        return [(line["title"], line["value"], line["more"], None)]
    found = []
    for run in line["runs"]:
        threads = "1 thread" if run["threads"] == 1 else f"{run['threads']} threads"
        title = f"{run['running']:,} in flight, {threads}, event from a {run['from']}: median, µs"
        found.append((title, run["p50_us"], False, run["cpu_us_per_event"]))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", type=int)
    parser.add_argument("--name", required=True)
    parser.add_argument("--title", required=True)
    parser.add_argument("--json")
    parser.add_argument("--of", nargs=2, action="append", default=[], metavar=("PROGRAM", "COMMAND"))
    parser.add_argument("commands", nargs="*")
    options = parser.parse_intermixed_args()
    commands = [(figures.OURS, command) for command in options.commands] + options.of
    table = figures.Table(options.title, options.rounds)
    for round in range(options.rounds):
        for program, command in commands:
            output = subprocess.run(shlex.split(command), check=True, stdout=subprocess.PIPE, text=True).stdout
            printed = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
            if not printed:
                raise figures.Missing(f"{command} printed no figures")
            for line in printed:
                for title, value, more, cpu in lines(line):
                    table.add(title, program, round, value, more, cpu)
    if options.json:
        figures.save(options.json, {options.name: table})
    print(figures.markdown(table.content), end="")


if __name__ == "__main__":
    main()
