#include "graph/emogi.hpp"

#include "core/parallel.hpp"

namespace hinterland::native {

namespace {

template <class App>
void level(const EmogiCase& run) {
  with_policies(run, [&](auto access, const auto& assignment, auto edge) {
    using Access = decltype(access);
    const memory::Pointer<decltype(edge)> edges(run.params.edges);
    parallel_for(
        emogi_blocks<Access>(assignment, 1, Warp::kWidth),
        [&](int64_t block) {
          App app{{run.params.state}};
          serve<Access>(assignment, edges, app, block, 0, 1);
          if (app.found) app.report_found();
        },
        64);
  });
}

}  // namespace

int64_t blocks_of(const EmogiCase& run) {
  int64_t blocks = 0;
  with_policies(run, [&](auto access, const auto& assignment, auto) {
    blocks = emogi_blocks<decltype(access)>(assignment, graph::kEmogiWarps, kWarpLanes);
  });
  return blocks;
}

void emogi_level(const EmogiCase& run, const std::string& algorithm) {
  if (algorithm == "bfs") return level<graph::EmogiBfs>(run);
  if (algorithm == "sssp") return level<graph::EmogiSssp>(run);
  if (algorithm == "cc") return level<graph::EmogiComponents>(run);
  level<graph::EmogiPagerank>(run);
}

}  // namespace hinterland::native
