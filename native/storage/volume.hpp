// What a store has open: a file or a block device, or several of them as one space of bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hinterland/storage/line.hpp"
#include "storage/block_device.hpp"
#include "storage/descriptor.hpp"
#include "storage/spread.hpp"

namespace hinterland::native {

inline constexpr uint32_t kFileShrank = 1 << 16;  // beside the system's error numbers

struct StoredFile {
  StoredFile(const std::filesystem::path& path, bool writable);  // StorageError where it cannot be opened
  ~StoredFile();

  // StorageError where another writes it.
  void become_writer();
  void end_writing();
  [[nodiscard]] bool has_shrunk() const;
  // Makes all writes that have ended durable: 0, or the error by which some may be lost, now or before.
  int sync();

  std::string path;
  std::shared_ptr<BlockDevice> bare;  // in place of all that files have
  Descriptor buffered, direct;        // the second not open where the file system offers no direct I/O
  std::atomic<bool> takes_direct = false;
  bool claimed = false;  // as its only writer
  uint64_t device = 0, inode = 0;
  int64_t bytes = 0;                  // as it was opened
  std::atomic<int64_t> in_flight{0};  // of a copy
  std::atomic<bool> wrote{false};     // since it was last synchronised
  std::atomic<int64_t> failed_reads{0};

 private:
  std::mutex syncing_;  // whoever finds nothing to make durable knows that it is
  int lost_ = 0;        // the error with which that failed: the system forgets what it could not write
};

struct Volume {
  static constexpr size_t kMostFiles = 64;  // a bit for each

  // What lies in each file from its byte `base` on is dealt round by `stripe` bytes, or, with 0, is a copy. StorageError where
  // a file cannot be opened, or is there twice.
  Volume(const std::vector<std::filesystem::path>& paths, bool writable, uint64_t stripe, uint64_t base);

  // The same files, spread alike.
  [[nodiscard]] bool is_like(const Volume& other) const;
  // StorageError where another writes one of the files.
  void become_writer();
  void end_writing();
  // Which copy to read of those that were not asked, a bit for each: one that has failed least, and of those the one with the
  // fewest transfers in flight; in turn, by `number`, where all are alike.
  [[nodiscard]] uint64_t choose_copy(uint64_t asked, uint64_t number) const;
  // A read of a copy has failed, and why: counts it, and keeps the first reason of each copy until take_failures().
  void count_failure(uint64_t copy, const std::string& why);
  std::vector<std::string> take_failures();
  // As it is on the disks, past all caches. StorageError where a file has become shorter.
  void read(int64_t offset, char* to, int64_t bytes);
  // The reverse, of one file that is no bare device: it is on the disk once sync() has returned.
  void write(int64_t offset, const char* from, int64_t bytes);
  // That a page at a byte of a file could not be moved.
  [[nodiscard]] std::string sentence(uint64_t member, uint64_t offset, bool writes, uint32_t error) const;

  [[nodiscard]] int64_t bytes() const { return static_cast<int64_t>(spread.bytes()); }
  [[nodiscard]] bool has(storage::Page page) const { return page >= first && page < end; }
  [[nodiscard]] std::vector<std::shared_ptr<BlockDevice>> bare_devices() const;
  [[nodiscard]] std::vector<int> descriptors() const;  // of its files, to open them anew
  [[nodiscard]] bool has_copies() const { return files.size() > 1 && spread.has_copies(); }

  std::vector<std::unique_ptr<StoredFile>> files;
  bool writable;
  uint64_t stripe, base;
  Spread spread;
  storage::Page first = 0, end = 0;  // in the store
  int users = 1;                     // 0: no transfer of it begins any more

 private:
  std::mutex guard_;
  std::vector<std::string> failures_;
};

}  // namespace hinterland::native
