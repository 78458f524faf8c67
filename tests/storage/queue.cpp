// Entries, PRPs and a queue pair on the CPU: each rule by itself, and then eight threads against a device in software that
// fails.
#include <sched.h>
#include <unistd.h>

#include <functional>
#include <set>
#include <string>

#include "hinterland/core/atomic.hpp"

// What the queue synchronizes by gives way to other threads now and then, just before, so that one core or two see the orders
// in which thousands of threads would come. Or a test says what another thread does there.
namespace test {
inline thread_local std::function<void(const char*)> meanwhile;
inline void give_way(const char* before) {
  static thread_local unsigned state = 12345;
  state = state * 1664525u + 1013904223u;
  if (state >> 28 == 0) sched_yield();
  if (meanwhile) meanwhile(before);
}
}  // namespace test
#define atomic_and_acq_rel(...) (::test::give_way("and"), atomic_and_acq_rel(__VA_ARGS__))
#define atomic_or_acq_rel(...) (::test::give_way("or"), atomic_or_acq_rel(__VA_ARGS__))
#define atomic_cas_acq_rel(...) (::test::give_way("cas"), atomic_cas_acq_rel(__VA_ARGS__))
#define atomic_cas_acquire(...) (::test::give_way("take"), atomic_cas_acquire(__VA_ARGS__))
#include "hinterland/storage/queue.hpp"
#undef atomic_and_acq_rel
#undef atomic_or_acq_rel
#undef atomic_cas_acq_rel
#undef atomic_cas_acquire

#include "../rounds.hpp"
#include "client.hpp"

using namespace test;

