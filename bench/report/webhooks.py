"""Measures our webhook server beside controller-runtime's; `bench/webhooks.sh` builds the programs and describes the figures."""

import argparse
import json
import subprocess
import sys

from report import figures

PEER = "controller-runtime"
HOOKS = [("validate", "/validate--v1-pod"), ("mutate", "/mutate--v1-pod")]
CONNECTIONS = [4, 32]
# What the load prints, what it is called, and whether more is better.
MEASURES = [
    ("requests_per_s", "requests/s", True),
    ("p50_us", "p50, µs", False),
    ("p99_us", "p99, µs", False),
    ("server_cpu_us", "CPU of the server per request, µs", False),
    ("client_cpu_us", "CPU of the client per request, µs", False),
]


def add(table, program, round, hook, connections, measured):
    """Adds what the load has measured in one run."""
    for field, unit, more in MEASURES:
        title = f"{hook}, {connections} connections: {unit}"
        table.add(title, program, round, measured[field], more)
        if field == "client_cpu_us":
            next(row for row in table.content["rows"] if row["title"] == title)["compared"] = False


def run(server, client, folder, path, connections, seconds):
    """Starts a server, calls it, and returns what the client has measured."""
    process = subprocess.Popen(server, stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().strip()
        if not address:
            raise figures.Missing(f"{' '.join(server)} did not start")
        load = [client, "webhooks", "load", address, "--ca", f"{folder}/ca.crt", "--path", path, "--server", str(process.pid)]
        load += ["--connections", str(connections), "--seconds", str(seconds), "--warm-up", str(min(2.0, seconds / 2))]
        output = subprocess.run(load, check=True, stdout=subprocess.PIPE, text=True).stdout
        return json.loads(output)
    finally:
        process.kill()
        process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", type=int)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--go")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--json")
    options = parser.parse_args()
    folder = f"{options.folder}/certificates"
    subprocess.run([options.ours, "webhooks", "certificate", folder], check=True)
    servers = [(figures.OURS, [options.ours, "webhooks", "serve", folder])]
    if options.go:
        servers.append((PEER, [options.go, "-certificates", folder]))
    table = figures.Table("webhooks", options.rounds)
    for round in range(options.rounds):
        for hook, path in HOOKS:
            for connections in CONNECTIONS:
                # The first one changes from round to round.
                for program, server in servers[round % 2 :] + servers[: round % 2]:
                    if sys.stderr.isatty():
                        print(f"\r\x1b[Kround {round + 1}: {hook}, {connections} connections, {program}", end="", file=sys.stderr)
                    measured = run(server, options.ours, folder, path, connections, options.seconds)
                    add(table, program, round, hook, connections, measured)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    if options.json:
        figures.save(options.json, {"webhooks": table})
    print(figures.markdown(table.content), end="")


if __name__ == "__main__":
    main()
