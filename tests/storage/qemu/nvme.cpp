// The library's own driver of bare NVMe devices against QEMU's controllers, through vfio-pci and an IOMMU: the first process of
// a virtual machine (test_nvme.py), which has three of them.
#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "../host.hpp"
#include "guest.hpp"
#include "storage/controller.hpp"
#include "storage/file_namespace.hpp"
#include "storage/nvme_device.hpp"
#include "storage/planned.hpp"
#include "storage/store.hpp"
#include "storage/turn.hpp"
#include "storage/vfio_device.hpp"

namespace hinterland::native {
// The library's is beside what makes errors Python's.
void throw_errno(const std::string& what, int code) { throw StorageError(what + ": " + std::strerror(code)); }
}  // namespace hinterland::native

using namespace test;
using namespace std::chrono_literals;
using native::BlockDevice, native::DeviceMemory, native::Ended, native::NvmeController, native::NvmeDevice, native::NvmeQueue,
    native::StorageError, native::Store, native::Transfer, native::Transfers, native::VfioDevice;

namespace {

// Blocks of 512 bytes; of 4096, two queues, and commands of 8 KiB at most, with errors; and one that is slow from the second
// request on.
const std::string kPlain = "0000:00:04.0", kSmall = "0000:00:05.0", kSlow = "0000:00:06.0";
constexpr uint64_t kBytes = 64 << 20;  // of each
// Of the small one: the byte whose first read or write fails, and that where all do.
constexpr uint64_t kFailsOnce = 56 << 20, kFails = 60 << 20;

template <class Call>
std::string sentence_of(const Call& call) {
  try {
    call();
  } catch (const StorageError& error) {
    return error.what();
  }
  return "";
}

#define CHECK_SAYS(call, ...)                                             \
  do {                                                                    \
    const std::string said = sentence_of([&] { (void)(call); });          \
    for (const std::string& part : std::vector<std::string>{__VA_ARGS__}) \
      CHECK(said.find(part) != said.npos, "said: %s", said.c_str());      \
  } while (false)

void fill(char* memory, uint64_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (uint64_t i = 0; i < bytes; i += 4) {
    const auto word = static_cast<uint32_t>(random());
    std::memcpy(memory + i, &word, 4);
  }
}

native::DirectMemory pages(uint64_t bytes) {
  native::DirectMemory memory = native::direct_memory(static_cast<int64_t>(bytes));
  std::memset(memory.get(), 0, bytes);
  return memory;
}

// One transfer, and what became of it.
int32_t run(Transfers& transfers, bool writes, char* memory, uint64_t bytes, uint64_t offset) {
  CHECK(transfers.try_begin({-1, writes, memory, static_cast<uint32_t>(bytes), offset, 77}), "no room");
  Ended ended{};
  while (transfers.poll({&ended, 1}) == 0) transfers.wait(1ms, 1);
  CHECK(ended.user == 77 && transfers.in_flight() == 0, "another's end");
  return ended.result;
}

std::shared_ptr<BlockDevice> opened(const std::string& address) { return native::bare_device("nvme:" + address); }

void check_sentences() {
  CHECK_SAYS(opened("0000:00:09.0"), std::string("no PCI device 0000:00:09.0"), kPlain);
  CHECK_SAYS(opened("0000:00:00.0"), "no NVMe controller", "0x060000");
  CHECK_SAYS(opened(kPlain), std::string("has no driver"), "driver_override", kPlain);
  for (const std::string& address : {kPlain, kSmall, kSlow}) hand_over(address);
  CHECK_SAYS(native::bare_device("nvme:" + kPlain + "/3"), "has no namespace 3");
  const auto device = opened(kPlain);
  CHECK(device->bytes() == kBytes && device->block_bytes() == 512, "what it is");
  CHECK(opened(kPlain) == device, "opened twice");
  CHECK_SAYS(VfioDevice(kPlain), "in use");
  CHECK_SAYS(native::bare_device("nvme:" + kPlain + "/3"), "open already for its namespace 1");
}

// What a user may do who has the device's group and a limit of locked memory, and no more.
void check_without_root() {
  constexpr uid_t kUser = 1000;
  const std::string group =
      "/dev/vfio/" + std::filesystem::read_symlink("/sys/bus/pci/devices/" + kPlain + "/iommu_group").filename().string();
  const auto as_user = [](rlim_t limit, const auto& call) {
    const rlimit limits{limit, RLIM_INFINITY};
    CHECK(::setrlimit(RLIMIT_MEMLOCK, &limits) == 0 && ::seteuid(kUser) == 0, "as a user");
    call();
    CHECK(::seteuid(0) == 0, "as root");
  };
  as_user(64 << 10, [&] { CHECK_SAYS(opened(kPlain), "no permission on " + group, "chown 1000"); });
  CHECK(::chown(group.c_str(), kUser, kUser) == 0, "chown");
  as_user(64 << 10, [&] { CHECK_SAYS(opened(kPlain), "may lock 65536 in all", "ulimit -l"); });
  as_user(4 << 20, [&] {
    const auto device = opened(kPlain);
    const auto transfers = device->make_transfers(4);
    const native::DirectMemory memory = pages(8 << 20);
    transfers->keep({memory.get(), 8 << 20});  // more than may be locked: by the channel's pages, then
    CHECK(run(*transfers, true, memory.get(), 64 << 10, 0) == 64 << 10, "a user's write");
  });
}

// The queue pair itself, as threads of a GPU use it: by several threads at once, over rings that wrap around, with lists of
// pages in any order.
class Shared {
 public:
  explicit Shared(uint32_t entries)
      : queue_(device_, entries, controller_.doorbells(1)), data_(device_, kThreads * kOwn), lists_(device_, 4096) {
    controller_.create_queue(1, queue_.rings());
  }

