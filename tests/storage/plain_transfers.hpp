// An engine of transfers that does each when it is asked what has ended, and does as a test says: short, failing, or late.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <functional>
#include <mutex>

#include "storage/transfers.hpp"

namespace hinterland::native {

// What a transfer gives in place of being done; 0: it is done. Or how many bytes of it are done at most.
struct Instead {
  int32_t result = 0;
  uint32_t most = ~0u;
};
inline std::mutex asking;  // threads take turns to ask
inline std::function<Instead(const Transfer&)> instead;
inline std::function<void(const Transfer&)> seen = [](const Transfer&) {};

class PlainTransfers : public Transfers {
 public:
  explicit PlainTransfers(unsigned depth) : depth_(depth) {}
  ~PlainTransfers() override {
    Ended unheard;
    while (poll({&unheard, 1}) != 0) continue;
  }

  bool try_begin(const Transfer& transfer) override {
    if (begun_.size() == depth_) return false;
    begun_.push_back(transfer);
    return true;
  }
  void submit() override { submitted_ = begun_.size(); }
  size_t poll(std::span<Ended> to) override {
    size_t ended = 0;
    for (; ended < to.size() && submitted_ > 0; --submitted_, begun_.pop_front()) to[ended++] = done(begun_.front());
    return ended;
  }
  void wait(std::chrono::nanoseconds, unsigned) override { submit(); }
  unsigned in_flight() const override { return static_cast<unsigned>(begun_.size()); }
  const char* name() const override { return "plain"; }

 private:
  static Ended done(const Transfer& transfer) {
    const Instead said = what_is_said(transfer);
    if (said.result != 0) return {transfer.user, said.result};
    const size_t bytes = std::min(transfer.bytes, said.most);
    const auto offset = static_cast<off_t>(transfer.offset);
    const ssize_t moved = transfer.writes ? ::pwrite(transfer.fd, transfer.memory, bytes, offset)
                                          : ::pread(transfer.fd, transfer.memory, bytes, offset);
    return {transfer.user, moved < 0 ? -errno : static_cast<int32_t>(moved)};
  }

  static Instead what_is_said(const Transfer& transfer) {
    const std::lock_guard held(asking);
    seen(transfer);
    return instead ? instead(transfer) : Instead{};
  }

  unsigned depth_;
  std::deque<Transfer> begun_;
  size_t submitted_ = 0;
};

std::unique_ptr<Transfers> make_transfers(unsigned depth, Engine) { return std::make_unique<PlainTransfers>(depth); }

}  // namespace hinterland::native
