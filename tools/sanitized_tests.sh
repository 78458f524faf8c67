#!/usr/bin/env bash
# Builds the native module with AddressSanitizer and UndefinedBehaviorSanitizer and runs CPU tests on it: those that are named,
# or those that go through most of it.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
site=$PWD/build/sanitized/site

"$PWD/.venv/bin/cmake" -S . -B build/sanitized -G Ninja -DPython_EXECUTABLE="$python" \
  -DHINTERLAND_SANITIZE=address,undefined > /dev/null
"$PWD/.venv/bin/cmake" --build build/sanitized
rm -rf "$site" && mkdir -p "$site" && cp -r src/hinterland "$site/"
"$PWD/.venv/bin/cmake" --install build/sanitized --prefix "$site" > /dev/null

# Python itself is not instrumented: the runtime must come first, and its own leaks are not ours to report.
export LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)"
# Reports go to files, because pytest keeps what a dying process wrote to standard error.
report=$PWD/build/sanitized/report
rm -f "$report".*
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:log_path=$report
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:log_path=$report
# Everything that reads files or builds arrays, and test_everything, which has every algorithm on every kind of graph. (The tests
# of each algorithm go over the same code at several times the length.)
graph=(formats test_build.py test_changed_arrays.py test_compress.py test_everything.py test_generate.py test_graph.py test_reorder.py test_verify.py)
[ $# -gt 0 ] || set -- "${graph[@]/#/tests/graph/}" tests/memory tests/probe tests/traffic tests/cli/test_convert.py
PYTHONPATH=$site "$python" -m pytest -q -m "not slow and not unsanitized" "$@" || { cat "$report".* 2> /dev/null; exit 1; }
