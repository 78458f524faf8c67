#!/usr/bin/env bash
# Campaigns that are too long for every change: a billion calls of the storage cache by eight threads under ThreadSanitizer, writers
# killed at many more points, more cases of some tests, all those of the programs in C++, every kernel as GPUs get it, and hours of fuzzing.
#
#   tools/nightly.sh [calls of the cache] [points] [seconds of fuzzing]
set -euo pipefail
cd "$(dirname "$0")/.."
calls=${1:-1000000000} points=${2:-2000} seconds=${3:-14400}
step() { printf '\n== %s (%s s)\n' "$1" "$SECONDS"; }
mkdir -p build/nightly

step "$calls calls of the cache, a third with each way to give slots away"
g++ -std=c++20 -O1 -g -fsanitize=thread -pthread -I include -I papers tests/storage/cache_stress.cpp -o build/nightly/cache_stress
fixed=()
if setarch -R true 2> /dev/null; then fixed=(setarch -R); fi # as in sanitized_tests.sh
"${fixed[@]}" build/nightly/cache_stress 60000 8 "${SEED:-1}" $((calls / 3))

step "writers killed at $points points"
HINTERLAND_KILLED_WRITERS=$points .venv/bin/python -m pytest -q tests/{table/test_array,storage/test_shared}.py -k killed --timeout=36000

step "what kernels share of a file: every order of two preemptions, and five minutes of kernels, a traversal and a loader"
HINTERLAND_PREEMPTIONS=2 HINTERLAND_SHARED_SECONDS=300 .venv/bin/python -m pytest -q tests/storage/test_shared.py -k "order or fails" --timeout=36000

step "more cases of what the tests of every change try"
.venv/bin/python -m pytest -q -m "nightly and not gpu"

step "other examples of what hypothesis draws"
HINTERLAND_EXAMPLES=nightly .venv/bin/python -m pytest -q -n 2 -m "not nightly and not gpu" $(git grep -l 'from hypothesis' -- 'tests/*/test_*.py' 'tests/test_*.py')

step "all cases of the programs in C++, of which every change tries a quarter"
HINTERLAND_EXAMPLES=nightly .venv/bin/python -m pytest -q -n 2 $(git grep -l 'programs import' -- 'tests/*/test_*.py')

step "bare NVMe devices, driven by the library's Python in a virtual machine"
tools/nvme_in_qemu.sh -k python

step "tests under AddressSanitizer that go over code again which others reach for every change"
tools/sanitized_tests.sh address,undefined tests/{memory,table,probe,query} tests/cli/test_convert.py

step "ThreadSanitizer: all cases of the programs in C++, other examples, and all lists read through a cache as well"
HINTERLAND_EXAMPLES=nightly tools/sanitized_tests.sh thread

step "every kernel for sm_80, sm_90 and sm_100, optimized"
PYTHONPATH=papers .venv/bin/python -m hinterland_papers kernels build --arch sm_80,sm_90,sm_100 --output build/nightly/kernels 2> /dev/null

step "every kernel for sm_89, sm_103, sm_120 and sm_121, unoptimized: GPUs on which nothing was tried"
printf '%s\n' sm_89 sm_103 sm_120 sm_121 | xargs -L 1 .venv/bin/python tools/kernels_compile.py

step "the readers and queries, fuzzed for $seconds s each"
.venv/bin/python -m pip install -q -c constraints.txt atheris
.venv/bin/python tests/graph/formats/fuzz_readers.py -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096
.venv/bin/python tests/query/fuzz_files.py -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096

step "done"
