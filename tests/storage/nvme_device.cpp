// The driver of bare NVMe devices against a controller in software that is told what to do wrong.
#include "storage/nvme_device.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "bare_controller.hpp"
#include "hinterland/storage/written.hpp"
#include "storage/driven_queues.hpp"
#include "storage/nvme_transfers.hpp"

namespace hinterland::native {
// The library's is beside what makes errors Python's.
void throw_errno(const std::string& what, int code) { throw StorageError(what + ": " + std::strerror(code)); }
}  // namespace hinterland::native

using namespace test;
using namespace std::chrono_literals;
using native::Ended, native::NvmeDevice, native::Transfers;

namespace {

constexpr uint16_t kFailsAgain = kUnrecoveredReadError;

// A device over a controller, and one thread's transfers of pages.
struct Driven {
  explicit Driven(const Says& says = {}, Fate fate = as_ever)
      : Driven(std::make_unique<BareController>(says, std::move(fate))) {}

  void begin(bool writes, uint64_t page, uint64_t pages = 1) {
    const auto bytes = static_cast<uint32_t>(pages * 4096);
    CHECK(transfers->try_begin({-1, writes, memory.get() + page * 4096, bytes, page * 4096, page}), "no room");
  }
  // What became of all that was begun.
  std::map<uint64_t, int32_t> ends() {
    std::map<uint64_t, int32_t> found;
    while (transfers->in_flight() != 0) {
      transfers->wait(1ms, 1);
      Ended ended[8];
      const size_t count = transfers->poll(ended);
      for (size_t i = 0; i < count; ++i) CHECK(found.emplace(ended[i].user, ended[i].result).second, "ended twice");
    }
    return found;
  }
  int32_t run(bool writes, uint64_t page, uint64_t pages = 1) {
    begin(writes, page, pages);
    return ends().at(page);
  }
  // What is written is on the disk, and what is read is its own.
  void check_data() {
    for (const bool keeps : {false, true}) {
      if (keeps) transfers->keep({memory.get(), kMemory});
      for (const uint64_t pages : {1, 2, 3, 16}) {
        std::mt19937_64 random(pages + keeps);
        char* const at = memory.get() + 5 * 4096;
        for (uint64_t i = 0; i < pages * 4096; ++i) at[i] = static_cast<char>(random());
        const std::vector<char> written(at, at + pages * 4096);
        CHECK(run(true, 5, pages) == static_cast<int32_t>(pages * 4096), "write");
        CHECK(std::memcmp(controller.disk.data() + 5 * 4096, written.data(), written.size()) == 0, "written elsewhere");
        std::memset(memory.get(), 0, kMemory);
        CHECK(run(false, 5, pages) == static_cast<int32_t>(pages * 4096), "read");
        CHECK(std::memcmp(at, written.data(), written.size()) == 0, "read from elsewhere");
      }
    }
  }

  static constexpr uint64_t kMemory = 64 * 4096;

  BareController& controller;
  NvmeDevice device;
  native::DirectMemory memory = native::direct_memory(kMemory);
  std::unique_ptr<Transfers> transfers = device.make_transfers(40);

