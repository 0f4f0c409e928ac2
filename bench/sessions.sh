#!/usr/bin/env bash
# Exec and port-forward of our client beside kube-rs' and kubectl, against the same servers: the programs in turns, several
# rounds, and a table of ratios.
#
#   bench/sessions.sh [ROUNDS] [BYTES of a transfer] [CASE...] [--json FILE]
#
# Needs Go for the streaming server of Kubernetes, kubectl, and python3 for the table; memory and processor time are read from
# the kernel.
#
# A figure is the median of the rounds: MB/s of a transfer, and processor time of the client's process per GB. The time of a
# transfer of one byte is subtracted, and with it the start of the process. A ratio is ours over the other's for MB/s, and
# the other's over ours for processor time and memory: above 1 ours is better. The range is that of single rounds.
#
#   exec-out, exec-in      1 GB from or to a process. kubectl writes to /dev/null and reads from a sparse file; our client's and
#                          kube-rs' programs discard and make up the data.
#   forward-out, -in       1 GB through a local port that the program forwards: `kubectl port-forward`, our `listen`, and a
#                          listener around kube-rs' `portforward`. This script is the other end.
#   stream-out, -in        1 GB through the stream to a port, without a local port; kubectl has none.
#   exec-stopped,          the peak of resident memory while the server has the data ready and the reader has stopped.
#   forward-stopped
#
# The servers are the Go program of conformance/streaming, which is the code of kube-apiserver and container runtimes, and
# our embedded one. kube-rs' buffers of exec are enlarged from 1 KiB to 256 KiB, else it would be slower.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=release
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
(cd conformance/streaming && go build -o "$out/streaming" .)
(cd bench/peers && cargo build --quiet --profile "$profile" --bin sessions)
target=$(cargo metadata --format-version 1 --no-deps --manifest-path bench/peers/Cargo.toml |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
PYTHONPATH=bench python3 -B -m report.sessions "$out" "$target/$profile/sessions" "$@"
