// The controller in software, with memory behind it: what it makes of commands, right and wrong, how its time goes, how its
// threads sleep, wake and stop, and what its faults do.
#include <unistd.h>

#include <chrono>
#include <set>

#include "host.hpp"
#include "storage/controller.hpp"

#if !defined(STAGES)
#define STAGES false
#endif

using namespace test;
using native::Timing;

namespace {

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

void check_layout() {
  for (const auto& [queues, submission, completion] : {std::array{1u, 2u, 2u}, {5u, 64u, 16u}, {3u, 1024u, 4096u}}) {
    const native::QueueLayout layout(queues, submission, completion);
    std::vector<std::pair<uint64_t, uint64_t>> parts;
    for (const native::QueueOffsets& queue : layout.queues) {
      CHECK(queue.submissions % 4096 == 0 && queue.completions % 4096 == 0, "a ring begins within a page");
      parts.insert(parts.end(), {{queue.submissions, 64 * submission},
                                 {queue.completions, 16 * completion},
                                 {queue.submission_doorbell, 64},
                                 {queue.completion_doorbell, 64}});
    }
    std::sort(parts.begin(), parts.end());
    for (size_t i = 1; i < parts.size(); ++i) CHECK(parts[i - 1].first + parts[i - 1].second <= parts[i].first, "overlap");
    CHECK(parts.back().first + parts.back().second <= layout.bytes && layout.bytes % 4096 == 0, "the region's end");
  }
}

void check_data() {
  Disk disk;
  ByHand one(disk.behind());
  std::mt19937_64 random(5);
  for (int round = 0; round < 400; ++round) {
    const uint64_t count = 1 + random() % 128, first = random() % (kBlocks - count + 1), at = 4096 + random() % 2048 * 4;
    const bool writes = random() % 2 != 0;
    uint8_t* const memory = one.memory.at(at);
    for (uint64_t i = 0; i < count * 512 + 1; ++i) memory[i] = static_cast<uint8_t>(random() >> 20);
    memory[-1] = memory[count * 512] = 0x5a;
    const std::vector<uint8_t> before = disk.bytes, given(memory, memory + count * 512);
    CHECK(one.run(Host::command(writes ? Opcode::kWrite : Opcode::kRead, first, count, memory, one.list())) == kSuccess,
          "data");
    CHECK(memory[-1] == 0x5a && memory[count * 512] == 0x5a, "beyond the data");
    CHECK(std::equal(memory, memory + count * 512, writes ? given.begin() : before.begin() + first * 512), "in memory");
    std::vector<uint8_t> after = before;
    if (writes) std::copy(given.begin(), given.end(), after.begin() + first * 512);
    CHECK(after == disk.bytes, "on the disk");
  }
  CHECK(one.run(Host::command(Opcode::kFlush, 0, 1, nullptr)) == kSuccess, "flush");
}

// What is wrong with a command is said, for good, and nothing that it names is touched.
void check_refusals() {
  Disk disk;
  ByHand one(disk.behind());
  uint64_t* const list = one.list();
  const Region region = one.memory.regions()[0];
  const auto refused = [&](uint16_t status, const auto& spoil, uint64_t blocks = 128) {
    for (const Opcode opcode : {Opcode::kRead, Opcode::kWrite}) {
      std::memset(one.memory.at(0), 0x77, 40 * 4096);
      const std::vector<uint8_t> before = disk.bytes;
      SubmissionEntry entry = Host::command(opcode, 8, blocks, one.memory.at(4096), list);
      spoil(entry);
      const uint16_t found = one.run(entry);
      CHECK(found == (status | kDoNotRetry), "status %x, not %x", found, status);
      CHECK(disk.bytes == before, "written");
      for (int i = 0; i < 40 * 4096; ++i) CHECK(*one.memory.at(i) == 0x77, "read");
    }
  };
  refused(kInvalidOpcode, [](SubmissionEntry& entry) { entry.opcode = 9; });
  refused(kInvalidField, [](SubmissionEntry& entry) { entry.flags = 0x40; });
  refused(kInvalidNamespace, [](SubmissionEntry& entry) { entry.namespace_id = 2; });
  refused(kInvalidNamespace, [](SubmissionEntry& entry) { entry.namespace_id = ~0u; });
  refused(kInvalidField, [](SubmissionEntry& entry) { entry.last_block = 128; });
  for (const uint64_t first : {kBlocks - 127, kBlocks, ~uint64_t{0}, ~uint64_t{0} - 126})
    refused(kOutOfRange, [=](SubmissionEntry& entry) { entry.first_block = first; });
  refused(kPrpOffsetInvalid, [](SubmissionEntry& entry) { entry.prp1 += 2; });
  refused(kPrpOffsetInvalid, [](SubmissionEntry& entry) { entry.prp2 += 4; });
  refused(kPrpOffsetInvalid, [&](SubmissionEntry&) { list[3] += 512; });
  refused(kPrpOffsetInvalid, [](SubmissionEntry& entry) { entry.prp2 += 512; }, 12);
  const uint64_t end = region.base + region.bytes;
  for (const uint64_t outside : {uint64_t{0}, region.base - 4096, end, ~uint64_t{4095}}) {
    refused(kInvalidField, [=](SubmissionEntry& entry) { entry.prp1 = outside; });
    refused(kInvalidField, [=](SubmissionEntry& entry) { entry.prp2 = outside; });
    refused(kInvalidField, [=](SubmissionEntry& entry) { entry.prp2 = outside; }, 12);
    for (const int i : {0, 7, 14}) refused(kInvalidField, [=](SubmissionEntry&) { list[i] = outside; });
  }
  refused(kInvalidField, [=](SubmissionEntry& entry) { entry.prp1 = region.base - 4; }, 1);
  refused(kInvalidField, [=](SubmissionEntry& entry) { entry.prp2 = end - 8; });  // the list goes on outside

  // A doorbell that no host could have rung is not followed.
  const uint64_t commands = one.serving.stats().commands;
  system_store_release(*one.memory.views[0].submission_doorbell, 1000u);
  CHECK(!one.serving.turn(++one.now) && one.serving.stats().commands == commands, "a doorbell");
}

// A list that comes to the end of its page goes on where its last entry says.
void check_chained_list() {
  Disk disk;
  ByHand one(disk.behind());
  auto *const last = reinterpret_cast<uint64_t*>(one.memory.at(63 * 4096 - 24)), *const next = last + 3 + 512 * 0;
  SubmissionEntry entry = Host::command(Opcode::kRead, 0, 128, one.memory.at(0), one.list());
  const std::vector<uint64_t> pages(one.list(), one.list() + 15);
  std::copy(pages.begin(), pages.begin() + 2, last);
  last[2] = address(next);
  std::copy(pages.begin() + 2, pages.end(), next);
  entry.prp2 = address(last);
  CHECK(one.run(entry) == kSuccess && std::equal(disk.bytes.begin(), disk.bytes.begin() + 65536, one.memory.at(0)), "chained");
  // The last page of all stands in the last entry: that one is no pointer.
  entry = Host::command(Opcode::kRead, 24, 32, one.memory.at(0), one.list());
  std::copy(one.list(), one.list() + 3, last);
  entry.prp2 = address(last);
  CHECK(one.run(entry) == kSuccess && std::equal(one.memory.at(0), one.memory.at(16384), disk.bytes.begin() + 24 * 512),
        "last");
  last[2] = address(last) / 4096 * 4096 + 4088;  // a list that leads into itself ends
  entry = Host::command(Opcode::kRead, 0, 128, one.memory.at(0), one.list());
  entry.prp2 = address(last);
  CHECK(one.run(entry) == (kPrpOffsetInvalid | kDoNotRetry), "a list without an end");
}

// Completions are not written over those that the host has not read, and wait for room without holding other queues up.
void check_room() {
  Disk disk;
  HostMemory memory(2, 4, 8);
  const auto blocks = disk.behind();
  native::Serving serving({{memory.views[0], 0}, {memory.views[1], 1}}, memory.regions(), *blocks);
  Host full(memory.views[0]), other(memory.views[1]);
  uint64_t now = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 3; ++i) full.put(Host::command(Opcode::kRead, 0, 1, memory.at(0)));
    full.ring();
    for (int i = 0; i < 3; ++i) serving.turn(++now);
  }
  // The host has broken the rules: 15 commands for 3 places of completions. Those that were read complete one by one.
  CHECK(serving.stats().commands == 3, "%llu completions", (unsigned long long)serving.stats().commands);
  CHECK(other.run(Host::command(Opcode::kRead, 5, 1, memory.at(512)), [&] { serving.turn(++now); }) == kSuccess, "held up");
  Ending ending;
  CHECK(full.poll(ending) && ending.status == kSuccess, "the first");
  serving.turn(++now);
  CHECK(serving.stats().commands == 5, "one place, one completion");
  CHECK(memory.views[1].completions[0].queue >> 16 == 2 && (memory.views[1].completions[0].queue & 0xffff) == 1, "which queue");
}

