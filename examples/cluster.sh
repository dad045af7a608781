#!/usr/bin/env bash
# A cluster of four workers on localhost ports, started by hand: what a scheduler does for you. Each worker is the same
# command with its own TF_CONFIG; the order of start does not matter.
#
#     examples/cluster.sh [COMMAND ...]      default: build/lockstep train --epochs 2 --json
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- build/lockstep train --model mlp --dataset digits --epochs 2 --json
base=${LOCKSTEP_EXAMPLE_PORT:-23450}
cluster="{\"worker\":[\"127.0.0.1:$base\",\"127.0.0.1:$((base + 1))\",\"127.0.0.1:$((base + 2))\",\"127.0.0.1:$((base + 3))\"]}"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true' EXIT
for index in 3 2 1 0; do
    TF_CONFIG="{\"cluster\":$cluster,\"task\":{\"type\":\"worker\",\"index\":$index}}" "$@" &
    pids+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
exit "$status"
