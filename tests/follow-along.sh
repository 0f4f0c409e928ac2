#!/usr/bin/env bash
# Runs a stock kubectl against `evenkeel demo`: it observes changes, and the controller repairs what it deletes.
#
#   tests/follow-along.sh EVENKEEL     the binary
#   KUBECTL=/path/to/kubectl           another kubectl than the first on the PATH
set -euo pipefail

evenkeel=${1:?missing argument: the evenkeel binary}
kubectl_binary=${KUBECTL:-kubectl}
work=$(mktemp -d)
demo=
watch=
cleanup() {
    local pid
    for pid in "$watch" "$demo"; do
        if [[ -n $pid ]]; then
            kill "$pid" 2>/dev/null || true
            wait "$pid" 2>/dev/null || true
        fi
    done
    rm -rf "$work"
}
trap cleanup EXIT

fail() {
    echo "$1" >&2
    echo "--- output of the demo:" >&2
    cat "$work/demo.log" >&2
    exit 1
}

# Waits for a matching line in a file and prints the match.
line() {
    grep -m1 -oE "$1" < <(timeout 60 tail -n +1 -f "$2" 2>/dev/null) || fail "no line matched: $1"
}

"$evenkeel" demo --for 0 --objects 5 --stay >"$work/demo.log" 2>&1 &
demo=$!
url=$(line 'server=http://127\.0\.0\.1:[0-9]+' "$work/demo.log")
url=${url#server=}
k() {
    HOME=$work KUBECONFIG=/dev/null timeout 30 "$kubectl_binary" --server="$url" "$@"
}
line 'running until Ctrl-C' "$work/demo.log" >/dev/null

HOME=$work KUBECONFIG=/dev/null "$kubectl_binary" --server="$url" get foos -w >"$work/watch.log" 2>&1 &
watch=$!
k apply -f - <<'YAML' >/dev/null
apiVersion: samplecontroller.example.com/v1alpha1
kind: Foo
metadata: {name: mine}
spec: {deploymentName: mine, replicas: 3}
YAML
# NAME, DEPLOYMENT, WANTED, AVAILABLE
line '^mine +mine +3 +3' "$work/watch.log" >/dev/null

first=$(k get deployment mine -o jsonpath='{.metadata.uid}')
k delete deployment mine >/dev/null
# Older kubectl releases have no `wait --for=create`.
for _ in $(seq 100); do
    second=$(k get deployment mine -o jsonpath='{.metadata.uid}' --ignore-not-found)
    [[ -z $second || $second == "$first" ]] || break
done
[[ -n $second && $second != "$first" ]] || fail "the deleted deployment was not recreated"

k scale foo mine --replicas 1 >/dev/null
line '^mine +mine +1 +1' "$work/watch.log" >/dev/null
k get events >"$work/events.log"
grep -q 'Synced *foo/mine' "$work/events.log" || fail "no event was recorded: $(cat "$work/events.log")"
k delete foo mine >/dev/null
k wait --for=delete deployment/mine --timeout=30s >/dev/null || fail "the deployment was not deleted with its owner"

# The manifests of the controller can be applied.
"$evenkeel" controller sample --print-manifests | k apply -f - >"$work/applied.log"
[[ $(grep -c . "$work/applied.log") -eq 8 ]] || fail "some manifests were not applied: $(cat "$work/applied.log")"
k get role sample-controller-election -n sample-controller >/dev/null || fail "the role does not exist"

kill -INT "$demo"
wait "$demo" || fail "the demo exited with $?"
demo=
echo "follow-along passed"
