#!/usr/bin/env bash
# Builds the command line from nothing with the profile that users build, and prints elapsed seconds, CPU seconds and the size of
# the executable as lines of JSON.
#
#   bench/build.sh
#
# Crates are fetched before, so that the network is not measured.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=release
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cargo fetch --locked --quiet
TIMEFORMAT='%R %U %S'
{ time cargo build --locked --quiet --profile "$profile" -p evenkeel-cli --target-dir "$out" 2>"$out/log"; } 2>"$out/times" ||
    { cat "$out/log" >&2 && exit 1; }
read -r real user system <"$out/times"
bytes=$(stat -c %s "$out/$profile/evenkeel")
awk -v real="$real" -v user="$user" -v system_time="$system" -v bytes="$bytes" 'BEGIN {
    line = "{\"title\": \"%s\", \"value\": %.1f, \"more\": false}\n"
    printf line, "build of the command line from nothing, s", real
    printf line, "build of the command line from nothing, CPU, s", user + system_time
    printf line, "executable of the command line, MB", bytes / 1e6
}'
