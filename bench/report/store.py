"""Measures the store beside client-go's; `bench/store.sh` builds the programs and describes the figures."""

import argparse
import json
import subprocess

from report import figures

TITLES = {
    "memory": "memory beyond the object",
    "get": "`get`",
    "get_and_read": "`get`, and a read of the object",
    "snapshot_get": "`get` through a `snapshot()`",
    "by_index_1000": "`by_index`, 1,000 found",
    "by_index_100": "`by_index`, 100 found",
    "by_index_visit": "by index, 100 visited",
    "list": "all objects into a list",
    "visit_all": "all objects visited",
    "mixed_1_percent_writes": "`get`, 1 % `put`",
    "mixed_10_percent_writes": "`get`, 10 % `put`",
    "put": "`put`",
    "replace_all_new": "a relist, all objects changed",
    "replace_all_known": "a relist, no object changed",
    "add_index_label": "index by a label, added later",
    "add_index_field": "index by a field, added later",
}


def add(table, program, round, runs):
    for run in runs:
        case, threads = run["case"], run["threads"]
        names = [case]
        if program != figures.OURS and case == "get":
            # A look-up in a snapshot and one in the store are both compared with client-go's get.
            names.append("snapshot_get")
        for name in names:
            title = TITLES.get(name, name) + (f", {threads} threads" if threads > 1 else "")
            if "bytes_per_object" in run:
                table.add(f"{title}, bytes", program, round, run["bytes_per_object"])
            else:
                table.add(f"{title}, ns", program, round, run["ns_per_op"], cpu=run["cpu_ns_per_op"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", type=int)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--client-go")
    parser.add_argument("--json")
    options, arguments = parser.parse_known_args()
    table = figures.Table("store", options.rounds)
    sides = {figures.OURS: [options.ours, "store"], "client-go": [options.client_go]}
    for round in range(options.rounds):
        for program, command in sides.items():
            if command[0]:
                output = subprocess.run(command + arguments, check=True, stdout=subprocess.PIPE, text=True).stdout
                add(table, program, round, map(json.loads, output.splitlines()))
    if options.json:
        figures.save(options.json, {"store": table})
    print(figures.markdown(table.content), end="")


if __name__ == "__main__":
    main()
