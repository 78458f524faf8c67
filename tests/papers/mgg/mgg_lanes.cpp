// MGG's kernel (hinterland_papers/mgg/kernel.hpp) with 32 lanes on the CPU, for test_ablation.py: one warp of a block after the
// other, so that blocks whose warps wait for each other are of one warp.
#include <map>
#include <string>
#include <vector>

#include "hinterland_papers/mgg/kernel.hpp"

using namespace hinterland;
using namespace hinterland::mgg;

static_assert(sizeof(MggParams) % 8 == 0);

namespace {

using Run = void (*)(const MggParams&, int64_t, int, Quad*);

template <int kChunks, int kAhead, Loads kLoads>
void run(const MggParams& p, int64_t blocks, int threads, Quad* staged) {
  for (int64_t block = 0; block < blocks; ++block)
    for (int warp = 0; warp < threads / Warp::kWidth; ++warp)
      Lanes::run([&] {
        const int thread = warp * Warp::kWidth + Warp::lane();
        MggLane<kChunks, kAhead, kLoads>(p, thread, threads, staged)(block, (block * threads + thread) / p.lanes);
      });
}

template <int kChunks>
void add(std::map<std::string, Run>& to) {
  const std::string begin = "mgg_kernel<" + std::to_string(kChunks);
  to[begin + ", 1, Loads::kPlain>"] = run<kChunks, 1, Loads::kPlain>;
  to[begin + ", 4, Loads::kPlain>"] = run<kChunks, 4, Loads::kPlain>;
  to[begin + ", 1, Loads::kStaged>"] = run<kChunks, 1, Loads::kStaged>;
  to[begin + ", 1, Loads::kCommon>"] = run<kChunks, 1, Loads::kCommon>;
}

}  // namespace

// The size of the parameters; or 0 where there is no such instance.
extern "C" int64_t mgg(const char* instance, const MggParams* p, int64_t blocks, int threads, int64_t shared) {
  std::map<std::string, Run> runs;
  add<1>(runs), add<2>(runs);
  if (!runs.contains(instance)) return 0;
  std::vector<Quad> staged(shared / sizeof(Quad));
  runs[instance](*p, blocks, threads, staged.data());
  return sizeof(MggParams);
}
