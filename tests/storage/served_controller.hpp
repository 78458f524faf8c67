// The library's own device in software (native/storage/serving.hpp) in place of the tests' (controller.hpp), on a clock of its
// turns, with faults by a seed. Beside it stands what no controller does: entries are looked at as they are read, and
// completion slots that are still the device's are scribbled over, but for the word by which they are told to be new.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "check.hpp"
#include "hinterland/storage/queue.hpp"
#include "hinterland_papers/bam/faults.hpp"
#include "hinterland_papers/bam/memory_namespace.hpp"
#include "storage/serving.hpp"

namespace test {

using native::Faults;
using native::kBlockBytes;

inline constexpr uint32_t kNamespace = native::kNamespaceId;

inline native::QueueView view_of(const QueuePair& pair) {
  return {pair.submissions,         pair.completions,     pair.submission_doorbell,
          pair.completion_doorbell, pair.submission_size, pair.completion_size};
}

// What a device holds, and a look at each command that comes to it.
class Inspected : public native::Namespace {
 public:
  Inspected(std::unique_ptr<native::Namespace> inner, uint32_t completion_size)
      : inner_(std::move(inner)), identifier_held(65536), completion_size_(completion_size) {}

  uint64_t blocks() const override { return inner_->blocks(); }
  bool gone() const override { return inner_->gone(); }
  std::unique_ptr<native::Backend> open(uint32_t most, std::span<const native::Region> regions) override {
    return std::make_unique<Looks>(*this, inner_->open(most, regions));
  }

 private:
  std::unique_ptr<native::Namespace> inner_;

 public:
  bool sealed = true;  // commands carry a serial number and a checksum
  std::vector<bool> identifier_held;
  std::vector<uint64_t> serials = std::vector<uint64_t>(65536);  // by identifier, of the last that had it
  std::unordered_map<uint64_t, uint16_t> known;                  // identifiers by serial numbers, of all that was read
  uint64_t read = 0;

 private:
  class Looks : public native::Backend {
   public:
    Looks(Inspected& all, std::unique_ptr<native::Backend> inner) : all_(all), inner_(std::move(inner)) {}

    bool try_begin(native::Request& request, uint64_t now) override {
      if (!inner_->try_begin(request, now)) return false;
      all_.look(request.entry);
      return true;
    }
    void submit() override { inner_->submit(); }
    size_t poll(uint64_t now, std::span<native::Request*> to) override {
      const size_t count = inner_->poll(now, to);
      for (size_t i = 0; i < count; ++i) all_.identifier_held[to[i]->entry.identifier] = false;
      return count;
    }
    bool try_drop(native::Request& request) override {
      if (!inner_->try_drop(request)) return false;
      all_.identifier_held[request.entry.identifier] = false;
      return true;
    }
    size_t in_flight() const override { return inner_->in_flight(); }
    void wait(uint64_t now, uint64_t most) override { inner_->wait(now, most); }

   private:
    Inspected& all_;
    std::unique_ptr<native::Backend> inner_;
  };

  void look(const SubmissionEntry& entry) {
    CHECK(!sealed || entry.reserved == seal(entry), "entry %llu is not as it was written",
          static_cast<unsigned long long>(read));
    CHECK(entry.identifier < completion_size_ - 1, "identifier %u", entry.identifier);
    CHECK(!identifier_held[entry.identifier], "identifier %u is in flight twice", entry.identifier);
    CHECK(!sealed || known.emplace(entry.metadata, entry.identifier).second, "a command was read twice");
    CHECK(entry.first_block >= kBase, "block");
    identifier_held[entry.identifier] = true;
    serials[entry.identifier] = entry.metadata;
    ++read;
  }

  uint32_t completion_size_;
};

class Controller {
 public:
  static constexpr uint64_t kLateTurns = 1500;

  Controller(const QueuePair& seen, uint64_t blocks, const Faults& faults, uint64_t seed)
      : memory_((blocks + kBase) * kBlockBytes),
        seen_(seen),
        random_(seed),
        namespace_(faulty(memory_, faults, seed), seen.completion_size),
        serving_({{view_of(seen), 0}}, {{0, ~uint64_t{0}}}, namespace_),
        sealed(namespace_.sealed),
        disk(memory_.data() + kBase * kBlockBytes) {}

  // The clock of the tests: it goes on as fast as the device does.
  uint64_t now() const { return turns_.load(std::memory_order_relaxed); }
  bool gone() const { return namespace_.gone(); }
  void stop() { stopped_ = true; }

  void run() {
    while (!stopped_ && !gone()) {
      if (!turn()) std::this_thread::yield();
    }
  }

  // True if anything was done.
  bool turn() {
    const std::lock_guard<std::mutex> guard(mutex_);
    scribble();
    const uint32_t told = system_load_acquire(*seen_.submission_doorbell);
    CHECK(told < seen_.submission_size, "doorbell %u of %u", told, seen_.submission_size);
    const bool any = serving_.turn(now());
    turns_.fetch_add(1, std::memory_order_relaxed);
    read = namespace_.read;
    posted = serving_.stats().commands;
    CHECK(gone() || read >= posted, "a command was refused");
    return any;
  }

  enum class Fate { kDropped, kPosted, kUnread };

  // What a device's Abort command tells: after kDropped, the command will neither touch memory nor complete.
  Fate abort(uint64_t serial) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto known = namespace_.known.find(serial);
    if (known == namespace_.known.end()) return Fate::kUnread;
    const uint16_t identifier = known->second;  // which may be another command's by now
    if (!namespace_.identifier_held[identifier] || namespace_.serials[identifier] != serial) return Fate::kPosted;
    return serving_.abort(0, identifier) ? Fate::kDropped : Fate::kPosted;
  }

 private:
  static std::unique_ptr<native::Namespace> faulty(std::vector<uint8_t>& memory, Faults faults, uint64_t seed) {
    faults.late_most = 2 * kLateTurns;
    auto inner =
        std::make_unique<native::MemoryNamespace>(reinterpret_cast<char*>(memory.data()), memory.size(), native::kNoDelay);
    return std::make_unique<native::FaultyNamespace>(std::move(inner), faults, seed);
  }

  // The words before the last may arrive in any way.
  void scribble() {
    const uint32_t mask = seen_.completion_size - 1;
    if ((static_cast<uint32_t>(posted + 1) & mask) == system_load_acquire(*seen_.completion_doorbell)) return;
    CompletionEntry& entry = seen_.completions[posted & mask];
    system_store(entry.queue, static_cast<uint32_t>(random_()));
    system_store(entry.result, static_cast<uint32_t>(random_()));
    if (random_() % 8 == 0) std::this_thread::yield();
  }

  std::vector<uint8_t> memory_;
  const QueuePair seen_;
  std::mt19937_64 random_;
  Inspected namespace_;
  native::Serving serving_;
  std::atomic<uint64_t> turns_ = 0;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;

 public:
  bool& sealed;
  uint8_t* disk;
  uint64_t read = 0, posted = 0;  // when it has stopped
};

}  // namespace test
