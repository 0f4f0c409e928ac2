#!/usr/bin/env bash
# Runs a stock kubectl against `evenkeel apiserver` over TLS and compares its output.
#
#   tests/kubectl.sh [EVENKEEL]     EVENKEEL: the binary; by default the newest one under target/
#   KUBECTL=/path/to/kubectl        another kubectl than the first on the PATH
#
# All files are in a temporary directory; it is removed and the server is stopped at exit.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
kubectl_binary=${KUBECTL:-kubectl}
evenkeel=${1:-}
for candidate in "$root/target/release/evenkeel" "$root/target/debug/evenkeel"; do
    if [[ -x $candidate && (-z $evenkeel || (-z ${1:-} && $candidate -nt $evenkeel)) ]]; then
        evenkeel=$candidate
    fi
done
if [[ ! -x $evenkeel ]]; then
    echo "no evenkeel binary: build one with 'cargo build', or name it" >&2
    exit 2
fi
command -v "$kubectl_binary" >/dev/null || {
    echo "no kubectl on the PATH" >&2
    exit 2
}

work=$(mktemp -d)
server=
watcher=
cleanup() {
    local pid
    for pid in "$watcher" "$server"; do
        if [[ -n $pid ]]; then
            kill "$pid" 2>/dev/null || true
            wait "$pid" 2>/dev/null || true
        fi
    done
    rm -rf "$work"
}
trap cleanup EXIT

export KUBE_EDITOR='sed -i s/calm/wild/'
export HOME=$work KUBECONFIG=$work/kubeconfig KUBECACHEDIR=$work/cache KUBECTL_COMMAND_HEADERS=false
"$evenkeel" apiserver --listen 127.0.0.1:0 --token kubectl-test --kubeconfig-out "$KUBECONFIG" >"$work/server.log" 2>&1 &
server=$!
# The server logs its address when it is ready; `tail -f` waits for that line.
url=$(grep -m1 -o 'https://[^ ]*' < <(timeout 30 tail -n +1 -f --pid="$server" "$work/server.log")) || {
    echo "the server did not start:" >&2
    cat "$work/server.log" >&2
    exit 2
}

count=0
failed=0

k() {
    timeout 30 "$kubectl_binary" "$@"
}

# Masks values that differ between runs: ages, times, uids, resource versions, trailing blanks.
mask() {
    sed -E \
        -e 's/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/<uid>/g' \
        -e 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z/<time>/g' \
        -e 's/(resourceVersion"?: "?)[0-9]+/\1<rv>/g' \
        -e 's/\b[0-9]+(s|ms|m[0-9]*s?)( ago)?( |$)/<age>\3/g' \
        -e 's/ +$//' -e 's/  +/  /g'
}

report() { # ok? description expected got
    count=$((count + 1))
    if [[ $1 == ok ]]; then
        echo "ok $count - $2"
        return
    fi
    failed=$((failed + 1))
    echo "not ok $count - $2"
    printf '%s\n' "$3" | sed 's/^/#   expected: /'
    printf '%s\n' "$4" | sed 's/^/#        got: /'
}

# is DESCRIPTION EXPECTED ARGS...: kubectl succeeds and prints exactly this.
is() {
    local description=$1 expected=$2 got status=0
    shift 2
    got=$(k "$@" 2>&1 | mask) || status=$?
    if [[ $status == 0 && $got == "$(mask <<<"$expected")" ]]; then
        report ok "$description"
    else
        report no "$description" "$expected" "exit $status: $got"
    fi
}

# like DESCRIPTION REGEX ARGS...: kubectl succeeds and prints a line that matches.
like() {
    local description=$1 expected=$2 got status=0
    shift 2
    got=$(k "$@" 2>&1 | mask) || status=$?
    if [[ $status == 0 ]] && grep -qE -- "$expected" <<<"$got"; then
        report ok "$description"
    else
        report no "$description" "$expected" "exit $status: $got"
    fi
}

# refuses DESCRIPTION REGEX ARGS...: kubectl fails and prints a line that matches.
refuses() {
    local description=$1 expected=$2 got status=0
    shift 2
    got=$(k "$@" 2>&1 | mask) || status=$?
    if [[ $status != 0 ]] && grep -qE -- "$expected" <<<"$got"; then
        report ok "$description"
    else
        report no "$description" "$expected (and a failure)" "exit $status: $got"
    fi
}

