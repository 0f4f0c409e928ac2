#!/usr/bin/env bash
# Exec and port-forward of our client beside kube-rs' and kubectl, against the same servers: the programs in turns, several
# rounds, and a table of ratios.
#
#   bench/sessions.sh [ROUNDS] [BYTES of a transfer] [CASE...]
#
# Needs Go for the streaming server of Kubernetes, kubectl, and python3 for the table; memory and processor time are read from
# the kernel.
#
# A figure is the median of the rounds: MB/s of a transfer, and processor time of the client's process per GB. The time of a
# transfer of one byte is subtracted, and with it the start of the process. A ratio is ours over the other's for MB/s, and
# the other's over ours for processor time and memory: above 1 ours is better. The range is that of single rounds.
#
#   exec-out, exec-in      1 GB from or to a process. kubectl writes to /dev/null and reads from a sparse file; our client's and
#                          kube-rs' programs discard and make up the data.
#   forward-out, -in       1 GB through a local port that the program forwards: `kubectl port-forward`, our `listen`, and a
#                          listener around kube-rs' `portforward`. This script is the other end.
#   stream-out, -in        1 GB through the stream to a port, without a local port; kubectl has none.
#   exec-stopped,          the peak of resident memory while the server has the data ready and the reader has stopped.
#   forward-stopped
#
# The servers are the Go program of conformance/streaming, which is the code of kube-apiserver and container runtimes, and
# our embedded one. kube-rs' buffers of exec are enlarged from 1 KiB to 256 KiB, else it would be slower.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
(cd conformance/streaming && go build -o "$out/streaming" .)
cargo build --quiet --release --manifest-path bench/peers/Cargo.toml --bin sessions
target=$(cargo metadata --format-version 1 --no-deps --manifest-path bench/peers/Cargo.toml |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')

python3 - "$out" "$target/release/sessions" "$@" <<'PYTHON'
import json, os, re, socket, statistics, subprocess, sys, time

folder, program = sys.argv[1:3]
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
size = int(sys.argv[4]) if len(sys.argv) > 4 else 1_000_000_000
wanted = sys.argv[5:]
clients = ["evenkeel", "kube-rs", "kubectl"]
cases = ["exec-out", "exec-in", "forward-out", "forward-in", "stream-out", "stream-in", "exec-stopped", "forward-stopped"]
cases = [case for case in cases if not wanted or case in wanted]
PIPE, NULL = subprocess.PIPE, subprocess.DEVNULL


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


go = start([f"{folder}/streaming"])
addresses = json.loads(go.stdout.readline())
embedded = start([program, "serve", f"{folder}/embedded.kubeconfig"])
servers = {
    "Kubernetes' streaming code": kubeconfig("current", addresses["current"]),
    "embedded server": embedded.stdout.readline().strip(),
}
zeros = f"{folder}/zeros"


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


results = {}
for round in range(rounds):
    for server, config in servers.items():
        for case in cases:
            for client in clients[round % 3 :] + clients[: round % 3]:
                if client == "kubectl" and case.startswith("stream"):
                    continue
                if sys.stderr.isatty():
                    print(f"\r\x1b[Kround {round + 1} of {rounds}: {server}, {case}, {client}", end="", file=sys.stderr)
                try:
                    figures = measure(client, config, case)
                except (RuntimeError, OSError) as error:
                    print(f"{server}, {case}, {client}: {error}", file=sys.stderr)
                    continue
                for unit, figure in figures.items():
                    results.setdefault((server, case, unit), {}).setdefault(client, {})[round] = figure
if sys.stderr.isatty():
    print("\r\x1b[K", end="", file=sys.stderr)

for server in servers:
    print(f"{server}, transfers of {size / 1e6:.0f} MB, {rounds} rounds\n")
    print("| | evenkeel | kube-rs | kubectl |\n|---|---|---|---|")
    for (of, case, unit), by_client in results.items():
        if of != server:
            continue
        ours = by_client.get("evenkeel", {})
        line = f"| {case}, {unit} "
        for client in clients:
            theirs = by_client.get(client, {})
            if not theirs:
                line += "| – "
                continue
            line += f"| {statistics.median(theirs.values()):.3g}"
            both = [(ours[round], theirs[round]) for round in theirs if round in ours]
            if client != "evenkeel" and both:
                ratios = sorted(a / b if unit == "MB/s" else b / a for a, b in both)
                line += f" · {statistics.median(ratios):.2f}× ({ratios[0]:.2f}–{ratios[-1]:.2f})"
            line += " "
        print(line + "|")
    print()
for process in (go, embedded):
    process.kill()
    process.wait()
PYTHON
