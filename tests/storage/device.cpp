// The cache over a queue pair over a device in software that is late, fails and reorders: threads find in every page what was
// last written there, whatever the size of a line, and in the end it is on the device.
//
// A device reads frames while their holders may write them, which ThreadSanitizer calls a race, so it gets -DWRITES=false.
#include "hinterland/storage/device.hpp"

#include <unistd.h>

#include "client.hpp"

#ifndef WRITES
#define WRITES true
#endif

using namespace hinterland;
using namespace hinterland::storage;
using test::Controller;

namespace {

constexpr int64_t kSets = 2, kSlots = 8 * kSets, kPages = 90;
constexpr unsigned kThreads = 6;
constexpr uint64_t kPatience = 400;  // turns of the device

using Device = PageDevice<Cache<storage::Clock>>;

struct Memory {
  explicit Memory(int64_t line) : frames(static_cast<size_t>(kSlots * line / 4096 + 1)) {}

  struct alignas(4096) MemoryPage {
    uint8_t bytes[4096];
  };
  std::vector<uint64_t> words = std::vector<uint64_t>(kSlots);
  std::vector<uint32_t> statuses = std::vector<uint32_t>(kSlots), sets = std::vector<uint32_t>(kSets);
  std::vector<PrpList> lists = std::vector<PrpList>(kSlots);
  std::vector<MemoryPage> frames;

  Device device(const test::Rings& rings, int64_t line) {
    const Cache<storage::Clock> cache{words.data(), statuses.data(), sets.data(), reinterpret_cast<char*>(frames.data()), kSets,
                                      line};
    const uint64_t blocks = static_cast<uint64_t>(line) / test::kBlockBytes * kPages;
    const BlockRange range{test::kNamespace, test::kBlockBytes, test::kBase, blocks};
    return {cache, rings.pair, range, lists.data(), address(frames), address(lists), kNoDeadline};
  }

  template <class Array>
  static uint64_t address(const Array& array) {
    return reinterpret_cast<uint64_t>(array.data());
  }
};

struct Tally {
  uint64_t failed = 0, given_up = 0;

  void operator+=(const Tally& other) { failed += other.failed, given_up += other.given_up; }
};

int64_t held(Device& device, const Controller& controller, int64_t page, Tally& tally) {
  while (true) {
    device.deadline = controller.now() + kPatience;
    const Found found = device.cache.try_hold(static_cast<Page>(page), device);
    if (found.outcome == Try::kHeld) return found.slot;
    if (found.outcome == Try::kFailed && forget(device.cache.words[found.slot], static_cast<Page>(page))) ++tally.failed;
    device.poll();
    tally.given_up += device.expire(controller.now());
    std::this_thread::yield();
  }
}

// A page is its number in its first byte and, in all others, how often it was written.
void work(Device device, const Controller& controller, unsigned me, uint64_t seed, std::vector<uint8_t>& written,
          Tally& tally) {
  std::mt19937_64 drawn(seed + me);
  const int64_t line = device.cache.line_bytes;
  for (int i = 0; i < 150; ++i) {
    const int64_t page = static_cast<int64_t>(drawn() % kPages), at = 1 + static_cast<int64_t>(drawn() % (line - 1));
    const bool changes = WRITES && page % kThreads < kThreads / 2;  // half of the pages are read alone
    if (changes && page % kThreads != me) continue;
    const int64_t slot = held(device, controller, page, tally);
    auto* const frame = reinterpret_cast<uint8_t*>(device.cache.frame(slot));
    CHECK(frame[0] == page, "page %d in place of %d", frame[0], static_cast<int>(page));
    if (changes) {
      CHECK(frame[at] == written[page], "not what was written last");
      std::memset(frame + 1, ++written[page], static_cast<size_t>(line - 1));
      wrote(device.cache.words[slot]);
    } else {
      CHECK(frame[at] == 0, "not what was there");
    }
    release(device.cache.words[slot]);
  }
}

void flush(Device& device, const Controller& controller) {
  for (int64_t slot = 0; slot < kSlots; ++slot)
    while (true) {
      device.deadline = controller.now() + kPatience;
      const Line seen{device.cache.words[slot]};
      if (!seen.is(Line::kBusy) && device.cache.write_back(slot, device) == Try::kHeld) break;
      device.poll();
      device.expire(controller.now());
      std::this_thread::yield();
    }
}

Tally check(int64_t line, uint32_t entries, uint64_t seed) {
  test::Rings rings(entries, entries);
  Memory memory(line);
  Device device = memory.device(rings, line);
  for (int64_t slot = 0; slot < kSlots; ++slot) device.prepare(slot);
  Controller controller(rings.pair, device.blocks.blocks,
                        test::Faults{.retryable = 30, .fatal = 20, .late = 60, .reorder = true}, seed);
  controller.sealed = false;
  for (int64_t page = 0; page < kPages; ++page) controller.disk[page * line] = static_cast<uint8_t>(page);
  std::thread server([&] { controller.run(); });
  std::vector<uint8_t> written(kPages);
  std::vector<Tally> tallies(kThreads);
  std::vector<std::thread> threads;
  for (unsigned me = 0; me < kThreads; ++me)
    threads.emplace_back([&, me] { work(device, controller, me, seed, written, tallies[me]); });
  for (std::thread& thread : threads) thread.join();
  flush(device, controller);
  controller.stop();
  server.join();
  Tally all;
  for (const Tally& tally : tallies) all += tally;
  for (int64_t page = 0; page < kPages; ++page)
    for (int64_t i = 1; i < line; ++i) CHECK(controller.disk[page * line + i] == written[page], "a write was lost");
  for (const uint64_t word : memory.words) CHECK(Line{word}.is_free(), "a line is not at rest");
  rings.check_at_rest(0);
  return all;
}

// The device is removed while threads wait: all are told, and nobody waits for ever.
void check_removal() {
  test::Rings rings(16, 16);
  Memory memory(4096);
  Device device = memory.device(rings, 4096);
  const auto& cache = device.cache;
  for (Page page = 0; page < 4; ++page) CHECK(cache.try_hold(page, device).outcome == Try::kStarted, "started");
  CHECK(device.abort() == 4, "four were on their way");
  for (Page page = 0; page < 4; ++page) {
    const Found found = cache.try_hold(page, device);
    CHECK(found.outcome == Try::kFailed && cache.status(found.slot) == kHostPathError, "all are told");
  }
  // One had been answered, which nobody had seen.
  CompletionEntry& answer = rings.completions[0];
  system_store(answer.queue, 1u);
  system_store_release(answer.last, rings.submissions[0].identifier | 1u << 16);
  CHECK(device.poll() == 0 && rings.control.late == 1, "late");
  const Found first = cache.try_hold(0, device);
  CHECK(first.outcome == Try::kFailed && forget(cache.words[first.slot], 0), "a line that is given up ends as one");
  CHECK(cache.try_hold(9, device).outcome == Try::kStarted && cache.try_hold(9, device).outcome == Try::kFailed, "later, too");
}

}  // namespace

int main() {
  alarm(100);
  Tally all;
  for (const int64_t line : {512, 4096, 8192, 65536})
    for (const uint32_t entries : {4u, 64u}) all += check(line, entries, static_cast<uint64_t>(line) + entries);
  CHECK(all.failed > 0 && all.given_up > 0, "not every fault was met");
  check_removal();
  return 0;
}