cat >"$work/web.yaml" <<'YAML'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: nginx, image: nginx}]}
YAML
cat >"$work/maps.yaml" <<'YAML'
apiVersion: v1
kind: ConfigMap
metadata: {name: one, labels: {tier: front}}
data: {a: b}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two, labels: {tier: back}}
data: {a: b, c: d}
YAML
cat >"$work/node.yaml" <<'YAML'
apiVersion: v1
kind: Node
metadata: {name: n1}
YAML
cat >"$work/crd.yaml" <<'YAML'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: foos, kind: Foo, shortNames: [fo], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    additionalPrinterColumns:
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    - {name: Mode, type: string, jsonPath: .spec.mode, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        description: A Foo is an example.
        properties:
          spec:
            type: object
            required: [replicas]
            properties:
              replicas: {type: integer, minimum: 0, description: Desired number of replicas.}
              mode: {type: string, default: calm}
          status: {type: object, properties: {replicas: {type: integer}}}
YAML
cat >"$work/foo.yaml" <<'YAML'
apiVersion: example.com/v1
kind: Foo
metadata: {name: f1}
spec: {replicas: 2}
YAML

# Server and identity.
like "version" '^Server Version: v1\.' version
like "cluster-info" "is running at .*$url" cluster-info
like "api-versions" '^apps/v1$' api-versions
like "api-resources" '^deployments +deploy +apps/v1 +true +Deployment' api-resources
is "api-resources of a group" 'cronjobs.batch
jobs.batch' api-resources --api-group=batch -o name --sort-by=name
like "auth whoami" '^Username +system:admin$' auth whoami
like "auth whoami, groups" '^Groups +\[system:masters system:authenticated\]$' auth whoami
is "auth whoami --as" 'ATTRIBUTE  VALUE
Username  joe
Groups  [devs system:authenticated]' auth whoami --as=joe --as-group=devs
is "auth can-i" yes auth can-i create deployments.apps
like "auth can-i --list" '^\*\.\* ' auth can-i --list
is "get --raw /readyz" ok get --raw /readyz
like "get --raw of a list" '"kind":"NamespaceList"' get --raw '/api/v1/namespaces?limit=1'
like "explain a built-in kind" '^FIELD: containers <\[\]Container>' explain pod.spec.containers
like "explain --recursive" 'maxSurge.*<IntOrString>' explain deployment.spec.strategy --recursive

# Create from files and from arguments; kubectl sends the latter as protobuf.
is "get namespaces" 'NAME  STATUS  AGE
default  Active  <age>
kube-node-lease  Active  <age>
kube-public  Active  <age>
kube-system  Active  <age>' get namespaces
is "create -f with several documents" 'configmap/one created
configmap/two created' create -f "$work/maps.yaml"
refuses "create -f again" 'AlreadyExists.*configmaps "one" already exists' create -f "$work/maps.yaml"
is "create configmap" 'configmap/three created' create configmap three --from-literal=x=y
is "create secret" 'secret/s created' create secret generic s --from-literal=password=geheim
is "a secret contains the given value" Z2VoZWlt get secret s -o 'jsonpath={.data.password}'
is "create deployment" 'deployment.apps/cli created' create deployment cli --image=nginx --replicas=3
is "create namespace" 'namespace/two created' create namespace two
is "create serviceaccount" 'serviceaccount/robot created' create serviceaccount robot
is "create job" 'job.batch/j created' create job j --image=busybox -- true
like "create role" '^role.rbac.authorization.k8s.io/r created$' create role r --verb=get --resource=pods
like "create rolebinding warns that RBAC is off" 'Warning: evenkeel: RBAC is off, so this RoleBinding limits no user' create rolebinding rb --role=r --user=joe
like "create quota" '^resourcequota/q created$' create quota q --hard=pods=4
is "create ingress" 'ingress.networking.k8s.io/i created' create ingress i --rule=example.com/=web:80
is "create cronjob" 'cronjob.batch/c created' create cronjob c --image=busybox --schedule='*/5 * * * *'
is "create job from a cronjob" 'job.batch/cc created' create job cc --from=cronjob/c
is "create in another namespace" 'configmap/four created' create configmap four -n two
refuses "create in a namespace that does not exist" 'namespaces "nowhere" not found' create configmap x -n nowhere
is "create --dry-run=server" 'configmap/dry created (server dry run)' create configmap dry --dry-run=server
refuses "a dry run creates nothing" 'configmaps "dry" not found' get configmap dry
refuses "create rejects an invalid name" 'Invalid value: "Bad_Name"' create configmap Bad_Name
is "create deployment from a file" 'deployment.apps/web created' create -f "$work/web.yaml"
is "run" 'pod/p1 created' run p1 --image=nginx --labels=run=p1
is "expose" 'service/web exposed' expose deployment web --port=80 --target-port=8080
is "autoscale" 'horizontalpodautoscaler.autoscaling/web autoscaled' autoscale deployment web --max=3

# Lists, and several objects at once: kubectl reads OpenAPI v2 for them.
cat >"$work/list.yaml" <<'YAML'
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: l1, namespace: two}, data: {mood: calm}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: l2, namespace: two}, data: {mood: calm}}
YAML
is "apply of a List" 'configmap/l1 created
configmap/l2 created' apply -f "$work/list.yaml"
is "apply of a List again" 'configmap/l1 unchanged
configmap/l2 unchanged' apply -f "$work/list.yaml"
is "apply --validate=strict of a List" 'configmap/l1 configured
configmap/l2 configured' apply --validate=strict -f <(sed 's/mood: calm/mood: good/' "$work/list.yaml")
refuses "apply of a List with an unknown field" 'unknown field "bogus"' \
    apply -f <(sed 's/data: {mood/bogus: 1, data: {mood/' "$work/list.yaml")
