// The GPU's shell around bam/latency.hpp.
#include "hinterland_papers/bam/latency.hpp"

namespace hinterland::bam {

__global__ void latency_kernel(LatencyParams p) { time_reads(p); }

}  // namespace hinterland::bam
