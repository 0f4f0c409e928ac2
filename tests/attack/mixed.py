#!/usr/bin/env python3
"""Attacks `evenkeel apiserver` in several ways at once, beside a polite client.

    cargo build --profile measured && tests/attack/mixed.py --seconds 600

Prints the latency of `/version` and of the polite client, and the memory, descriptors, threads, requests and watches of
the server before, during and after. Fails if something that the server acknowledged is lost, if a figure exceeds its limit,
or if descriptors, requests or watches remain. Attackers and the polite client have tokens of different service accounts, so the server treats them
as different users. Needs Python 3.9 and nothing else.
"""

import argparse
import collections
import http.client
import json
import multiprocessing
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

ADMIN = "attack-admin-token"
HOST = "127.0.0.1"
MAPS = "/api/v1/namespaces/{}/configmaps"


class Client:
    """One connection, reopened when it breaks."""

    def __init__(self, port, token, timeout=70):
        self.port, self.token, self.timeout, self.connection = port, token, timeout, None

    def send(self, method, path, body=None, media="application/json", headers=None):
        if self.connection is None:
            self.connection = http.client.HTTPConnection(HOST, self.port, timeout=self.timeout)
        data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": media, **(headers or {})}
        try:
            self.connection.request(method, path, data, headers)
            response = self.connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            raise


def config_map(name, data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


# ---- the attacks -------------------------------------------------------------------------------------------------

def json_patches(port, token, stop, counts):
    """Patches with 10,000 operations on an object of 1 MB."""
    client, name = Client(port, token), f"patched-{os.getpid()}"
    path = MAPS.format("attack")
    client.send("POST", path, config_map(name, {f"k{i}": "x" * 90 for i in range(9000)}))
    patch = json.dumps([{"op": "replace", "path": f"/data/k{i % 9000}", "value": str(i)} for i in range(10000)])
    while not stop.is_set():
        status, _ = client.send("PATCH", f"{path}/{name}", patch, "application/json-patch+json")
        counts[status] += 1


def large_bodies(port, token, stop, counts):
    """Objects of 1 MB, created and deleted, and bodies that are too large."""
    client, path = Client(port, token), MAPS.format("attack")
    large = config_map(f"large-{os.getpid()}", {"key": "x" * 1_000_000})
    oversized = b" " * (3 * 1024 * 1024 + 1)
    while not stop.is_set():
        counts[client.send("POST", path, large)[0]] += 1
        counts[client.send("DELETE", f"{path}/{large['metadata']['name']}")[0]] += 1
        try:
            counts[client.send("POST", path, oversized)[0]] += 1
        except OSError:
            counts["refused"] += 1


def costly_schema(port, token, stop, counts):
    """Small custom objects that a schema makes large."""
    client, plural = Client(port, token), f"bombs{os.getpid()}"
    item = {"type": "object", "properties": {f"p{i}": {"type": "string", "default": "x" * 20} for i in range(20)}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "items": {"type": "array", "items": item}}}}}
    client.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.attack.dev"},
        "spec": {"group": "attack.dev", "scope": "Namespaced",
                 "names": {"plural": plural, "singular": plural, "kind": plural.title(), "listKind": plural.title() + "List"},
                 "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]}})
    path = f"/apis/attack.dev/v1/namespaces/attack/{plural}"
    bomb = {"apiVersion": "attack.dev/v1", "kind": plural.title(), "metadata": {"generateName": "b-"},
            "spec": {"items": [{} for _ in range(2000)]}}
    while not stop.is_set():
        status, body = client.send("POST", path, bomb)
        counts[status] += 1
        if status == 201:
            client.send("DELETE", f"{path}/{json.loads(body)['metadata']['name']}")


def trickled_bodies(port, token, stop, counts):
    """Two hundred bodies of one byte a second."""
    head = (f"POST {MAPS.format('attack')} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: 3000000\r\n\r\n").encode()
    streams = []
    while not stop.is_set():
        while len(streams) < 200:
            streams.append(socket.create_connection((HOST, port)))
            streams[-1].sendall(head)
            counts["opened"] += 1
        for stream in list(streams):
            try:
                stream.sendall(b" ")
            except OSError:
                streams.remove(stream)
                counts["ended"] += 1
        stop.wait(1)


def idle_connections(port, token, stop, counts):
    """More connections than the server admits, each after a 401."""
    request = b"GET /api HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\r\n"
    streams = collections.deque()
    while not stop.is_set():
        try:
            stream = socket.create_connection((HOST, port), timeout=5)
            stream.sendall(request)
            streams.append(stream)
            counts["opened"] += 1
        except OSError:
            counts["refused"] += 1
        if len(streams) > 4100:
            streams.popleft().close()
        stop.wait(0.002)


def unread_responses(port, token, stop, counts):
    """Watches and pretty lists whose client reads nothing."""
    streams, number = [], 0
    while not stop.is_set():
        number += 1
        query = "watch=1" if number % 2 else "pretty=1"
        request = (f"GET {MAPS.format('attack')}?{query} HTTP/1.1\r\nHost: localhost\r\n"
                   f"Authorization: Bearer {token}\r\n\r\n")
        try:
            stream = socket.socket()
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stream.connect((HOST, port))
            stream.sendall(request.encode())
            streams.append(stream)
            counts["opened"] += 1
        except OSError:
            counts["refused"] += 1
        if len(streams) > 300:
            streams.pop(0).close()
        stop.wait(0.02)


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def http2_floods(port, token, stop, counts):
    """Rapid resets, pings, settings, and streams without an end."""
    path = b"/version"
    block = bytes([0x82, 0x86, 0x04, len(path)]) + path + bytes([0x01, 9]) + b"localhost"
    while not stop.is_set():
        kind = random.choice(["resets", "pings", "settings", "unfinished"])
        try:
            stream = socket.create_connection((HOST, port), timeout=5)
            stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0))
            flood = b""
            for number in range(500):
                one = number * 2 + 1
                flood += {
                    "resets": frame(1, 5, one, block) + frame(3, 0, one, b"\0\0\0\x08"),
                    "pings": frame(6, 0, 0, b"12345678"),
                    "settings": frame(4, 0, 0, b"\0\x04\0\0\xff\xff"),
                    "unfinished": frame(1, 4, one, block) + frame(0, 0, one, b" " * 100),
                }[kind]
            for _ in range(4):
                stream.sendall(flood)
                counts[kind] += 1
            stream.close()
        except OSError:
            counts["ended"] += 1
        stop.wait(0.02)


