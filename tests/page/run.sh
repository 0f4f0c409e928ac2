#!/bin/sh
# Tests the live page in a browser: run.sh [--screenshots FOLDER] [--wait SECONDS] PROGRAM [ARGUMENT...]
#
# PROGRAM serves a page, prints a line with its address (http://127.0.0.1:1234/), and accepts `--listen ADDRESS`, as the example
# `inspect` does:
#
#     cargo build -p evenkeel-examples --example inspect
#     tests/page/run.sh target/debug/examples/inspect --for 120
#
# and the demo: tests/page/run.sh target/release/evenkeel demo --for 120
#
# `--wait` delays the first screenshot, so that the page has some history. Requires node, chromium and chromedriver; no npm packages.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
for tool in node chromedriver; do
    command -v "$tool" >/dev/null || { echo "run.sh: $tool is not installed" >&2; exit 2; }
done
exec node "$here/page.mjs" "$@"
