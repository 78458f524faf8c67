// What a file gives by itself, without cache or rows: the rival of everything that reads through a store.
#pragma once

#include <cstdint>
#include <filesystem>

#include "storage/transfers.hpp"

namespace hinterland::native {

struct RawRun {
  int64_t ns, cpu_ns;  // elapsed, and of all threads together
};

// Moves `bytes` at each of `count` offsets, multiples of `bytes` within the file; which of them are writes `write_every` says: 0
// for none, 1 for all, n for one in n; they are on the disk at the end. By `threads` threads with `depth` transfers in flight each, with direct I/O where the
// file system offers it. StorageError where one fails.
RawRun run_raw(const std::filesystem::path& path, const int64_t* offsets, int64_t count, int64_t bytes, int64_t write_every,
               int threads, unsigned depth, Engine engine);

}  // namespace hinterland::native
