// A search of many levels by active tiles, in one launch: bam/deep.hpp.
#include "hinterland_papers/bam/array.hpp"
#include "hinterland_papers/bam/deep.hpp"

namespace hinterland::bam {

template <class Edge, class Sources>
__global__ void __launch_bounds__(kEmogiWarps* kWarpLanes) emogi_deep_search(const __grid_constant__ EmogiDeepParams p) {
  GridTeam team(p.team);
  search_by_tiles<Edge, Sources>(team, p);
}

}  // namespace hinterland::bam