is "apply of the first List" 'configmap/l1 configured
configmap/l2 configured' apply -f "$work/list.yaml"
is "edit of several objects" 'configmap/l1 edited
configmap/l2 edited' edit configmap l1 l2 -n two
is "the edited objects" 'wild wild' get configmap l1 l2 -n two -o 'jsonpath={.items[*].data.mood}'
is "delete of a List" 'configmap "l1" deleted
configmap "l2" deleted' delete -f "$work/list.yaml"

# Get.
is "get, as a table" 'NAME  DATA  AGE
one  1  <age>
three  1  <age>
two  2  <age>' get configmaps
is "get -o wide" 'NAME  READY  UP-TO-DATE  AVAILABLE  AGE  CONTAINERS  IMAGES  SELECTOR
web  0/2  0  0  <age>  nginx  nginx  app=web' get deployment web -o wide
is "get -o yaml" 'apiVersion: v1
data:
  a: b
kind: ConfigMap
metadata:
  creationTimestamp: "<time>"
  labels:
    tier: front
  name: one
  namespace: default
  resourceVersion: "<rv>"
  uid: <uid>' get configmap one -o yaml
like "get -o json" '"kind": "ConfigMap"' get configmap one -o json
is "get -o name" 'configmap/one
configmap/three
configmap/two' get cm -o name
is "get -l" configmap/one get cm -l tier=front -o name
is "get -l with sets" 'configmap/one
configmap/two' get cm -l 'tier in (front,back)' -o name
is "get --field-selector" configmap/two get cm --field-selector metadata.name=two -o name
like "get -A" '^two +four +0 ' get cm -A
is "get --sort-by" 'NAME  DATA  AGE
one  1  <age>
three  1  <age>
two  2  <age>' get cm --sort-by=.metadata.name
is "get --show-labels" 'NAME  DATA  AGE  LABELS
one  1  <age>  tier=front' get cm one --show-labels
is "get -L" 'NAME  DATA  AGE  TIER
one  1  <age>  front' get cm one -L tier
is "get -o jsonpath" 'one three two' get cm -o 'jsonpath={.items[*].metadata.name}'
is "get -o custom-columns" 'NAME  TIER
one  front' get cm one -o custom-columns=NAME:.metadata.name,TIER:.metadata.labels.tier
is "get of several kinds" 'NAME  DATA  AGE
configmap/one  1  <age>

