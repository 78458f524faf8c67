// Threads read and write pages through a small cache, over a device that ends transfers late, in any order, and now and then
// with an error. Pages are of three kinds: read only, whose bytes are plain memory, so that ThreadSanitizer sees a frame that
// is given away under a reader; counters that all threads add to; and pages of which each has one writer, who must find what he
// wrote last. In the end nothing is held, and what was flushed is on the device.
//
//   cache_stress [milliseconds [threads [seed [operations]]]]    calls of the cache by all threads, at least
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "fifo.hpp"
#include "hinterland/storage/cache.hpp"

using namespace hinterland;
using namespace hinterland::storage;
using test::Fifo;

#ifndef MILLISECONDS
#define MILLISECONDS 500
#endif

namespace {

constexpr int64_t kLine = 512, kWords = kLine / 8, kPages = 200, kSets = 3;
constexpr int64_t kKinds = 3, kPlain = 0, kCounter = 1, kOwned = 2;
using Frames = std::vector<uint64_t>;

[[noreturn]] void fail(const char* what, int64_t page) {
  std::printf("%s: page %lld\n", what, static_cast<long long>(page));
  std::_Exit(1);
}

// As the cache knows them, pages differ in their highest bits alone: who looks for one by less than its whole number finds
// another (as BaM did, its pull request 39).
Page number(int64_t page) { return static_cast<Page>(page) << 33; }
static_assert(Page{kPages} << 33 <= Line::kMostPages);

uint64_t pattern(int64_t page, int64_t word) { return static_cast<uint64_t>(page) * 1'000'003 + static_cast<uint64_t>(word); }

template <class CacheType>
class Device {
 public:
  Device(const CacheType& cache, uint64_t seed)
      : cache_(cache), drawn_(seed), stored_(kPages * kWords), server_([this] { serve(); }) {
    for (int64_t page = 0; page < kPages; page += kKinds)
      for (int64_t word = 0; word < kWords; ++word) stored_[page * kWords + word] = pattern(page, word);
  }
  ~Device() {
    ends_ = true;
    server_.join();
  }

  bool try_read(Page page, int64_t slot) { return put({static_cast<int64_t>(page >> 33), slot, false}); }
  bool try_write(Page page, int64_t slot) { return put({static_cast<int64_t>(page >> 33), slot, true}); }
  uint64_t stored(int64_t page, int64_t word) {
    const std::lock_guard lock(mutex_);
    return stored_[page * kWords + word];
  }
  std::atomic<bool> fails = true;
  std::atomic<int64_t> transfers = 0;

 private:
  struct Command {
    int64_t page, slot;
    bool writes;
  };
  static constexpr size_t kRoom = 12;

  bool put(const Command& command) {
    const std::lock_guard lock(mutex_);
    if (commands_.size() == kRoom) return false;
    commands_.push_back(command);
    return true;
  }

  void serve() {
    while (!ends_) {
      Command command;
      bool error;
      {
        const std::lock_guard lock(mutex_);
        if (commands_.empty() || drawn_() % 4 == 0) {
          command.slot = -1;
        } else {
          std::swap(commands_[drawn_() % commands_.size()], commands_.back());
          command = commands_.back();
          commands_.pop_back();
        }
        error = fails && drawn_() % 64 == 0;
      }
      if (command.slot < 0) {
        std::this_thread::yield();
        continue;
      }
      transfer(command, error);
      ++transfers;
    }
  }

  void transfer(const Command& command, bool error) {
    auto* const frame = reinterpret_cast<uint64_t*>(cache_.frame(command.slot));
    uint64_t* const stored = &stored_[command.page * kWords];
    for (int64_t word = 0; word < kWords && !error; ++word) {
      const std::lock_guard lock(mutex_);
      if (command.writes)
        stored[word] = atomic_load(frame[word]);
      else if (command.page % kKinds == kPlain)
        frame[word] = stored[word];
      else
        atomic_store(frame[word], stored[word]);
    }
    cache_.end(command.slot, command.writes, error ? 1 + command.writes : 0);
  }

