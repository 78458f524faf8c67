#include "storage/transfers.hpp"

#if !defined(HINTERLAND_URING)

namespace hinterland::native {
std::unique_ptr<Transfers> make_uring(unsigned) { return nullptr; }
std::string uring_refusal() {
  return "this library was built where liburing was missing; install liburing-dev (dnf: liburing-devel) and build it again";
}
}  // namespace hinterland::native

#else

#include <liburing.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace hinterland::native {

namespace {

constexpr size_t kMostKept = size_t{1} << 30;  // bytes of one registered buffer, by the kernel's rule

class Uring : public Transfers {
 public:
  // null where the kernel refuses.
  static std::unique_ptr<Uring> make(unsigned depth) {
    std::unique_ptr<Uring> made(new Uring);
    if (io_uring_queue_init(depth, &made->ring_, 0) != 0) return nullptr;
    made->is_open_ = true;
    made->depth_ = depth;
    return made;
  }

  ~Uring() override {
    if (!is_open_) return;
    drain();
    io_uring_queue_exit(&ring_);
  }

  bool try_begin(const Transfer& transfer) override {
    if (in_flight_ == depth_) return false;
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) return false;
    const int buffer = kept_as(transfer.memory, transfer.bytes);
    const int moves = transfer.writes ? IORING_OP_WRITE : IORING_OP_READ;
    const int moves_kept = transfer.writes ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED;
    io_uring_prep_rw(buffer < 0 ? moves : moves_kept, entry, transfer.fd, transfer.memory, transfer.bytes, transfer.offset);
    if (buffer >= 0) entry->buf_index = static_cast<uint16_t>(buffer);
    io_uring_sqe_set_data64(entry, transfer.user);
    ++in_flight_;
    // Who begins many between two waits leaves the device without work otherwise.
    if (io_uring_sq_ready(&ring_) >= std::max(depth_ / 8, 1u)) submit();
    return true;
  }

  void submit() override {
    // What the kernel does not take now (it has no memory, or too much has completed) it is asked to take again next time.
    if (io_uring_sq_ready(&ring_) != 0) io_uring_submit(&ring_);
  }

  size_t poll(std::span<Ended> to) override {
    size_t count = 0;
    unsigned head;
    io_uring_cqe* entry;
    io_uring_for_each_cqe(&ring_, head, entry) {
      if (count == to.size()) break;
      to[count++] = {entry->user_data, entry->res};
    }
    io_uring_cq_advance(&ring_, static_cast<unsigned>(count));
    in_flight_ -= static_cast<unsigned>(count);
    return count;
  }

  void wait(std::chrono::nanoseconds most, unsigned enough) override {
    if (in_flight_ < enough || io_uring_cq_ready(&ring_) >= enough) return submit();
    __kernel_timespec time{most.count() / 1'000'000'000, most.count() % 1'000'000'000};
    io_uring_cqe* entry;
    io_uring_submit_and_wait_timeout(&ring_, &entry, enough, &time, nullptr);
  }

  unsigned in_flight() const override { return in_flight_; }
  const char* name() const override { return "io_uring"; }

  void keep(std::span<char> memory) override {
    std::vector<iovec> pieces;
    for (size_t at = 0; at < memory.size(); at += kMostKept)
      pieces.push_back({memory.data() + at, std::min(kMostKept, memory.size() - at)});
    // Refused where the process may not lock so much memory: then transfers are as before.
    if (io_uring_register_buffers(&ring_, pieces.data(), static_cast<unsigned>(pieces.size())) == 0) kept_ = memory;
  }

 private:
  Uring() = default;

  // The registered buffer that the memory lies in; -1 for none.
  int kept_as(const char* memory, size_t bytes) const {
    if (memory < kept_.data() || memory + bytes > kept_.data() + kept_.size()) return -1;
    const size_t at = static_cast<size_t>(memory - kept_.data());
    return at / kMostKept == (at + bytes - 1) / kMostKept ? static_cast<int>(at / kMostKept) : -1;
  }

  io_uring ring_{};
  std::span<char> kept_;
  unsigned depth_ = 0, in_flight_ = 0;
  bool is_open_ = false;
};

}  // namespace

std::unique_ptr<Transfers> make_uring(unsigned depth) { return Uring::make(depth); }

std::string uring_refusal() {
  io_uring ring{};
  const int failed = -io_uring_queue_init(1, &ring, 0);
  if (failed == 0) return io_uring_queue_exit(&ring), "";
  const std::string refused = std::string("the kernel refuses it (") + std::strerror(failed) + "); ";
  if (failed == EMFILE || failed == ENFILE) return refused + "close some files, or raise the limit (ulimit -n)";
  if (failed == ENOMEM) return refused + "raise the limit of locked memory (ulimit -l)";
  return refused +
         "where the kernel is of 5.1 or newer, allow it by sysctl kernel.io_uring_disabled=0, and in a container by its "
         "seccomp profile";
}

}  // namespace hinterland::native

#endif
