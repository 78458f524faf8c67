#include "storage/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/errors.hpp"
#include "storage/checksum.hpp"
#include "storage/descriptor.hpp"
#include "storage/team.hpp"

namespace hinterland::native {

namespace {

// One request: large enough for the disk's sequential rate with 64 in flight (docs/notes/load-on-h200.md: 2.9 GB/s, where 16 of
// 4 MiB reached 2.6); and what one checksum covers.
constexpr int64_t kBlock = kChecksumBlock;

void write_fully(const Descriptor& file, const std::string& path, const char* from, int64_t bytes, int64_t offset) {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t put = ::pwrite(file.get(), from + done, bytes - done, offset + done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw_errno("cannot write " + path + " at offset " + std::to_string(offset + done), errno);
    done += put;
  }
}

}  // namespace

int64_t read_fully(const Descriptor& file, char* to, int64_t bytes, int64_t offset, int& error) {
  int64_t done = 0;
  error = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(file.get(), to + done, bytes - done, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = errno;
    if (got <= 0) break;
    done += got;
  }
  return done;
}

void read_file(const std::filesystem::path& file, int64_t offset, void* to, int64_t bytes, int threads,
               std::span<const uint64_t> sums) {
  if (bytes == 0) return;
  const std::string& path = file.native();
  Descriptor buffered(path, O_RDONLY);
  if (!buffered.open()) throw_errno("cannot open " + path, errno);
  read_file(buffered, Descriptor(path, O_RDONLY | O_DIRECT), path, offset, to, bytes, threads, sums);
}

void read_file(const Descriptor& buffered, const Descriptor& direct, const std::string& path, int64_t offset, void* to,
               int64_t bytes, int threads, std::span<const uint64_t> sums) {
  if (bytes == 0) return;
  struct stat info{};
  if (::fstat(buffered.get(), &info) != 0) throw_errno("cannot read the size of " + path, errno);
  if (info.st_size < offset || info.st_size - offset < bytes) {
    throw FormatError(path + ": truncated: " + std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
                      " are needed, but the file holds " + std::to_string(info.st_size));
  }
  if (!sums.empty() && (info.st_size + kBlock - 1) / kBlock != static_cast<int64_t>(sums.size())) {
    throw FormatError(path + ": holds " + std::to_string(info.st_size) + " bytes, but its checksums are those of " +
                      std::to_string(sums.size()) + " MiB; it is truncated or damaged");
  }

  const int64_t first = offset / kBlock, last = (offset + bytes - 1) / kBlock;
  char* const out = static_cast<char*>(to);
  for_each_of_team(last - first + 1, threads, [&](int64_t i) {
    // Each thread reads aligned blocks into a buffer of its own: the target need not be aligned, nor the offset.
    static thread_local DirectMemory bounce;
    if (!bounce) bounce = direct_memory(kBlock);
    if (!bounce) throw OutOfMemory("no memory for reading " + path + ": free some, or raise the process's limit");
    const int64_t block = (first + i) * kBlock;
    const int64_t from = std::max(block, offset), until = std::min(block + kBlock, offset + bytes);
    const int64_t at = sums.empty() ? from / kDirectAlign * kDirectAlign : block;
    const int64_t needed = (sums.empty() ? until : std::min<int64_t>(block + kBlock, info.st_size)) - at;
    const int64_t aligned = (needed + kDirectAlign - 1) / kDirectAlign * kDirectAlign;
    int error = 0;
    int64_t got = -1;
    if (direct.open()) got = read_fully(direct, bounce.get(), aligned, at, error);
    if (got < needed) got = read_fully(buffered, bounce.get(), needed, at, error);
    if (got < needed) {
      if (error) throw_errno("cannot read " + path + " at offset " + std::to_string(at + got), error);
      throw FormatError(path + ": the file shrank while it was read, at offset " + std::to_string(at + got));
    }
    if (!sums.empty() && checksum(bounce.get(), needed, first + i) != sums[first + i]) {
      throw FormatError(path + ": damaged: the checksum does not match between the offsets " + std::to_string(at) + " and " +
                        std::to_string(at + needed) + "; restore the file, or convert or generate it again");
    }
    std::memcpy(out + (from - offset), bounce.get() + (from - at), until - from);
  });
}

void write_direct(const Descriptor& buffered, const Descriptor& direct, const std::string& path, int64_t offset,
                  const void* from, int64_t bytes, int threads) {
  if (bytes == 0) return;
  const int64_t first = offset / kBlock, last = (offset + bytes - 1) / kBlock;
  const char* const in = static_cast<const char*>(from);
  for_each_of_team(last - first + 1, threads, [&](int64_t i) {
    const int64_t block = (first + i) * kBlock;
    const int64_t begin = std::max(block, offset), until = std::min(block + kBlock, offset + bytes);
    int64_t whole = (begin + kDirectAlign - 1) / kDirectAlign * kDirectAlign, end = until / kDirectAlign * kDirectAlign;
    if (!direct.open() || whole >= end) whole = end = begin;
    write_fully(buffered, path, in + (begin - offset), whole - begin, begin);
    if (whole < end) {
      static thread_local DirectMemory bounce;  // the source need not be aligned
      if (!bounce) bounce = direct_memory(kBlock);
      if (!bounce) throw OutOfMemory("no memory for writing " + path + ": free some, or raise the process's limit");
      std::memcpy(bounce.get(), in + (whole - offset), end - whole);
      write_fully(direct, path, bounce.get(), end - whole, whole);
    }
    write_fully(buffered, path, in + (end - offset), until - end, end);
  });
}

void write_file(const std::filesystem::path& name, int64_t offset, const void* from, int64_t bytes, int threads) {
  const std::string& path = name.native();
  const Descriptor file(path, O_WRONLY);
  if (!file.open()) throw_errno("cannot write " + path, errno);
  write_direct(file, Descriptor(), path, offset, from, bytes, threads);
}

}  // namespace hinterland::native
