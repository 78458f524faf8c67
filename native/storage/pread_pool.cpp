#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "storage/transfers.hpp"

namespace hinterland::native {

namespace {

// Threads at the most, each of which waits for one transfer: the probe's disk gives no more with more (docs/probe.md).
constexpr unsigned kMostThreads = 64;

class PreadPool : public Transfers {
 public:
  explicit PreadPool(unsigned depth) : depth_(depth) {}

  ~PreadPool() override {
    {
      const std::lock_guard held(mutex_);
      ends_ = true;
    }
    has_work_.notify_all();
    for (std::thread& thread : threads_) thread.join();  // once all that was begun has been moved
  }

  bool try_begin(const Transfer& transfer) override {
    if (in_flight_ == depth_) return false;
    begun_.push_back(transfer);
    ++in_flight_;
    return true;
  }

  void submit() override {
    if (begun_.empty()) return;
    const bool is_one = begun_.size() == 1;
    size_t wanted;
    {
      const std::lock_guard held(mutex_);
      todo_.insert(todo_.end(), begun_.begin(), begun_.end());
      wanted = todo_.size() > idle_ ? threads_.size() + todo_.size() - idle_ : 0;
    }
    begun_.clear();
    start(std::min<size_t>(wanted, std::min(depth_, kMostThreads)));
    if (threads_.empty()) {
      std::unique_lock held(mutex_);
      work(held);
    }
    is_one ? has_work_.notify_one() : has_work_.notify_all();
  }

  size_t poll(std::span<Ended> to) override {
    const std::lock_guard held(mutex_);
    const size_t count = std::min(to.size(), done_.size());
    std::copy_n(done_.begin(), count, to.begin());
    done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
    in_flight_ -= static_cast<unsigned>(count);
    return count;
  }

  void wait(std::chrono::nanoseconds most, unsigned enough) override {
    submit();
    if (in_flight_ < enough) return;
    std::unique_lock held(mutex_);
    has_ended_.wait_for(held, most, [&] { return done_.size() >= enough; });
  }

  unsigned in_flight() const override { return in_flight_; }
  const char* name() const override { return "threads"; }

 private:
  // Threads are there once there is work for them: a pool that is never asked has none.
  void start(size_t wanted) {
    try {
      while (threads_.size() < wanted) threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      // The system grants no more: those that run do the work, or who asked for it.
    }
  }

  void serve() {
    std::unique_lock held(mutex_);
    for (;;) {
      ++idle_;
      has_work_.wait(held, [&] { return ends_ || !todo_.empty(); });
      --idle_;
      if (todo_.empty()) return;
      work(held);
    }
  }

  void work(std::unique_lock<std::mutex>& held) {
    while (!todo_.empty()) {
      const Transfer transfer = todo_.front();
      todo_.pop_front();
      held.unlock();
      const Ended ended{transfer.user, move(transfer)};
      held.lock();
      done_.push_back(ended);
      has_ended_.notify_one();
    }
  }

  static int32_t move(const Transfer& transfer) {
    for (;;) {
      const auto offset = static_cast<off_t>(transfer.offset);
      const ssize_t moved = transfer.writes ? ::pwrite(transfer.fd, transfer.memory, transfer.bytes, offset)
                                            : ::pread(transfer.fd, transfer.memory, transfer.bytes, offset);
      if (moved >= 0) return static_cast<int32_t>(moved);
      if (errno != EINTR) return -errno;
    }
  }

  const unsigned depth_;
  unsigned in_flight_ = 0;
  std::vector<Transfer> begun_;  // and not submitted
  std::mutex mutex_;
  std::condition_variable has_work_, has_ended_;
  std::deque<Transfer> todo_;
  std::deque<Ended> done_;
  bool ends_ = false;
  size_t idle_ = 0;  // threads that wait for work
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Transfers> make_pread_pool(unsigned depth) { return std::make_unique<PreadPool>(depth); }

}  // namespace hinterland::native
