// What a disk gives to threads that read and write it past the page cache.
#pragma once

#include <cstdint>
#include <string>

namespace hinterland::native {

// Whether the file system of `path` takes direct I/O.
bool takes_direct_io(const std::string& path);

// Transfers [offset, offset + bytes), whole blocks of 4 MiB, with `threads` threads: writes pages of which no two are
// alike (a disk that compresses or deduplicates gains nothing) and waits until they are on the disk, or reads.
void transfer_file(const std::string& path, int64_t offset, int64_t bytes, int threads, bool write, bool direct);

}  // namespace hinterland::native
