// The cache over a queue pair over a device in software that is late, fails and reorders: threads find in every page what was
// last written there, whatever the size of a line, and in the end it is on the device.
//
// A device reads frames while their holders may write them, which ThreadSanitizer calls a race, so it gets -DWRITES=false.
#include <unistd.h>

#include <functional>
#include <utility>

#include "hinterland/core/atomic.hpp"

// What another thread does just before the queue tries a lock.
namespace test {
inline thread_local std::function<void()> before_lock;
inline void come_to_lock() {
  if (before_lock) std::exchange(before_lock, nullptr)();
}
}  // namespace test
#define atomic_or_acq_rel(...) (::test::come_to_lock(), atomic_or_acq_rel(__VA_ARGS__))
#include "hinterland/storage/device.hpp"
#undef atomic_or_acq_rel

#include "client.hpp"

#ifndef WRITES
#define WRITES true
#endif

using namespace hinterland;
using namespace hinterland::storage;
using test::Controller, test::outstanding;

namespace {

constexpr int64_t kSets = 2, kSlots = 8 * kSets, kPages = 90;
constexpr unsigned kThreads = 6;
constexpr uint64_t kPatience = 400;  // turns of the device

using Device = PageDevice<Cache<storage::ClockPolicy>>;

// Of a cache, and where commands' data lies: a line for each identifier.
struct Memory {
  Memory(int64_t line, uint32_t entries) : lists(entries), frames(pages(kSlots * line)), lines(pages(entries * line)) {}

  struct alignas(4096) MemoryPage {
    uint8_t bytes[4096];
  };
  std::vector<uint64_t> words = std::vector<uint64_t>(kSlots);
  std::vector<uint32_t> statuses = std::vector<uint32_t>(kSlots), sets = std::vector<uint32_t>(kSets);
  std::vector<PrpList> lists;
  std::vector<MemoryPage> frames, lines;

  Device device(const test::Rings& rings, int64_t line) {
    const Cache<storage::ClockPolicy> cache{
        {}, words.data(), statuses.data(), sets.data(), reinterpret_cast<char*>(frames.data()), kSets, line};
    const uint64_t blocks = static_cast<uint64_t>(line) / test::kBlockBytes * kPages;
    const BlockRange range{test::kNamespace, test::kBlockBytes, test::kBase, blocks};
    const Channel channel{rings.pair, reinterpret_cast<char*>(lines.data()), address(lines), lists.data(), address(lists)};
    const Device device{cache, channel, range, kNoDeadline};
    for (size_t i = 0; i < lists.size(); ++i) device.prepare(static_cast<int64_t>(i));
    return device;
  }