namespace {

const auto nobody = [](const CompletionReport&) { CHECK(false, "a report of nothing"); };

// A handler that keeps to itself what it hears: late reports, and the others.
auto listener(std::vector<CompletionReport>& heard, std::vector<CompletionReport>& late) {
  return [&](const CompletionReport& report) {
    if (report.end != End::kNothing) (report.end == End::kLate ? late : heard).push_back(report);
  };
}

// Every length and, of offsets, the edges and some between, against a walk in steps of four bytes.
void check_prps() {
  std::vector<uint64_t> offsets{0, 4, 8, 508, 512, 516, 1024, 2048, 3584, 4088, 4092};
  for (uint64_t offset = 252; offset < 4096; offset += 868) offsets.push_back(offset);
  const auto page = [](uint32_t i) { return 0x7000000u + 4096 * uint64_t{(i * 7 + 3) % 32}; };
  for (const uint64_t offset : offsets)
    for (uint64_t bytes = 512; bytes <= kMostTransferBytes; bytes += 512) {
      std::vector<uint64_t> touched;
      for (uint64_t at = offset; at < offset + bytes; at += 4)
        if (at == offset || at % 4096 == 0) touched.push_back(page(static_cast<uint32_t>(at / 4096)) + at % 4096);
      SubmissionEntry entry{};
      PrpList list{};
      CHECK(set_data(entry, offset, bytes, page, list, 0x5000), "a transfer");
      CHECK(prp_count(offset, bytes) == touched.size() && touched.size() <= 17, "%zu pages", touched.size());
      CHECK(entry.prp1 == touched[0], "PRP1");
      CHECK(entry.prp2 == (touched.size() == 1 ? 0 : touched.size() == 2 ? touched[1] : 0x5000), "PRP2");
      for (size_t i = 0; i < kPrpListEntries; ++i)
        CHECK(list.pages[i] == (touched.size() > 2 && i + 1 < touched.size() ? touched[i + 1] : 0), "entry %zu", i);
    }
  SubmissionEntry entry{};
  PrpList list{};
  const uint64_t wrong[][2] = {{0, 0}, {0, kMostTransferBytes + 512}, {2, 512}, {1, 512}, {4096, 512}, {~uint64_t{3}, 512}};
  for (const auto& [offset, bytes] : wrong)
    CHECK(!set_data(entry, offset, bytes, page, list, 0x5000) && entry.prp1 == 0, "taken");
}

void check_entries() {
  SubmissionEntry entry{};
  const BlockRange range{3, 512, 1000, 200};
  CHECK(range.address(entry, Opcode::kRead, 72, 128), "the last blocks");
  entry.identifier = 0x1234;
  entry.prp1 = 0x1122334455667788;
  uint8_t bytes[64];
  std::memcpy(bytes, &entry, 64);
  CHECK(bytes[0] == 2 && bytes[2] == 0x34 && bytes[3] == 0x12 && bytes[4] == 3 && bytes[24] == 0x88 && bytes[31] == 0x11,
        "head");
  CHECK(bytes[40] == (1072 & 255) && bytes[41] == 1072 >> 8 && bytes[48] == 127 && bytes[49] == 0, "blocks");
  const SubmissionEntry before = entry;
  const uint64_t wrong[][2] = {{73, 128}, {0, 201}, {200, 1}, {201, 1}, {~uint64_t{0}, 2}, {5, 0}, {0, ~uint64_t{0}}};
  for (const auto& [first, count] : wrong)
    CHECK(!range.address(entry, Opcode::kWrite, first, count) && std::memcmp(&entry, &before, 64) == 0, "left the range");
  const BlockRange large{1, 512, 0, uint64_t{1} << 40};
  CHECK(large.address(entry, Opcode::kWrite, 0, 65536) && entry.last_block == 65535 && entry.opcode == 1, "the most blocks");
  CHECK(!large.address(entry, Opcode::kWrite, 0, 65537), "one more");

  const uint32_t last = 0xc281u << 17 | 1u << 16 | 0xbeef;  // more, do not retry, unrecovered read error
  CHECK(identifier_of(last) == 0xbeef && phase_of(last) == 1 && status_of(last) == (0xc281u & 0x7fff), "the last word");
  CHECK(code_of(status_of(last)) == 0x81 && code_type_of(status_of(last)) == 2, "status");
  CHECK(!is_retryable(status_of(last)) && is_retryable(kUnrecoveredReadError) && !is_retryable(kSuccess), "retries");
  CHECK(is_success(1 << 13) && !is_success(kNamespaceNotReady) && !is_retryable(1 << 13), "the bit `more` is no error");
  CHECK(!is_retryable(kInternalError | kDoNotRetry) && is_retryable(kInternalError), "retries");
}

// One thread, and a device that is told when to look: laps beyond laps, with counters that pass 2^32 on the way.
void check_laps(uint32_t submission_size, uint32_t completion_size, uint64_t start) {
  Rings rings(submission_size, completion_size);
  rings.start_at(start);
  Controller controller(rings.pair, 64, Faults{.reorder = true}, submission_size + completion_size);
  const QueuePair& queue = rings.pair;
  std::set<uint64_t> waiting;
  uint64_t submitted = 0, reported = 0;
  const uint64_t most = 300 * uint64_t{std::max(submission_size, completion_size)};
  const uint64_t fits = std::min(submission_size, completion_size) - 1;
  Buffer buffer;
  for (bool once_full = false; reported < most;) {
    while (submitted < most) {
      const SubmissionEntry entry = buffer.command(Opcode::kRead, submitted % 60, 1, submitted);
      const Submitted outcome = queue.try_submit(entry, submitted, kNoDeadline, nobody);
      if (outcome == Submitted::kFull) break;
      CHECK(outcome == Submitted::kYes && waiting.insert(submitted++).second, "submission");
    }
    once_full = once_full || waiting.size() == fits;
    CHECK(reported != 0 || waiting.size() == std::min(fits, most), "%zu fit in the beginning", waiting.size());
    controller.turn();
    const uint32_t count = queue.poll([&](const CompletionReport& report) {
      CHECK(report.status == kSuccess && waiting.erase(report.user) == 1, "report of %llu", (unsigned long long)report.user);
      ++reported;
    });
    CHECK(count <= most && outstanding(queue) == waiting.size(), "outstanding");
  }
  CHECK(queue.poll(nobody) == 0 && queue.expire(kNoDeadline - 1, nobody) == 0, "more");
  rings.check_at_rest(start);
  CHECK(controller.posted == reported && controller.read == submitted, "the device");
}

// A device by hand: what completes, and when, is said by the test.
struct Hand {
  const QueuePair& queue;
  uint64_t posted = 0;

