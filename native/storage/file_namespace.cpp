#include "storage/file_namespace.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <stdexcept>

#include "core/errors.hpp"
#include "storage/file_backend.hpp"

namespace hinterland::native {

namespace {

constexpr uint64_t kPage = storage::kMemoryPageBytes;

[[noreturn]] void fail(const std::string& path) { throw_errno("cannot open " + path, errno); }

}  // namespace

Flusher::~Flusher() {
  asked_.fetch_or(kStop, std::memory_order_release);
  asked_.notify_one();
  thread_.join();
}

uint64_t Flusher::ask() {
  const uint64_t number = asked_.fetch_add(1, std::memory_order_acq_rel) + 1;
  asked_.notify_one();
  return number;
}

void Flusher::run() {
  for (uint64_t done = 0;;) {
    asked_.wait(done, std::memory_order_acquire);
    const uint64_t asked = asked_.load(std::memory_order_acquire);
    if ((asked & kStop) != 0) return;
    if (asked == done) continue;
    if (failed_from_.load(std::memory_order_relaxed) > asked && !sync_())
      failed_from_.store(done + 1, std::memory_order_relaxed);
    done = asked;
    done_.store(done, std::memory_order_release);
  }
}

SharedFile::SharedFile(const std::string& path, bool may_write, std::shared_ptr<BlockDevice> device, bool claims)
    : bare(std::move(device)),
      writable(may_write),
      flusher([this] { return bare != nullptr ? bare->sync() == 0 : ::fdatasync(cached.get()) == 0; }) {
  if (bare != nullptr) {
    bytes = page_of_end = bare->bytes();
    align_offset = bare->block_bytes();
    align_memory = 4;
    return;
  }
  cached = Descriptor(path, may_write ? O_RDWR : O_RDONLY);
  direct = Descriptor(path, (may_write ? O_RDWR : O_RDONLY) | O_DIRECT);
  if (!cached.open()) fail(path);
  if (writable && claims) become_writer(cached, path);
  const off_t end = ::lseek(cached.get(), 0, SEEK_END);  // of a block device as well
  if (end < 0) fail(path);
  bytes = static_cast<uint64_t>(end);
  page_of_end = bytes / kPage * kPage;
  if (!direct.open()) return;
  align_offset = align_memory = kDirectAlign;
#ifdef STATX_DIOALIGN
  struct statx told{};
  if (::statx(direct.get(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &told) == 0 && (told.stx_mask & STATX_DIOALIGN) != 0) {
    align_offset = told.stx_dio_offset_align;  // 0: not this file
    align_memory = told.stx_dio_mem_align;
  }
#endif
  if (align_offset == 0) align_memory = 0;
}

FileNamespace::FileNamespace(const std::string& path, bool writable, unsigned depth, std::shared_ptr<BlockDevice> bare,
                             bool claims)
    : file_(path, writable, std::move(bare), claims), depth_(depth) {
  if (depth == 0) throw std::invalid_argument("a depth of 0 has room for no transfer; give at least 1");
}

uint64_t FileNamespace::blocks() const { return (file_.bytes + kMostLine - 1) / kMostLine * (kMostLine / kBlockBytes); }

std::unique_ptr<Backend> FileNamespace::open(uint32_t, std::span<const Region> regions) {
  return std::make_unique<FileBackend>(file_, depth_, regions);
}

}  // namespace hinterland::native
