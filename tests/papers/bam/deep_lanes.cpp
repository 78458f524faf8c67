// A search by active tiles as a warp of a GPU runs it, through a cache of eight lines: it finds the levels, and lists each tile
// once for a level. Prints the first seed that goes wrong.
#include <unistd.h>

#include "../../storage/warps.hpp"
#include "deep_search.hpp"
#include "lane_team.hpp"

using namespace test;

namespace {

using Through = bam::OnStorage<Storage::Store>;

template <class Edge>
struct LookingTeam : LaneTeam {
  const DeepSearch<Edge>& search;
  bool& each_once;
  int64_t level = 0;

  LookingTeam(const DeepSearch<Edge>& search, bool& each_once) : search(search), each_once(each_once) {}

  template <class Body>
  void dynamic_for(int64_t count, const Body& body) {
    single([&] { each_once &= search.has_each_once(level, count); });
    ++level;
    LaneTeam::dynamic_for(count, body);
  }
};

template <class Edge>
bool agrees(unsigned seed) {
  Storage storage({.line = 512}, Faults{.late = 4, .reorder = true}, seed);
  DeepSearch<Edge> search(seed);
  if (!search.edges.empty()) std::memcpy(&storage.disk()[512], search.edges.data(), search.edges.size() * sizeof(Edge));
  search.params.stored.edges = {reinterpret_cast<const void*>(uint64_t{512}), nullptr, nullptr, &storage.store};
  bool each_once = true;
  run_warp([&] {
    LookingTeam<Edge> team(search, each_once);
    bam::search_by_tiles<Edge, Through>(team, search.params);
  });
  CHECK(storage.status() == 0, "status %x", storage.status());
  return each_once && search.levels == search.expected;
}

}  // namespace

int main() {
  alarm(300);
  for (unsigned seed = 0; seed < test::rounds(40); ++seed)
    if (!agrees<int32_t>(seed) || !agrees<int64_t>(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
}