  uint16_t identifier_at(uint64_t position) const {
    return queue.submissions[position & (queue.submission_size - 1)].identifier;
  }
  uint64_t told() const { return system_load_acquire(*queue.submission_doorbell); }

  void post(uint16_t identifier, uint16_t status, uint64_t head) {
    CompletionEntry& entry = queue.completions[posted & (queue.completion_size - 1)];
    system_store(entry.queue, static_cast<uint32_t>(head & (queue.submission_size - 1)));
    const uint32_t phase = phase_at(posted++, queue.completion_size);
    system_store_release(entry.last, identifier | phase << 16 | uint32_t{status} << 17);
  }
};

// A completion that comes after its command was given up is not taken for that of another.
void check_late(uint32_t size, uint64_t start) {
  Rings rings(size, size);
  rings.start_at(start);
  const QueuePair& queue = rings.pair;
  Hand hand{queue};
  std::vector<CompletionReport> reports, late;
  const auto keep = listener(reports, late);
  uint64_t at = 0;  // the next position
  for (uint64_t lap = 0; lap < 10 * size; ++lap) {
    reports.clear(), late.clear();
    const uint64_t user = 1000 * lap, first = at;
    CHECK(queue.try_submit({}, user, 10, nobody) == Submitted::kYes, "first");
    const uint16_t given_up = hand.identifier_at(at++);
    CHECK(!queue.settle(given_up, nobody), "a command in flight is not settled");
    CHECK(queue.expire(9, keep) == 0 && queue.expire(10, keep) == 1 && queue.expire(11, keep) == 0, "reported once");
    CHECK(reports.size() == 1 && reports[0].user == user && reports[0].status == kAbortedByHost &&
              reports[0].end == End::kGivenUp,
          "given up");
    CHECK(reports[0].identifier == given_up, "which");
    for (uint64_t i = 1; i < size - 1; ++i, ++at)
      CHECK(queue.try_submit({}, user + i, kNoDeadline, nobody) == Submitted::kYes, "next");
    CHECK(queue.try_submit({}, user + 500, kNoDeadline, nobody) == Submitted::kFull, "the device may still use the identifier");
    if (lap % 2 == 0) {
      hand.post(given_up, kSuccess, at);
      CHECK(queue.poll(keep) == 0, "late ones do not count");
      CHECK(reports.size() == 1 && late.size() == 1 && late[0].user == user, "a late completion is told apart");
      CHECK(queue.control->late == lap / 2 + 1, "but counted");
      CHECK(!queue.settle(given_up, nobody), "it is settled");
    } else {
      CHECK(queue.settle(given_up, keep) && !queue.settle(given_up, nobody), "settled once");
      CHECK(late.size() == 1 && late[0].user == user && reports.size() == 1, "said so");
    }
    CHECK(queue.try_submit({}, user + 500, kNoDeadline, nobody) == Submitted::kYes, "it is free");
    CHECK(hand.identifier_at(at++) == given_up, "the only one");
    for (uint64_t position = at; --position > first;) hand.post(hand.identifier_at(position), kWriteFault, at);
    CHECK(queue.poll(keep) == size - 1 && reports[1].user == user + 500, "in the device's order");
    for (size_t i = 2; i < reports.size(); ++i)
      CHECK(reports[i].user == user + size - i && reports[i].status == kWriteFault, "whose");
    CHECK(outstanding(queue) == 0 && queue.control->unexpected == 0, "the rest");
    CHECK(system_load(*queue.completion_doorbell) == (hand.posted & (size - 1)), "doorbell");
  }
}

// What is past its deadline soon is named to the host, by another word each time that an identifier is used; what is not, or is
// given up, is not.
void check_overdue() {
  Rings rings(4, 4);
  std::vector<uint32_t> words(4);
  rings.pair.overdue = words.data();
  const QueuePair& queue = rings.pair;
  Hand hand{queue};
  const auto whoever = [](const CompletionReport&) {};
  std::vector<uint32_t> seen(4);
  for (uint64_t at = 0; at < 12; at += 3) {
    for (const uint64_t deadline : {20, 11, 10}) CHECK(queue.try_submit({}, 0, deadline, whoever) == Submitted::kYes, "submit");
    const uint16_t far = hand.identifier_at(at), soon = hand.identifier_at(at + 1), past = hand.identifier_at(at + 2);
    CHECK(queue.expire(10, whoever, 10) == 1, "one is given up");
    CHECK(words[soon] != seen[soon] && words[far] == seen[far] && words[past] == seen[past], "which is overdue");
    seen = words;
    CHECK(queue.expire(10, whoever, 10) == 0 && words == seen, "the same again");
    for (const uint16_t identifier : {past, soon, far}) hand.post(identifier, kSuccess, at + 3);
    CHECK(queue.poll(whoever) == 2 && outstanding(queue) == 0, "all have ended");
  }
}

// Completions of nothing are counted; a wrong head of the submission ring is not believed; a command of which the device was
// not told cannot be settled; a lap's old completions are not new ones.
void check_odd_completions() {
  Rings rings(8, 8);
  const QueuePair& queue = rings.pair;
  Hand hand{queue};
  uint64_t seen = 0;
  const auto count = [&](const CompletionReport& report) { seen += report.end != End::kNothing; };
  hand.post(3, kSuccess, 0);
  hand.post(7, kSuccess, 5);
  hand.post(0xffff, kSuccess, 5);
  CHECK(queue.poll(count) == 0 && queue.control->unexpected == 3 && queue.control->submission_head == 0, "of nothing");
  CHECK(queue.try_submit({}, 0, kNoDeadline, nobody) == Submitted::kYes &&
            queue.try_submit({}, 1, kNoDeadline, nobody) == Submitted::kYes,
        "two");
  hand.post(hand.identifier_at(1), kSuccess, 6);
  CHECK(queue.poll(count) == 1 && queue.control->submission_head == 2, "head %d", (int)queue.control->submission_head);
  hand.post(hand.identifier_at(1), kSuccess, 2);
  CHECK(queue.poll(count) == 0 && queue.control->unexpected == 4, "twice");
  hand.post(hand.identifier_at(0), kSuccess, 2);
  CHECK(queue.poll(count) == 1 && outstanding(queue) == 0, "the other");

  atomic_store(queue.control->tail_lock, 1u);  // as if another thread held it
  CHECK(queue.try_submit({}, 2, 5, nobody) == Submitted::kYes && hand.told() == 2, "not told of yet");
  CHECK(queue.expire(5, count) == 1 && !queue.settle(hand.identifier_at(2), nobody), "the device will still read it");
  atomic_store(queue.control->tail_lock, 0u);
  CHECK(queue.try_submit({}, 3, 5, nobody) == Submitted::kYes && hand.told() == 4, "one doorbell for both");
  CHECK(queue.settle(hand.identifier_at(2), count) && queue.control->submission_head == 3, "what it read has room again");

  atomic_store(queue.control->completion_lock, 1u);
  hand.post(hand.identifier_at(3), kSuccess, 4);
  bool saw_all = true;
  CHECK(queue.poll(nobody, saw_all) == 0 && !saw_all, "another is at it");
  atomic_store(queue.control->completion_lock, 0u);
  CHECK(queue.poll(count, saw_all) == 1 && saw_all && outstanding(queue) == 0, "now");

  CHECK(queue.try_submit({}, 4, kNoDeadline, nobody) == Submitted::kYes && queue.abort(kHostPathError, count) == 1, "abort");
  CHECK(queue.try_submit({}, 5, kNoDeadline, nobody) == Submitted::kClosed && queue.abort(kHostPathError, nobody) == 0,
        "closed");
}

// Over laps of a small submission ring, a command of long ago still tells how far the device has read by now.
void check_heads() {
  Rings rings(4, 16);
  const QueuePair& queue = rings.pair;
  Hand hand{queue};
  const auto submit = [&](uint64_t user) { return queue.try_submit({}, user, kNoDeadline, nobody) == Submitted::kYes; };
  const auto complete = [&](uint64_t identifier, uint64_t head) {
    hand.post(static_cast<uint16_t>(identifier), kSuccess, head);
    CHECK(queue.poll([&](const CompletionReport& report) { CHECK(report.user == identifier, "whose"); }) == 1, "a completion");
  };
  CHECK(submit(0) && submit(1) && submit(2) && !submit(3), "three slots of four");
  complete(1, 3);
  CHECK(submit(3) && submit(4) && submit(5) && !submit(6), "three more");
  complete(0, 6);
  CHECK(queue.control->submission_head == 6 && submit(6) && submit(7) && submit(8) && !submit(9), "six were read");
}

// Does `act` once, the first time that this thread comes to an operation of that kind.
template <class Act>
void once_before(const std::string& kind, const Act& act) {
  meanwhile = [=](const char* before) {
    if (before != kind) return;
    const Act now = act;  // what runs lies in `meanwhile`
    meanwhile = nullptr;
    now();
  };
}

// What another thread does at the worst time, by name of the operation before which it comes.
void check_worst_times() {
  Rings rings(8, 8);
  const QueuePair& queue = rings.pair;
  Hand hand{queue};
  std::vector<uint64_t> heard;
  std::vector<uint64_t> late;
  const auto hear = [&](const CompletionReport& report) {
    if (report.end != End::kNothing) (report.end == End::kLate ? late : heard).push_back(report.user);
  };
  const auto submit = [&](uint64_t user, uint64_t deadline = kNoDeadline) {
    return queue.try_submit({}, user, deadline, hear);
  };

  // The holder of the lock has looked, and is about to unlock.
  once_before("and", [&] { CHECK(submit(1) == Submitted::kYes && hand.told() == 1, "marked only"); });
  CHECK(submit(0) == Submitted::kYes && hand.told() == 2, "left behind");

  // Another takes the ticket first.
  once_before("take", [&] { CHECK(submit(2) == Submitted::kYes, "first"); });
  CHECK(submit(3) == Submitted::kYes && hand.told() == 4, "second");

  // A command completes as it is about to be given up, and its identifier goes to another, which has time.
  for (uint64_t i = 0; i < 3; ++i) CHECK(submit(10 + i, 5) == Submitted::kYes, "room");
  once_before("cas", [&] {
    hand.post(hand.identifier_at(0), kSuccess, 7);
    CHECK(queue.poll(hear) == 1 && heard.back() == 0, "completed");
  });
  CHECK(queue.expire(5, hear) == 3, "three are late");
  CHECK((heard == std::vector<uint64_t>{0, 10, 11, 12}), "each once");
  rings.clear();
  hand.posted = 0, heard.clear();
  CHECK(submit(0, 5) == Submitted::kYes, "one that is late");
  for (uint64_t i = 1; i < 7; ++i) CHECK(submit(i) == Submitted::kYes, "and all others");
  once_before("cas", [&] {
    hand.post(hand.identifier_at(0), kSuccess, 7);
    CHECK(queue.poll(hear) == 1 && submit(7) == Submitted::kYes, "its identifier goes on");
    CHECK(hand.identifier_at(7) == hand.identifier_at(0), "the only free one");
  });
  CHECK(queue.expire(5, hear) == 0 && heard.size() == 1, "another command was given up");

  // A command is given up as its completion is about to be reported, and settled as well.
  once_before("cas", [&] { CHECK(queue.expire(kNoDeadline, hear) == 7, "given up"); });
  hand.post(hand.identifier_at(1), kSuccess, 8);
  CHECK(queue.poll(hear) == 0 && heard.size() == 8 && queue.control->late == 1, "reported twice");
  once_before("cas", [&] { CHECK(queue.settle(hand.identifier_at(2), hear), "settled"); });
  hand.post(hand.identifier_at(2), kSuccess, 8);
  CHECK(queue.poll(hear) == 0 && queue.control->unexpected == 1 && outstanding(queue) == 5, "free twice");

  // A completion comes while its command is being given up: that is heard of after it was said.
  rings.clear();
  hand.posted = 0, heard.clear(), late.clear();
  CHECK(submit(5, 1) == Submitted::kYes, "one that is late");
  const auto complete_meanwhile = [&](const CompletionReport& report) {
    if (report.end == End::kGivenUp) {
      hand.post(report.identifier, kSuccess, 1);
      CHECK(queue.poll(hear) == 0 && late.empty() && outstanding(queue) == 1, "over before it was given up");
    }
    hear(report);
  };
  CHECK(queue.expire(1, complete_meanwhile) == 1 && heard == std::vector<uint64_t>{5}, "given up");
  CHECK(late == std::vector<uint64_t>{5} && queue.control->late == 1 && outstanding(queue) == 0, "and over");
  CHECK(queue.poll(nobody) == 0 && queue.control->submission_head == 1, "once");

  // The queue is closed during a submission: before its ticket, and when it has marked its entry.
  for (const char* const time : {"take", "or"}) {
    rings.clear();
    heard.clear();
    once_before(time, [&] { queue.abort(kHostPathError, hear); });
    // Either way it was told that it is given up, once, and the device may answer yet.
    CHECK(submit(5) == Submitted::kYes && heard.size() == 1 && outstanding(queue) == 1, "%zu reports", heard.size());
    CHECK(submit(6) == Submitted::kClosed && heard.size() == 1, "closed");
    CHECK(queue.abort(kHostPathError, nobody) == 0 && queue.expire(kNoDeadline, nobody) == 0, "more reports");
  }
}

// What is marked while the holder of the lock is about to leave is not left behind: when all have returned, the device was told
// of all entries.
void check_nothing_left_behind(unsigned rounds) {
  constexpr unsigned kThreads = 3, kEach = 4;
  Rings rings(16, 16);
  std::atomic<unsigned> round = 0, done = 0;
  const auto submit = [&] {
    for (unsigned mine = 0; mine < rounds; ++mine) {
      while (round.load(std::memory_order_acquire) != mine) sched_yield();
      for (unsigned i = 0; i < kEach; ++i) CHECK(rings.pair.try_submit({}, i, kNoDeadline, nobody) == Submitted::kYes, "room");
      if (done.fetch_add(1, std::memory_order_acq_rel) + 1 != kThreads) continue;
      const uint32_t told = system_load_acquire(*rings.pair.submission_doorbell);
      CHECK(told == kThreads * kEach, "in round %u the device was told of %u entries of %u", mine, told, kThreads * kEach);
      rings.clear();
      done.store(0, std::memory_order_relaxed);
      round.store(mine + 1, std::memory_order_release);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(submit);
  for (std::thread& thread : threads) thread.join();
}

// Of threads that set places aside before they take them, nobody who was given one is refused, and all places are given.
void check_reserved(uint32_t submission_size, uint32_t completion_size, unsigned rounds) {
  constexpr unsigned kThreads = 4;
  const uint64_t fits = std::min(submission_size, completion_size) - 1;
  for (unsigned round = 0; round < rounds; ++round) {
    Rings rings(submission_size, completion_size);
    std::atomic<uint64_t> taken = 0;
    const auto submit = [&](unsigned thread) {
      for (unsigned turn = 0; taken.load(std::memory_order_relaxed) < fits; ++turn) {
        const bool has_place = rings.pair.reserve<Alone>(true);
        if (has_place && (turn + thread) % 3 != 0) {  // some do without
          const Place place = rings.pair.take<Alone>(true);
          CHECK(place.is_taken, "a place that was set aside is gone");
          rings.pair.submit<Alone>(place, {}, 0, kNoDeadline, nobody);
          taken.fetch_add(1, std::memory_order_relaxed);
        }
        rings.pair.give_back<Alone>(has_place);
        if (!has_place) sched_yield();
      }
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(submit, i);
    for (std::thread& thread : threads) thread.join();
    CHECK(taken == fits && outstanding(rings.pair) == fits && rings.control.reserved == 0, "%llu taken",
          static_cast<unsigned long long>(taken.load()));
    CHECK(!rings.pair.reserve<Alone>(true) && rings.control.reserved == 0, "there is none");
    rings.pair.abort(kHostPathError, [](const CompletionReport&) {});
    CHECK(rings.pair.reserve<Alone>(true), "what fails at once needs none");
  }
}

// Who leaves places is refused while others still get those.
void check_left() {
  Rings rings(16, 16);
  const auto given = [&](uint32_t left) {
    uint32_t count = 0;
    while (rings.pair.reserve<Alone>(true, left)) ++count;
    return count;
  };
  CHECK(given(4) == 11 && given(4) == 0 && given(0) == 4 && given(0) == 0, "of 15 places four are left");
}

Counts check_clients(Rings& rings, const Faults& faults, uint64_t seed, unsigned operations, uint64_t start = 0) {
  rings.start_at(start);
  Clients clients(rings, faults, seed);
  clients.run(operations);
  rings.check_at_rest(start);
  const Counts& counts = clients.counts;
  const QueueControl& control = rings.control;
  CHECK(control.unexpected == 0, "completions of nothing");
  CHECK(counts.timed_out == control.late + counts.settled, "late ones");
  return counts;
}

// The device goes away in the midst of it, and everybody hears of it. Put back, it serves others by the same queues.
void check_removal(uint32_t size, uint64_t seed) {
  Rings rings(size, size);
  Faults faults{.late = 20, .reorder = true};
  faults.removed_after = 40 + seed * 7 % 100;
  Clients clients(rings, faults, seed);
  clients.run(1000000);
  CHECK(clients.counts.removed == Clients::kLanes, "%llu clients heard of it", (unsigned long long)clients.counts.removed);
  rings.clear();
  check_clients(rings, Faults{}, seed, 3);
}

// All that a device does wrong at once, in rings of every kind.
void check_all_faults(uint64_t seed) {
  const Faults all{.retryable = 60, .fatal = 20, .late = 20, .lost = 10, .reorder = true};
  Counts total;
  uint64_t late = 0;
  const auto check = [&](uint32_t submission_size, uint32_t completion_size, const Faults& faults, uint64_t start = 0) {
    Rings rings(submission_size, completion_size);
    total += check_clients(rings, faults, seed + submission_size, long_rounds(48), start);
    late += rings.control.late;
  };
  for (uint32_t size = 2; size <= 65536; size *= size < 64 ? 2 : 32) check(size, size, all);
  check(16, 128, all);
  check(128, 16, all);
  check(4, 4, all, (uint64_t{1} << 32) - 64);
  CHECK(total.retried > 0 && total.failed > 0 && total.settled > 0 && late > 0, "not every fault was met");
  check(32, 32, Faults{.retryable = 400});
  check(64, 64, Faults{});
}

}  // namespace

int main(int count, char** values) {
  alarm(300);  // a queue that loses a command would have its clients wait for ever
  const uint64_t seed = count > 1 ? std::strtoull(values[1], nullptr, 10) : 1;
  check_prps();
  check_entries();
  for (const uint32_t size : {2u, 4u, 8u, 64u}) {
    const uint64_t below = (uint64_t{1} << 32) - 128 * size;  // lap 2^32 / size begins in the midst of it
    for (const uint64_t start : {uint64_t{0}, below}) {
      check_laps(size, size, start);
      check_laps(size, 4 * size, start - start % (8 * size));
      check_laps(4 * size, size, start - start % (8 * size));
    }
    check_late(size, 0);
    check_late(size, (uint64_t{1} << 32) - 2 * size);
  }
  check_overdue();
  check_odd_completions();
  check_heads();
  check_worst_times();
  check_nothing_left_behind(rounds(4000));
  check_left();
  for (const uint32_t size : {2u, 16u, 64u}) {
    check_reserved(size, 16, rounds(20));
    check_reserved(16, size, rounds(20));
  }

  check_all_faults(seed);
  for (const uint32_t size : {2u, 8u, 64u, 1024u}) check_removal(size, seed + size);
  return 0;
}