  void run(uint64_t commands) {
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < kThreads; ++i) threads.emplace_back([this, i, commands] { serve(i, commands); });
    for (std::thread& thread : threads) thread.join();
    CHECK(outstanding(queue_.pair) == 0 && queue_.pair.control->unexpected == 0, "at rest");
  }

  uint16_t run(uint64_t thread, const SubmissionEntry& entry) {
    ended_[thread] = 0;
    const auto hear = [this](const CompletionReport& report) {
      if (report.end != End::kNothing) ended_[report.user].store(1u << 16 | report.status, std::memory_order_release);
    };
    while (queue_.pair.try_submit(entry, thread, kNoDeadline, hear) != Submitted::kYes) queue_.pair.poll(hear);
    while (ended_[thread].load(std::memory_order_acquire) == 0) queue_.pair.poll(hear), std::this_thread::yield();
    return static_cast<uint16_t>(ended_[thread]);
  }

  void check_refused() {
    SubmissionEntry entry{};
    const uint64_t address = data_.address();
    CHECK((BlockRange{1, 512, 0, ~uint64_t{0}}.address(entry, Opcode::kRead, kBytes / 512, 1)), "address");
    entry.prp1 = address;
    CHECK(code_of(run(0, entry)) == kOutOfRange && code_type_of(kOutOfRange) == 0, "beyond the end");
    CHECK(!is_retryable(run(0, entry)), "beyond the end, and worth another try");
    entry.first_block = 0;
    entry.namespace_id = 9;
    CHECK(code_of(run(0, entry)) == kInvalidNamespace || code_of(run(0, entry)) == kInvalidField, "a namespace there is not");
    entry.namespace_id = 1;
    entry.opcode = 0x7f;
    CHECK(code_of(run(0, entry)) == kInvalidOpcode, "a command there is not");
    CHECK_SAYS(controller_.create_queue(1, queue_.rings()), "does not make a completion queue", "status");
  }

 private:
  static constexpr uint64_t kThreads = 4, kOwn = 40 * 4096, kBlocks = 1024;  // of a thread: memory, and on the disk

  // Writes, reads back into other pages, and looks at what lies around.
  void serve(uint64_t thread, uint64_t commands) {
    std::mt19937_64 random(thread + 1);
    char* const own = data_.data() + thread * kOwn;
    std::vector<char> model(kBlocks * 512);
    for (uint64_t done = 0; done < commands; ++done) {
      const bool writes = done < 8 || random() % 2 == 0;
      const uint64_t blocks = 1 + random() % 128, first = done < 8 ? done * 128 : random() % (kBlocks - blocks + 1);
      const uint64_t count = done < 8 ? 128 : blocks, bytes = count * 512, offset = random() % 1024 * 4;
      uint64_t order[17];
      for (uint64_t i = 0; i < 17; ++i) order[i] = i;
      std::shuffle(order, order + 17, random);
      const auto each = [&](const auto& visit) {
        for (uint64_t at = 0; at < bytes;) {
          const uint64_t within = (offset + at) % 4096, length = std::min(bytes - at, 4096 - within);
          visit(own + order[(offset + at) / 4096] * 4096 + within, model.data() + first * 512 + at, length);
          at += length;
        }
      };
      if (writes) fill(model.data() + first * 512, bytes, random());
      std::memset(own, 0x5a, 17 * 4096);
      if (writes) each([](char* memory, char* known, uint64_t length) { std::memcpy(memory, known, length); });
      SubmissionEntry entry{};
      const BlockRange range{1, 512, thread * kBlocks, kBlocks};
      CHECK(range.address(entry, writes ? Opcode::kWrite : Opcode::kRead, first, count), "blocks");
      const auto page = [&](uint32_t i) { return data_.address() + thread * kOwn + order[i] * 4096; };
      CHECK(set_data(entry, offset, bytes, page, reinterpret_cast<PrpList*>(lists_.data())[thread],
                     lists_.address() + thread * sizeof(PrpList)),
            "data");
      const uint16_t status = run(thread, entry);
      CHECK(is_success(status), "status %03x", status);
      if (!writes)
        each([&](char* memory, char* known, uint64_t length) { CHECK(std::memcmp(memory, known, length) == 0, "wrong data"); });
      for (uint64_t i = 0; i < offset; ++i) CHECK(own[order[0] * 4096 + i] == 0x5a, "written before the data");
    }
  }

