// Random elements of an array, which lies in GPU memory or in host memory: the kernel is the same, and does not know.
#include <cstdio>
#include <cstdlib>

#define HINTERLAND_ARRAY_KINDS HINTERLAND_NEAR  // all arrays here are memory that the GPU addresses: as fast as pointers
#include "hinterland/kernels/array.hpp"

using hinterland::kernels::array;

constexpr int64_t kElements = int64_t{1} << 28;  // 1 GiB
constexpr int kThreads = 256, kBlocks = 4096, kReads = 64;

#define CHECK(call)                                                                     \
  if (const cudaError_t error = (call); error != cudaSuccess) {                         \
    std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
    std::exit(1);                                                                       \
  }

__global__ void fill(array<uint32_t> values) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < values.size()) values[i] = static_cast<uint32_t>(i);
}

// Each thread reads the elements that some numbers name, and adds them up (Mailthody 2022, listing 5.3).
__global__ void add_random(array<const uint32_t> values, unsigned long long* sum) {
  const uint64_t thread = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  unsigned long long mine = 0;
  for (int k = 0; k < kReads; ++k) {
    const uint64_t random = (thread * kReads + k + 1) * 0x9E3779B97F4A7C15u;  // Fibonacci hashing
    mine += values[static_cast<int64_t>((random >> 16) % static_cast<uint64_t>(values.size()))];
  }
  atomicAdd(sum, mine);
}

void measure(const char* where, uint32_t* elements) {
  fill<<<kElements / kThreads, kThreads>>>({elements, kElements});
  unsigned long long* sum = nullptr;
  CHECK(cudaMallocManaged(&sum, sizeof(*sum)));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (int turn = 0; turn < 2; ++turn) {  // the first warms up
    CHECK(cudaMemset(sum, 0, sizeof(*sum)));
    CHECK(cudaEventRecord(begin));
    add_random<<<kBlocks, kThreads>>>({elements, kElements}, sum);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
  }
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, begin, end));
  const double reads = double{kBlocks} * kThreads * kReads;
  std::printf("%s: the sum is %llu, %.2f billion reads a second\n", where, *sum, reads / ms / 1e6);
  CHECK(cudaFree(sum));
}

int main() {
  constexpr size_t kBytes = kElements * sizeof(uint32_t);
  uint32_t* near = nullptr;
  CHECK(cudaMalloc(&near, kBytes));
  measure("GPU memory", near);

  // Managed memory that stays on the host, and that the GPU has mapped: it reads over the link, without page faults.
  uint32_t* far = nullptr;
  CHECK(cudaMallocManaged(&far, kBytes));
  int gpu = 0;
  CHECK(cudaGetDevice(&gpu));
  CHECK(cudaMemAdvise(far, kBytes, cudaMemAdviseSetPreferredLocation, {cudaMemLocationTypeHost, 0}));
  CHECK(cudaMemAdvise(far, kBytes, cudaMemAdviseSetAccessedBy, {cudaMemLocationTypeDevice, gpu}));
  measure("host memory", far);

  CHECK(cudaFree(far));
  CHECK(cudaFree(near));
}
