#!/usr/bin/env bash
# Measures everything that docs/performance.md shows, one step after the other, and writes the figures into it and the README.
#
#   bench/report.sh [ROUNDS] [--quick] [--steps LIST] [--out DIR] [--render-only]
#
#   ROUNDS         rounds of each comparison, 3 by default
#   --quick        a smoke test: small numbers, one round, and the files are written below the folder of the figures instead
#   --steps LIST   only these, separated by commas: store, queue, compare, growth, million, pack, server, reconcile, webhooks,
#                  build, replicas, sessions. By default all but replicas and sessions; with --quick also without build, but with
#                  replicas. Figures of other steps are kept
#   --out DIR      folder of the figures, one JSON file for each step: target/performance, or target/performance-quick
#   --render-only  measures nothing: writes the saved figures
#
# Run it on an otherwise idle machine. It needs Go and python3, and kubectl for sessions. It takes about an hour with two rounds.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=measured
rounds=3 quick='' steps='' out='' render_only=''
while [ $# -gt 0 ]; do
    case "$1" in
        --quick) quick=yes ;;
        --render-only) render_only=yes ;;
        --steps) steps=${2:?} && shift ;;
        --out) out=${2:?} && shift ;;
        [1-9]*) rounds=$1 ;;
        *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0" >&2 && exit 2 ;;
    esac
    shift
done
bench=target/$profile/evenkeel-bench
peers=bench/peers/target/release
if [ -n "$quick" ]; then
    rounds=1
    out=${out:-target/performance-quick}
    steps=${steps:-store,queue,compare,growth,million,pack,server,reconcile,webhooks,replicas}
    into=(--into "$out")
    store=(--objects 1000) queue=(--keys 5000) compare=(--quick) replicas=(--quick) webhooks=(--seconds 1) pods=2000 watchers=50 starts=20 reconcile="--samples 50 --running 0,100"
    transfer=20000000
else
    out=${out:-target/performance}
    steps=${steps:-store,queue,compare,growth,million,pack,server,reconcile,webhooks,build}
    into=() store=() queue=() compare=(--rounds "$rounds") replicas=(--rounds "$rounds") webhooks=() pods=100000 watchers=1000 starts=200
    reconcile="--samples 1000 --running 0,100,1000,10000"
    transfer=1000000000
fi
export PYTHONPATH=bench

compare() {
    "$bench" compare "${compare[@]}" "$@"
}
# Usage: cases ROUNDS NAME TITLE COMMAND…
cases() {
    python3 -B -m report.cases "$1" --name "$2" --title "$3" --json "$out/$2.json" "${@:4}"
}
measure() {
    case "$1" in
        store) bench/store.sh "$rounds" --json "$out/store.json" "${store[@]}" ;;
        queue) bench/queue.sh "$rounds" --json "$out/queue.json" "${queue[@]}" ;;
        compare)
            compare --cases informer,kinds,secrets,endpointslices,documents --json "$out/compare.json" --svg "$out/informers.svg"
            ;;
        growth)
            compare --cases small,large,light --wires protobuf --programs evenkeel,client-go --json "$out/growth.json"
            ;;
        million) compare --million --json "$out/million.json" ;;
        pack) cases "$rounds" pack "packed pods" "$bench pack --json --pods $pods" ;;
        server)
            cases "$rounds" server "embedded server" "$bench start --json --starts $starts" "$bench memory --json" \
                "$bench crd --json --starts $starts" "$bench creates --json" "$bench large --json --pods $pods" \
                "$bench watch --json --watchers $watchers"
            ;;
        reconcile)
            (cd bench/peers && cargo build --quiet --release --bin reconcile)
            cases "$rounds" reconcile "event to reconcile" "$bench reconcile $reconcile" --of kube-rs "$peers/reconcile $reconcile"
            ;;
        webhooks) bench/webhooks.sh "$rounds" --json "$out/webhooks.json" "${webhooks[@]}" ;;
        build) cases 1 build "build" bench/build.sh ;;
        replicas) "$bench" replicas --profile "$profile" --json "$out/replicas.json" "${replicas[@]}" ;;
        sessions) bench/sessions.sh "$rounds" "$transfer" --json "$out/sessions.json" ;;
        *) echo "there is no step $1" >&2 && exit 2 ;;
    esac
}

mkdir -p "$out"
if [ -z "$render_only" ]; then
    cargo build --quiet --profile "$profile" -p evenkeel-bench -p evenkeel-cli
    python3 -B -m report.machine >"$out/machine.json"
    for step in ${steps//,/ }; do
        began=$SECONDS
        printf '\n== %s\n' "$step" >&2
        # Into a file: a table on a terminal is not what this is run for.
        measure "$step" >"$out/$step.txt"
        echo "$step: $((SECONDS - began)) s" >&2
    done
fi
python3 -B -m report.render "$out" "${into[@]}" README.md docs/performance.md