  VfioDevice device_{kPlain};
  NvmeController controller_{device_, "it", 5s};
  NvmeQueue queue_;
  DeviceMemory data_, lists_;
  std::array<std::atomic<uint32_t>, kThreads> ended_{};
};

void check_queue() {
  for (const uint32_t entries : {2u, 4u, 64u, 2048u}) Shared(entries).run(entries == 64 ? 300 : 30);
  Shared(16).check_refused();
}

// All sizes, at any place in memory, through the channel's pages and straight from memory that the device knows.
void check_sizes(const std::string& address, uint64_t block) {
  const auto device = opened(address);
  const auto transfers = device->make_transfers(16);
  constexpr uint64_t kArena = 256 << 10;
  const native::DirectMemory held = pages(kArena);
  char* const memory = held.get();
  std::vector<char> written(128 << 10);
  for (const bool kept : {false, true}) {
    if (kept) transfers->keep({memory, kArena});
    for (uint64_t bytes = block; bytes <= 128 << 10; bytes = bytes < 16 << 10 ? bytes + block : bytes * 2)
      for (const uint64_t shift : {uint64_t{0}, uint64_t{4}, uint64_t{512}, uint64_t{4092}}) {
        const uint64_t offset = (4 << 20) + bytes / block % 13 * block;
        fill(written.data(), bytes, bytes + shift + kept);
        std::memcpy(memory + shift, written.data(), bytes);
        CHECK(run(*transfers, true, memory + shift, bytes, offset) == static_cast<int32_t>(bytes), "written");
        std::memset(memory, 0x33, kArena);
        CHECK(run(*transfers, false, memory + shift, bytes, offset) == static_cast<int32_t>(bytes), "read");
        CHECK(std::memcmp(memory + shift, written.data(), bytes) == 0, "%d bytes at %d", static_cast<int>(bytes),
              static_cast<int>(shift));
        CHECK((shift == 0 || memory[shift - 1] == 0x33) && memory[shift + bytes] == 0x33, "around %d bytes",
              static_cast<int>(bytes));
      }
  }
  CHECK(run(*transfers, false, memory, 4096, kBytes - block) == static_cast<int32_t>(block), "a read over the end");
  CHECK(run(*transfers, false, memory, 4096, kBytes) == 0, "a read behind the end");
  CHECK(run(*transfers, true, memory, 8192, kBytes - 4096) == -EINVAL, "a write over the end");
  CHECK(run(*transfers, false, memory, block, 4) == -EINVAL, "a read from within a block");
  CHECK(device->sync() == 0, "flush");
}