NAME  TYPE  DATA  AGE
secret/s  Opaque  1  <age>' get configmap/one secret/s
is "get --chunk-size" 'configmap/one
configmap/three
configmap/two' get cm --chunk-size=1 -o name
is "get --subresource" 2 get deployment web --subresource=scale -o 'jsonpath={.spec.replicas}'
refuses "get of an object that does not exist" 'Error from server \(NotFound\): configmaps "none" not found' get cm none
is "get --ignore-not-found" '' get cm none --ignore-not-found
is "get services" 'NAME  TYPE  CLUSTER-IP  EXTERNAL-IP  PORT(S)  AGE
kubernetes  ClusterIP  10.0.0.1  <none>  443/TCP  <age>
web  ClusterIP  10.0.0.2  <none>  80/TCP  <age>' get services
is "get pods" 'NAME  READY  STATUS  RESTARTS  AGE
p1  0/1  Pending  0  <age>' get pods
like "get all" '^deployment.apps/web ' get all

# Change.
is "label" 'configmap/one labeled' label cm one colour=red
refuses "label does not overwrite" "already has a value" label cm one colour=blue
is "label --all" 'configmap/one labeled
configmap/three labeled
configmap/two labeled' label cm --all seen=yes
is "label --overwrite" 'configmap/one labeled' label cm one colour=blue --overwrite
is "label, removed" 'configmap/one unlabeled' label cm one colour-
is "annotate" 'configmap/one annotated' annotate cm one note=hello
is "an annotation can be read" hello get cm one -o 'jsonpath={.metadata.annotations.note}'
is "replace" 'configmap/one replaced
configmap/two replaced' replace -f "$work/maps.yaml"
is "replace removes fields that the file does not contain" '' get cm one -o 'jsonpath={.metadata.annotations.note}'
is "patch --type merge" 'deployment.apps/web patched' patch deployment web --type merge -p '{"spec":{"replicas":4}}'
is "patch --type json" 'deployment.apps/web patched' patch deployment web --type json \
    -p '[{"op":"test","path":"/spec/replicas","value":4},{"op":"replace","path":"/spec/replicas","value":5}]'
is "patches are applied" 5 get deployment web -o 'jsonpath={.spec.replicas}'
is "patch --type strategic" 'deployment.apps/web patched' patch deployment web \
    -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"envoy"}]}}}}'
is "set image" 'deployment.apps/web image updated' set image deployment/web nginx=nginx:2
is "set env" 'deployment.apps/web env updated' set env deployment/web -c nginx MODE=calm
is "set resources" 'deployment.apps/web resource requirements updated' \
    set resources deployment web -c nginx --limits=cpu=1
is "fields that were set" 'side=envoy nginx=nginx:2 ' get deployment web \
    -o 'jsonpath={range .spec.template.spec.containers[*]}{.name}={.image} {end}'
is "rollout restart" 'deployment.apps/web restarted' rollout restart deployment web
is "rollout pause" 'deployment.apps/web paused' rollout pause deployment web
is "rollout resume" 'deployment.apps/web resumed' rollout resume deployment web
is "client-side apply of an object that was created" 'Warning: resource deployments/web is missing the kubectl.kubernetes.io/last-applied-configuration annotation which is required by kubectl apply. kubectl apply should only be used on resources created declaratively by either kubectl create --save-config or kubectl apply. The missing annotation will be patched automatically.
deployment.apps/web configured' apply -f "$work/web.yaml"
is "apply sets the fields of the file and keeps the others" '2 side=envoy nginx=nginx ' get deployment web \
    -o 'jsonpath={.spec.replicas} {range .spec.template.spec.containers[*]}{.name}={.image} {end}'
is "patch with a directive" 'deployment.apps/web patched' patch deployment web \
    -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}}}'
is "apply again without changes" 'deployment.apps/web unchanged' apply -f "$work/web.yaml"
sed -e 's/replicas: 2/replicas: 3/' -e 's/image: nginx/image: nginx, args: [-q]/' "$work/web.yaml" >"$work/web2.yaml"
is "apply of a changed file" 'deployment.apps/web configured' apply -f "$work/web2.yaml"
is "apply of the first file removes the fields of the second" 'deployment.apps/web configured' apply -f "$work/web.yaml"
is "applied fields" '2 []' get deployment web -o 'jsonpath={.spec.replicas} [{.spec.template.spec.containers[0].args}]'
is "apply --server-side takes over from client-side apply" 'deployment.apps/web serverside-applied' \
    apply --server-side -f "$work/web.yaml"
