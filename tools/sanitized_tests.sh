#!/usr/bin/env bash
# Builds the native modules with sanitizers and runs CPU tests on them: those that are named after the sanitizers, or those that go
# through most of it.
#
#   tools/sanitized_tests.sh address,undefined [TEST ...]
#   tools/sanitized_tests.sh thread [TEST ...]
set -euo pipefail
cd "$(dirname "$0")/.."
sanitizers=${1:-address,undefined}
shift $(($# > 0))
python=$PWD/.venv/bin/python
build=$PWD/build/sanitized-${sanitizers//,/-}
site=$build/site

tools/sanitized_build.sh "$sanitizers"
rm -rf "$site" && mkdir -p "$site" && cp -r src/hinterland "$site/"
rm -f "$site"/hinterland/_core*  # one that is as new would not be replaced
"$PWD/.venv/bin/cmake" --install "$build" --prefix "$site" > /dev/null
cp -r papers/hinterland_papers "$site/" && rm -f "$site"/hinterland_papers/_core*
"$PWD/.venv/bin/cmake" --install "$build" --component papers --prefix "$site" > /dev/null

report=$build/report
rm -f "$report".*
chosen=() fixed=()
cores=$(nproc)
if [ "$sanitizers" = thread ]; then
  # GCC's runtime cannot follow where newer kernels place memory at random. Containers may refuse to place it otherwise.
  setarch -R true 2> /dev/null && fixed=(setarch -R)
  # What this must find: it sees nothing at all where the runtime is not in place.
  flags=(-std=c++20 -O1 -g1 -fsanitize=thread)
  look() {  # how a program must end, its name, and what it is compiled from
    g++ "${flags[@]}" "${@:3}" -o "$build/$2"
    "${fixed[@]}" "$build/$2" > "$build/$2.txt" 2>&1 && found=nothing || found=something
    [ $found = $1 ] || { cat "$build/$2.txt"; echo "$2: must find $1, found $found"; return 1; }
  }
  running=()
  beside() {  # looks, two at a time
    [ ${#running[@]} -lt 2 ] || { wait "${running[0]}"; running=("${running[@]:1}"); }
    look "$@" & running+=($!)
  }
  module=$build/CMakeFiles/_core.dir
  storage() { printf "$module/native/storage/%s.cpp.o " "$@"; }  # as the modules have them
  devices=$(printf "$build/papers/CMakeFiles/_papers.dir/hinterland_papers/bam/%s.cpp.o " memory_namespace faults)
  openmp=(-fopenmp -pthread "$module/tools/openmp_threads.cpp.o")
  threads=(-I include -I native tests/core/race.cpp "${openmp[@]}")
  beside something race -DRACES=true "${threads[@]}"
  beside nothing no_race -DRACES=false "${threads[@]}"
  # The code that a warp runs: each lane is a thread.
  lanes=(-I tests/lanes -I include -I papers)
  beside something race_of_words -DRACE=shared_words "${lanes[@]}" tests/lanes/race.cpp
  beside something race_to_sum -DRACE=plain_sum "${lanes[@]}" tests/lanes/race.cpp
  beside nothing no_race_of_lanes -DRACE=nothing "${lanes[@]}" tests/lanes/race.cpp
  beside nothing queue -I include -pthread tests/storage/queue.cpp
  beside nothing device -DWRITES=false -I include -pthread tests/storage/device.cpp
  beside nothing source -I include -I papers -pthread tests/storage/source_lanes.cpp
  served=(-DSERVED -I include -I native -I papers -pthread $(storage request serving) $devices)
  beside nothing served_queue "${served[@]}" tests/storage/queue.cpp
  beside nothing served_device -DWRITES=false "${served[@]}" tests/storage/device.cpp
  beside nothing serving "${served[@]}" $(storage controller) tests/storage/serving.cpp
  beside nothing file_serving "${served[@]}" $(storage controller file_namespace file_backend transfers pread_pool) \
    native/storage/uring.cpp tests/storage/file_serving.cpp  # without io_uring, whose work nobody sees
  beside nothing deep -I include -I papers -pthread tests/papers/bam/deep.cpp
  beside nothing nvme_device -I include -I native -pthread tests/storage/nvme_device.cpp \
    $(storage nvme_device nvme_channel nvme_controller nvme_transfers vfio_device request driven_queues doorbell_thread)
  beside nothing spread "${served[@]}" $(storage controller spread_namespace) tests/storage/spread.cpp
  beside nothing copies -DWRITES=false -I tests/cached -I include -I native tests/storage/copies.cpp "${openmp[@]}" \
    $(storage store planned pinned rings volumes volume page_cache read_ahead expected host_pages file routed_transfers)
  for program in $(grep -rl --include='*_lanes.cpp' 'int main()' tests); do
    beside nothing "$(basename "$program" .cpp)" "${lanes[@]}" "$program"
  done
  for job in "${running[@]}"; do wait "$job"; done
  # The software cache by eight threads, for 9 s; make nightly goes on for a billion calls.
  look nothing cache_stress -DMILLISECONDS=3000 -pthread -I include -I papers tests/storage/cache_stress.cpp
  runtimes=$(g++ -print-file-name=libtsan.so)
  export TSAN_OPTIONS=log_path=$report:suppressions=$PWD/tools/thread_suppressions.txt
  export OMP_NUM_THREADS=1  # torch's: it waits for its threads in libgomp, which is not instrumented. Ours are four at all times.
  # Threads that share what users have, every algorithm, samples, caches, pipelines.
  tests=(test_threads.py graph/test_{everything,passes}.py memory/test_assisted.py
    table/test_cached.py sampling/test_neighbor.py training/test_pipeline.py)
  chosen=(-k "not test_nothing_changes_a_result and not far_into and not no_vertex or kronecker-")
else
  runtimes="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)"
  export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:log_path=$report  # Python's own leaks are not ours to report
  export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:log_path=$report
  # Everything that reads files or builds arrays, and test_everything, which has every algorithm on every kind of graph. (The
  # tests of each algorithm go over the same code at several times the length; what only Python tells apart is left out.)
  tests=(graph/{formats,test_{build,changed_arrays,compress,everything,generate,graph,passes,reorder,verify}.py}
    memory/test_{allocator,assisted,count,gather_stats,load,widths}.py
    table/test_{array,cached,embedding,pinned,sharded,tiered,tiered_storage,unified}.py query/test_{coded,pinned_columns,other_writers,parquet,texts,unread_columns}.py
    papers/{bam/test_stored.py,emogi/{test_changed_arrays.py,test_ablation.py,traffic}} storage/test_{layout,on_device}.py test_threads.py
    fullgraph/test_{part.py,aggregate.py::test_{columns_one_range_after_another,rows_between_vectors},attention.py::test_long_rows_are_joined_of_pieces})
  chosen=(-k "not test_everything or kronecker")  # one kind of graph is enough for what each algorithm goes through
fi
# Python itself is not instrumented: the runtime must come first. Reports go to files, but for those of undefined behaviour, which go
# to standard error: pytest leaves that alone, or what a dying process wrote there would be lost.
try() {
  "${fixed[@]}" env LD_PRELOAD="$runtimes" PYTHONPATH="$site" "$python" -m pytest -q -o pythonpath= --capture=sys \
    -n $((cores < 8 ? cores : 8)) --dist worksteal -m "not slow and not unsanitized and not nightly" "$@" ||
    { cat "$report".* 2> /dev/null; exit 1; }
}
if [ $# -gt 0 ]; then
  try "$@"
else
  try "${tests[@]/#/tests/}" "${chosen[@]}"
  # Through a cache, lists on storage are read above, and by every program of lanes in the tests.
  if [ "$sanitizers" = thread ] && [ "${HINTERLAND_EXAMPLES:-}" = nightly ]; then
    export HINTERLAND_CACHED_SOURCES=1
    alike="personal or bytes or floats or doubles"  # lists are read as by the same algorithm's other variant, which is tried
    try tests/graph/test_everything.py tests/sampling/test_neighbor.py -k "(${chosen[1]}) and not (kronecker- and ($alike))"
  fi
fi
