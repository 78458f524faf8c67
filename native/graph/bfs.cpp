#include "graph/bfs.hpp"

#include <array>
#include <chrono>

#include "hinterland/graph/bfs.hpp"

namespace hinterland::native {

namespace {

// Steps with no more groups or tasks than this take less time than waking other threads: one thread does them.
constexpr int64_t kGroupsAlone = 64;
constexpr int64_t kTasksAlone = 16;

// Collects a thread's items and appends them to a bag by the hundred, so that threads seldom meet at its counter.
template <class T>
class Buffered {
 public:
  explicit Buffered(const Bag<T>& bag) : bag_(bag) {}
  Buffered(const Buffered&) = delete;
  Buffered& operator=(const Buffered&) = delete;
  ~Buffered() { flush(); }

  void append(const T& item) {
    items_[size_++] = item;
    if (size_ == items_.size()) flush();
  }

  template <class Make>
  void append(int64_t n, Make make) {
    for (int64_t k = 0; k < n; ++k) append(make(k));
  }

 private:
  void flush() {
    if (size_ == 0) return;
    const int64_t place = atomic_add(*bag_.count, static_cast<int64_t>(size_));
    for (size_t i = 0; i < size_; ++i) bag_.put(place + static_cast<int64_t>(i), items_[i]);
    size_ = 0;
  }

  Bag<T> bag_;
  std::array<T, 128> items_;
  size_t size_ = 0;
};

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Edge, class Id>
void run(const BfsArrays& arrays, int64_t source, void* parents, int32_t* levels, char* scratch) {
  const CsrSource<PointerSource<int64_t>, PointerSource<Edge>> graph{
      {arrays.offsets}, {static_cast<const Edge*>(arrays.edges)}, arrays.num_vertices, arrays.num_edges};
  const BfsState<Id> state(static_cast<Id*>(parents), levels, scratch,
                           BfsScratch(arrays.num_vertices, arrays.num_edges));
  BfsControl& control = *state.control;
  state.begin_at(source);
  for (int64_t depth = 0; control.num_touched[depth % 2] > 0; ++depth) {
    state.begin_collect(depth, now_ns());
    const GroupList groups = state.groups(depth);
#pragma omp parallel if (groups.count > kGroupsAlone)
    {
      Buffered<BfsTask> tasks(state.task_bag(depth));
      Collected counts;
#pragma omp for schedule(dynamic, 16) nowait
      for (int64_t i = 0; i < groups.count; ++i) collect(graph, state, groups, i, i + 1, depth, tasks, counts);
      counts.add_to(state.record(depth), control);
    }
    const int64_t num_tasks = state.num_tasks(depth, graph.num_vertices);
    state.begin_expand(depth, num_tasks, now_ns());
#pragma omp parallel if (num_tasks > kTasksAlone)
    {
      Buffered<int64_t> touched(state.touched_bag(depth + 1));
      BytesRead read;
#pragma omp for schedule(dynamic, 4) nowait
      for (int64_t i = 0; i < num_tasks; ++i) expand(graph, state, state.tasks[i], touched, read);
      read.add_to(state.record(depth));
    }
  }
  control.end_ns = now_ns();
}

}  // namespace

void bfs_top_down(const BfsArrays& graph, int64_t source, void* parents, int id_bytes, int32_t* levels, char* scratch) {
  if (id_bytes == 8) {
    if (graph.edge_bytes == 8)
      run<int64_t, uint64_t>(graph, source, parents, levels, scratch);
    else
      run<int32_t, uint64_t>(graph, source, parents, levels, scratch);
  } else if (graph.edge_bytes == 8) {
    run<int64_t, uint32_t>(graph, source, parents, levels, scratch);
  } else {
    run<int32_t, uint32_t>(graph, source, parents, levels, scratch);
  }
}

}  // namespace hinterland::native