  static size_t pages(int64_t bytes) { return static_cast<size_t>(bytes / 4096 + 1); }

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
    const CacheLookup found = device.cache.try_acquire(static_cast<Page>(page), device);
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
  Memory memory(line, entries);
  Device device = memory.device(rings, line);
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

// A device by hand that has read everything: it answers one command.
void answer(const test::Rings& rings, uint64_t position, uint16_t identifier, uint16_t status = 0) {
  CompletionEntry& entry = rings.pair.completions[position];
  system_store(entry.queue, static_cast<uint32_t>(position + 1));
  system_store_release(entry.last, identifier | 1u << 16 | static_cast<uint32_t>(status) << 17);
}

// The device is removed while threads wait: all are told, and nobody waits for ever.
void check_removal() {
  test::Rings rings(16, 16);
  Memory memory(4096, 16);
  Device device = memory.device(rings, 4096);
  const auto& cache = device.cache;
  for (Page page = 0; page < 4; ++page) CHECK(cache.try_acquire(page, device).outcome == Try::kStarted, "started");
  CHECK(device.abort() == 4, "four were on their way");
  for (Page page = 0; page < 4; ++page) {
    const CacheLookup found = cache.try_acquire(page, device);
    CHECK(found.outcome == Try::kFailed && cache.status(found.slot) == kHostPathError, "all are told");
  }
  answer(rings, 0, rings.submissions[0].identifier);  // it had been given before, and nobody had seen it
  CHECK(device.poll() == 0 && rings.control.late == 1, "late");
  const CacheLookup first = cache.try_acquire(0, device);
  CHECK(first.outcome == Try::kFailed && forget(cache.words[first.slot], 0), "a line that is given up ends as one");
  CHECK(cache.try_acquire(9, device).outcome == Try::kStarted && cache.try_acquire(9, device).outcome == Try::kFailed,
        "later, too");
}

// The queue is closed when a read has been marked already, and the device may have been told: its slot stays as it is until
// the device has answered, or the late answer would end another page's read.
void check_closed_midway() {
  test::Rings rings(16, 16);
  Memory memory(4096, 16);
  Device device = memory.device(rings, 4096);
  test::before_lock = [&] {
    atomic_store(rings.control.tail_lock, 2u);
  };  // as abort() does, which has not come to commands yet
  CHECK(device.cache.try_acquire(7, device).outcome == Try::kStarted, "closed since");
  const CacheLookup found = device.cache.try_acquire(7, device);
  CHECK(found.outcome == Try::kFailed && device.cache.status(found.slot) == kHostPathError, "given up");
  const Line line{device.cache.words[found.slot]};
  CHECK(line.is(Line::kBusy) && outstanding(rings.pair) == 1, "the device may still write the frame");
  CHECK(device.abort() == 0, "once");
  answer(rings, 0, rings.submissions[0].identifier);
  CHECK(device.poll() == 0 && rings.control.late == 1 && outstanding(rings.pair) == 0, "late");
  CHECK(forget(device.cache.words[found.slot], 7), "the slot is free now");
}

// The device was told to abort what had been given up, and has: the slot is let go.
void check_settled() {
  test::Rings rings(16, 16);
  Memory memory(4096, 16);
  Device device = memory.device(rings, 4096);
  const auto& cache = device.cache;
  device.deadline = 5;
  CHECK(cache.try_acquire(1, device).outcome == Try::kStarted, "started");
  const uint16_t identifier = rings.submissions[0].identifier;
  CHECK(!device.settle(identifier) && device.expire(5) == 1, "late");
  const CacheLookup found = cache.try_acquire(1, device);
  CHECK(found.outcome == Try::kFailed && cache.status(found.slot) == kAbortedByHost, "late");
  CHECK(!forget(cache.words[found.slot], 1), "the device may still write the frame");
  CHECK(device.settle(identifier) && !device.settle(identifier), "settled once");
  CHECK(forget(cache.words[found.slot], 1) && outstanding(rings.pair) == 0, "the slot is free");
  CHECK(cache.try_acquire(1, device).outcome == Try::kStarted, "anew");
}

// A read that fails is tried three times more, unless the device says that it would fail again; each page's are counted anew.
void check_tries() {
  test::Rings rings(64, 64);
  Memory memory(4096, 64);
  Device device = memory.device(rings, 4096);
  const auto& cache = device.cache;
  uint64_t position = 0;
  const auto end = [&](uint16_t status) {
    answer(rings, position, rings.submissions[position].identifier, status);
    ++position;
    CHECK(device.poll() == 1, "seen");
  };
  for (const Page page : {5, 5, 6}) {
    CHECK(cache.try_acquire(page, device).outcome == Try::kStarted, "started");
    for (int tries = 0; tries < 3; ++tries) {
      end(kInternalError);
      CHECK(cache.try_acquire(page, device).outcome == Try::kWait && outstanding(rings.pair) == 1, "it is tried again");
      const uint64_t block = rings.submissions[0].first_block + (page - 5) * 4096 / test::kBlockBytes;
      CHECK(rings.submissions[position].first_block == block, "the same page");
    }
    end(page == 5 && position < 5 ? kSuccess : kInternalError);
    const CacheLookup found = cache.try_acquire(page, device);
    if (position < 5) {
      CHECK(found.outcome == Try::kHeld && cache.status(found.slot) == 0, "the fourth time it was read");
      release(cache.words[found.slot]);
      CHECK(drop(cache.words[found.slot], Line{cache.words[found.slot]}), "read anew");
    } else {
      CHECK(found.outcome == Try::kFailed && cache.status(found.slot) == kInternalError, "the fourth failed as well");
      CHECK(forget(cache.words[found.slot], page), "read anew");
    }
  }
  CHECK(cache.try_acquire(7, device).outcome == Try::kStarted, "started");
  end(kUnrecoveredReadError | kDoNotRetry);
  CHECK(cache.try_acquire(7, device).outcome == Try::kFailed && outstanding(rings.pair) == 0, "it is not tried again");
}

// There is no room in the queue for another try: whoever wants the page asks anew.
void check_no_room_for_another_try() {
  test::Rings rings(2, 2);
  Memory memory(4096, 2);
  Device device = memory.device(rings, 4096);
  CHECK(device.cache.try_acquire(5, device).outcome == Try::kStarted, "started");
  answer(rings, 0, rings.submissions[0].identifier, kInternalError);
  CHECK(device.poll() == 1 && outstanding(rings.pair) == 0, "seen");
  CHECK(device.cache.try_acquire(5).slot == -1 && device.cache.try_acquire(5, device).outcome == Try::kStarted, "anew");
}

// Pages that the device has no blocks for fail, whatever the queue says, and take nothing from it.
void check_out_of_range() {
  test::Rings rings(4, 4);
  Memory memory(4096, 4);
  Device device = memory.device(rings, 4096);
  const auto& cache = device.cache;
  for (const Page page : {Page{kPages}, Line::kMostPages - 1}) {
    CHECK(cache.try_acquire(page, device).outcome == Try::kStarted, "asked for");
    const CacheLookup found = cache.try_acquire(page, device);
    CHECK(found.outcome == Try::kFailed && cache.status(found.slot) == kOutOfRange, "out of range");
  }
  CHECK(outstanding(rings.pair) == 0 && cache.try_acquire(kPages - 1, device).outcome == Try::kStarted, "the last page");
}

void check_all() {
  Tally all;
  for (const int64_t line : {512, 4096, 8192, 65536})
    for (const uint32_t entries : {4u, 64u}) all += check(line, entries, static_cast<uint64_t>(line) + entries);
  CHECK(all.failed > 0 && all.given_up > 0, "not every fault was met");
  check_removal();
  check_settled();
  check_tries();
  check_no_room_for_another_try();
  check_out_of_range();
}

}  // namespace

int main() {
  alarm(300);
  check_all();
  check_closed_midway();
  return 0;
}
