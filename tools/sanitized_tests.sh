#!/usr/bin/env bash
# Builds the native module with sanitizers and runs CPU tests on it: those that are named after the sanitizers, or those that go
# through most of it.
#
#   tools/sanitized_tests.sh address,undefined [TEST ...]
#   tools/sanitized_tests.sh thread [TEST ...]
set -euo pipefail
cd "$(dirname "$0")/.."
sanitizers=${1:-address,undefined}
shift $(($# > 0))
python=$PWD/.venv/bin/python
build=$PWD/build/sanitized-$sanitizers
site=$build/site

"$PWD/.venv/bin/cmake" -S . -B "$build" -G Ninja -DPython_EXECUTABLE="$python" -DHINTERLAND_SANITIZE="$sanitizers" > /dev/null
"$PWD/.venv/bin/cmake" --build "$build"
rm -rf "$site" && mkdir -p "$site" && cp -r src/hinterland "$site/"
rm -f "$site"/hinterland/_core*  # one that is as new would not be replaced
"$PWD/.venv/bin/cmake" --install "$build" --prefix "$site" > /dev/null

report=$build/report
rm -f "$report".*
chosen=() fixed=()
if [ "$sanitizers" = thread ]; then
  # GCC's runtime cannot follow where newer kernels place memory at random. Containers may refuse to place it otherwise.
  setarch -R true 2> /dev/null && fixed=(setarch -R)
  # What this must find: it sees nothing at all where the runtime is not in place.
  flags=(-std=c++20 -O1 -g -fopenmp -fsanitize=thread -I include -I native)
  for races in true false; do
    g++ "${flags[@]}" -DRACES=$races tests/core/race.cpp tools/openmp_threads.cpp -o "$build/race"
    "${fixed[@]}" "$build/race" > "$build/race.txt" 2>&1 && found=false || found=true
    [ $found = $races ] || { cat "$build/race.txt"; echo "a race is planted: $races; found: $found"; exit 1; }
  done
  runtimes=$(g++ -print-file-name=libtsan.so)
  export TSAN_OPTIONS=log_path=$report:suppressions=$PWD/tools/thread_suppressions.txt
  export OMP_NUM_THREADS=1  # torch's: it waits for its threads in libgomp, which is not instrumented. Ours are four at all times.
  # Threads that share what users have, every algorithm, samples, the cache, pipelines.
  tests=(test_threads.py graph/test_everything.py memory/test_cached.py sampling/test_neighbor.py training/test_pipeline.py)
  chosen=(-k "not test_nothing_changes_a_result and not far_into and not no_vertex or kronecker-")
else
  runtimes="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)"
  export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:log_path=$report  # Python's own leaks are not ours to report
  export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:log_path=$report
  # Everything that reads files or builds arrays, and test_everything, which has every algorithm on every kind of graph. (The
  # tests of each algorithm go over the same code at several times the length.)
  tests=(graph/{formats,test_{build,changed_arrays,compress,everything,generate,graph,reorder,verify}.py} memory probe traffic
    cli/test_convert.py test_threads.py)
fi
[ $# -gt 0 ] || set -- "${tests[@]/#/tests/}" "${chosen[@]}"
# Python itself is not instrumented: the runtime must come first. Reports go to files, because pytest keeps what a dying process
# wrote to standard error.
"${fixed[@]}" env LD_PRELOAD="$runtimes" PYTHONPATH="$site" "$python" -m pytest -q -m "not slow and not unsanitized" "$@" ||
  { cat "$report".* 2> /dev/null; exit 1; }