void check_timing() {
  const auto dues = [](const Timing& timing, uint64_t bytes, int count) {
    native::Pace pace(timing);
    std::vector<uint64_t> all;
    for (int i = 0; i < count; ++i) all.push_back(pace.due(1000, bytes));
    return all;
  };
  CHECK((dues({}, 512, 2) == std::vector<uint64_t>{1000, 1000}), "at once");
  CHECK((dues({50, 0, 0, 0}, 512, 3) == std::vector<uint64_t>{1050, 1050, 1050}), "latency");
  CHECK((dues({50, 0, 0, 2}, 512, 5) == std::vector<uint64_t>{1050, 1050, 1100, 1100, 1150}), "parallelism");
  CHECK((dues({0, 512'000'000, 0, 0}, 512, 3) == std::vector<uint64_t>{2000, 3000, 4000}), "bytes a second");
  CHECK((dues({5000, 0, 1'000'000, 0}, 512, 7)[6] == 8000), "requests a second, behind the latency");
  CHECK((dues({0, 0, 3'000'000'000, 0}, 512, 9)[8] == 1003), "a third of a nanosecond each");
  native::Pace pace({100, 0, 1'000'000, 0});
  CHECK(pace.due(0, 1) == 1000 && pace.due(9000, 1) == 10000, "time that nobody used is gone");

  Disk disk;
  ByHand one(disk.behind({50, 0, 0, 1}));
  for (int i = 0; i < 2; ++i) one.host.put(Host::command(Opcode::kRead, 0, 1, one.memory.at(0)));
  one.host.ring();
  std::vector<uint64_t> ended;
  for (uint64_t now = 1; now < 200; ++now) {
    one.serving.turn(now);
    for (Ending ending; one.host.poll(ending);) ended.push_back(now);
    CHECK((ended.empty() ? 0 : 1) == (*one.memory.at(3) == disk.bytes[3]), "data before its time");
  }
  CHECK((ended == std::vector<uint64_t>{51, 101}), "when");
}

template <class Step>
void until(const Step& done) {
  while (!done()) std::this_thread::yield();
}

// Several queues, several threads, hosts of their own; and the threads' sleep.
void check_threads() {
  Disk disk;
  HostMemory memory(5, 16, 5 * 16);
  native::Controller controller(memory.views, memory.regions(), disk.behind(), 2);
  controller.start();
  controller.acquire();
  std::vector<std::thread> hosts;
  constexpr int kEach = 3000;
  for (uint64_t me = 0; me < 5; ++me)
    hosts.emplace_back([&, me] {
      Host host(memory.views[me]);
      std::mt19937_64 random(me);
      std::vector<uint64_t> expected(16);
      int submitted = 0, ended = 0;
      while (ended < kEach) {
        while (submitted < kEach && submitted - ended < 15) {
          const uint64_t first = random() % kBlocks, slot = static_cast<uint64_t>(submitted++) % 16;
          expected[slot] = first;
          host.put(Host::command(Opcode::kRead, first, 1, memory.at((me * 16 + slot) * 4096)));
        }
        host.ring();
        for (Ending ending; host.poll(ending); ++ended) {
          const uint8_t* const found = memory.at((me * 16 + ending.identifier) * 4096);
          CHECK(ending.status == kSuccess, "status");
          CHECK(std::equal(found, found + 512, disk.bytes.begin() + expected[ending.identifier] * 512), "data");
        }
        std::this_thread::yield();
      }
    });
  for (std::thread& host : hosts) host.join();
  controller.release();
  uint64_t commands = 0, bytes = 0;
  const auto all = controller.stats();
  for (const native::ServingStats& each : all) {
    commands += each.commands, bytes += each.read_bytes;
    CHECK(each.commands == kEach * (&each == all.data() ? 3 : 2) && each.cpu_ns > 0 && each.doorbell_looks > 0, "a thread");
  }
  CHECK(all.size() == 2 && commands == 5 * kEach && bytes == commands * 512, "all threads");
  for (const native::ServingStats& each : all)
    CHECK((each.submit_ns > 0) == native::counts_stages && (each.completed_at > each.picked_up_at) == native::counts_stages,
          "stages");

  // Nobody is live: a thread looks no more, until somebody is.
  sleep_ms(30);
  const auto before = controller.stats();
  Host late(memory.views[0]);
  SubmissionEntry entry = Host::command(Opcode::kRead, 1, 1, memory.at(0));
  sleep_ms(30);
  CHECK(controller.stats()[0].turns == before[0].turns && controller.stats()[1].turns == before[1].turns, "awake");
  controller.stop();
  CHECK(controller.stats()[0].commands == all[0].commands && controller.stats()[0].cpu_ns > 0, "stopped");
  std::memset(memory.rings.data(), 0, memory.rings.size() * 4096);
  controller.start();
  late.put(entry);
  late.ring();
  sleep_ms(20);
  Ending ending;
  const auto asleep = controller.stats();
  controller.acquire();
  until([&] { return late.poll(ending); });
  CHECK(asleep[0].commands <= 1 && ending.status == kSuccess &&
            std::equal(memory.at(0), memory.at(512), disk.bytes.begin() + 512),
        "woken");
}

// What was submitted before the last release is done, and then the thread sleeps.
void check_release() {
  Disk disk;
  HostMemory memory(1, 64, 64);
  native::Controller controller(memory.views, memory.regions(), disk.behind({20'000'000, 0, 0, 0}), 4);
  controller.start();
  for (int round = 0; round < 3; ++round) {
    static Host host(memory.views[0]);
    controller.acquire();
    for (int i = 0; i < 8; ++i) host.put(Host::command(Opcode::kRead, 0, 1, memory.at(0)));
    host.ring();
    controller.release();
    Ending ending;
    for (int i = 0; i < 8; ++i) until([&] { return host.poll(ending); });
  }
}

// With commands in flight: they are not answered, and memory stays as it is.
void check_stop() {
  Disk disk;
  for (const uint64_t latency : {uint64_t{5'000'000}, uint64_t{0}}) {
    HostMemory memory(2, 64, 128);
    native::Controller controller(memory.views, memory.regions(), disk.behind({latency, 0, 0, 0}), 2);
    controller.start();
    controller.acquire();
    for (uint32_t queue = 0; queue < 2; ++queue) {
      Host host(memory.views[queue]);
      for (int i = 0; i < 63; ++i) host.put(Host::command(Opcode::kRead, 0, 8, memory.at((queue * 64 + i) * 4096)));
      host.ring();
    }
    if (latency != 0) sleep_ms(2);
    controller.stop();
    const auto bytes = [](const std::vector<MemoryPage>& pages) {
      const auto* const begin = reinterpret_cast<const uint8_t*>(pages.data());
      return std::vector<uint8_t>(begin, begin + pages.size() * 4096);
    };
    const auto data = bytes(memory.data), rings = bytes(memory.rings);
    sleep_ms(10);
    CHECK(bytes(memory.data) == data && bytes(memory.rings) == rings, "written after it was stopped");
    for (uint32_t queue = 0; queue < 2; ++queue) {
      Host host(memory.views[queue]);
      for (Ending ending; host.poll(ending);)
        CHECK(std::equal(memory.at((queue * 64 + ending.identifier) * 4096),
                         memory.at((queue * 64 + ending.identifier) * 4096 + 4096), disk.bytes.begin()),
              "answered without its data");
    }
  }
}

void check_wrong_queues() {
  Disk disk;
  HostMemory memory(1, 4, 1);
  const auto refused = [&](std::vector<QueueView> views, unsigned threads) {
    try {
      native::Controller(std::move(views), {}, disk.behind(), threads);
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  CHECK(refused({}, 1) && refused(memory.views, 0) && !refused(memory.views, 1), "counts");
  for (const uint32_t size : {0u, 1u, 3u, 131072u}) {
    QueueView view = memory.views[0];
    view.completion_size = size;
    CHECK(refused({view}, 1), "%u entries", size);
  }
  QueueView view = memory.views[0];
  view.submission_doorbell = nullptr;
  CHECK(refused({view}, 1), "no doorbell");
}

// Writes of pages, each of which is all new or failed, and what is then on the disk.
void check_torn_writes() {
  std::set<int> seen;
  unsigned lost = 0, failed = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Disk disk;
    const std::vector<uint8_t> old = disk.bytes;
    ByHand one(disk.behind(Faults{.torn = 500}, seed));
    std::memset(one.memory.at(4), 0xee, 4096);
    one.host.put(Host::command(Opcode::kWrite, 16, 8, one.memory.at(4)));
    one.host.ring();
    for (int i = 0; i < 10; ++i) one.serving.turn(++one.now);
    int written = 0;
    for (uint64_t block = 0; block < kBlocks; ++block) {
      const auto at = disk.bytes.begin() + static_cast<std::ptrdiff_t>(block) * 512;
      const bool is_new = std::count(at, at + 512, 0xee) == 512;
      CHECK(is_new || std::equal(at, at + 512, old.begin() + static_cast<std::ptrdiff_t>(block) * 512), "a block in halves");
      CHECK(!is_new || (block >= 16 && block < 24), "a block of others");
      written += is_new ? 1 : 0;
    }
    Ending ending;
    if (!one.host.poll(ending)) {
      ++lost;
      CHECK(one.serving.in_flight() == 0, "what is lost is not waited for");
      CHECK(one.serving.abort(0, 0) && !one.serving.abort(0, 0), "dropped once");
    } else if (ending.status != kSuccess) {
      ++failed;
      CHECK(ending.status == kWriteFault, "status");
    } else {
      CHECK(written == 8, "said to be written");
      continue;
    }
    seen.insert(written);
  }
  CHECK(lost > 3 && failed > 3 && seen.size() > 5 && seen.count(0) == 1, "%u lost, %u failed", lost, failed);
}

void check_lateness_and_removal() {
  Disk disk;
  ByHand late(disk.behind(Faults{.late = 1000, .late_most = 100}, 3), 64);
  for (int i = 0; i < 40; ++i) late.host.put(Host::command(Opcode::kRead, 0, 1, late.memory.at(i * 512)));
  late.host.ring();
  std::set<uint64_t> when;
  Ending ending;
  for (uint64_t now = 0; now <= 200; ++now)
    for (late.serving.turn(now); late.host.poll(ending);) when.insert(now);
  CHECK(when.size() > 10 && *when.rbegin() <= 100 && late.serving.stats().commands == 40, "%zu times", when.size());

  ByHand reordered(disk.behind(Faults{.reorder = true}, 3), 64);
  for (int i = 0; i < 40; ++i) reordered.host.put(Host::command(Opcode::kRead, 0, 1, reordered.memory.at(i * 512)));
  reordered.host.ring();
  std::vector<uint16_t> order;
  while (order.size() < 40)
    for (reordered.serving.turn(++reordered.now); reordered.host.poll(ending);) order.push_back(ending.identifier);
  CHECK(!std::is_sorted(order.begin(), order.end()), "in order");
  std::sort(order.begin(), order.end());
  CHECK(std::unique(order.begin(), order.end()) == order.end(), "twice");

  ByHand removed(disk.behind(Faults{.removed_after = 5}, 3), 64);
  for (int i = 0; i < 5; ++i) CHECK(removed.run(Host::command(Opcode::kRead, 0, 1, removed.memory.at(0))) == kSuccess, "%d", i);
  removed.host.put(Host::command(Opcode::kRead, 0, 1, removed.memory.at(0)));
  removed.host.ring();
  for (int i = 0; i < 10; ++i) CHECK(!removed.serving.turn(++removed.now), "busy");
  CHECK(removed.blocks->gone() && removed.serving.stats().commands == 5 && !removed.host.poll(ending), "gone");
}

// A command that is on its way can be dropped, and then does nothing.
void check_abort() {
  Disk disk;
  HostMemory memory(2, 8, 2);
  native::Controller controller(memory.views, memory.regions(), disk.behind({3'000'000'000, 0, 0, 0}), 2);
  CHECK(!controller.abort(1, 0), "not started");
  controller.start();
  controller.acquire();
  Host host(memory.views[1]);
  host.put(Host::command(Opcode::kRead, 0, 1, memory.at(0)));
  CHECK(!controller.abort(1, 0), "not told of");
  host.ring();
  until([&] { return controller.abort(1, 0); });
  CHECK(!controller.abort(1, 0) && !controller.abort(0, 0), "once");
  controller.stop();
  CHECK(*memory.at(1) == 0 && controller.stats()[1].commands == 0, "did it");
}

// For a look by hand: how many reads a second of so many bytes one thread serves.
void measure(uint64_t bytes) {
  std::vector<uint8_t> disk(uint64_t{256} << 20, 1);
  HostMemory memory(1, 1024, 1024);
  auto blocks = std::make_unique<native::MemoryNamespace>(reinterpret_cast<char*>(disk.data()), disk.size(), native::kNoDelay);
  native::Controller controller(memory.views, memory.regions(), std::move(blocks), 1);
  controller.start();
  controller.acquire();
  Host host(memory.views[0]);
  std::mt19937_64 random(1);
  std::vector<uint64_t> firsts(1 << 16);
  for (uint64_t& first : firsts) first = random() % (disk.size() / bytes) * (bytes / 512);
  const auto begin = std::chrono::steady_clock::now();
  const uint64_t most = (uint64_t{2} << 30) / bytes;
  for (uint64_t submitted = 0, ended = 0; ended < most;) {
    for (; submitted < most && submitted - ended < 1023; ++submitted)
      host.put(Host::command(Opcode::kRead, firsts[submitted & 65535], bytes / 512, memory.at(submitted % 1024 * 4096)));
    host.ring();
    for (Ending ending; host.poll(ending);) ++ended;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  controller.stop();
  const native::ServingStats stats = controller.stats()[0];
  std::printf("%llu B: %.2f M/s, %.0f ns of the thread's time each, %.0f commands a turn\n", (unsigned long long)bytes,
              1e-6 * static_cast<double>(most) / seconds, static_cast<double>(stats.cpu_ns) / static_cast<double>(most),
              static_cast<double>(most) / static_cast<double>(stats.turns));
}

}  // namespace

int main(int count, char**) {
  alarm(300);
  native::counts_stages = STAGES;
  if (count > 1) {
    for (const uint64_t bytes : {512, 4096}) measure(bytes);
    return 0;
  }
  check_layout();
  check_data();
  check_refusals();
  check_chained_list();
  check_room();
  check_timing();
  check_wrong_queues();
  check_threads();
  check_release();
  check_stop();
  check_abort();
  check_torn_writes();
  check_lateness_and_removal();
  return 0;
}
