#!/usr/bin/env bash
# Writes a project with `evenkeel new`, and runs its tests and its manifests, offline: tests/new-project.sh target/debug/evenkeel
# The target directory is shared between runs, so that the dependencies are built once: CARGO_TARGET_DIR, or target/new-project.
set -euo pipefail
cd "$(dirname "$0")/.."
evenkeel=$(realpath "${1:-target/debug/evenkeel}")
checkout=$PWD
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target/new-project} CARGO_NET_OFFLINE=true
export CARGO_PROFILE_DEV_DEBUG=${CARGO_PROFILE_DEV_DEBUG:-line-tables-only}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

"$evenkeel" new web-site-operator --group site.example.com --evenkeel-path "$checkout"
cd web-site-operator
# The versions that the repository is built with, which are on this machine.
cp "$checkout/Cargo.lock" .

started=$SECONDS
cargo test --quiet
echo "cargo test: $((SECONDS - started)) s"

if cargo run --quiet -- manifests --check 2>check.log; then
    echo "a project without manifests passes the check" >&2
    exit 1
fi
grep --quiet 'the manifests are outdated' check.log
cargo run --quiet -- manifests
cargo run --quiet -- manifests --check
test "$(cargo run --quiet -- manifests)" = "manifests is up to date"
ls manifests manifests/crds
grep --quiet 'kind: WebSite' manifests/crds/site.example.com_websites.yaml

# An edit is found, and undone by the next run.
sed -i 's/replicas: 1/replicas: 7/' manifests/deployment.yaml
if cargo run --quiet -- manifests --check 2>check.log; then
    echo "an edited manifest passes the check" >&2
    exit 1
fi
grep --quiet '^- .*replicas: 7' check.log
grep --quiet '^+ .*replicas: 1' check.log
cargo run --quiet -- manifests

# The program installs and deploys itself with a kubeconfig and nothing else.
"$evenkeel" apiserver --listen 127.0.0.1:0 --kubeconfig-out "$folder/kubeconfig" >"$folder/server.log" &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 100); do
    grep --quiet '^listening' "$folder/server.log" && break
    sleep 0.1
done
export KUBECONFIG=$folder/kubeconfig
cargo run --quiet -- install
cargo run --quiet -- deploy
"$evenkeel" wait --for create deployment/web-site-operator -n web-site-operator-system

if command -v cargo-clippy >/dev/null; then
    cargo clippy --quiet --all-targets -- -D warnings
fi
echo "new project: done"
