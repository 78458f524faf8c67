// A namespace in memory, as slow as a device.
#pragma once

#include <mutex>
#include <vector>

#include "storage/backend.hpp"

namespace hinterland::native {

// How a device answers. What is 0 is as fast as memory is.
struct Timing {
  uint64_t latency_ns;  // from a command's being picked up to its completion, if it does not wait for others
  uint64_t bytes_per_second;
  uint64_t requests_per_second;
  uint32_t parallelism;  // how many requests are served at once; 0: any number
};

// Latency after section 3.2 of Mailthody 2022, random reads of 4 KiB and 512 bytes a second after its table 5.3.
inline constexpr Timing kNoDelay{0, 0, 0, 0};
inline constexpr Timing kOptane{11'000, 1'500'000 * 4096ull, 5'100'000, 0};
inline constexpr Timing kZNand{25'000, 1'600'000 * 4096ull, 1'600'000, 0};
inline constexpr Timing kNand{324'000, 750'000 * 4096ull, 750'000, 0};

// When requests end on a device that all threads share, in the order in which they begin.
class Pace {
 public:
  explicit Pace(const Timing& timing) : timing_(timing), busy_until_(timing.parallelism) {}

  uint64_t due(uint64_t now, uint64_t bytes);

 private:
  const Timing timing_;
  std::mutex guard_;
  std::vector<uint64_t> busy_until_;  // [parallelism], in turn
  uint64_t begun_ = 0, last_ = 0;
  uint64_t passed_ = 0;  // by then all data that was asked for is through, at the device's rate
  double part_ = 0;      // of a nanosecond
};

class MemoryNamespace : public Namespace {
 public:
  // `bytes` at `memory`, which must stay there; what is beyond a whole number of blocks is left alone.
  MemoryNamespace(char* memory, uint64_t bytes, const Timing& timing) : memory_(memory), bytes_(bytes), pace_(timing) {}

  [[nodiscard]] uint64_t blocks() const override { return bytes_ / kBlockBytes; }
  std::unique_ptr<Backend> open(uint32_t most, std::span<const Region> regions) override;

 private:
  char* memory_;
  uint64_t bytes_;
  Pace pace_;
};

}  // namespace hinterland::native
