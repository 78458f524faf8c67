// What a file, or a bare device, gives by itself, without cache or rows: the rival of everything that reads through a store.
#pragma once

#include <cstdint>
#include <filesystem>

#include "storage/transfers.hpp"

namespace hinterland::native {

struct RawRun {
  int64_t ns, cpu_ns;  // elapsed, and of all threads together
};

// Moves `bytes` at each of `count` offsets, multiples of `bytes` within the file, by `threads` threads with `depth` transfers
// in flight each, and direct I/O where the file system offers it. Every `write_every`-th is a write, 0 for none; they are on
// the disk at the end. StorageError where one fails.
RawRun run_raw(const std::filesystem::path& path, const int64_t* offsets, int64_t count, int64_t bytes, int64_t write_every,
               int threads, unsigned depth, Engine engine);

}  // namespace hinterland::native
