// A namespace in a file, on a block device or a bare one, by as many engines (transfers.hpp) as there are threads.
//
// It has the bytes that the file has when it is opened, up to the end of the largest line of a cache in which the file ends:
// what lies there beyond its end reads as zeros and is not written, so the file keeps its size.
//
// Transfers go past the page cache where the file system offers that and they are aligned as it asks. Others use the cache.
// Writes by both ways at once are not safe: the cache would write a page back as it was before the other's write. So the first
// write that must use the cache waits for those that go past it, and then all do, but for one exception: the part of a page in
// which the file ends is always written by the cache, and that page is never written past it.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "storage/backend.hpp"
#include "storage/block_device.hpp"
#include "storage/descriptor.hpp"
#include "storage/transfers.hpp"

namespace hinterland::native {

// Has what was written made safe in a thread of its own, once for all who asked while it was at it.
class Flusher {
 public:
  // `sync` returns whether it could.
  explicit Flusher(std::function<bool()> sync) : sync_(std::move(sync)), thread_([this] { run(); }) {}
  ~Flusher();
  Flusher(const Flusher&) = delete;
  Flusher& operator=(const Flusher&) = delete;

  // What has been written is safe when done() has come to the number that is returned, unless that failed.
  uint64_t ask();
  [[nodiscard]] uint64_t done() const { return done_.load(std::memory_order_acquire); }
  // After one that failed, none succeeds: the system forgets what it could not write.
  [[nodiscard]] bool failed(uint64_t number) const { return number >= failed_from_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint64_t kStop = uint64_t{1} << 63;

  void run();

  std::function<bool()> sync_;
  std::atomic<uint64_t> asked_ = 0, done_ = 0, failed_from_ = ~uint64_t{0};
  std::thread thread_;
};

// A file that several engines use.
struct SharedFile {
  SharedFile(const std::string& path, bool writable, std::shared_ptr<BlockDevice> bare = nullptr, bool claims = true);

  [[nodiscard]] int fd(bool directly) const { return directly ? direct.get() : cached.get(); }

  std::shared_ptr<BlockDevice> bare;  // whose blocks are reached directly and in no other way; null of a file
  Descriptor cached, direct;          // not open of a bare device
  bool writable;
  uint64_t bytes;                               // when it was opened
  uint64_t page_of_end;                         // where the page begins in which it ends; if it ends with one, its end
  uint32_t align_offset = 0, align_memory = 0;  // for transfers past the cache, if there is that
  std::atomic<bool> cached_only = false;
  std::atomic<uint32_t> direct_writes = 0;  // in flight
  Flusher flusher;
};

class FileNamespace : public Namespace {
 public:
  // Of a file, or of a bare device whatever the path. StorageError where the file cannot be opened, std::invalid_argument for
  // no depth. Each thread has at most `depth` transfers in flight. A writable file that it does not claim is the caller's to
  // write.
  FileNamespace(const std::string& path, bool writable, unsigned depth, std::shared_ptr<BlockDevice> bare = nullptr,
                bool claims = true);

  [[nodiscard]] uint64_t blocks() const override;
  std::unique_ptr<Backend> open(uint32_t most, std::span<const Region> regions) override;

 private:
  SharedFile file_;
  unsigned depth_;
};

}  // namespace hinterland::native
