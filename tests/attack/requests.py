#!/usr/bin/env python3
"""Sends the most expensive requests known to `evenkeel apiserver` and prints what each costs.

    cargo build --profile measured -p evenkeel-cli
    tests/attack/requests.py target/measured/evenkeel [ATTACK ...]

Each attack runs against a server of its own. A second client asks for `/version` every five milliseconds; its worst latency
is printed, with the status and the time of the attack's last response, the time of all its requests, and the peak memory.
Exits with 1 if an attack takes more than 10 seconds or 600 MB, or if `/version` takes more than 250 ms. Needs Python 3.9 and
nothing else.
"""

import http.client
import json
import subprocess
import sys
import threading
import time

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/attack.dev/v1/namespaces/default/widgets"


class Server:
    def __init__(self, binary):
        self.process = subprocess.Popen([binary, "apiserver", "--listen", "127.0.0.1:0", "--plain-http"],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])
        self.connection = self.connect()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=130)

    def send(self, method, path, body=None, media="application/json"):
        data = None if body is None else json.dumps(body)
        self.connection.request(method, path, data, {"Content-Type": media})
        response = self.connection.getresponse()
        return response.status, response.read()

    def peak(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) // 1024


def config_map(data, **metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}, "data": data}


def pod(**spec):
    containers = [{"name": "c", "image": "i"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": containers, **spec}}


def define(server, spec):
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return server.send("POST", CRDS, {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.attack.dev"},
        "spec": {"group": "attack.dev", "scope": "Namespaced", "names": names, "versions": [version]}})


def widget(server, spec):
    body = {"apiVersion": "attack.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}
    return server.send("POST", WIDGETS, body)


def array_of(items):
    return {"type": "object", "properties": {"items": {"type": "array", "items": items}}}


# ---- the attacks: each yields the responses of its requests --------------------------------------------------------

def patch_inserts(server):
    """a JSON patch with 10,000 inserts at the front of 20,000"""
    finalizers = [f"attack.dev/f{i}" for i in range(20_000)]
    yield server.send("POST", MAPS, config_map({}, finalizers=finalizers))
    insert = [{"op": "add", "path": "/metadata/finalizers/0", "value": f"attack.dev/n{i}"} for i in range(10_000)]
    yield server.send("PATCH", f"{MAPS}/a", insert, "application/json-patch+json")


def owner_references(server):
    """40,000 owner references"""
    owners = [{"apiVersion": "v1", "kind": "P", "name": "p", "uid": f"{i}"} for i in range(40_000)]
    yield server.send("POST", MAPS, config_map({}, ownerReferences=owners))


def volumes(server):
    """30,000 volumes"""
    yield server.send("POST", PODS, pod(volumes=[{"name": f"v{i}", "emptyDir": {}} for i in range(30_000)]))


def bad_labels(server):
    """50,000 invalid labels"""
    yield server.send("POST", MAPS, config_map({}, labels={f"-{i}-": "!" for i in range(50_000)}))


def ports(server):
    """a container with 20,000 ports"""
    numbers = [{"containerPort": 1 + i, "name": f"p{i}"} for i in range(20_000)]
    yield server.send("POST", PODS, pod(containers=[{"name": "c", "image": "i", "ports": numbers}]))


def enums(server):
    """200,000 items checked against an enum of 1,000 values"""
    yield define(server, array_of({"type": "string", "enum": [f"value-{i}" for i in range(1000)]}))
    yield widget(server, {"items": ["value-999"] * 200_000})


def any_of(server):
    """200,000 items checked against 50 alternatives"""
    alternatives = [{"pattern": f"^v{i}$"} for i in range(50)]
    yield define(server, array_of({"type": "string", "anyOf": alternatives}))
    yield widget(server, {"items": ["x"] * 200_000})


def defaults(server):
    """a request of 6 KB that a schema's defaults make large"""
    item = {"type": "object", "properties": {f"p{i}": {"type": "string", "default": "x" * 1000} for i in range(200)}}
    yield define(server, array_of(item))
    yield widget(server, {"items": [{}] * 2000})


def patterns(server):
    """a definition with 1,000 large patterns"""
    properties = {f"p{i}": {"type": "string", "pattern": f"^\\pL{{1,300}}{i}$"} for i in range(1000)}
    yield define(server, {"type": "object", "properties": properties})


def growing_patches(server):
    """60 merge patches of 1 MB that grow one object"""
    yield define(server, {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    yield widget(server, {})
    for number in range(60):
        grown = {"spec": {f"k{number}": "x" * 1_000_000}}
        yield server.send("PATCH", f"{WIDGETS}/a", grown, "application/merge-patch+json")


def history(server):
    """300 patches of an object of 1 MB, and its deletion"""
    yield server.send("POST", MAPS, config_map({"key": "x" * 1_000_000}))
    for number in range(300):
        yield server.send("PATCH", f"{MAPS}/a", {"data": {"n": str(number)}}, "application/merge-patch+json")
    yield server.send("DELETE", f"{MAPS}/a")


ATTACKS = [patch_inserts, owner_references, volumes, bad_labels, ports, enums, any_of, defaults, patterns, growing_patches,
           history]


def ask_for_version(server, stop, times):
    connection = server.connect()
    while not stop.wait(0.005):
        start = time.monotonic()
        connection.request("GET", "/version")
        connection.getresponse().read()
        times.append(time.monotonic() - start)


def main():
    binary, chosen = sys.argv[1], sys.argv[2:]
    failed = False
    print(f"{'attack':<58}{'status':>7}{'last ms':>9}{'all ms':>9}{'/version ms':>13}{'peak MB':>9}")
    for attack in ATTACKS:
        if chosen and attack.__name__ not in chosen:
            continue
        server, stop, times = Server(binary), threading.Event(), []
        asking = threading.Thread(target=ask_for_version, args=(server, stop, times))
        asking.start()
        try:
            first = last = time.monotonic()
            for status, _ in attack(server):
                previous, last = last, time.monotonic()
            stop.set()
            asking.join()
            took, worst, peak = last - first, max(times, default=0.0), server.peak()
            print(f"{attack.__doc__:<58}{status:>7}{(last - previous) * 1000:>9.0f}{took * 1000:>9.0f}"
                  f"{worst * 1000:>13.1f}{peak:>9}", flush=True)
            failed = failed or took > 10 or worst > 0.25 or peak > 600
        finally:
            stop.set()
            server.process.terminate()
            server.process.wait()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
