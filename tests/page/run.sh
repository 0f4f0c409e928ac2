#!/bin/sh
# The page of the inspector in a real browser: run.sh [--screenshots FOLDER] [--wait SECONDS] PROGRAM [ARGUMENT...]
#
# PROGRAM serves a page and prints a line with its address, such as `look at http://127.0.0.1:1234/`, and takes `--listen ADDRESS`; the
# example `inspect` does:
#
#     cargo build -p evenkeel-examples --example inspect
#     tests/page/run.sh target/debug/examples/inspect --for 120
#
# and so does the demo: tests/page/run.sh target/release/evenkeel demo --for 120
#
# Screenshots are those of a program that has been at work for a while if it is given some seconds before the first is taken.
# It needs node, chromium and chromedriver, and nothing that has to be installed for it.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
for tool in node chromedriver; do
    command -v "$tool" >/dev/null || { echo "run.sh: $tool is not installed" >&2; exit 2; }
done
exec node "$here/page.mjs" "$@"