is "client-side apply no longer owns fields" 'kubectl/Apply kubectl-last-applied/Apply ' get deployment web \
    --show-managed-fields \
    -o 'jsonpath={range .metadata.managedFields[?(@.operation=="Apply")]}{.manager}/{.operation} {end}'
is "the client-side manager is removed" '[]' get deployment web --show-managed-fields \
    -o 'jsonpath=[{.metadata.managedFields[?(@.manager=="kubectl-client-side-apply")].manager}]'
refuses "apply --server-side by another" 'conflict with "kubectl": .spec.replicas' \
    apply --server-side --field-manager=other -f "$work/web2.yaml"
is "apply --server-side --force-conflicts" 'deployment.apps/web serverside-applied' \
    apply --server-side --field-manager=other --force-conflicts -f "$work/web2.yaml"
is "apply --server-side --dry-run=server" 'deployment.apps/new serverside-applied (server dry run)' \
    apply --server-side --dry-run=server -f <(sed 's/name: web,/name: new,/' "$work/web.yaml")
is "scale" 'deployment.apps/web scaled' scale deployment web --replicas=1
refuses "scale --current-replicas" 'Expected replicas to be 9' scale deployment web --replicas=2 --current-replicas=9
refuses "rollout status waits for a controller" 'timed out waiting' rollout status deployment web --timeout=1s
is "patch --subresource=status" 'deployment.apps/web patched' patch deployment web --subresource=status --type merge -p \
    '{"status":{"observedGeneration":99,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1}}'
is "rollout status" 'deployment "web" successfully rolled out' rollout status deployment web --timeout=20s
like "auth reconcile" '^clusterrole.rbac.authorization.k8s.io/reader reconciled$' auth reconcile -f - <<'YAML'
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
YAML
is "rollout history" 'deployment.apps/web
No rollout history found.
' rollout history deployment web

# Nodes.
is "create a node" 'node/n1 created' create -f "$work/node.yaml"
is "uncordon of a schedulable node" 'node/n1 already uncordoned' uncordon n1
is "cordon" 'node/n1 cordoned' cordon n1
is "taint" 'node/n1 tainted' taint node n1 a=b:NoSchedule
is "taint, removed" 'node/n1 untainted' taint node n1 a-
is "get nodes" 'NAME  STATUS  ROLES  AGE  VERSION
n1  Unknown,SchedulingDisabled  <none>  <age>' get nodes

# Describe.
like "describe pod" '^Status: +Pending' describe pod p1
like "describe deployment" '^Replicas: +1 desired \| 1 updated' describe deployment web
like "describe namespace" '^Status: +Active' describe namespace default
like "describe node" '^Unschedulable: +true' describe node n1
like "describe service" '^TargetPort: +8080/TCP' describe service web
like "describe job" '^Parallelism: +1' describe job j
like "describe secret" '^password: +6 bytes' describe secret s

# Certificate signing requests: the requestor is recorded; approval works.
is "create a certificate request" 'certificatesigningrequest.certificates.k8s.io/mine created' create -f - <<'YAML'
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: mine}
spec: {request: LS0tLS1CRUdJTg==, signerName: example.com/x, usages: [client auth]}
YAML
is "certificate approve" 'certificatesigningrequest.certificates.k8s.io/mine approved' certificate approve mine
is "get certificate requests" 'NAME  AGE  SIGNERNAME  REQUESTOR  REQUESTEDDURATION  CONDITION
mine  <age>  example.com/x  system:admin  <none>  Approved' get csr

# Pods have no kubelet, so there are no logs; missing features return NotImplemented.
is "logs of a pod without a node" '' logs p1
refuses "exec" 'NotImplemented.*does not support the subresource pods/exec yet' exec p1 -- true
like "create token" '^eyJ[^.]*\.[^.]*\.' create token robot
token=$(k create token robot --audience=vault)
like "a TokenReview of the token" 'system:serviceaccount:default:robot \["vault"\]' create -o \
    'jsonpath={.status.user.username} {.status.audiences}' -f - <<YAML