// Threads that have more in flight than their queues have room for, and, of the small device, that share queues.
void check_threads(const std::string& address, unsigned count, uint64_t block, uint64_t operations) {
  const auto device = opened(address);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      constexpr uint64_t kDepth = 300, kLine = 16 << 10;
      const auto transfers = device->make_transfers(kDepth);
      const native::DirectMemory memory = pages(kDepth * kLine);
      std::mt19937_64 random(t);
      std::vector<uint64_t> versions(kDepth);  // of what lies on the disk, by place
      std::vector<bool> writes(kDepth), busy(kDepth);
      uint64_t begun = 0, done = 0;
      if (t % 2 == 1) transfers->keep({memory.get(), kDepth * kLine});
      while (done < operations) {
        for (; begun < operations && begun - done < kDepth; ++begun) {
          const uint64_t place = begun % kDepth;
          if (busy[place]) break;
          writes[place] = versions[place] == 0 || random() % 2 == 0;
          char* const line = memory.get() + place * kLine;
          std::memset(line, 0, kLine);
          if (writes[place]) fill(line, kLine, versions[place] = random() | 1);
          const uint64_t bytes = writes[place] ? kLine : block + random() % (kLine / block) * block;
          CHECK(transfers->try_begin({-1, writes[place], line, static_cast<uint32_t>(bytes),
                                      (16 << 20) + (t * kDepth + place) * kLine, place, device.get()}),
                "no room");
          busy[place] = true;
        }
        transfers->wait(1ms, std::max(transfers->in_flight() / 8, 1u));
        Ended ended[32];
        const size_t now = transfers->poll(ended);
        for (size_t i = 0; i < now; ++i, ++done) {
          const uint64_t place = ended[i].user;
          std::vector<char> expected(kLine);
          fill(expected.data(), kLine, versions[place]);
          CHECK(ended[i].result > 0 && busy[place], "result %d", ended[i].result);
          CHECK(std::memcmp(memory.get() + place * kLine, expected.data(), static_cast<size_t>(ended[i].result)) == 0,
                "wrong data");
          busy[place] = false;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
}

void check_errors() {
  const auto device = opened(kSmall);
  const auto transfers = device->make_transfers(4);
  const native::DirectMemory memory = pages(8192);
  CHECK(run(*transfers, false, memory.get(), 4096, kFailsOnce) == 4096, "tried again");
  CHECK(run(*transfers, false, memory.get(), 4096, kFails) == -EIO, "tried again and again");
  CHECK(run(*transfers, true, memory.get(), 8192, kFails - 4096) == -EIO, "written, and tried again and again");
  CHECK(run(*transfers, false, memory.get(), 8192, kFails + 4096) == 8192, "beside it");
}

// A command that is not answered in time, and what others were waiting for meanwhile.
void check_timeout() {
  NvmeDevice device(std::make_unique<VfioDevice>(kSlow), "the slow one", 1, {200ms, 2s});
  const auto transfers = device.make_transfers(8);
  const native::DirectMemory memory = pages(64 << 10);
  std::vector<int32_t> results;
  for (int i = 0; i < 4; ++i)
    CHECK(transfers->try_begin({-1, false, memory.get() + i * 4096, 4096, 4096ull * i, 0}), "no room");
  while (results.size() < 4) {
    transfers->wait(10ms, 1);
    Ended ended[4];
    const size_t count = transfers->poll(ended);
    for (size_t i = 0; i < count; ++i) results.push_back(ended[i].result);
  }
  const auto late = std::count(results.begin(), results.end(), -ETIMEDOUT);
  CHECK(late >= 1 && std::count(results.begin(), results.end(), 4096) == 4 - late, "%d late", static_cast<int>(late));
  CHECK(device.restarts() >= 1, "switched off and on %u times", device.restarts());
  do std::this_thread::sleep_for(2s);  // until it is as fast as it was at first
  while (run(*transfers, true, memory.get(), 512, 0) != 512);
  std::printf("  %d of 4 were late, %u restarts\n", static_cast<int>(late), device.restarts());
}

// Bytes that cannot be read, or not be written.
void check_store_errors(Store& store, const std::string& name, int64_t line) {
  const int64_t at = store.volumes.open({name}, true, 0, 0);
  const native::RowExtent extent{0, at + static_cast<int64_t>(kFails)};
  const native::StoredRows table{{&extent, 1}, 4, line};
  std::vector<char> row(static_cast<size_t>(line));
  const int64_t first = 0;
  CHECK_SAYS(gather_stored(store.cache, table, &first, 1, row.data()), "cannot read " + name, "Input/output error");
  scatter_stored(store.cache, table, &first, 1, row.data());
  CHECK_SAYS(store.cache.flush(), "cannot write " + name, "Input/output error");
  store.cache.close(at);
}

// What StorageArray stands on.
void check_store(const std::string& address, uint64_t line) {
  const std::string name = "nvme:" + address;
  constexpr int64_t kRows = 4000, kRowBytes = 600, kFirst = 1 << 20;
  std::vector<int64_t> numbers(kRows);
  std::vector<char> rows(kRows * kRowBytes), read(rows.size());
  for (int64_t i = 0; i < kRows; ++i) numbers[i] = (i * 7919) % kRows;
  fill(rows.data(), rows.size(), line);
  {
    Store store(1 << 20, static_cast<int64_t>(line), 3, 64, native::Engine::kBest);
    const int64_t at = store.volumes.open({name}, true, 0, 0);
    const native::RowExtent extent{0, at + kFirst};
    const native::StoredRows table{{&extent, 1}, kRows, kRowBytes};
    Store other(1 << 20, static_cast<int64_t>(line), 1, 64, native::Engine::kThreads);
    CHECK_SAYS(other.volumes.open({name}, true, 0, 0), "one writer at a time");
    scatter_stored(store.cache, table, numbers.data(), kRows, rows.data());
    gather_stored(store.cache, table, numbers.data(), kRows, read.data());
    CHECK(read == rows, "what was written, through the cache");
    store.cache.flush();
    std::vector<char> two(2 * kRowBytes);
    native::InUse(store.cache, static_cast<Page>(at) / line)
        .volume()
        .read(kFirst + numbers[5] * kRowBytes, two.data(), kRowBytes);
    CHECK(std::memcmp(two.data(), rows.data() + 5 * kRowBytes, kRowBytes) == 0, "what was written, past the cache");
    store.cache.close(at);
    other.cache.close(other.volumes.open({name}, true, 0, 0));
    CHECK(sentence_of([&] { VfioDevice free(address); }).empty(), "closed, and still held by a cache");
  }
  Store store(1 << 20, static_cast<int64_t>(line), 2, 64, native::Engine::kBest);
  const native::RowExtent extent{0, store.volumes.open({name}, false, 0, 0) + kFirst};
  const native::StoredRows table{{&extent, 1}, kRows, kRowBytes};
  std::fill(read.begin(), read.end(), 0);
  gather_stored(store.cache, table, numbers.data(), kRows, read.data());
  CHECK(read == rows, "what another has written");
  if (address == kSmall) check_store_errors(store, name, static_cast<int64_t>(line));
  const native::StoreCounts counts = store.counts();
  CHECK(counts.reads > 100, "%lld reads", static_cast<long long>(counts.reads));
  if (line < 4096) return;
  Store small(1 << 20, 512, 1, 64, native::Engine::kBest);
  if (opened(address)->block_bytes() > 512) CHECK_SAYS(small.volumes.open({name}, false, 0, 0), "blocks of 4096", "line_bytes");
}

// What GPUs' queues stand on: the controller in software, before the real one.
void check_software_controller() {
  HostMemory memory(2, 64, 64);
  const auto blocks_of = std::make_shared<native::FileNamespace>("", true, 64, opened(kPlain));
  CHECK(blocks_of->blocks() == kBytes / 512, "blocks");
  native::Controller controller(memory.views, memory.regions(), blocks_of, 2);
  controller.start();
  controller.acquire();
  const auto idle = [] { std::this_thread::yield(); };
  for (uint32_t q = 0; q < 2; ++q) {
    Host host(memory.views[q]);
    uint64_t* const list = reinterpret_cast<uint64_t*>(memory.at(63 * 4096));
    for (const uint64_t blocks : {1, 8, 16, 17, 128}) {
      fill(reinterpret_cast<char*>(memory.at(0)), blocks * 512, blocks + q);
      CHECK(host.run(Host::command(Opcode::kWrite, 5000 * q + blocks, blocks, memory.at(0), list), idle) == kSuccess, "write");
      CHECK(host.run(Host::command(Opcode::kFlush, 0, 1, nullptr), idle) == kSuccess, "flush");
      CHECK(host.run(Host::command(Opcode::kRead, 5000 * q + blocks, blocks, memory.at(80 << 10), list), idle) == kSuccess,
            "read");
      CHECK(std::memcmp(memory.at(0), memory.at(80 << 10), blocks * 512) == 0, "wrong data");
    }
  }
  controller.release();
  controller.stop();
}

void pass(const char* what) {
  static auto before = std::chrono::steady_clock::now();
  const auto now = std::chrono::steady_clock::now();
  std::printf("%s: %lld ms\n", what, static_cast<long long>((now - before) / 1ms));
  before = now;
}

}  // namespace

int main() {
  begin_guest();
  load_modules();
  pass("began");
  check_sentences();
  check_without_root();
  pass("sentences");
  check_queue();
  pass("queue");
  check_sizes(kPlain, 512);
  check_sizes(kSmall, 4096);
  pass("sizes");
  check_threads(kPlain, 4, 512, 900);
  check_threads(kSmall, 5, 4096, 600);
  pass("threads");
  check_errors();
  pass("errors");
  check_timeout();
  pass("timeout");
  check_store(kPlain, 512);
  check_store(kSmall, 16384);
  pass("store");
  check_software_controller();
  pass("software controller");
  end_guest();
}
