// The memory that pages lie in: a frame for each slot of a cache.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>

#include "core/errors.hpp"
#include "storage/descriptor.hpp"

namespace hinterland::native {

struct Frames {
  // As many sets of `ways` frames as `bytes` hold together with what else a slot takes. OutOfMemory.
  Frames(int64_t bytes, int64_t line_bytes, int64_t ways, int64_t slot_bytes)
      : line_bytes(line_bytes), line_shift(std::countr_zero(static_cast<uint64_t>(line_bytes))) {
    const int64_t set = ways * (line_bytes + slot_bytes) + static_cast<int64_t>(sizeof(uint32_t)), sets = bytes / set;
    if (sets == 0) {
      throw OutOfMemory("a cache of " + std::to_string(bytes) + " bytes holds no set of " + std::to_string(ways) +
                        " lines of " + std::to_string(line_bytes) + " bytes; give it at least " + std::to_string(set));
    }
    slots = sets * ways;
    memory = large_pages(slots * line_bytes);
    if (!memory) throw OutOfMemory("no memory for a cache of " + std::to_string(bytes) + " bytes; give it fewer");
  }

  char* at(int64_t slot) const { return memory.get() + slot * line_bytes; }
  std::span<char> all() const { return {memory.get(), static_cast<size_t>(slots * line_bytes)}; }

  int64_t line_bytes;
  int line_shift;
  int64_t slots = 0;
  DirectMemory memory;
};

}  // namespace hinterland::native
