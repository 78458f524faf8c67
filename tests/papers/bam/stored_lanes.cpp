// A level of EMOGI over edges on storage, with 32 lanes: under every assignment, and with tiles that are copied, each edge of
// an active vertex is visited once, and no other, through a cache of eight lines. Prints the first seed that goes wrong.
#include <unistd.h>

#include "../../storage/warps.hpp"
#include "hinterland_papers/bam/stored.hpp"

using namespace test;

namespace {

using Through = bam::OnStorage<Storage::Store>;

struct Visits : emogi::EmogiApp {
  using Value = int64_t;
  const std::vector<uint8_t>* is_active;
  std::vector<std::atomic<int>>* visits;  // of each edge, which names itself

  bool active(int64_t v) const { return (*is_active)[v] != 0; }
  Value own(int64_t) const { return 0; }
  Value look(int64_t) const { return 0; }
  void visit(int64_t, Value, int64_t w, int64_t, Value) { ++(*visits)[w]; }
};

template <class Assignment, class Edge, bool kCopies>
bool once_each(unsigned seed, int64_t largest_size) {
  constexpr int64_t kWarpsOfBlock = 2;
  std::mt19937 random(seed);
  Storage storage({.line = 512}, Faults{.late = 4, .reorder = true}, seed);
  const int64_t vertices = 1 + random() % 100, size = 1 + random() % largest_size;
  std::vector<int64_t> offsets{0};
  for (int64_t v = 0; v < vertices; ++v) {
    const int64_t kind = random() % 20;
    offsets.push_back(offsets.back() + (kind == 0 ? random() % 400 : kind == 1 ? size : random() % 9));
  }
  std::vector<Edge> edges(offsets.back());
  std::iota(edges.begin(), edges.end(), 0);
  std::memcpy(&storage.disk()[512], edges.data(), edges.size() * sizeof(Edge));
  std::vector<int64_t> firsts;
  for (int64_t i = 0; i < offsets.back(); i += size)
    firsts.push_back(std::upper_bound(offsets.begin(), offsets.end(), i) - offsets.begin() - 1);
  firsts.push_back(vertices - 1);
  bam::EmogiStoredParams params{};
  params.level.division = {
      offsets.data(), vertices, offsets.back(), size, firsts.data(), nullptr, static_cast<int64_t>(firsts.size()) - 1};
  params.edges = {reinterpret_cast<const void*>(uint64_t{512}), nullptr, nullptr, &storage.store};
  std::vector<uint8_t> active;
  for (int64_t v = 0; v < vertices; ++v) active.push_back(random() % 3 != 0);
  std::vector<std::atomic<int>> visits(offsets.back());
  int64_t report[2] = {};
  const int64_t blocks = emogi_blocks<emogi::AlignedAccess>(Assignment{params.level.division}, kWarpsOfBlock, Warp::kWidth);
  std::vector<std::thread> threads;
  for (int64_t warp = 0; warp < kWarpsOfBlock; ++warp)
    threads.emplace_back([&, warp] {
      std::vector<Edge> copy(size);
      for (int64_t block = 0; block < blocks; ++block)
        run_warp([&] {
          Visits app{{{static_cast<int64_t>(edges.size()), nullptr, nullptr, nullptr, nullptr, 0, report}}, &active, &visits};
          bam::serve_stored<Assignment, Edge, kCopies, Through>(params, app, copy.data(), block, warp, kWarpsOfBlock);
        });
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(storage.status() == 0, "status %x", storage.status());
  for (int64_t v = 0; v < vertices; ++v)
    for (int64_t i = offsets[v]; i < offsets[v + 1]; ++i)
      if (visits[i] != active[v]) return false;
  return true;
}

bool all(unsigned seed) {
  return once_each<emogi::ConsecutiveVertices, int32_t, false>(seed, 50) &&
         once_each<bam::FarVertices, int32_t, false>(seed, 50) &&
         once_each<emogi::TransposedVertices, int64_t, false>(seed, 300) &&
         once_each<emogi::EdgeTiles, int32_t, false>(seed, 200) && once_each<emogi::EdgeTiles, int32_t, true>(seed, 200) &&
         once_each<emogi::EdgeTiles, int64_t, true>(seed, 512);
}

}  // namespace

int main() {
  alarm(300);
  for (unsigned seed = 0; seed < test::rounds(4); ++seed)
    if (!all(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
}
