#!/usr/bin/env python3
"""Attacks the memory of `evenkeel apiserver` and prints its peak resident memory (VmHWM) after each attack.

    cargo build --profile measured -p evenkeel-cli
    tests/attack/memory.py target/measured/evenkeel [bodies|pretty|yaml|table|store ...] [--scale N]

Each attack runs against a server of its own. Exits with 1 if a peak exceeds the limit, or if the server does not respond afterwards.
"""

import argparse
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

# The most that an attack may add to the memory before it, in MB: the default budget is 2 GiB, and its shares for bodies and
# responses have 256 MiB each.
LIMITS = {"bodies": 400, "pretty": 400, "yaml": 400, "table": 400, "store": 2400}


class Server:
    def __init__(self, binary):
        self.process = subprocess.Popen(
            [binary, "apiserver", "--listen", "127.0.0.1:0", "--plain-http"], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), line
        self.port = int(line.rsplit(":", 1)[1])

    def memory(self, field):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(field + ":")) // 1024

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port))

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Http1:
    """A connection with one request at a time, or pipelined ones."""

    def __init__(self, server):
        self.socket = server.connect()
        self.file = self.socket.makefile("rb")

    def send(self, method, path, body=b"", headers=()):
        lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(body)}",
                 "content-type: application/json", *headers]
        self.socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def receive(self):
        code = int(self.file.readline().split()[1])
        length, chunked = 0, False
        while (line := self.file.readline().strip().lower()):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
            chunked = chunked or line == b"transfer-encoding: chunked"
        if not chunked:
            return code, self.file.read(length)
        body = b""
        while (size := int(self.file.readline(), 16)):
            body += self.file.read(size)
            self.file.readline()
        self.file.readline()
        return code, body

    def request(self, *request, **options):
        self.send(*request, **options)
        return self.receive()


def create(server, path, objects, window=100):
    connection = Http1(server)
    flying = 0
    for item in objects:
        connection.send("POST", path, json.dumps(item).encode())
        flying += 1
        if flying == window:
            for _ in range(flying):
                assert connection.receive()[0] == 201
            flying = 0
    for _ in range(flying):
        assert connection.receive()[0] == 201


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    def text(item):
        assert len(item) < 127
        return bytes([len(item)]) + item.encode()
    return b"\x00" + text(name) + text(value)


def bodies(server, scale):
    """HTTP/2 streams that send 2 MiB of their body and not the rest."""
    before = server.memory("VmRSS")
    path = "/api/v1/namespaces/default/configmaps"
    names = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "127.0.0.1"),
             ("content-type", "application/json")]
    headers = b"".join(literal(*pair) for pair in names)

    def attack():
        connection = server.connect()
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
        # Flow control: windows grow as the server reads.
        state = {"connection": 65535, "initial": 65535, "streams": {}}
        connection.settimeout(3)
        pending = {1 + 2 * index: 2 << 20 for index in range(100)}
        for stream in pending:
            connection.sendall(frame(1, 4, stream, headers))
            state["streams"][stream] = 0
        received = b""
        try:
            while pending:
                for stream in list(pending):
                    window = state["initial"] + state["streams"][stream]
                    while pending.get(stream) and min(window, state["connection"]) > 0:
                        size = min(16384, window, state["connection"], pending[stream])
                        connection.sendall(frame(0, 0, stream, b" " * size))
                        window -= size
                        state["streams"][stream] -= size
                        state["connection"] -= size
                        pending[stream] -= size
                        if not pending[stream]:
                            del pending[stream]
                data = connection.recv(1 << 16)
                if not data:
                    break
                received += data
                while len(received) >= 9:
                    length = int.from_bytes(received[:3], "big")
                    if len(received) < 9 + length:
                        break
                    kind, flags, stream = received[3], received[4], int.from_bytes(received[5:9], "big")
                    payload, received = received[9:9 + length], received[9 + length:]
                    if kind == 8 and stream == 0:
                        state["connection"] += int.from_bytes(payload, "big")
                    elif kind == 8:
                        state["streams"][stream] = state["streams"].get(stream, 0) + int.from_bytes(payload, "big")
                    elif kind == 4 and not flags & 1:
                        for at in range(0, length, 6):
                            if int.from_bytes(payload[at:at + 2], "big") == 4:
                                state["initial"] = int.from_bytes(payload[at + 2:at + 6], "big")
                        connection.sendall(frame(4, 1, 0, b""))
                    elif kind == 3 or (kind == 1 and flags & 1):
                        pending.pop(stream, None)
        except (OSError, TimeoutError):
            pass
        held.append(connection)

    held = []
    threads = [threading.Thread(target=attack) for _ in range(4 * scale)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return before, held


def unread(server, path, accept, connections):
    """Requests whose responses stay unread."""
    held = []
    for _ in range(connections):
        connection = Http1(server)
        connection.send("GET", path, headers=[f"accept: {accept}"])
        held.append(connection)
    last = None
    while (now := server.memory("VmHWM")) != last:
        last = now
        time.sleep(2)
    return held


def config_maps(server, count=2000, size=20_000):
    item = {"apiVersion": "v1", "kind": "ConfigMap", "data": {f"k{index}": "x" * 20 for index in range(size // 32)}}
    create(server, "/api/v1/namespaces/default/configmaps", ({**item, "metadata": {"name": f"m{i}"}} for i in range(count)))


def pretty(server, scale):
    """Unread indented lists of 40 MB."""
    config_maps(server)
    before = server.memory("VmRSS")
    return before, unread(server, "/api/v1/configmaps?pretty=true", "application/json", 30 * scale)


def yaml(server, scale):
    """Unread YAML lists of 40 MB."""
    config_maps(server)
    before = server.memory("VmRSS")
    return before, unread(server, "/api/v1/configmaps", "application/yaml", 4 * scale)


def table(server, scale):
    """Unread tables of 30,000 namespaces."""
    names = ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{index}"}} for index in range(30_000 * scale))
    create(server, "/api/v1/namespaces", names)
    before = server.memory("VmRSS")
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    return before, unread(server, "/api/v1/namespaces", accept, 4)


def store(server, scale):
    """Objects of 1 MB until one is refused, at most 4,000."""
    before = server.memory("VmRSS")
    connection = Http1(server)
    path = "/api/v1/namespaces/default/configmaps"
    for index in range(4000 * scale):
        item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{index}"}, "data": {"k": "x" * 1_000_000}}
        code, body = connection.request("POST", path, json.dumps(item).encode())
        if code != 201:
            print(f"  object {index}: {code} {json.loads(body)['message']}")
            assert connection.request("GET", path + "/m0")[0] == 200
            assert connection.request("DELETE", path + "/m0")[0] == 200
            break
    return before, connection


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("attacks", nargs="*", default=list(LIMITS))
    parser.add_argument("--scale", type=int, default=1)
    arguments = parser.parse_args()
    failed = False
    for name in arguments.attacks:
        server = Server(arguments.binary)
        try:
            before, held = globals()[name](server, arguments.scale)
            peak = server.memory("VmHWM")
            code = Http1(server).request("GET", "/version")[0]
            verdict = "ok" if peak - before <= LIMITS[name] and code == 200 else "TOO MUCH"
            failed = failed or verdict != "ok"
            print(f"{name:8} {before:6} MB before, peak {peak:6} MB, /version {code}: {verdict}", flush=True)
            del held
        except OSError as error:
            failed = True
            print(f"{name:8} failed: {error}; exit code {server.process.poll()}", flush=True)
        finally:
            server.stop()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
