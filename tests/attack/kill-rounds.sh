#!/usr/bin/env bash
# Kills a durable server with SIGKILL under 50 writers, 100 times by default, with torn records and full disks in between.
# Usage: tests/attack/kill-rounds.sh [ROUNDS] [SEED]
set -euo pipefail
cd "$(dirname "$0")/../.."
export EVENKEEL_KILL_ROUNDS=${1:-100} EVENKEEL_KILL_SEED=${2:-1}
exec cargo test -p evenkeel-cli --test cli -- --nocapture --exact \
    kill_rounds::dur_003_dur_011_acknowledged_writes_survive_kill_torn_records_and_a_full_disk
