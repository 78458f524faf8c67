// A level of EMOGI as blocks of a GPU serve it, with 32 lanes: under every access and assignment each edge of an active vertex
// is visited once, and no other. Prints the first seed that goes wrong.
#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

#include "../../rounds.hpp"
#include "hinterland_papers/emogi/traversal.hpp"

using namespace hinterland;

namespace {

struct Visits : emogi::EmogiApp {
  using Value = int64_t;
  std::vector<uint8_t> is_active;
  std::vector<int> visits;

  bool active(int64_t v) const { return is_active[v] != 0; }
  Value own(int64_t) const { return 0; }
  Value look(int64_t) const { return 0; }
  int64_t weight(int64_t i) const { return i; }
  void visit(int64_t, Value, int64_t, int64_t i, Value) { ++visits[i]; }
};

std::vector<int64_t> first_vertices(const std::vector<int64_t>& offsets, int64_t tile) {
  std::vector<int64_t> firsts;
  for (int64_t i = 0; i < offsets.back(); i += tile)
    firsts.push_back(std::upper_bound(offsets.begin(), offsets.end(), i) - offsets.begin() - 1);
  firsts.push_back(std::max<int64_t>(offsets.size() - 2, 0));
  return firsts;
}

template <class Access, class Assignment, class Edge>
bool once_each(unsigned seed, int64_t largest_size) {
  std::mt19937 random(seed);
  const int64_t vertices = 1 + random() % 200, size = 1 + random() % largest_size;
  std::vector<int64_t> offsets{0};
  // Some lists are about as long as some requests of a warp, or tiles, together.
  for (int64_t v = 0; v < vertices; ++v) {
    const int64_t kind = random() % 40, several = 1 + random() % 3, more = static_cast<int64_t>(random() % 5) - 2;
    const int64_t whole = kind == 1 ? emogi::kEmogiInFlight * kWarpLanes : kind == 2 ? kWarpLanes : size;
    const int64_t length = kind == 0 ? random() % 400 : kind < 4 ? several * whole + more : random() % 9;
    offsets.push_back(offsets.back() + std::max<int64_t>(length, 0));
  }
  const std::vector<Edge> edges(offsets.back() + 1);
  const std::vector<int64_t> firsts = first_vertices(offsets, size);
  const Assignment assignment{
      {offsets.data(), vertices, offsets.back(), size, firsts.data(), nullptr, static_cast<int64_t>(firsts.size()) - 1}};
  int64_t report[2] = {};
  Visits app{{{vertices, nullptr, nullptr, nullptr, nullptr, 0, report}}, {}, {}};
  app.visits.resize(offsets.back());
  for (int64_t v = 0; v < vertices; ++v) app.is_active.push_back(random() % 3 != 0);
  const int64_t blocks = emogi_blocks<Access>(assignment, emogi::kEmogiWarps, Warp::kWidth);
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t warp = 0; warp < emogi::kEmogiWarps; ++warp)
      Lanes::run([&] { serve<Access>(assignment, memory::Pointer<Edge>(edges.data()), app, block, warp, emogi::kEmogiWarps); });
  for (int64_t v = 0; v < vertices; ++v)
    for (int64_t i = offsets[v]; i < offsets[v + 1]; ++i)
      if (app.visits[i] != app.is_active[v]) return false;
  return true;
}

template <class Access>
bool all(unsigned seed) {
  return once_each<Access, emogi::ConsecutiveVertices, int32_t>(seed, 50) &&
         once_each<Access, emogi::TransposedVertices, int64_t>(seed, 300) &&
         once_each<Access, emogi::EdgeTiles, int32_t>(seed, 200) && once_each<Access, emogi::EdgeTiles, int64_t>(seed, 200);
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < test::rounds(8); ++seed)
    if (!all<emogi::NaiveAccess>(seed) || !all<emogi::MergedAccess>(seed) || !all<emogi::AlignedAccess>(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
}