  const CacheType& cache_;
  std::mutex mutex_;
  std::mt19937_64 drawn_;
  std::vector<Command> commands_;
  Frames stored_;
  std::atomic<bool> ends_ = false;
  std::thread server_;
};

struct Tally {
  std::vector<uint64_t> added = std::vector<uint64_t>(kPages), version = std::vector<uint64_t>(kPages);
  int64_t failures = 0;
  std::atomic<int64_t> operations = 0;
};

template <class CacheType>
int64_t held(const CacheType& cache, Device<CacheType>& device, int64_t page, Tally& tally) {
  while (true) {
    tally.operations.fetch_add(1, std::memory_order_relaxed);
    const CacheLookup found = cache.try_acquire(number(page), device);
    if (found.outcome == Try::kHeld) return found.slot;
    if (found.outcome == Try::kFailed) {
      ++tally.failures;
      if (cache.status(found.slot) != 1 && cache.status(found.slot) != 2) fail("a failed line without a status", page);
      forget(cache.words[found.slot], number(page));
    }
    std::this_thread::yield();
  }
}

template <class CacheType>
void work(const CacheType& cache, Device<CacheType>& device, const std::atomic<bool>& ended, int64_t me, int64_t threads,
          uint64_t seed, Tally& tally) {
  std::mt19937_64 drawn(seed + static_cast<uint64_t>(me));
  while (!ended) {
    // Half of the time one of a few pages, which then mostly are there.
    const int64_t page = static_cast<int64_t>(drawn() % 2 == 0 ? drawn() % 12 : drawn() % kPages), kind = page % kKinds;
    if (kind == kOwned && page / kKinds % threads != me) continue;
    if (drawn() % 8 == 0) {
      cache.prefetch(number(page), device);
      continue;
    }
    const int64_t slot = held(cache, device, page, tally), word = static_cast<int64_t>(drawn() % kWords);
    auto* const frame = reinterpret_cast<uint64_t*>(cache.frame(slot));
    if (drawn() % 16 == 0) std::this_thread::yield();
    if (kind == kPlain) {
      if (frame[word] != pattern(page, word)) fail("another content than the page's", page);
    } else if (kind == kCounter) {
      atomic_add(frame[0], uint64_t{1});
      ++tally.added[page];
      wrote(cache.words[slot]);
    } else {
      if (atomic_load(frame[word]) != tally.version[page]) fail("not what was written last", page);
      ++tally.version[page];
      for (int64_t k = 0; k < kWords; ++k) atomic_store(frame[k], tally.version[page]);
      wrote(cache.words[slot]);
    }
    if constexpr (CacheType::kKnowsUses) cache.expect(slot, atomic_load(*cache.now) + drawn() % 8);
    release(cache.words[slot]);
  }
}

template <class CacheType>
void flush(const CacheType& cache, Device<CacheType>& device) {
  const auto is_busy = [&](int64_t slot) { return Line{atomic_load(cache.words[slot])}.is(Line::kBusy); };
  for (int64_t slot = 0; slot < cache.num_slots(); ++slot)
    while (is_busy(slot) || cache.write_back(slot, device) != Try::kHeld) std::this_thread::yield();
}

template <class Replacement>
void stress(const char* name, int64_t milliseconds, int64_t threads, uint64_t seed, int64_t least) {
  using CacheType = Cache<Replacement>;
  std::vector<uint64_t> words(kSets * 8);
  std::vector<uint32_t> statuses(kSets * 8), sets(kSets), next_uses(kSets * 8);
  uint32_t now = ~0u - 10;  // so that numbers come round
  Frames frames(words.size() * kWords);
  Replacement replacement;
  if constexpr (Replacement::kKnowsUses) replacement = {next_uses.data(), &now};
  const CacheType cache{replacement, words.data(), statuses.data(), sets.data(), reinterpret_cast<char*>(frames.data()),
                        kSets,       kLine};
  Device<CacheType> device(cache, seed);
  std::vector<Tally> tallies(threads);
  std::vector<std::thread> workers;
  std::atomic<bool> ended = false;
  for (int64_t me = 0; me < threads; ++me)
    workers.emplace_back([&, me] { work(cache, device, ended, me, threads, seed, tallies[me]); });
  std::thread flusher([&] {
    for (int64_t slot = 0; !ended; slot = (slot + 1) % cache.num_slots()) {
      cache.write_back(slot, device);
      if (slot == 0) atomic_add(now, 1u);  // batches are over
      std::this_thread::yield();
    }
  });
  int64_t operations = 0;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    operations = 0;
    for (const Tally& tally : tallies) operations += tally.operations;
  } while (operations < least);
  ended = true;
  for (std::thread& worker : workers) worker.join();
  flusher.join();
  device.fails = false;
  flush(cache, device);
  int64_t failures = 0;
  for (const Tally& tally : tallies) failures += tally.failures;
  for (int64_t page = 0; page < kPages; ++page) {
    uint64_t expected = page % kKinds == kPlain ? pattern(page, 0) : 0;
    for (const Tally& tally : tallies) expected += tally.added[page] + tally.version[page];
    if (device.stored(page, 0) != expected) fail("a write was lost", page);
  }
  for (const uint64_t word : words)
    if (Line{word}.holders() != 0 || Line{word}.is(Line::kBusy | Line::kDirty | Line::kWriting)) fail("not at rest", -1);
  for (const uint32_t set : sets)
    if (set % 2 != 0) fail("still locked", -1);
  if (failures == 0 && device.transfers > 5000) fail("no read failed", -1);
  std::printf("%s: %lld calls, %lld transfers, %lld failed reads met\n", name, static_cast<long long>(operations),
              static_cast<long long>(device.transfers), static_cast<long long>(failures));
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t milliseconds = argc > 1 ? std::atoll(argv[1]) : MILLISECONDS, threads = argc > 2 ? std::atoll(argv[2]) : 8;
  const uint64_t seed = argc > 3 ? static_cast<uint64_t>(std::atoll(argv[3])) : 1;
  const int64_t operations = argc > 4 ? std::atoll(argv[4]) : 0;
  stress<storage::ClockPolicy>("clock", milliseconds, threads, seed, operations);
  stress<Fifo>("fifo", milliseconds, threads, seed, operations);
  stress<Belady>("belady", milliseconds, threads, seed, operations);
  return 0;
}
