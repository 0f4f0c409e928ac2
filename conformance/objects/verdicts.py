#!/usr/bin/env python3
"""Sends objects to an API server and records, or compares, its verdicts: the codes and the messages.

    verdicts.py record --server URL --crds FOLDER      writes recorded.json from a real kube-apiserver
    verdicts.py replay --server URL --crds FOLDER      compares the server with recorded.json

URL is plain HTTP as administrator, e.g. of `kubectl proxy` or of `evenkeel apiserver --plain-http`. FOLDER, by default
$EVENKEEL_CRD_DIR, has the definitions of Gateway API, cert-manager and prometheus-operator, which are not part of this repository.
"""

import argparse
import json
import os
import pathlib
import re
import sys
import time
import urllib.error
import urllib.request

from cases import every_case

RECORDED = pathlib.Path(__file__).parent / "recorded.json"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Server:
    def __init__(self, url):
        self.url = url.rstrip("/")

    def request(self, method, path, body=None, media="application/json"):
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        request = urllib.request.Request(self.url + path, data=data, method=method, headers={"Content-Type": media})
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            text = error.read()
            try:
                return error.code, json.loads(text)
            except ValueError:
                return error.code, {"message": text.decode(errors="replace")}

    def install(self, folder):
        """Installs every definition of the folder, and waits until all are served."""
        names = []
        for file in sorted(pathlib.Path(folder).glob("*.yaml")):
            status, answer = self.request("POST", DEFINITIONS, file.read_bytes(), "application/yaml")
            if status not in (201, 409):
                sys.exit(f"{file.name}: {status}: {answer.get('message')}")
            names.append(file.name)
        for _ in range(600):
            _, answer = self.request("GET", DEFINITIONS)
            waiting = [item["metadata"]["name"] for item in answer["items"] if not any(
                condition["type"] == "Established" and condition["status"] == "True" for condition in (item.get("status", {}).get("conditions") or []))]
            if not waiting:
                return names
            time.sleep(0.1)
        sys.exit(f"not established: {waiting}")

    def verdicts(self, path, steps):
        """Returns the verdict of each step. The object does not exist before and after."""
        item = f"{path}/{steps[0][1]['metadata']['name']}"
        verdicts, version = [], None
        for method, body in steps:
            if method == "PUT":
                body = {**body, "metadata": {**body["metadata"], "resourceVersion": version or "0"}}
            # The first requests after a definition is established may find the old resources.
            for _ in range(100):
                status, answer = self.request(method, path if method == "POST" else item, body)
                if status != 404:
                    break
                time.sleep(0.1)
            version = answer.get("metadata", {}).get("resourceVersion")
            verdicts.append({"code": status} if status < 300 else {"code": status, "message": answer.get("message")})
        self.request("DELETE", item)
        return verdicts


def comparable(verdicts):
    """Leaves out the order of errors: kube-apiserver reads properties from a map, in random order."""
    return [(verdict["code"], sorted(re.split(r", |: \[|\]$", verdict.get("message") or ""))) for verdict in verdicts or []]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "replay"])
    parser.add_argument("--server", required=True)
    parser.add_argument("--crds", default=os.environ.get("EVENKEEL_CRD_DIR"))
    parser.add_argument("--only", default="", help="cases with this text in their name")
    options = parser.parse_args()
    if not options.crds:
        print("skipped: neither --crds nor EVENKEEL_CRD_DIR names the folder of the definitions")
        return
    server = Server(options.server)
    server.install(options.crds)
    seen = {name: server.verdicts(path, steps) for name, path, steps in every_case() if options.only in name}
    if options.action == "record":
        _, version = server.request("GET", "/version")
        lines = ",\n".join(f"  {json.dumps(name, ensure_ascii=False)}: {json.dumps(verdicts, ensure_ascii=False)}" for name, verdicts in seen.items())
        RECORDED.write_text(f'{{"version": {json.dumps(version["gitVersion"])}, "verdicts": {{\n{lines}\n}}}}\n')
        rejected = sum(verdicts[-1]["code"] >= 300 for verdicts in seen.values())
        print(f"{len(seen)} cases recorded: {rejected} rejected, {len(seen) - rejected} accepted")
        return
    recorded = json.loads(RECORDED.read_text())["verdicts"]
    different = 0
    for name, verdicts in seen.items():
        if comparable(verdicts) != comparable(recorded.get(name)):
            different += 1
            print(f"{name}\n  recorded {json.dumps(recorded.get(name), ensure_ascii=False)}\n  here     {json.dumps(verdicts, ensure_ascii=False)}")
    wrong_code = sum([v["code"] for v in verdicts] != [v["code"] for v in recorded.get(name, [])] for name, verdicts in seen.items())
    print(f"{len(seen) - different} of {len(seen)} verdicts are equal; {wrong_code} have another code")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
