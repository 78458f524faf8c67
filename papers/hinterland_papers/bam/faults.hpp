// A namespace that fails as devices do, by a seed: for tests and for campaigns that run overnight.
#pragma once

#include <atomic>
#include <random>
#include <vector>

#include "storage/backend.hpp"

namespace hinterland::native {

// How many commands of a thousand meet each fault. One that fails has moved some of its blocks or none.
struct Faults {
  unsigned retryable = 0, fatal = 0;
  unsigned late = 0;  // by up to late_most
  unsigned lost = 0;  // never answered, whether its data was moved or not
  unsigned torn = 0;  // of writes: some blocks of it are written, and then it fails, or is lost
  bool reorder = false;
  uint64_t removed_after = ~uint64_t{0};  // so many commands the device is gone, in the midst of one
  uint64_t late_most = 10'000'000;        // ns
};

class FaultyNamespace : public Namespace {
 public:
  FaultyNamespace(std::shared_ptr<Namespace> inner, const Faults& faults, uint64_t seed)
      : inner_(std::move(inner)), faults_(faults), seed_(seed) {}

  [[nodiscard]] uint64_t blocks() const override { return inner_->blocks(); }
  std::unique_ptr<Backend> open(uint32_t most, std::span<const Region> regions) override;
  [[nodiscard]] bool gone() const override { return gone_.load(std::memory_order_acquire); }

 private:
  friend class FaultyBackend;

  std::shared_ptr<Namespace> inner_;
  Faults faults_;
  uint64_t seed_;
  std::atomic<uint64_t> commands_ = 0;
  std::atomic<bool> gone_ = false;
};

// One thread's.
class FaultyBackend : public Backend {
 public:
  FaultyBackend(FaultyNamespace& shared, std::unique_ptr<Backend> inner, uint64_t seed, uint32_t most);

  bool try_begin(Request& request, uint64_t now) override;
  void submit() override {}  // poll() does, once it has chosen
  size_t poll(uint64_t now, std::span<Request*> to) override;
  bool try_drop(Request& request) override;
  [[nodiscard]] size_t in_flight() const override { return held_count_ + moving_ + over_count_; }
  void wait(uint64_t now, uint64_t most) override { inner_->wait(now, most); }

 private:
  // What becomes of a request.
  struct Fate {
    uint64_t due;
    uint16_t status;
    bool lost, moves;
  };

  unsigned draw(unsigned below) { return static_cast<unsigned>(random_() % below); }
  Fate draw_fate(Request& request, uint64_t now);
  void tear(Request& request, Fate& fate);
  bool let_go(uint64_t now);
  void end(Request& request);
  void remove(uint64_t now);

  FaultyNamespace& shared_;
  const Faults faults_;
  std::unique_ptr<Backend> inner_;
  std::mt19937_64 random_;
  std::vector<Fate> fates_;     // by the request's index
  std::vector<Request*> held_;  // [most], of which held_count_ are there, as they came
  std::vector<bool> lost_;      // by the request's index
  RequestList over_;
  size_t held_count_ = 0, moving_ = 0, over_count_ = 0;
};

}  // namespace hinterland::native
