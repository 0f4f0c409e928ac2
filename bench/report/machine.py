"""Prints the machine and the versions of what is compared as JSON."""

import json
import os
import pathlib
import platform
import re
import shutil
import subprocess


def output(*command):
    if shutil.which(command[0]) is None:
        return None
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def found(pattern, path):
    match = re.search(pattern, pathlib.Path(path).read_text(), re.MULTILINE)
    return match[1] if match else None


def main():
    go = output("go", "version")
    kubectl = output("kubectl", "version", "--client", "-o", "json")
    facts = {
        "cores": os.cpu_count(),
        "cpu": found(r"^model name\s*: (.*)$", "/proc/cpuinfo") or platform.machine(),
        "memory_gb": round(int(found(r"^MemTotal:\s*(\d+)", "/proc/meminfo")) * 1024 / 1e9),
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "versions": {
            "rustc": output("rustc", "--version").split()[1],
            "Go": go and go.split()[2].removeprefix("go"),
            "evenkeel": found(r'^version = "(.*)"$', "Cargo.toml"),
            "client-go": found(r"k8s.io/client-go v(\S+)", "bench/go/go.mod"),
            "controller-runtime": found(r"sigs.k8s.io/controller-runtime v(\S+)", "bench/go/go.mod"),
            "kube-rs": found(r'^name = "kube"\nversion = "(.*)"$', "bench/peers/Cargo.lock"),
            "kubectl": kubectl and json.loads(kubectl)["clientVersion"]["gitVersion"].removeprefix("v").split("-")[0],
        },
    }
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
