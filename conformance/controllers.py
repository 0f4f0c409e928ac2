#!/usr/bin/env python3
"""Runs kube-controller-manager and kube-scheduler against an API server, and checks what they achieve there.

    controllers.py --kubeconfig FILE --binaries FOLDER [--only TEXT]

FOLDER has kubectl, kube-controller-manager and kube-scheduler. The server must be empty. Prints PASS or FAIL for each check, and the count.
There is no kubelet: the checks write the status of nodes and pods.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

CHECKS = []
SECONDS = 25


def check(function):
    CHECKS.append(function)
    return function


class Cluster:
    def __init__(self, kubeconfig, binaries):
        self.command = [str(binaries / "kubectl"), "--kubeconfig", kubeconfig]

    def run(self, *arguments, stdin=None):
        done = subprocess.run([*self.command, *arguments], input=stdin, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def create(self, kind, name, spec=None, version="v1", **more):
        metadata = {"name": name, **more.pop("metadata", {})}
        body = {"apiVersion": version, "kind": kind, "metadata": metadata, **({"spec": spec} if spec is not None else {}), **more}
        return self.run("create", "-f", "-", stdin=json.dumps(body))

    def get(self, kind, name=None, namespace="default", selector=None):
        arguments = ["get", kind, *([name] if name else []), "-n", namespace, "-o", "json", "--ignore-not-found"]
        text = self.run(*arguments, *(["-l", selector] if selector else []))
        if not text:
            return None
        return json.loads(text) if name else json.loads(text)["items"]

    def status(self, kind, name, status):
        self.run("patch", kind, name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))

    def until(self, what, condition):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if result := condition():
                return result
            time.sleep(0.3)
        raise AssertionError(f"not within {SECONDS} s: {what}")

    def node(self, name, **spec):
        self.create("Node", name, spec, metadata={"labels": {"kubernetes.io/hostname": name}})
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2100-01-01T00:00:00Z", "lastTransitionTime": "2024-01-01T00:00:00Z"}
        size = {"cpu": "4", "memory": "4Gi", "pods": "100"}
        self.status("node", name, {"capacity": size, "allocatable": size, "conditions": [ready]})

    def pods_ready(self, selector):
        for pod in self.get("pods", selector=selector):
            if not pod["spec"].get("nodeName"):
                continue
            condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}
            self.status("pod", pod["metadata"]["name"], {"phase": "Running", "podIP": "192.0.2.9", "podIPs": [{"ip": "192.0.2.9"}], "conditions": [condition]})

    def pods_end(self, selector, phase="Succeeded"):
        for pod in self.get("pods", selector=selector):
            self.status("pod", pod["metadata"]["name"], {"phase": phase})


def template(app, **spec):
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def workload(app, **more):
    return {"selector": {"matchLabels": {"app": app}}, "template": template(app), **more}


@check
def scheduler_binds_a_pod(c):
    c.create("Pod", "bound", template("bound")["spec"])
    c.until("nodeName", lambda: c.get("pod", "bound")["spec"].get("nodeName"))


@check
def scheduler_reports_an_unschedulable_pod(c):
    c.create("Pod", "large", {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1000"}}}]})
    c.until("PodScheduled is False", lambda: any(x["reason"] == "Unschedulable" for x in c.get("pod", "large")["status"].get("conditions", []) if "reason" in x))


@check
def priority_is_resolved(c):
    c.create("PriorityClass", "important", version="scheduling.k8s.io/v1", value=1000)
    c.create("Pod", "prioritised", {**template("p")["spec"], "priorityClassName": "important"})
    c.until("priority", lambda: c.get("pod", "prioritised")["spec"].get("priority") == 1000)


@check
def replica_set_creates_pods(c):
    c.create("ReplicaSet", "rs", workload("rs", replicas=2), "apps/v1")
    c.until("two pods", lambda: len(c.get("pods", selector="app=rs")) == 2)


@check
def replica_set_replaces_a_pod(c):
    name = c.get("pods", selector="app=rs")[0]["metadata"]["name"]
    c.run("delete", "pod", name, "--force", "--grace-period=0")
    c.until("another pod", lambda: len([x for x in c.get("pods", selector="app=rs") if x["metadata"]["name"] != name]) == 2)


@check
def deployment_becomes_available(c):
    c.create("Deployment", "web", workload("web", replicas=2), "apps/v1")
    c.until("available", lambda: c.pods_ready("app=web") or c.get("deployment", "web")["status"].get("availableReplicas") == 2)


@check
def deployment_rolls_out(c):
    c.run("set", "image", "deployment/web", "c=new")

    def done():
        c.pods_ready("app=web")
        status = c.get("deployment", "web")["status"]
        return status.get("updatedReplicas") == 2 and status.get("availableReplicas") == 2 and status.get("replicas") == 2
    c.until("rollout", done)


@check
def deployment_rolls_back(c):
    c.run("rollout", "undo", "deployment/web")
    c.until("old image", lambda: c.get("deployment", "web")["spec"]["template"]["spec"]["containers"][0]["image"] == "i")


@check
def stateful_set_creates_pods_in_order(c):
    c.create("StatefulSet", "db", workload("db", replicas=2, serviceName="db"), "apps/v1")
    c.until("db-1", lambda: c.pods_ready("app=db") or c.get("pod", "db-1"))


@check
def daemon_set_creates_a_pod_per_node(c):
    c.create("DaemonSet", "agent", workload("agent"), "apps/v1")
    c.until("a pod per node", lambda: len(c.get("pods", selector="app=agent")) == len(c.get("nodes")))


@check
def job_completes(c):
    c.create("Job", "job", {"template": template("job", restartPolicy="Never")}, "batch/v1")
    c.until("a pod", lambda: c.get("pods", selector="app=job"))
    c.pods_end("app=job")
    c.until("complete", lambda: any(x["type"] == "Complete" for x in c.get("job", "job")["status"].get("conditions", [])))


@check
def finished_job_is_removed(c):
    c.create("Job", "short", {"template": template("short", restartPolicy="Never"), "ttlSecondsAfterFinished": 1}, "batch/v1")
    c.until("a pod", lambda: c.get("pods", selector="app=short"))
    c.pods_end("app=short")
    c.until("removed", lambda: c.get("job", "short") is None)


@check
def endpoint_slice_follows_pods(c):
    c.create("Service", "web", {"selector": {"app": "web"}, "ports": [{"port": 80}]})
    c.until("addresses", lambda: c.pods_ready("app=web") or any(x.get("endpoints") for x in c.get("endpointslices", selector="kubernetes.io/service-name=web")))


@check
def namespace_has_a_service_account(c):
    c.create("Namespace", "fresh")
    c.until("default", lambda: c.get("serviceaccount", "default", "fresh"))


@check
def namespace_has_the_root_certificates(c):
    c.until("kube-root-ca.crt", lambda: c.get("configmap", "kube-root-ca.crt", "fresh"))


@check
def namespace_is_deleted_with_its_content(c):
    c.run("create", "configmap", "inside", "-n", "fresh")
    c.run("delete", "namespace", "fresh", "--wait=false")
    c.until("removed", lambda: c.get("namespace", "fresh") is None)


@check
def background_deletion_removes_dependents(c):
    c.create("ReplicaSet", "gc-background", workload("gcb", replicas=1), "apps/v1")
    c.until("a pod", lambda: c.get("pods", selector="app=gcb"))
    c.run("delete", "rs", "gc-background", "--cascade=background")
    c.until("pods removed", lambda: all(x["metadata"].get("deletionTimestamp") for x in c.get("pods", selector="app=gcb")))


@check
def orphaned_dependents_stay(c):
    c.create("ReplicaSet", "gc-orphan", workload("gco", replicas=1), "apps/v1")
    c.until("a pod", lambda: c.get("pods", selector="app=gco"))
    c.run("delete", "rs", "gc-orphan", "--cascade=orphan", "--wait=false")
    c.until("owner removed", lambda: c.get("rs", "gc-orphan") is None)
    c.until("no owner", lambda: not c.get("pods", selector="app=gco")[0]["metadata"].get("ownerReferences"))


@check
def foreground_deletion_waits_for_dependents(c):
    c.create("ConfigMap", "owner")
    uid = c.get("configmap", "owner")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "blockOwnerDeletion": True}
    c.create("ConfigMap", "dependent", metadata={"ownerReferences": [owner], "finalizers": ["example.com/hold"]})
    c.run("delete", "configmap", "owner", "--cascade=foreground", "--wait=false")
    c.until("dependent deleted", lambda: c.get("configmap", "dependent")["metadata"].get("deletionTimestamp"))
    assert c.get("configmap", "owner"), "the owner is removed before its dependent"
    c.run("patch", "configmap", "dependent", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    c.until("owner removed", lambda: c.get("configmap", "owner") is None)


@check
def token_secret_is_filled(c):
    c.until("default", lambda: c.get("serviceaccount", "default"))
    c.create("Secret", "token", type="kubernetes.io/service-account-token", metadata={"annotations": {"kubernetes.io/service-account.name": "default"}})
    c.until("token", lambda: "token" in (c.get("secret", "token").get("data") or {}))


@check
def quota_status_counts(c):
    c.create("ResourceQuota", "quota", {"hard": {"configmaps": "100"}})
    c.until("used", lambda: c.get("resourcequota", "quota").get("status", {}).get("used", {}).get("configmaps"))


@check
def claim_is_bound(c):
    c.create("PersistentVolume", "pv", {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, "storageClassName": "manual"})
    c.create("PersistentVolumeClaim", "pvc", {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "manual"})
    c.until("bound", lambda: c.get("pvc", "pvc")["status"].get("phase") == "Bound")


@check
def claim_in_use_is_protected(c):
    c.create("Pod", "user", {**template("u")["spec"], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "pvc"}}]})
    c.run("delete", "pvc", "pvc", "--wait=false")
    time.sleep(2)
    assert c.get("pvc", "pvc"), "the claim is removed although a pod uses it"


@check
def unused_claim_is_removed(c):
    c.run("delete", "pod", "user", "--force", "--grace-period=0")
    c.until("removed", lambda: c.get("pvc", "pvc") is None)


@check
def volume_is_released(c):
    c.until("released", lambda: c.get("pv", "pv")["status"].get("phase") == "Released")


@check
def disruption_budget_counts(c):
    c.create("PodDisruptionBudget", "pdb", {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}, "policy/v1")
    c.until("status", lambda: c.pods_ready("app=web") or c.get("pdb", "pdb").get("status", {}).get("currentHealthy"))


@check
def autoscaler_reports_missing_metrics(c):
    c.run("autoscale", "deployment", "web", "--min=1", "--max=3", "--cpu=50%")
    c.until("conditions", lambda: c.get("hpa", "web").get("status", {}).get("conditions"))


@check
def cluster_role_is_aggregated(c):
    label = {"example.com/aggregate": "true"}
    c.create("ClusterRole", "part", version="rbac.authorization.k8s.io/v1", metadata={"labels": label}, rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}])
    c.create("ClusterRole", "whole", version="rbac.authorization.k8s.io/v1", aggregationRule={"clusterRoleSelectors": [{"matchLabels": label}]}, rules=[])
    c.until("rules", lambda: c.get("clusterrole", "whole").get("rules"))


@check
def unready_node_is_tainted(c):
    c.node("broken")
    c.status("node", "broken", {"conditions": [{"type": "Ready", "status": "False", "lastHeartbeatTime": "2100-01-01T00:00:00Z", "lastTransitionTime": "2024-01-01T00:00:00Z"}]})
    c.until("taint", lambda: any(x["key"] == "node.kubernetes.io/not-ready" for x in c.get("node", "broken")["spec"].get("taints", [])))
    c.run("delete", "node", "broken")


@check
def tainted_node_receives_no_pod(c):
    c.node("tainted", taints=[{"key": "a", "effect": "NoSchedule"}])
    c.create("Pod", "picky", {**template("picky")["spec"], "nodeSelector": {"kubernetes.io/hostname": "tainted"}})
    c.until("unschedulable", lambda: any(x.get("reason") == "Unschedulable" for x in c.get("pod", "picky")["status"].get("conditions", [])))


@check
def untolerated_pod_is_evicted(c):
    c.create("Pod", "victim", {**template("v")["spec"], "nodeName": "tainted"})
    c.run("taint", "nodes", "tainted", "b=c:NoExecute")
    c.until("deleted", lambda: (c.get("pod", "victim") or {"metadata": {"deletionTimestamp": 1}})["metadata"].get("deletionTimestamp"))


@check
def important_pod_preempts(c):
    c.node("small")
    pod = {"nodeSelector": {"kubernetes.io/hostname": "small"}, "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}]}
    c.create("Pod", "modest", pod)
    c.until("bound", lambda: c.get("pod", "modest")["spec"].get("nodeName"))
    c.create("PriorityClass", "urgent", version="scheduling.k8s.io/v1", value=5000)
    c.create("Pod", "urgent", {**pod, "priorityClassName": "urgent"})
    c.until("deleted", lambda: (c.get("pod", "modest") or {"metadata": {"deletionTimestamp": 1}})["metadata"].get("deletionTimestamp"))


@check
def cron_job_starts_jobs(c):
    job = {"spec": {"template": template("cron", restartPolicy="Never")}}
    c.create("CronJob", "cron", {"schedule": "* * * * *", "jobTemplate": job}, "batch/v1")
    end = time.monotonic() + 70
    while not [x for x in c.get("jobs") if x["metadata"]["name"].startswith("cron-")]:
        assert time.monotonic() < end, "no job within 70 s"
        time.sleep(1)


@check
def scale_down_removes_pods(c):
    c.run("scale", "rs/rs", "--replicas=0")
    c.until("no pods", lambda: all(x["metadata"].get("deletionTimestamp") for x in c.get("pods", selector="app=rs")))


@check
def components_hold_their_leases(c):
    for name in ("kube-controller-manager", "kube-scheduler"):
        c.until(name, lambda name=name: c.get("lease", name, "kube-system"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--binaries", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    cluster = Cluster(options.kubeconfig, options.binaries)
    with tempfile.TemporaryDirectory() as folder:
        key = f"{folder}/key.pem"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        authority = ["openssl", "req", "-x509", "-new", "-key", key, "-subj", "/CN=controllers", "-out", f"{folder}/ca.pem"]
        subprocess.run(authority, check=True, capture_output=True)
        components = {
            "kube-controller-manager": ["--kubeconfig", options.kubeconfig, "--service-account-private-key-file", key, "--root-ca-file", f"{folder}/ca.pem",
                                        "--use-service-account-credentials=false", "--secure-port=0", "--controllers=*"],
            "kube-scheduler": ["--kubeconfig", options.kubeconfig, "--secure-port=0"],
        }
        running = []
        try:
            for name, arguments in components.items():
                log = open(f"{folder}/{name}.log", "w")
                running.append(subprocess.Popen([options.binaries / name, *arguments], stdout=log, stderr=log))
            cluster.node("worker")
            cluster.until("the default service account", lambda: cluster.get("serviceaccount", "default"))
            failed = 0
            selected = [one for one in CHECKS if options.only in one.__name__]
            for one in selected:
                try:
                    one(cluster)
                    print("PASS", one.__name__, flush=True)
                except Exception as error:  # a failed check must not end the others
                    failed += 1
                    print("FAIL", one.__name__, "--", error, flush=True)
            print(f"{len(selected) - failed} of {len(selected)}")
        finally:
            for process in running:
                process.terminate()
                process.wait()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
