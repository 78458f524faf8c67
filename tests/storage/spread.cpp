// Several devices as one: where each byte lies, data through queues against a model, and copies that fail, are removed, or are
// given up.
#include <unistd.h>

#include <set>

#include "host.hpp"
#include "storage/controller.hpp"
#include "storage/spread_namespace.hpp"

using namespace test;
using native::Backend;
using native::Namespaces;
using native::Request;
using native::Spread;
using native::SpreadNamespace;

namespace {

// Deals bytes one by one, as far as there is room, and asks where each lies.
void check_arithmetic() {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    const uint64_t unit = 1 + random() % 7;
    std::vector<uint64_t> sizes(1 + random() % 5);
    for (uint64_t& size : sizes) size = random() % 40;
    const Spread striped = Spread::striped(sizes, unit);
    std::vector<uint64_t> dealt(sizes.size());
    uint64_t at = 0;
    for (;; ++at) {
      const uint64_t member = at / unit % sizes.size();
      if (dealt[member] == sizes[member]) break;
      CHECK(at < striped.bytes(), "too few");
      const Spread::Place place = striped.place(at);
      CHECK(place.member == member && place.offset == dealt[member]++, "byte %d", (int)at);
      CHECK(place.bytes == std::min(unit - at % unit, striped.bytes() - at), "piece");
    }
    CHECK(at == striped.bytes(), "%d of %d", (int)striped.bytes(), (int)at);
    for (uint64_t i = 0; i < sizes.size(); ++i) CHECK(Spread::share(sizes.size(), unit, at, i) == dealt[i], "share");

    const Spread row = Spread::in_a_row(sizes, unit);
    uint64_t end = 0;
    for (uint64_t i = 0; i < sizes.size(); ++i) {
      const uint64_t begin = (end + unit - 1) / unit * unit;
      for (uint64_t j = 0; j < sizes[i]; ++j)
        CHECK(
            row.place(begin + j).member == i && row.place(begin + j).offset == j && row.place(begin + j).bytes >= sizes[i] - j,
            "in a row");
      end = begin + sizes[i];
    }
    CHECK(row.bytes() == end, "end");
    CHECK(Spread::copies(sizes).bytes() == *std::min_element(sizes.begin(), sizes.end()), "copies");
  }
}

Namespaces behind(std::vector<Disk>& disks) {
  Namespaces all;
  for (Disk& disk : disks) all.push_back(disk.behind());
  return all;
}

// So many commands at once, all of which succeed.
template <class Make>
void run_all(ByHand& one, uint64_t count, const Make& make) {
  for (uint64_t i = 0; i < count; ++i) one.host.put(make(i));
  one.host.ring();
  Ending ending;
  for (uint64_t ended = 0, turns = 0; ended < count; ++turns) {
    CHECK(turns < 10000, "no answer");
    one.serving.turn(++one.now);
    for (; one.host.poll(ending); ++ended) CHECK(ending.status == kSuccess, "status %x", ending.status);
  }
}

// Commands of any length, by memory at any offset, against a model of the whole; then each device for itself.
void check_data(const std::shared_ptr<SpreadNamespace>& spread, std::vector<uint8_t>& model, uint64_t seed) {
  ByHand one(spread, 64);
  std::mt19937_64 random(seed);
  const uint64_t blocks = model.size() / 512;
  CHECK(spread->blocks() == blocks, "%d blocks of %d", (int)spread->blocks(), (int)blocks);
  for (int round = 0; round < 100; ++round) {
    const uint64_t count = 1 + random() % 128, first = random() % (blocks - count + 1), at = 4096 + random() % 2048 * 4;
    const bool writes = random() % 2 != 0;
    uint8_t* const memory = one.memory.at(at);
    for (uint64_t i = 0; i < count * 512; ++i) memory[i] = static_cast<uint8_t>(random() >> 20);
    memory[-1] = memory[count * 512] = 0x5a;
    const auto there = model.begin() + static_cast<std::ptrdiff_t>(first * 512);
    if (writes) std::copy(memory, memory + count * 512, there);
    const Opcode opcode = writes ? Opcode::kWrite : Opcode::kRead;
    CHECK(one.run(Host::command(opcode, first, count, memory, one.list())) == kSuccess, "status");
    CHECK(std::equal(memory, memory + count * 512, there), "data");
    CHECK(memory[-1] == 0x5a && memory[count * 512] == 0x5a, "beyond the data");
  }
  CHECK(one.run(Host::command(Opcode::kFlush, 0, 1, nullptr)) == kSuccess && one.serving.in_flight() == 0, "flush");
  CHECK(one.run(Host::command(Opcode::kRead, blocks, 1, one.memory.at(0))) == (kOutOfRange | kDoNotRetry), "end");
}

