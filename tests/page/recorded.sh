#!/bin/sh
# Tests the page of a recorded run in a browser: recorded.sh [--screenshots FOLDER] PAGE
#
# PAGE is the page of a failure in which a process has crashed and an object was created, such as that of the example:
#
#     cargo run -p evenkeel-examples --example simulated_bugs -- --page step-forgotten.html
#     tests/page/recorded.sh step-forgotten.html
#
# Requires node, chromium and chromedriver; no npm packages.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
for tool in node chromedriver; do
    command -v "$tool" >/dev/null || { echo "recorded.sh: $tool is not installed" >&2; exit 2; }
done
exec node "$here/recorded.mjs" "$@"