apiVersion: authentication.k8s.io/v1
kind: TokenReview
spec: {token: $token, audiences: [vault, other]}
YAML
like "a TokenReview for another audience" 'invalid for the target audiences' create -o 'jsonpath={.status.error}' -f - <<YAML
apiVersion: authentication.k8s.io/v1
kind: TokenReview
spec: {token: $token, audiences: [other]}
YAML
like "the issuer's configuration" "\"jwks_uri\":\"$url/openid/v1/jwks\"" get --raw /.well-known/openid-configuration
like "the issuer's keys" '"alg":"ES256"' get --raw /openid/v1/jwks
refuses "get --raw of an unknown path" 'NotFound' get --raw /nowhere

# Events.
is "events, none" 'No events found in default namespace.' events
k create -f - >/dev/null <<'YAML'
apiVersion: v1
kind: Event
metadata: {name: p1.1, namespace: default}
involvedObject: {apiVersion: v1, kind: Pod, name: p1, namespace: default}
reason: Pulled
message: image is present
type: Normal
count: 1
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:00:00Z"
YAML
like "events" 'Normal +Pulled +Pod/p1 +image is present' events
like "events --for" 'Pulled' events --for=pod/p1
like "get events" 'Normal +Pulled +pod/p1 +image is present' get events

# Custom resources.
is "create a definition" 'customresourcedefinition.apiextensions.k8s.io/foos.example.com created' create -f "$work/crd.yaml"
is "wait --for=condition" 'customresourcedefinition.apiextensions.k8s.io/foos.example.com condition met' \
    wait --for=condition=Established crd/foos.example.com --timeout=10s
is "create a custom resource" 'foo.example.com/f1 created' create -f "$work/foo.yaml"
is "get with printer columns" 'NAME  REPLICAS  AGE
f1  2  <age>' get foos
is "get -o wide with printer columns" 'NAME  REPLICAS  MODE  AGE
f1  2  calm  <age>' get fo -o wide
like "get by category" '^foo.example.com/f1 ' get all
is "scale a custom resource" 'foo.example.com/f1 scaled' scale foo f1 --replicas=7
is "wait --for=jsonpath" 'foo.example.com/f1 condition met' wait --for=jsonpath='{.spec.replicas}'=7 foo/f1 --timeout=10s
like "explain a custom resource" 'Desired number of replicas' explain foo.spec
like "explain a custom resource, from v2" 'Desired number of replicas' explain foo.spec --output=plaintext-openapiv2
like "explain of a field without a description" '<no description>' explain foo.spec
like "explain of a kind without a description" '<empty>' explain pod
refuses "explain of a field that does not exist" 'field "bogus" does not exist' explain foo.spec.bogus
like "describe a custom resource" 'Mode: +calm' describe foo f1
refuses "a custom resource is validated" 'spec.replicas.*should be greater than or equal to 0' \
    patch foo f1 --type merge -p '{"spec":{"replicas":-1}}'
refuses "unknown fields are refused" 'unknown field "spec.bogus"' create -f - <<'YAML'
apiVersion: example.com/v1
kind: Foo
metadata: {name: f2}
spec: {replicas: 1, bogus: 1}
YAML
is "apply of a custom resource, client side" 'foo.example.com/f3 created' apply -f - <<'YAML'
apiVersion: example.com/v1
kind: Foo
metadata: {name: f3}
spec: {replicas: 1}
YAML
is "edit a custom resource" 'foo.example.com/f1 edited' edit foo f1
is "the edited field" wild get foo f1 -o 'jsonpath={.spec.mode}'
is "replace --force" 'foo.example.com "f1" deleted
foo.example.com/f1 replaced' replace --force -f "$work/foo.yaml"
is "wait --for=create" 'foo.example.com/f1 condition met' wait --for=create foo/f1 --timeout=10s
is "apply again" 'foo.example.com/f3 configured' apply -f - <<'YAML'
apiVersion: example.com/v1
kind: Foo
metadata: {name: f3}
spec: {replicas: 2}
YAML
is "apply --server-side of a custom resource" 'foo.example.com/f4 serverside-applied' apply --server-side -f - <<'YAML'
apiVersion: example.com/v1
kind: Foo
metadata: {name: f4}
spec: {replicas: 1}
YAML
refuses "apply --server-side of an unknown field" 'spec.bogus: field not declared in schema' apply --server-side -f - <<'YAML'
apiVersion: example.com/v1
kind: Foo
metadata: {name: f4}
spec: {replicas: 1, bogus: 1}
YAML

