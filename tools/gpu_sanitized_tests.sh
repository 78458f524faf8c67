#!/usr/bin/env bash
# On a machine with a GPU: compute-sanitizer's memcheck and racecheck over small graphs, every algorithm in every form, budget and
# mode (tests/graph/test_everything.py), and memcheck over EMOGI's kernels. One process an algorithm, all at once: the tool keeps
# a CPU core busy, the GPU hardly. Reports go to the folder that is named; some five minutes on 16 cores.
set -euo pipefail
cd "$(dirname "$0")/.."
reports=${1:?name a folder for the reports}
mkdir -p "$reports"
export PYTHONPATH="${PYTHONPATH-}"

check() { # tool, name of the report, file of tests, expression
  compute-sanitizer --tool "$1" --report-api-errors no --error-exitcode 9 \
    python3 -m pytest -q -x -m gpu -p no:cacheprovider "$3" -k "$4" > "$reports/$1-$2.txt" 2>&1
}

jobs=()
# Names of tests end with the algorithm, after a dash.
small="host and not budget and (kronecker or parallel or star)"
for algorithm in $(python3 -c 'from hinterland.graph import algorithms; print(*(one.name for one in algorithms.known()))'); do
  for tool in memcheck racecheck; do
    check $tool "$algorithm" tests/graph/test_everything.py "$small and -$algorithm" & jobs+=($!)
  done
done
check memcheck emogi tests/papers/emogi/test_traversal.py "" & jobs+=($!)
check memcheck bam_stored tests/papers/bam/test_stored.py "" & jobs+=($!)

failed=0
for job in "${jobs[@]}"; do wait "$job" || failed=1; done
grep -h -E "passed|failed|SUMMARY" "$reports"/*.txt
exit $failed