void check_stripes() {
  for (const uint64_t unit : {512, 1536, 4096, 65536})
    for (const size_t count : {1, 2, 3, 5})
      for (const uint64_t base : {0, 4096}) {
        std::vector<Disk> disks(count);
        std::vector<uint8_t> model;
        for (uint64_t at = 0;; ++at) {
          const uint64_t member = at / unit % count, offset = base + at / unit / count * unit + at % unit;
          if (offset == kBlocks * 512) break;
          model.push_back(disks[member].bytes[offset]);
        }
        check_data(SpreadNamespace::of(behind(disks), unit, base), model, unit + count);
        for (uint64_t at = 0; at < model.size(); ++at)
          CHECK(disks[at / unit % count].bytes[base + at / unit / count * unit + at % unit] == model[at], "where it lies");
        for (Disk& disk : disks) CHECK(std::equal(disk.bytes.begin(), disk.bytes.begin() + base, Disk().bytes.begin()), "base");
      }
}

void check_copies_and_rows() {
  std::vector<Disk> disks(3);
  std::vector<uint8_t> model = disks[0].bytes;
  check_data(SpreadNamespace::of(behind(disks), 0, 0), model, 3);
  for (const Disk& disk : disks) CHECK(disk.bytes == model, "a copy");

  // Stripes of copies, one behind the other with memory that ends within a line: nothing is in the gap.
  std::vector<Disk> more(2);
  std::vector<uint8_t> end(65536 + 512, 7), both;
  const auto last =
      std::make_shared<native::MemoryNamespace>(reinterpret_cast<char*>(end.data()), end.size(), native::kNoDelay);
  const auto inner = SpreadNamespace::of({SpreadNamespace::of(behind(more), 0, 0), disks[0].behind()}, 4096, 0);
  for (uint64_t at = 0; at < 2 * kBlocks * 512; ++at)
    both.push_back((at / 4096 % 2 == 0 ? more[0] : disks[0]).bytes[at / 8192 * 4096 + at % 4096]);
  check_data(SpreadNamespace::in_a_row({inner}), both, 4);
  CHECK(more[0].bytes == more[1].bytes && more[0].bytes != Disk().bytes, "copies of a stripe");
  ByHand row(SpreadNamespace::in_a_row({last, inner, last}));
  const uint64_t begin = 256, after = begin + 2 * kBlocks;  // of the second, of the third: in blocks
  CHECK(row.run(Host::command(Opcode::kRead, begin, 1, row.memory.at(0))) == kSuccess && *row.memory.at(3) == both[3],
        "second");
  CHECK(row.run(Host::command(Opcode::kRead, after, 1, row.memory.at(0))) == kSuccess && *row.memory.at(3) == 7, "third");
  CHECK(row.run(Host::command(Opcode::kRead, 129, 1, row.memory.at(0))) == (kOutOfRange | kDoNotRetry), "the gap");
  CHECK(row.run(Host::command(Opcode::kRead, 128, 8, row.memory.at(0))) == (kOutOfRange | kDoNotRetry), "into the gap");
}

