// Whole-file transfers between a file and memory by many threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "storage/descriptor.hpp"

namespace hinterland::native {

// Reads up to `bytes` bytes and returns how many: fewer only at the end of the file or on an error, which `error` is then. A
// direct read past the end is refused off a block's edge, and has read all that there is.
int64_t read_fully(const Descriptor& file, char* to, int64_t bytes, int64_t offset, int& error);

// Reads `bytes` bytes at `offset` of `path` into `to`. Uses direct I/O where the file system offers it, so that a table
// larger than half the memory does not push itself out of it through the page cache. FormatError where the file is too short.
// With `sums`, one for each kChecksumBlock bytes of the whole file, every block that is touched is read whole and has to match
// its sum, block i with the seed i; FormatError for the first that does not.
void read_file(const std::filesystem::path& path, int64_t offset, void* to, int64_t bytes, int threads,
               std::span<const uint64_t> sums);

// The same of a file that is open already, without direct I/O where `direct` is not; `path` is for messages.
void read_file(const Descriptor& buffered, const Descriptor& direct, const std::string& path, int64_t offset, void* to,
               int64_t bytes, int threads, std::span<const uint64_t> sums);

// The reverse, with direct I/O but for what is no whole block at either end. StorageError where that is refused.
void write_direct(const Descriptor& buffered, const Descriptor& direct, const std::string& path, int64_t offset,
                  const void* from, int64_t bytes, int threads);

// Writes `bytes` bytes from `from` at `offset` of `path`, which must exist. StorageError when the disk is full.
void write_file(const std::filesystem::path& path, int64_t offset, const void* from, int64_t bytes, int threads);

}  // namespace hinterland::native
