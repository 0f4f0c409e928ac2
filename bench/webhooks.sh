#!/usr/bin/env bash
# Our webhook server beside controller-runtime's, under the same load: the servers in turns, several rounds, and a table of ratios.
#
#   bench/webhooks.sh [ROUNDS] [--json FILE] [--seconds S]
#
# Needs Go for the other side and python3 for the table; processor time is read from /proc.
#
# Each server has a validator of pods (a label, the tags of images) and a defaulter that adds a label, with its defaults, TLS 1.3
# with the same certificate, and metrics. One client calls both: `evenkeel-bench webhooks load`, one thread, a fixed number of
# connections (HTTP/1.1, kept alive), one request at a time on each, the cipher suite that Go prefers. The bodies are the same
# bytes: reviews of 1,000 pods of 5.8 KB, status and managedFields included.
#
# Client and server share the processors: requests per second include the client's work, which is the same for both, and is
# shown. Processor time per request is that of the server's process alone, the collector's included.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=measured
rounds=${1:-5}
shift || true
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

cargo build --quiet --profile "$profile" -p evenkeel-bench
theirs=()
if command -v go >/dev/null; then
    (cd bench/go && go build -o "$out/webhook" ./webhook)
    theirs=(--go "$out/webhook")
else
    echo "go is not installed: our figures only" >&2
fi
PYTHONPATH=bench python3 -B -m report.webhooks "$rounds" --ours "target/$profile/evenkeel-bench" --folder "$out" "${theirs[@]}" "$@"