// A read that one copy fails comes from another, which is asked from then on; a write that one fails has failed.
void check_failing_copies() {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<Disk> disks(3);
    const auto spread = SpreadNamespace::of(
        {disks[0].behind(Faults{.fatal = 1000}, seed), disks[1].behind(Faults{.retryable = 300}, seed), disks[2].behind()}, 0,
        0);
    ByHand one(spread, 64);
    std::mt19937_64 random(seed);
    for (int round = 0; round < 200; ++round) {
      const uint64_t count = 1 + random() % 16, first = random() % (kBlocks - count);
      CHECK(one.run(Host::command(Opcode::kRead, first, count, one.memory.at(4), one.list())) == kSuccess, "status");
      const auto there = disks[2].bytes.begin() + static_cast<std::ptrdiff_t>(first * 512);
      CHECK(std::equal(there, there + static_cast<std::ptrdiff_t>(count * 512), one.memory.at(4)), "data");
    }
    const std::vector<uint64_t> failed = spread->failed_reads();
    CHECK(failed[0] == 1 && failed[1] <= 1 && failed[2] == 0, "%d and %d", (int)failed[0], (int)failed[1]);
    std::memset(one.memory.at(0), 0xee, 4096);
    CHECK(one.run(Host::command(Opcode::kWrite, 16, 8, one.memory.at(0))) == (kWriteFault | kDoNotRetry), "a write");
    CHECK(std::count(disks[2].bytes.begin() + 8192, disks[2].bytes.begin() + 12288, 0xee) == 4096, "at the others");

    const auto none =
        SpreadNamespace::of({disks[0].behind(Faults{.fatal = 1000}, seed), disks[1].behind(Faults{.fatal = 1000}, seed)}, 0, 0);
    ByHand bad(none);
    CHECK(bad.run(Host::command(Opcode::kRead, 0, 8, bad.memory.at(0))) == (kUnrecoveredReadError | kDoNotRetry), "all fail");
    CHECK((none->failed_reads() == std::vector<uint64_t>{1, 1}) && bad.serving.in_flight() == 0, "each was asked");
  }
}

// Copies that are removed in the midst of reads; only when none is left the device is gone. Of stripes none may be missing.
void check_removed_copies() {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<Disk> disks(3);
    const auto spread = SpreadNamespace::of(
        {disks[0].behind(Faults{.late = 500, .removed_after = 30, .late_most = 50}, seed),
         disks[1].behind(Faults{.reorder = true, .removed_after = 100}, seed), disks[2].behind(Timing{5, 0, 0, 0})},
        0, 0);
    ByHand one(spread, 64);
    for (uint64_t round = 0; round < 40; ++round)
      run_all(one, 20, [&](uint64_t i) { return Host::command(Opcode::kRead, 20 * round + i, 1, one.memory.at(i * 512)); });
    for (uint64_t i = 0; i < 20 * 512; ++i) CHECK(*one.memory.at(i) == disks[2].bytes[39 * 20 * 512 + i], "data");
    const std::vector<uint64_t> failed = spread->failed_reads();
    CHECK(!spread->gone() && failed[2] == 0 && failed[0] + failed[1] > 0, "%d and %d", (int)failed[0], (int)failed[1]);
    CHECK(one.run(Host::command(Opcode::kWrite, 0, 1, one.memory.at(0))) != kSuccess, "a write to a copy that is gone");
    CHECK(one.run(Host::command(Opcode::kRead, 0, 1, one.memory.at(0))) == kSuccess && one.serving.in_flight() == 0,
          "after it");
  }
  std::vector<Disk> disks(2);
  for (const uint64_t unit : {0, 4096}) {
    const auto spread = SpreadNamespace::of(
        {disks[0].behind(Faults{.removed_after = 5}, 1), disks[1].behind(Faults{.removed_after = unit == 0 ? 7u : ~0u}, 2)},
        unit, 0);
    ByHand one(spread, 64);
    for (int i = 0; i < 40; ++i) one.host.put(Host::command(Opcode::kRead, 8 * i, 8, one.memory.at(i * 4096)));
    one.host.ring();
    for (int i = 0; i < 100; ++i) one.serving.turn(++one.now);
    CHECK(spread->gone() && one.serving.stats().commands < 40, "gone");
  }
}

