#include "hinterland_papers/bam/memory_namespace.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

namespace hinterland::native {

uint64_t Pace::due(uint64_t now, uint64_t bytes) {
  const auto cost = [](uint64_t of, uint64_t rate) {
    return rate == 0 ? 0.0 : 1e9 * static_cast<double>(of) / static_cast<double>(rate);
  };
  if (timing_.latency_ns == 0 && timing_.bytes_per_second == 0 && timing_.requests_per_second == 0) return now;
  const std::lock_guard<std::mutex> held(guard_);
  part_ += std::max(cost(bytes, timing_.bytes_per_second), cost(1, timing_.requests_per_second));
  const double whole = std::floor(part_);
  part_ -= whole;
  passed_ = std::max(passed_, now) + static_cast<uint64_t>(whole);
  uint64_t begins = now;
  uint64_t* const place = busy_until_.empty() ? nullptr : &busy_until_[begun_++ % busy_until_.size()];
  if (place != nullptr) begins = std::max(begins, *place);
  // Threads that have read the clock at about the same time do not overtake each other.
  last_ = std::max({last_, begins + timing_.latency_ns, passed_});
  if (place != nullptr) *place = last_;
  return last_;
}

namespace {

class MemoryBackend : public Backend {
 public:
  MemoryBackend(char* memory, Pace& pace, uint32_t most) : memory_(memory), pace_(pace), pending_(most) {}

  bool try_begin(Request& request, uint64_t now) override {
    if (end_ - begin_ == pending_.size()) return false;
    request.due = pace_.due(now, request.bytes);
    // By when this is copied, what lies far away has come nearer.
    if (request.opcode == storage::Opcode::kRead) __builtin_prefetch(memory_ + request.offset);
    pending_[end_++ % pending_.size()] = &request;
    return true;
  }

  void submit() override {}

  size_t poll(uint64_t now, std::span<Request*> to) override {
    size_t ended = 0;
    for (; begin_ != end_ && ended < to.size(); ++begin_) {
      Request* const request = pending_[begin_ % pending_.size()];
      if (request == nullptr) continue;  // dropped
      if (request->due > now) break;
      copy(*request);
      to[ended++] = request;
    }
    return ended;
  }

  bool try_drop(Request& request) override {
    for (uint64_t i = begin_; i != end_; ++i) {
      Request*& pending = pending_[i % pending_.size()];
      if (pending != &request) continue;
      pending = nullptr;
      return true;
    }
    return false;
  }

  [[nodiscard]] size_t in_flight() const override { return end_ - begin_; }

  void wait(uint64_t now, uint64_t most) override {
    constexpr uint64_t kOversleeps = 60'000;  // what a sleep takes longer, where timers are not sharp
    const Request* const first = begin_ == end_ ? nullptr : pending_[begin_ % pending_.size()];
    if (first == nullptr || first->due < now + kOversleeps) return;
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(most, first->due - now - kOversleeps)));
  }

 private:
  void copy(Request& request) {
    char* at = memory_ + request.offset;
    for (uint32_t i = 0; i < request.run_count; ++i) {
      const MemoryRun& run = request.runs[i];
      if (request.opcode == storage::Opcode::kRead)
        std::memcpy(run.memory, at, run.bytes);
      else
        std::memcpy(at, run.memory, run.bytes);
      at += run.bytes;
    }
    request.status = storage::kSuccess;
  }

  char* memory_;
  Pace& pace_;
  std::vector<Request*> pending_;  // a ring, in the order in which they are due
  uint64_t begin_ = 0, end_ = 0;
};

}  // namespace

std::unique_ptr<Backend> MemoryNamespace::open(uint32_t most, std::span<const Region>) {
  return std::make_unique<MemoryBackend>(memory_, pace_, most);
}

}  // namespace hinterland::native