 private:
  explicit Driven(std::unique_ptr<BareController> made) : controller(*made), device(std::move(made), "it", 1, {100ms, 300ms}) {}
};

std::string sentence_of(const Says& says, const auto& prepare, uint32_t number = 1, Fate fate = as_ever) {
  auto controller = std::make_unique<BareController>(says, std::move(fate));
  prepare(*controller);
  try {
    NvmeDevice(std::move(controller), "it", number, {});
  } catch (const StorageError& error) {
    return error.what();
  }
  return "";
}

// Rings of two entries, doorbells far apart, blocks of 4096 bytes, commands of 8 KiB.
void check_limits() {
  for (const Says& says : {Says{}, Says{.entries = 2}, Says{.entries = 40}, Says{.stride = 4, .queues = 1},
                           Says{.most = 1, .shift = 12}, Says{.most = 9}}) {
    Driven driven(says);
    for (uint64_t page = 0; page < 40; ++page) driven.begin(page % 2 == 0, page);
    CHECK(!driven.transfers->try_begin({-1, false, driven.memory.get(), 4096, 0, 99}), "more than it said");
    for (const auto& [page, result] : driven.ends()) CHECK(result == 4096, "page %d", static_cast<int>(page));
    // More than there are pages of the channel's, and again.
    for (int turn = 0; turn < 2; ++turn) {
      for (uint64_t page = 0; page < 40; ++page) driven.begin(false, page, 16);
      for (const auto& [page, result] : driven.ends()) CHECK(result == 65536, "from page %d on", static_cast<int>(page));
    }
    CHECK(driven.controller.largest == (says.most == 1 ? 8192 : 65536), "%llu bytes in one command",
          static_cast<unsigned long long>(driven.controller.largest));
    // More who use it than it has queues.
    std::vector<std::unique_ptr<Transfers>> more;
    for (int i = 0; i < 6; ++i) more.push_back(driven.device.make_transfers(2));
    driven.check_data();
  }
}

void check_refusals() {
  const auto nothing = [](BareController&) {};
  const auto says = [&](const std::string& part, const std::string& sentence) {
    CHECK(sentence.find(part) != sentence.npos, "said: %s", sentence.c_str());
  };
  says("memory pages from 8192 bytes", sentence_of({.page = 1}, nothing));
  says("no namespace 2", sentence_of({}, nothing, 2));
  says("8 bytes beside them", sentence_of({.beside = 8}, nothing));
  says("blocks of 2^13 bytes", sentence_of({.shift = 13}, nothing));
  says("within the 500 ms", sentence_of({}, [](BareController& one) { one.sticks = true; }));
  says("limit of locked memory", sentence_of({}, [](BareController& one) { one.lockable = 100'000; }));
  says("was removed", sentence_of({}, [](BareController& one) {
         one.remove();
         std::this_thread::sleep_for(50ms);
       }));
  const auto fails = [](const SubmissionEntry& entry, bool) { return entry.opcode == 6 ? kInternalError : kSuccess; };
  says("say what it is: NVMe status type 0, code 0x06", sentence_of({}, nothing, 1, fails));
}

// What may be better the next time is tried six times in all; what will not, once.
void check_retries() {
  for (const auto& [status, fails, tries] : {std::tuple{kFailsAgain, 3, 4}, std::tuple{kFailsAgain, 99, 6},
                                             std::tuple{uint16_t(kFailsAgain | kDoNotRetry), 99, 1}}) {
    std::atomic<int> seen = 0;
    Driven driven({}, [&, status = status, fails = fails](const SubmissionEntry& entry, bool is_admin) {
      return is_admin || entry.opcode != 2 || seen++ >= fails ? kSuccess : status;
    });
    CHECK(driven.run(false, 3) == (fails == 3 ? 4096 : -EIO) && seen == tries, "%d tries", seen.load());
  }
  Driven full({}, [](const SubmissionEntry& entry, bool is_admin) {
    return is_admin || entry.opcode != 1 ? kSuccess : uint16_t(kWriteProtected | kDoNotRetry);
  });
  CHECK(full.run(true, 3) == -EROFS, "write protected");
}

// One command that is never answered, among others that are.
void check_timeouts() {
  for (const bool aborts : {true, false}) {
    std::atomic<bool> never = true;
    Driven driven({.aborts = aborts}, [&](const SubmissionEntry& entry, bool is_admin) {
      return !is_admin && entry.first_block == 7 * 8 && never ? kNever : kSuccess;
    });
    for (uint64_t page = 0; page < 20; ++page) driven.begin(true, page);
    for (const auto& [page, result] : driven.ends())
      CHECK(result == (page == 7 ? -ETIMEDOUT : 4096), "page %d: %d", static_cast<int>(page), result);
    CHECK(driven.device.restarts() == (aborts ? 0 : 1), "%u restarts", driven.device.restarts());
    never = false;
    CHECK(driven.run(true, 7) == 4096, "afterwards");
    driven.check_data();
  }
  // Nor does it answer when it is told to abort that; switched off and on it is as before. What was begun later begins anew.
  std::atomic<bool> never = true;
  Driven driven({}, [&](const SubmissionEntry& entry, bool is_admin) {
    return (is_admin ? entry.opcode == 8 : true) && never ? kNever : kSuccess;
  });
  driven.begin(false, 1);
  std::this_thread::sleep_for(80ms);
  driven.begin(false, 2);
  while (driven.device.restarts() == 0) {
    driven.transfers->wait(1ms, 2);
    if (driven.device.restarts() != 0) never = false;
  }
  never = false;
  const auto ends = driven.ends();
  CHECK(ends.at(1) == -ETIMEDOUT, "%d", ends.at(1));
  driven.check_data();
}

void check_failures() {
  {
    std::atomic<bool> never = true;
    Driven driven({}, [&](const SubmissionEntry&, bool is_admin) { return is_admin || !never ? kSuccess : kNever; });
    for (uint64_t page = 0; page < 20; ++page) driven.begin(false, page);
    never = false;
    driven.controller.fail(false);
    for (const auto& [page, result] : driven.ends()) CHECK(result == 4096, "page %d begins anew", static_cast<int>(page));
    CHECK(driven.device.restarts() == 1, "%u restarts", driven.device.restarts());
    driven.check_data();
  }
  for (const bool removed : {false, true}) {
    Driven driven({}, [&](const SubmissionEntry&, bool is_admin) { return is_admin ? kSuccess : kNever; });
    for (uint64_t page = 0; page < 40; ++page) driven.begin(false, page);
    removed ? driven.controller.remove() : driven.controller.fail(true);
    for (const auto& [page, result] : driven.ends()) CHECK(result == -ENODEV, "page %d: %d", static_cast<int>(page), result);
    CHECK(driven.run(true, 3) == -ENODEV && driven.device.sync() == ENODEV, "afterwards");
    CHECK(driven.controller.is_cut_off, "it may still write memory");
    driven.controller.sticks = false;
  }
}

void check_flush_and_end() {
  bool left = false;
  {
    std::atomic<bool> fails = false;
    Driven driven({}, [&](const SubmissionEntry& entry, bool is_admin) {
      return !is_admin && entry.opcode == 0 && fails ? uint16_t(kInternalError | kDoNotRetry) : kSuccess;
    });
    driven.controller.left = &left;
    CHECK(driven.run(true, 2) == 4096 && driven.device.sync() == 0 && driven.controller.flushes == 1, "flush");
    fails = true;
    CHECK(driven.device.sync() == EIO, "a flush that fails");
    driven.controller.lockable = 0;  // what is not kept goes by the channel's pages
    driven.check_data();
  }
  CHECK(left, "not shut down");
}

// Queues that somebody else drives: each thread has one, and rings its doorbells, or words that are forwarded.
struct DrivenByOthers {
  static constexpr uint32_t kQueues = 3, kEntries = 16;

  DrivenByOthers(bool forwarded, const Says& says = {}, Fate fate = as_ever) : forwards(forwarded) {
    auto made = std::make_unique<BareController>(says, std::move(fate));
    controller = made.get();
    device = std::make_shared<NvmeDevice>(std::move(made), "it", 1, NvmeDevice::Patience{100ms, 300ms});
    queues.emplace(device, std::span(memory.get(), bytes), layout, forwards);
    prepare();
  }

  void prepare() {
    const std::vector<native::QueueView> views = layout.views(memory.get());
    for (uint32_t i = 0; i < kQueues; ++i) {
      const native::Doorbells registers = queues->doorbells()[i];
      pairs[i] = {.submissions = views[i].submissions,
                  .completions = views[i].completions,
                  .submission_doorbell = forwards ? views[i].submission_doorbell : registers.submission,
                  .completion_doorbell = forwards ? views[i].completion_doorbell : registers.completion,
                  .control = &own[i].control,
                  .marks = own[i].marks,
                  .free_identifiers = own[i].free_identifiers,
                  .commands = own[i].commands,
                  .submission_size = kEntries,
                  .completion_size = kEntries,
                  .overdue = reinterpret_cast<uint32_t*>(memory.get() + layout.queues[i].overdue)};
      pairs[i].prepare();
    }
  }

  // A line for each command of a queue.
  [[nodiscard]] uint64_t lines_at(uint32_t queue) const { return layout.bytes + uint64_t{queue} * kEntries * 4096; }

  // One page of the disk, read to the queue's first line or written from it.
  uint16_t run(uint32_t queue, bool writes, uint64_t page, std::chrono::milliseconds patience = 10s,
               std::chrono::milliseconds overdue = 10s) {
    std::optional<uint16_t> status;
    const auto hear = [&](const CompletionReport& report) {
      if (report.end != End::kNothing) status = report.status;
    };
    SubmissionEntry entry{};
    BlockRange{1, 512, 0, BareController::kBytes / 512}.address(entry, writes ? Opcode::kWrite : Opcode::kRead, page * 8, 8);
    entry.prp1 = queues->address() + lines_at(queue);
    CHECK(pairs[queue].try_submit(entry, 0, 1, hear) == Submitted::kYes, "no room");
    for (const auto begin = std::chrono::steady_clock::now(); !status; std::this_thread::yield()) {
      pairs[queue].poll(hear);
      const auto passed = std::chrono::steady_clock::now() - begin;
      if (!status) pairs[queue].expire(passed > patience ? 2 : 0, hear, passed > overdue ? 2 : 0);
    }
    return *status;
  }

  void check_data() {
    queues->acquire();
    std::vector<std::thread> threads;
    for (uint32_t queue = 0; queue < kQueues; ++queue)
      threads.emplace_back([this, queue] {
        char* const own_page = memory.get() + lines_at(queue);
        for (uint64_t turn = 0; turn < 50; ++turn) {
          const uint64_t page = queue * 100 + turn % 7;
          std::memset(own_page, static_cast<int>(turn + queue), 4096);
          CHECK(run(queue, true, page) == kSuccess, "write");
          std::memset(own_page, 0x55, 4096);
          CHECK(run(queue, false, page) == kSuccess, "read");
          for (int i = 0; i < 4096; ++i) CHECK(own_page[i] == static_cast<char>(turn + queue), "wrong data");
        }
      });
    for (std::thread& thread : threads) thread.join();
    queues->release();
  }

  struct Own {
    QueueControl control;
    uint32_t marks[kEntries], free_identifiers[kEntries];
    Command commands[kEntries];
  };

  const bool forwards;
  const native::QueueLayout layout{kQueues, kEntries, kEntries};
  const uint64_t bytes = lines_at(kQueues);
  native::DirectMemory memory = native::direct_memory(static_cast<int64_t>(bytes));
  Own own[kQueues];
  QueuePair pairs[kQueues];
  BareController* controller;
  std::shared_ptr<NvmeDevice> device;
  std::optional<native::DrivenQueues> queues;
};

void check_driven_by_others() {
  for (const bool forwards : {false, true}) {
    DrivenByOthers driven(forwards, {.stride = 1});
    driven.check_data();
    CHECK(driven.device->free_queues() == 0 && driven.device->make_transfers(1) != nullptr, "the others share a queue");
    CHECK((driven.queues->cpu_ns() != 0) == forwards, "a processor takes part");
    const auto says = [&](const std::string& part, uint32_t count, uint32_t entries) {
      const native::QueueLayout layout(count, entries, entries);
      const native::DirectMemory memory = native::direct_memory(static_cast<int64_t>(layout.bytes));
      try {
        native::DrivenQueues(driven.device, {memory.get(), layout.bytes}, layout, forwards);
        CHECK(false, "made");
      } catch (const StorageError& error) {
        CHECK(std::string(error.what()).find(part) != std::string::npos, "said: %s", error.what());
      }
    };
    says("no 1 queues left", 1, 16);
    driven.queues.reset();
    CHECK(driven.device->free_queues() == 3, "given back");
    says("no 4 queues left", 4, 16);
    says("64 entries at the most", 1, 128);
    driven.controller->lockable = 4096;
    says("limit of locked memory", 1, 16);
  }
}

// What is never answered ends with its queue; where the device does not delete that, with the device.
void check_reopened() {
  for (const bool forwards : {false, true})
    for (const bool deletes : {true, false}) {
      std::atomic<bool> never = true, stuck = !deletes;
      DrivenByOthers driven(forwards, {}, [&](const SubmissionEntry& entry, bool is_admin) {
        if (is_admin) return entry.opcode == 0 && stuck.exchange(false) ? kNever : kSuccess;
        return never && entry.first_block == 8 * 3 ? kNever : kSuccess;
      });
      driven.queues->acquire();
      CHECK(driven.run(0, false, 3, 20ms) == kAbortedByHost && outstanding(driven.pairs[0]) == 1, "given up");
      driven.queues->release();
      never = false;
      CHECK(!driven.queues->lost(), "switched off and on");
      driven.queues->reopen();
      driven.prepare();
      CHECK(driven.device->restarts() == (deletes ? 0 : 1), "%u restarts", driven.device->restarts());
      driven.check_data();
      CHECK(outstanding(driven.pairs[0]) == 0, "at rest");
      stuck = true;  // for the end
    }
}

// What takes too long is aborted before it is given up, or the device does not abort it, or not even say so.
void check_watched() {
  for (const bool aborts : {true, false})
    for (const bool answers : {true, false}) {
      std::atomic<bool> loses = true, silent = !answers;
      DrivenByOthers driven(aborts == answers, {.aborts = aborts}, [&](const SubmissionEntry& entry, bool is_admin) {
        if (is_admin) return entry.opcode == 8 && silent ? kNever : kSuccess;
        return entry.first_block == 8 * 3 && loses.exchange(false) ? kNever : kSuccess;
      });
      driven.queues->acquire();
      const bool ends = aborts && answers;
      const uint16_t status = driven.run(1, false, 3, ends ? 10s : 300ms, 20ms);
      CHECK(status == (ends ? kAbortRequested : kAbortedByHost), "status %03x", status);
      CHECK(driven.run(1, false, 3) == kSuccess, "begun anew");
      driven.queues->release();
      CHECK(driven.queues->aborted() == ends, "the watchdog has counted it, since nobody is live");
      CHECK(outstanding(driven.pairs[1]) == (ends ? 0 : 1) && !driven.queues->lost(), "switched off and on");
      silent = false;
      if (!ends) driven.queues->reopen(), driven.prepare();
      driven.check_data();
    }
}

// Kernels' threads read and write through a cache over such queues. One command of each kind is lost: it is aborted and begun
// anew, and no kernel hears of it.
void check_lost_commands() {
  std::array<std::atomic<bool>, 3> loses = {true, true, true};  // a flush, a write, a read
  DrivenByOthers driven(false, {}, [&](const SubmissionEntry& entry, bool is_admin) {
    const bool asked = entry.opcode == 0 || entry.first_block == 8 * 5;
    return !is_admin && asked && loses[entry.opcode].exchange(false) ? kNever : kSuccess;
  });
  constexpr int64_t kPages = 64, kSets = 2, kSlots = 8 * kSets;
  std::vector<char>& disk = driven.controller->disk;
  for (int64_t page = 0; page < kPages; ++page) std::memset(&disk[page * 4096], static_cast<int>(page), 4096);
  uint64_t words[kSlots + 1] = {};
  uint32_t statuses[kSlots + 1] = {}, sets[kSets] = {};
  const native::DirectMemory frames = native::direct_memory(kSlots * 4096);
  Channel channels[DrivenByOthers::kQueues];
  for (uint32_t i = 0; i < DrivenByOthers::kQueues; ++i)
    channels[i] = {driven.pairs[i], driven.memory.get() + driven.lines_at(i), driven.queues->address() + driven.lines_at(i),
                   nullptr, 0};
  StoreControl control{};
  DeviceStore store{};
  store.cache = {{}, words, statuses, sets, frames.get(), kSets, 4096};
  store.blocks = {1, 512, 0, kPages * 8};
  store.channels = channels;
  store.num_channels = DrivenByOthers::kQueues;
  store.control = &control;
  store.timeout_ns = std::chrono::nanoseconds(2s).count();

  // Each adds one to the first byte of each page, of which they have the pages by turns.
  const auto add = [&](int64_t thread) {
    for (int64_t page = thread; page < kPages; page += 3) {
      CacheLookup found{Try::kWait, -1};
      const uint64_t until = store.until();
      for (uint32_t round = 0;; ++round) {
        found = store.template start<Alone>(true, static_cast<Page>(page));
        if (found.outcome == Try::kHeld) break;
        CHECK(found.outcome != Try::kFailed && store.template progress<Alone>(round, until), "page %d", static_cast<int>(page));
      }
      char* const frame = store.cache.frame(found.slot);
      CHECK(frame[0] == static_cast<char>(page) && frame[4095] == static_cast<char>(page), "another page");
      ++frame[0];
      wrote(words[found.slot]);
      release(words[found.slot]);
    }
  };
  driven.queues->acquire();
  std::vector<std::thread> threads;
  for (int64_t thread = 0; thread < 3; ++thread) threads.emplace_back(add, thread);
  for (std::thread& thread : threads) thread.join();
  write_back(store, 0, 1);
  flush(store);
  driven.queues->release();
  CHECK(control.status == 0, "status %llx", static_cast<unsigned long long>(control.status));
  CHECK(driven.queues->aborted() == 3 && driven.controller->flushes == 1, "%d aborted",
        static_cast<int>(driven.queues->aborted()));
  for (int64_t page = 0; page < kPages; ++page)
    CHECK(disk[page * 4096] == static_cast<char>(page + 1) && disk[page * 4096 + 4095] == static_cast<char>(page), "written");
  for (const QueuePair& pair : driven.pairs) CHECK(outstanding(pair) == 0, "at rest");
}

// Somebody else's command has the device switched off and on; and it does not come back.
void check_lost() {
  std::atomic<bool> never = true;
  DrivenByOthers driven(false, {.aborts = false}, [&](const SubmissionEntry& entry, bool is_admin) {
    return !is_admin && entry.first_block == 8 * 3 && never ? kNever : kSuccess;
  });
  const auto transfers = driven.device->make_transfers(1);
  const native::DirectMemory page = native::direct_memory(4096);
  CHECK(transfers->try_begin({-1, false, page.get(), 4096, 3 * 4096, 0}), "no room");
  Ended ended{};
  while (transfers->poll({&ended, 1}) == 0) transfers->wait(1ms, 1);
  CHECK(ended.result == -ETIMEDOUT && driven.queues->lost(), "still there");
  CHECK(driven.run(0, false, 1, 20ms) == kAbortedByHost, "answered by a queue that is gone");
  driven.queues->reopen();
  driven.prepare();
  never = false;
  driven.check_data();
  driven.controller->fail(true);
  std::this_thread::sleep_for(50ms);
  try {
    driven.queues->reopen();
    CHECK(false, "back");
  } catch (const StorageError& error) {
    CHECK(std::string(error.what()).find("does not answer any more") != std::string::npos, "said: %s", error.what());
  }
  CHECK(driven.controller->is_cut_off, "it may still write memory");
  driven.controller->sticks = false;
}

}  // namespace

int main() {
  check_limits();
  check_refusals();
  check_retries();
  check_timeouts();
  check_failures();
  check_flush_and_end();
  check_driven_by_others();
  check_reopened();
  check_watched();
  check_lost_commands();
  check_lost();
}