// A device that ends what it has when it is told to, and drops nothing.
struct Stubborn : native::Namespace {
  struct Way : Backend {
    explicit Way(Stubborn& all) : all(all) {}
    bool try_begin(Request& request, uint64_t) override { return held.push(request), ++count, true; }
    void submit() override { submitted = count; }
    size_t poll(uint64_t, std::span<Request*> to) override {
      if (!all.ends || submitted == 0) return 0;
      to[0] = held.pop();
      to[0]->status = kSuccess;
      return --count, --submitted, 1;
    }
    bool try_drop(Request&) override { return false; }
    size_t in_flight() const override { return count; }
    void wait(uint64_t, uint64_t) override {}
    Stubborn& all;
    native::RequestList held;
    size_t count = 0, submitted = 0;
  };
  uint64_t blocks() const override { return kBlocks; }
  std::unique_ptr<Backend> open(uint32_t, std::span<const Region>) override { return std::make_unique<Way>(*this); }
  bool ends = false;
};

// Whoever is asked in the place of another may be busy, and has to be told that this was all.
void check_asking_others() {
  Disk disk;
  const auto stubborn = std::make_shared<Stubborn>();
  stubborn->ends = true;
  ByHand one(SpreadNamespace::of({disk.behind(Faults{.fatal = 1000}, 1), stubborn}, 0, 0));
  for (int round = 0; round < 3; ++round)
    run_all(one, 1, [&](uint64_t) { return Host::command(Opcode::kRead, 0, 1, one.memory.at(0)); });
  for (uint64_t seed = 0; seed < 20; ++seed) {
    ByHand busy(SpreadNamespace::of({disk.behind(Faults{.fatal = 500, .reorder = true}, seed),
                                     disk.behind(Faults{.fatal = 500, .reorder = true}, seed + 100)},
                                    0, 0),
                64);
    int failed = 0;
    for (int round = 0; round < 100; ++round)
      failed += busy.run(Host::command(Opcode::kRead, 0, 1, busy.memory.at(0))) == kSuccess ? 0 : 1;
    CHECK(failed > 5 && failed < 60 && busy.serving.in_flight() == 0, "%d failed", failed);
  }
}

