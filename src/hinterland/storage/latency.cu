// The GPU's shell around storage/latency.hpp.
#include "hinterland/storage/latency.hpp"

namespace hinterland::storage {

__global__ void latency_kernel(LatencyParams p) { time_reads(p); }

}  // namespace hinterland::storage
