"""Measures exec and port-forward beside kube-rs and kubectl; `bench/sessions.sh` builds the programs and describes the
figures."""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import time

from report import figures

CLIENTS = ["evenkeel", "kube-rs", "kubectl"]
CASES = {
    "exec-out": "output of exec",
    "exec-in": "input of exec",
    "forward-out": "local port, download",
    "forward-in": "local port, upload",
    "stream-out": "stream, download",
    "stream-in": "stream, upload",
    "exec-stopped": "exec with a stopped reader",
    "forward-stopped": "local port with a stopped reader",
}
UNITS = {"MB/s": "MB/s", "s/GB": "CPU, s/GB", "MB": "peak memory, MB"}
PIPE, NULL = subprocess.PIPE, subprocess.DEVNULL

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("program")
parser.add_argument("rounds", type=int, nargs="?", default=3)
parser.add_argument("size", type=int, nargs="?", default=1_000_000_000, help="bytes of a transfer")
parser.add_argument("cases", nargs="*", default=[])
parser.add_argument("--json")
options = parser.parse_intermixed_args()
folder, program, size = options.folder, options.program, options.size
zeros = f"{folder}/zeros"


def start(arguments):
    return subprocess.Popen(arguments, stdin=PIPE, stdout=PIPE, text=True)


def kubeconfig(name, url):
    path = f"{folder}/{name}.kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    }
    with open(path, "w") as file:
        json.dump(content, file)
    return path


def kubectl(config, *arguments):
    return ["kubectl", "--kubeconfig", config, *arguments]


def run(arguments, stdin):
    """Runs a program; returns its elapsed and its processor time."""
    began = time.monotonic()
    process = subprocess.Popen(arguments, stdin=stdin, stdout=NULL)
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.monotonic() - began
    if status != 0:
        raise RuntimeError(f"{' '.join(arguments)} failed")
    return elapsed, usage.ru_utime + usage.ru_stime


def transfer(client, config, case, number):
    """Transfers in a process of its own."""
    if client != "kubectl":
        return run([program, "transfer", client, config, case, str(number)], NULL)
    if case == "exec-out":
        return run(kubectl(config, "exec", "web", "--", "produce", str(number)), NULL)
    with open(zeros, "wb") as data:
        data.truncate(number)
    with open(zeros, "rb") as data:
        return run(kubectl(config, "exec", "-i", "web", "--", "count", str(number)), data)


def cpu(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak(pid):
    return int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{pid}/status").read())[1]) * 1024


def listen(client, config):
    """Starts a program that forwards a port; returns it and the port."""
    if client != "kubectl":
        process = start([program, "listen", client, config])
        return process, int(process.stdout.readline())
    process = start(kubectl(config, "port-forward", "web", ":8"))
    return process, int(re.search(r"127.0.0.1:(\d+)", process.stdout.readline())[1])


def exchange(port, case, number):
    buffer = memoryview(bytearray(1 << 20))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        began = time.monotonic()
        if case == "forward-out":
            connection.sendall(f"get {number}\n".encode())
            received = 0
            while received < number:
                read = connection.recv_into(buffer)
                if read == 0:
                    raise RuntimeError(f"the data ended after {received} bytes")
                received += read
        else:
            connection.sendall(f"count {number}\n".encode())
            sent = 0
            while sent < number:
                sent += connection.send(buffer[: min(number - sent, len(buffer))])
            expected = f"{number} bytes\n".encode()
            answer = b""
            while len(answer) < len(expected):
                part = connection.recv(100)
                if not part:
                    raise RuntimeError(f"the server received {answer}")
                answer += part
        return time.monotonic() - began


def forward(client, config, case, number):
    process, port = listen(client, config)
    try:
        exchange(port, case, 1)
        before = cpu(process.pid)
        elapsed = exchange(port, case, number)
        return elapsed, cpu(process.pid) - before
    finally:
        process.kill()
        process.wait()


def settled(pid):
    """Returns the peak of memory once it is the same for two seconds."""
    last, unchanged = 0, 0
    while unchanged < 4:
        time.sleep(0.5)
        now = peak(pid)
        unchanged = unchanged + 1 if now == last else 0
        last = now
    return last


def stopped(client, config, case):
    if case == "forward-stopped":
        process, port = listen(client, config)
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(f"get {size}\n".encode())
        connection.recv(1)
    elif client == "kubectl":
        process = start(kubectl(config, "exec", "web", "--", "produce", str(size)))
    else:
        process = start([program, "transfer", client, config, "exec-out", str(size), "--stop"])
        process.stdout.readline()
    try:
        return settled(process.pid)
    finally:
        process.kill()
        process.wait()


def measure(client, config, case):
    if case.endswith("stopped"):
        return {"MB": stopped(client, config, case) / 1e6}
    if case.startswith("forward"):
        elapsed, processor = forward(client, config, case, size)
    else:
        least = transfer(client, config, case, 1)
        elapsed, processor = (figure - one for figure, one in zip(transfer(client, config, case, size), least))
    return {"MB/s": size / elapsed / 1e6, "s/GB": processor / size * 1e9}


def main():
    go = start([f"{folder}/streaming"])
    addresses = json.loads(go.stdout.readline())
    embedded = start([program, "serve", f"{folder}/embedded.kubeconfig"])
    servers = {
        "sessions-kubernetes": ("Kubernetes' streaming code", kubeconfig("current", addresses["current"])),
        "sessions-embedded": ("embedded server", embedded.stdout.readline().strip()),
    }
    cases = [case for case in CASES if not options.cases or case in options.cases]
    rounds = options.rounds
    tables = {name: figures.Table(title, rounds) for name, (title, _) in servers.items()}
    for round in range(rounds):
        for name, (server, config) in servers.items():
            for case in cases:
                for client in CLIENTS[round % 3 :] + CLIENTS[: round % 3]:
                    if client == "kubectl" and case.startswith("stream"):
                        continue
                    if sys.stderr.isatty():
                        print(f"\r\x1b[Kround {round + 1} of {rounds}: {server}, {case}, {client}", end="", file=sys.stderr)
                    try:
                        measured = measure(client, config, case)
                    except (RuntimeError, OSError) as error:
                        print(f"{server}, {case}, {client}: {error}", file=sys.stderr)
                        continue
                    for unit, figure in measured.items():
                        tables[name].add(f"{CASES[case]}, {UNITS[unit]}", client, round, figure, more=unit == "MB/s")
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    for process in (go, embedded):
        process.kill()
        process.wait()
    if options.json:
        figures.save(options.json, tables)
    for table in tables.values():
        print(f"{table.content['title']}, transfers of {size / 1e6:.0f} MB\n\n{figures.markdown(table.content)}")


if __name__ == "__main__":
    main()
