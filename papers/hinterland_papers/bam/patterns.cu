// The GPU's shell around bam/patterns.hpp, one instance for each pattern and family of sources.
#include "hinterland_papers/bam/patterns.hpp"

namespace hinterland::bam {

template <class Pattern, class Sources>
__global__ void __launch_bounds__(kPatternThreads, 2) pattern_kernel(PatternParams p) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  read_pattern<int64_t, Sources, Pattern>(p, thread, thread + 1, static_cast<int64_t>(gridDim.x) * blockDim.x);
}

}  // namespace hinterland::bam