ATTACKS = [json_patches, json_patches, large_bodies, costly_schema, trickled_bodies, idle_connections,
           unread_responses, http2_floods]


def attack(function, port, token, stop, results):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    counts = collections.Counter()
    while not stop.is_set():
        try:
            function(port, token, stop, counts)
        except (OSError, http.client.HTTPException):
            counts["broken"] += 1
            stop.wait(0.1)
    results.put((function.__name__, dict(counts)))


# ---- the polite client -------------------------------------------------------------------------------------------

def polite(port, token, stop, results):
    """Creates, reads, updates and deletes small objects, and checks that each is as acknowledged."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    client, path = Client(port, token, timeout=10), MAPS.format("polite")
    times, problems, kept, number = collections.defaultdict(list), [], {}, 0
    def timed(what, *arguments):
        start = time.monotonic()
        try:
            status, body = client.send(*arguments)
        except (OSError, http.client.HTTPException) as error:
            problems.append(f"{what}: {error!r}")
            return 0, b""
        times[what].append(time.monotonic() - start)
        if status >= 400:
            problems.append(f"{what}: {status} {body[:200]!r}")
        return status, body
    while not stop.is_set():
        number += 1
        name = f"map-{number}"
        timed("version", "GET", "/version")
        if timed("create", "POST", path, config_map(name, {"n": "0"}))[0] == 201:
            kept[name] = "0"
        if timed("update", "PUT", f"{path}/{name}", config_map(name, {"n": "1"}))[0] == 200:
            kept[name] = "1"
        status, body = timed("get", "GET", f"{path}/{name}")
        if status == 200 and json.loads(body)["data"]["n"] != kept[name]:
            problems.append(f"{name} is not as acknowledged")
        if number % 2 and timed("delete", "DELETE", f"{path}/{name}")[0] == 200:
            del kept[name]
        stop.wait(0.02)
    results.put((dict(times), problems, kept))


def percentile(values, fraction):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))] * 1000 if ordered else 0.0


# ---- the server --------------------------------------------------------------------------------------------------

def figures(pid):
    with open(f"/proc/{pid}/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    megabytes = lambda key: int(fields[key].split()[0]) // 1024
    return {"rss_mb": megabytes("VmRSS"), "peak_mb": megabytes("VmHWM"), "threads": int(fields["Threads"]),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


def gauges(port):
    """What must be as before once the attackers are gone: requests in flight, watches, connections, buffered bytes."""
    _, body = Client(port, ADMIN).send("GET", "/metrics")
    names = ("apiserver_current_inflight_requests", "evenkeel_apiserver_store_watchers", "evenkeel_apiserver_connections",
             "evenkeel_apiserver_memory_request_bodies_bytes", "evenkeel_apiserver_memory_responses_bytes")
    rows = (line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in rows if name.split("{")[0] in names}


def service_account(admin, namespace):
    admin.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    admin.send("POST", path, {"metadata": {"name": "client"}})
    status, body = admin.send("POST", f"{path}/client/token",
                              {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
    assert status == 201, body
    return json.loads(body)["status"]["token"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--binary", default="target/measured/evenkeel")
    parser.add_argument("--memory-mb", type=int, default=1024, help="the limit of the server's peak memory")
    parser.add_argument("--version-ms", type=float, default=50, help="the limit of the p99 of /version")
    parser.add_argument("--polite-ms", type=float, default=100, help="the limit of the p99 of the polite client")
    parser.add_argument("--log", default=os.devnull, help="the file for what the server logs")
    parser.add_argument("--only", help="the attacks to run, separated by commas")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    log = open(arguments.log, "w")
    server = subprocess.Popen(
        [arguments.binary, "apiserver", "--listen", f"{HOST}:0", "--plain-http", "--token", ADMIN],
        stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        line = server.stdout.readline()
        port = int(line.strip().rsplit(":", 1)[1])
        threading.Thread(target=server.stdout.read, daemon=True).start()
        admin = Client(port, ADMIN)
        attacker, guest = service_account(admin, "attack"), service_account(admin, "polite")
        admin.connection.close()
        before, gauges_before = figures(server.pid), gauges(port)
        stop, results, measured = multiprocessing.Event(), multiprocessing.Queue(), multiprocessing.Queue()
        attacks = [a for a in ATTACKS if not arguments.only or a.__name__ in arguments.only.split(",")]
        processes = [multiprocessing.Process(target=attack, args=(a, port, attacker, stop, results)) for a in attacks]
        guest_process = multiprocessing.Process(target=polite, args=(port, guest, stop, measured))
        for process in [*processes, guest_process]:
            process.start()
        end, most = time.monotonic() + arguments.seconds, before["descriptors"]
        while time.monotonic() < end and server.poll() is None:
            time.sleep(0.5)
            most = max(most, figures(server.pid)["descriptors"]) if server.poll() is None else most
        during = figures(server.pid) if server.poll() is None else None
        stop.set()
        times, problems, kept = measured.get(timeout=120)
        reports = [results.get(timeout=120) for _ in processes]
        for process in [*processes, guest_process]:
            process.join()
        failures = list(problems[:5]) + ([f"... {len(problems)} problems of the polite client"] if problems else [])
        for name, counts in reports:
            print(f"attack {name:18}", counts)
        for what, values in times.items():
            p50, p99, worst = percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1)
            print(f"polite {what:8} n={len(values):6} p50={p50:7.2f} ms p99={p99:7.2f} ms max={worst:7.2f} ms", flush=True)
            if p99 > (arguments.version_ms if what == "version" else arguments.polite_ms):
                failures.append(f"p99 of {what} is {p99:.1f} ms")
        if during is None:
            failures.append(f"the server ended with {server.returncode}")
        else:
            status, body = Client(port, ADMIN).send("GET", MAPS.format("polite"))
            found = {item["metadata"]["name"]: item["data"]["n"] for item in json.loads(body)["items"] if "data" in item
                     and item["metadata"]["name"].startswith("map-")}
            if found != kept:
                failures.append(f"lost or resurrected: {set(found.items()) ^ set(kept.items())}")
            for _ in range(100):
                after, gauges_after = figures(server.pid), gauges(port)
                if after["descriptors"] <= before["descriptors"] and gauges_after == gauges_before:
                    break
                time.sleep(1)
            print("server before ", before)
            print("server during ", during, "most descriptors", most)
            print("server after  ", after)
            if after["descriptors"] > before["descriptors"]:
                failures.append(f"{after['descriptors'] - before['descriptors']} descriptors remain")
            if gauges_after != gauges_before:
                failures.append(f"remains: {set(gauges_after.items()) - set(gauges_before.items())}")
            if after["peak_mb"] > arguments.memory_mb:
                failures.append(f"peak memory {after['peak_mb']} MB")
        for failure in failures:
            print("FAILED", failure)
        sys.exit(1 if failures else 0)
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()


if __name__ == "__main__":
    main()
