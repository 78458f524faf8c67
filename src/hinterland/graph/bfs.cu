// All levels of a breadth-first search in one cooperative launch: the CPU decides nothing between levels.
#include "hinterland/graph/bfs.hpp"

namespace hinterland {

inline constexpr int kBfsBlock = 512;
inline constexpr int kBfsBlocksPerSm = 2;

__device__ __forceinline__ int64_t now_ns() {
  int64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// All blocks of the grid wait for each other. The count of arrivals only grows, so nobody resets it.
struct GridBarrier {
  uint64_t& arrived;
  uint64_t passed = 0;

  __device__ void wait() {
    passed += gridDim.x;
    __syncthreads();
    if (threadIdx.x == 0) {
      AtomicRef<uint64_t>(arrived).fetch_add(1, order::memory_order_release);
      while (atomic_load(arrived) < passed) {
      }
      // One acquire at the end, not one a poll: each empties the L1 cache, which the SM's other block may still be using.
      ::cuda::atomic_thread_fence(order::memory_order_acquire, ::cuda::thread_scope_device);
    }
    __syncthreads();
  }
};

// Offsets and edges may lie in any memory that the GPU addresses. Everything is 0 in the first part of `scratch`, and -1 in
// `parents` and `levels`.
template <class Edge, class Id>
__global__ void __launch_bounds__(kBfsBlock, kBfsBlocksPerSm)
    bfs_top_down(const int64_t* offsets, const Edge* edges, int64_t num_vertices, int64_t num_edges, int64_t source,
                 Id* parents, int32_t* levels, char* scratch) {
  const CsrSource<PointerSource<int64_t>, PointerSource<Edge>> graph{{offsets}, {edges}, num_vertices, num_edges};
  const BfsState<Id> state(parents, levels, scratch, BfsScratch(num_vertices, num_edges));
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (kBfsBlock / Warp::kWidth);
  const int64_t warp = (static_cast<int64_t>(threadIdx.x) / Warp::kWidth) * gridDim.x + blockIdx.x;
  const bool leads = blockIdx.x == 0 && threadIdx.x == 0;
  GridBarrier barrier{state.control->arrived};

  if (leads) state.begin_at(source);
  barrier.wait();
  for (int64_t depth = 0;; ++depth) {
    if (atomic_load(state.control->num_touched[depth % 2]) == 0) break;
    const GroupList groups = state.groups(depth);
    if (leads) state.begin_collect(depth, now_ns());
    auto tasks = state.task_bag(depth);
    Collected counts;
    // A warp takes several groups at once where there are more groups than warps.
    const int64_t batch = min_of<int64_t>(ceil_div(groups.count, warps), Warp::kWidth);
    for (int64_t i = warp * batch; i < groups.count; i += warps * batch)
      collect(graph, state, groups, i, min_of(i + batch, groups.count), depth, tasks, counts);
    counts.add_to(state.record(depth), *state.control);
    barrier.wait();

    const int64_t num_tasks = state.num_tasks(depth, num_vertices);
    if (leads) state.begin_expand(depth, num_tasks, now_ns());
    BytesRead read;
    auto touched = state.touched_bag(depth + 1);
    for (int64_t i = warp; i < num_tasks;) {
      int64_t following = 0;  // asked for before the work, so that the answer is there after it
      if (Warp::lane() == 0) following = warps + atomic_add(state.control->taken, int64_t{1});
      expand(graph, state, state.tasks[i], touched, read);
      i = Warp::broadcast(following, 0);
    }
    read.add_to(state.record(depth));
    barrier.wait();
  }
  if (leads) state.control->end_ns = now_ns();
}

}  // namespace hinterland