void check_abort() {
  Disk slow, fast;
  const auto stubborn = std::make_shared<Stubborn>();
  const Timing long_time{1'000'000'000, 0, 0, 0};
  const auto status_of = [](ByHand& one, Ending ending) { return one.host.poll(ending) ? int{ending.status} : -1; };
  const auto begun = [](Namespaces members, uint64_t unit) {
    auto one = std::make_unique<ByHand>(SpreadNamespace::of(std::move(members), unit, 0));
    one->host.put(Host::command(Opcode::kRead, 0, 16, one->memory.at(0), one->list()));
    one->host.ring();
    for (int i = 0; i < 5; ++i) one->serving.turn(++one->now);
    return one;
  };
  // All parts are dropped, or have ended.
  const auto dropped = begun({fast.behind(), slow.behind(long_time)}, 4096);
  CHECK(dropped->serving.abort(0, 0) && !dropped->serving.abort(0, 0), "dropped");
  CHECK(!dropped->serving.turn(dropped->now + long_time.latency_ns) && dropped->serving.in_flight() == 0, "nothing is left");
  CHECK(status_of(*dropped, {}) == -1 && *dropped->memory.at(4100) == 0, "did it");
  // One of its parts will end: so does the command, and has not been done.
  const auto partly = begun({stubborn, slow.behind(long_time)}, 4096);
  CHECK(!partly->serving.abort(0, 0) && status_of(*partly, {}) == -1, "not dropped");
  stubborn->ends = true;
  for (int i = 0; i < 5; ++i) partly->serving.turn(++partly->now);
  CHECK(status_of(*partly, {}) == (kAbortRequested | kDoNotRetry), "aborted");
  // Its answer is lost, by a device that is asked first; and nothing is, where it has ended.
  const auto lost = begun({fast.behind(Faults{.lost = 1000}, 1), slow.behind()}, 0);
  CHECK(status_of(*lost, {}) == -1 && lost->serving.in_flight() == 0 && lost->serving.abort(0, 0), "lost");
}

// More parts than a thread keeps, by devices that take few at a time.
void check_many_parts() {
  std::vector<Disk> disks(3);
  Namespaces members;
  for (uint64_t i = 0; i < 3; ++i) members.push_back(disks[i].behind(Faults{.late = 300, .reorder = true, .late_most = 20}, i));
  ByHand one(SpreadNamespace::of(members, 512, 0), 4);
  for (int round = 0; round < 10; ++round) {
    run_all(one, 3, [&](uint64_t i) {
      return Host::command(Opcode::kRead, 100 * i, 100, one.memory.at(i * 65536), one.list() + 20 * i);
    });
    for (uint64_t at = 0; at < 300 * 512; ++at)
      CHECK(*one.memory.at(at / 51200 * 65536 + at % 51200) == disks[at / 512 % 3].bytes[at / 1536 * 512 + at % 512], "data");
  }
}

// Two hosts with memory of their own at one controller, several threads, copies of stripes of which one fails now and then.
void check_threads() {
  std::vector<Disk> disks(4);
  const auto first = SpreadNamespace::of({disks[0].behind(), disks[1].behind(Faults{.fatal = 10}, 5)}, 4096, 0);
  const auto second = SpreadNamespace::of({disks[2].behind(), disks[3].behind()}, 4096, 0);
  const auto spread = SpreadNamespace::of({first, second}, 0, 0);
  HostMemory one(2, 16, 32), other(2, 16, 32);
  std::vector<QueueView> views = one.views;
  views.insert(views.end(), other.views.begin(), other.views.end());
  std::vector<Region> regions = one.regions();
  regions.push_back(other.regions()[0]);
  native::Controller controller(views, regions, spread, 3);
  controller.start();
  controller.acquire();
  std::vector<std::thread> hosts;
  for (uint64_t me = 0; me < 4; ++me)
    hosts.emplace_back([&, me] {
      Host host(views[me]);
      uint8_t* const memory = (me < 2 ? one : other).at(me % 2 * 16 * 4096);
      std::mt19937_64 random(me);
      for (int round = 0; round < 500; ++round) {
        const uint64_t count = 1 + random() % 30, from = random() % (2 * kBlocks - count);
        const SubmissionEntry entry =
            Host::command(Opcode::kRead, from, count, memory, reinterpret_cast<uint64_t*>(memory + 15 * 4096));
        CHECK(host.run(entry, [] { std::this_thread::yield(); }) == kSuccess, "status");
        for (uint64_t at = 0; at < count * 512; ++at) {
          const uint64_t byte = from * 512 + at;
          CHECK(memory[at] == disks[byte / 4096 % 2].bytes[byte / 8192 * 4096 + byte % 4096], "data");
        }
      }
    });
  for (std::thread& host : hosts) host.join();
  controller.stop();
}

void check_refusals() {
  Disk disk;
  const auto refused = [&](Namespaces members, uint64_t unit, uint64_t base) {
    try {
      SpreadNamespace::of(std::move(members), unit, base);
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  CHECK(refused({}, 0, 0) && refused({disk.behind()}, 100, 0) && refused({disk.behind()}, 512, 7), "units");
  CHECK(refused(Namespaces(65, disk.behind()), 0, 0) && !refused(Namespaces(64, disk.behind()), 0, 0), "copies");
  CHECK(SpreadNamespace::of({disk.behind(), disk.behind()}, 512, kBlocks * 1024)->blocks() == 0, "smaller than the base");
}

}  // namespace

int main() {
  alarm(300);
  check_arithmetic();
  check_refusals();
  check_stripes();
  check_copies_and_rows();
  check_failing_copies();
  check_removed_copies();
  check_asking_others();
  check_abort();
  check_many_parts();
  check_threads();
  return 0;
}