# A definition and its object in one file: kubectl creates the definition, and the object when it knows the kind.
cat >"$work/both.yaml" <<'YAML'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: bars.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: bars, kind: Bar}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: example.com/v1
kind: Bar
metadata: {name: b1}
spec: {any: thing}
YAML
refuses "apply of a definition and its object" 'ensure CRDs are installed first' apply -f "$work/both.yaml"
is "apply of both again" 'customresourcedefinition.apiextensions.k8s.io/bars.example.com unchanged
bar.example.com/b1 created' apply -f "$work/both.yaml"
is "delete of the definition" 'customresourcedefinition.apiextensions.k8s.io "bars.example.com" deleted' \
    delete crd bars.example.com --timeout=20s

# Watch: a watch in the background receives the events.
"$kubectl_binary" get configmaps --watch --output-watch-events -l watched=yes >"$work/watch.log" 2>&1 &
watcher=$!
# The first object may be in the initial list or an event: both print the same line.
k create configmap watched >/dev/null
k label cm watched watched=yes >/dev/null
received() { grep -m1 -qE "$1" < <(timeout 20 tail -n +1 -f --pid="$watcher" "$work/watch.log"); }
if received '^ADDED +watched '; then report ok "get -w, added"; else report no "get -w, added" ADDED "$(cat "$work/watch.log")"; fi
k annotate cm watched note=1 >/dev/null
if received '^MODIFIED +watched '; then report ok "get -w, modified"; else report no "get -w, modified" MODIFIED "$(cat "$work/watch.log")"; fi
k delete cm watched >/dev/null
if received '^DELETED +watched '; then report ok "get -w, deleted"; else report no "get -w, deleted" DELETED "$(cat "$work/watch.log")"; fi

# Delete.
is "delete" 'configmap "three" deleted' delete cm three
refuses "delete of an object that does not exist" 'configmaps "three" not found' delete cm three
is "delete --ignore-not-found" '' delete cm three --ignore-not-found
is "delete -l" 'configmap "one" deleted' delete cm -l tier=front
is "delete --dry-run=server" 'configmap "two" deleted (server dry run)' delete cm two --dry-run=server
is "delete --all" 'configmap "two" deleted' delete cm --all
is "delete --wait" 'pod "p1" deleted' delete pod p1 --wait --timeout=20s
is "delete --grace-period=0 --force" 'Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. The resource may continue to run on the cluster indefinitely.
pod "p2" force deleted' delete "$(k run p2 --image=nginx -o name)" --grace-period=0 --force
is "delete -f" 'deployment.apps "web" deleted' delete -f "$work/web.yaml"
is "delete --cascade=orphan" 'deployment.apps "cli" deleted' delete deployment cli --cascade=orphan --wait=false
k create configmap held >/dev/null
k patch cm held --type merge -p '{"metadata":{"finalizers":["example.com/hold"]}}' >/dev/null
is "delete --wait=false of an object with a finalizer" 'configmap "held" deleted' delete cm held --wait=false
refuses "wait --for=delete, timeout" 'timed out waiting' wait --for=delete cm/held --timeout=1s
k patch cm held --type merge -p '{"metadata":{"finalizers":null}}' >/dev/null
is "wait --for=delete" '' wait --for=delete cm/held --timeout=10s
is "delete namespace" 'namespace "two" deleted' delete namespace two --timeout=20s
refuses "the objects of a deleted namespace are deleted" 'not found' get cm four -n two
is "delete a definition" 'customresourcedefinition.apiextensions.k8s.io "foos.example.com" deleted' \
    delete crd foos.example.com --timeout=20s
refuses "the resources of a deleted definition are deleted" 'NotFound|the server doesn.t have a resource type' get foos

if kill -0 "$server" 2>/dev/null; then report ok "the server is still running"; else report no "the server is still running" running exited; fi
echo "$((count - failed)) passed, $failed failed"
[[ $failed == 0 ]]
