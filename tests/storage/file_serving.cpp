// The controller in software with a file behind it: data, the file's end, and what goes wrong with
// files. With -DPLAIN=true by an engine of transfers that fails when it is told to, else by the library's own.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

#include "core/errors.hpp"
#include "host.hpp"
#include "storage/controller.hpp"
#include "storage/file_namespace.hpp"

#if PLAIN
#include "plain_transfers.hpp"
#include "storage/file_backend.hpp"

// In place of the system's.
namespace {
std::atomic<bool> may_sync = true;
std::atomic<int> syncs = 0, sync_error = 0;
}  // namespace
extern "C" int fdatasync(int) {
  ++syncs;
  while (!may_sync) std::this_thread::yield();
  errno = sync_error;
  return sync_error == 0 ? 0 : -1;
}
#endif

namespace hinterland::native {
void throw_errno(const std::string& what, int code) { throw StorageError(what + ": " + std::strerror(code)); }
}  // namespace hinterland::native

using namespace test;

namespace {

std::string folder;

uint8_t byte_at(uint64_t at) { return static_cast<uint8_t>(at / 512 * 37 + at * 11 + 1); }

std::string make_file(uint64_t bytes) {
  const std::string path = folder + "/file";
  ::unlink(path.c_str());
  std::string content(bytes, 0);
  for (uint64_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(byte_at(i));
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct FileByHand {
  FileByHand(const std::string& path, bool writable, unsigned depth = 8, uint32_t size = 64)
      : memory(1, size, 64),
        blocks(std::make_unique<native::FileNamespace>(path, writable, depth)),
        serving(std::make_unique<native::Serving>(std::vector<native::NumberedQueue>{{memory.views[0], 0}}, memory.regions(),
                                                  *blocks)),
        host(memory.views[0]) {
    std::memset(memory.at(0), kUntouched, 64 * 4096);
  }

  static constexpr uint8_t kUntouched = 0xa5;

  uint16_t run(const SubmissionEntry& entry) {
    return host.run(entry, [&] { serving->turn(++now); });
  }
  uint16_t read(uint64_t first, uint64_t count, uint64_t at) {
    return run(Host::command(Opcode::kRead, first, count, memory.at(at), list()));
  }
  uint16_t write(uint64_t first, uint64_t count, uint64_t at) {
    return run(Host::command(Opcode::kWrite, first, count, memory.at(at), list()));
  }
  uint16_t flush() { return run(Host::command(Opcode::kFlush, 0, 1, nullptr)); }
  uint64_t* list() { return reinterpret_cast<uint64_t*>(memory.at(63 * 4096)); }

  HostMemory memory;
  std::unique_ptr<native::FileNamespace> blocks;
  std::unique_ptr<native::Serving> serving;
  Host host;
  uint64_t now = 0;
};

// Reads and writes of any length, by memory at any offset, against a model; and the file when all is closed.
void check_data(uint64_t bytes, unsigned depth) {
  const std::string path = make_file(bytes);
  std::string model = content_of(path);
  std::mt19937_64 random(bytes + depth);
  {
    FileByHand one(path, true, depth);
    const uint64_t blocks = (bytes + 65535) / 65536 * 128;
    CHECK(one.blocks->blocks() == blocks, "%llu blocks", (unsigned long long)one.blocks->blocks());
    for (int round = 0; round < 600; ++round) {
      const bool aligned = round < 200 || random() % 2 == 0;  // then those that may use the page cache come as well
      uint64_t count = 1 + random() % std::min<uint64_t>(blocks, 128), first = random() % (blocks - count + 1);
      uint64_t at = 4096 + random() % 2048 * 4;
      if (aligned) count = (count + 7) / 8 * 8, first = std::min(first / 8 * 8, blocks - count), at = at / 4096 * 4096;
      uint8_t* const memory = one.memory.at(at);
      const bool writes = random() % 2 != 0;
      for (uint64_t i = 0; i < count * 512; ++i) memory[i] = static_cast<uint8_t>(random() >> 13);
      memory[-1] = memory[count * 512] = 0x5a;
      if (writes)
        for (uint64_t i = 0; i < count * 512 && first * 512 + i < bytes; ++i)
          model[first * 512 + i] = static_cast<char>(memory[i]);
      CHECK((writes ? one.write(first, count, at) : one.read(first, count, at)) == kSuccess, "round %d", round);
      for (uint64_t i = 0; i < count * 512 && !writes; ++i) {
        const uint64_t from = first * 512 + i;
        CHECK(memory[i] == (from < bytes ? static_cast<uint8_t>(model[from]) : 0), "byte %llu", (unsigned long long)from);
      }
      CHECK(memory[-1] == 0x5a && memory[count * 512] == 0x5a, "beyond the data");
      if (round % 50 == 0) CHECK(one.flush() == kSuccess, "flush");
    }
    CHECK(one.read(blocks, 1, 0) == (kOutOfRange | kDoNotRetry) && one.read(blocks - 1, 2, 0) == (kOutOfRange | kDoNotRetry),
          "end");
  }
  CHECK(content_of(path) == model, "the file, or its size");
}

// More commands at once than transfers fit, each of many pages that lie apart; completions come in any order.
void check_depth() {
  const std::string path = make_file(1 << 20);
  for (const unsigned depth : {1u, 3u, 8u, 64u}) {
    FileByHand one(path, false, depth);
    for (uint64_t command = 0; command < 3; ++command) {
      SubmissionEntry entry = Host::command(Opcode::kRead, 128 * command, 120, one.memory.at(4096), one.list() + 16 * command);
      for (uint64_t i = 0; i < 14; ++i) one.list()[16 * command + i] = address(one.memory.at((command * 15 + 14 - i) * 4096));
      entry.prp1 = address(one.memory.at((command * 15 + 0) * 4096));
      one.host.put(entry);
    }
    one.host.ring();
    Ending ending;
    for (int ended = 0; ended < 3; ended += one.host.poll(ending) ? 1 : 0) one.serving->turn(++one.now);
    for (uint64_t command = 0; command < 3; ++command)
      for (uint64_t i = 0; i < 15 * 4096; ++i) {
        const uint64_t page = i / 4096, lies = page == 0 ? 0 : 15 - page;
        CHECK(*one.memory.at((command * 15 + lies) * 4096 + i % 4096) == byte_at(command * 65536 + i), "page %d", (int)page);
      }
    CHECK(one.serving->in_flight() == 0, "left");
  }
}

void check_read_only() {
  const std::string path = make_file(8192);
  FileByHand one(path, false);
  CHECK(one.write(0, 8, 0) == (kWriteProtected | kDoNotRetry) && one.read(0, 16, 0) == kSuccess, "read-only");
  CHECK(one.flush() == kSuccess, "flush");
  const auto refused = [](const std::string& name, bool writable, const char* why) {
    try {
      native::FileNamespace(name, writable, 1);
    } catch (const native::StorageError& error) {
      return std::string(error.what()).find(why) != std::string::npos;
    }
    return false;
  };
  CHECK(refused(folder + "/none", false, "/none: No such file"), "a file that is not there");
  const native::FileNamespace writer(path, true, 1), reader(path, false, 1);
  CHECK(refused(path, true, "it is open for writing already"), "a second writer");
}

void check_truncation() {
  for (const uint64_t size : {uint64_t{65536}, uint64_t{65000}}) {
    const std::string path = make_file(size);
    FileByHand one(path, true);
    CHECK(::truncate(path.c_str(), 10000) == 0, "truncated");
    CHECK(one.read(0, 16, 0) == kSuccess, "what is left");
    for (const uint64_t first : {16, 17, 19, 20, 120})
      CHECK(one.read(first, 4, 0) == (kUnrecoveredReadError | kDoNotRetry), "block %llu", (unsigned long long)first);
    CHECK(one.read(0, 128, 0) == (kUnrecoveredReadError | kDoNotRetry), "in part");
    CHECK(one.write(0, 8, 0) == (kWriteFault | kDoNotRetry) && content_of(path).size() == 10000, "a hole");
    CHECK(::truncate(path.c_str(), static_cast<off_t>(size)) == 0 && one.write(120, 8, 0) == kSuccess, "as long as before");
  }
}

// A limit of the file's size is what a full disk is to a write: it moves less, and then nothing.
void check_no_space() {
  const std::string path = make_file(0);
  CHECK(::truncate(path.c_str(), 1 << 20) == 0, "sparse");
  FileByHand one(path, true);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit low{65536 + 4096, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &low);
  CHECK(one.write(0, 128, 0) == kSuccess, "below");
  CHECK(one.write(128, 16, 0) == (kWriteFault | kDoNotRetry) && one.write(200, 8, 0) == (kWriteFault | kDoNotRetry), "above");
  ::setrlimit(RLIMIT_FSIZE, &before);
  CHECK(one.write(200, 8, 0) == kSuccess && one.flush() == kSuccess, "after that");
}

// Threads of a controller over one file, some of whose writes must use the page cache, which changes the way of all.
void check_threads() {
  constexpr uint64_t kQueues = 4, kOwn = 96;  // blocks of each queue
  const std::string path = make_file(kQueues * kOwn * 512);
  HostMemory memory(kQueues, 16, kQueues * 16);
  native::Controller controller(memory.views, memory.regions(), std::make_unique<native::FileNamespace>(path, true, 4), 2);
  controller.start();
  controller.acquire();
  std::vector<std::thread> hosts;
  for (uint64_t me = 0; me < kQueues; ++me)
    hosts.emplace_back([&, me] {
      Host host(memory.views[me]);
      std::mt19937_64 random(me);
      std::vector<uint8_t> model(kOwn * 512);
      for (uint64_t i = 0; i < model.size(); ++i) model[i] = byte_at(me * model.size() + i);
      for (int round = 0; round < 300; ++round) {
        const bool whole = round < 100 || random() % 4 != 0;
        const uint64_t count = whole ? 8 : 1 + random() % 7, first = whole ? random() % 12 * 8 : random() % (kOwn - count);
        uint8_t* const at = memory.at(me * 16 * 4096 + (whole ? 0 : 4 * (random() % 512)));
        const bool writes = random() % 2 != 0;
        for (uint64_t i = 0; writes && i < count * 512; ++i)
          model[first * 512 + i] = at[i] = static_cast<uint8_t>(random() >> 9);
        const Opcode opcode = writes ? Opcode::kWrite : Opcode::kRead;
        const uint16_t status =
            host.run(Host::command(opcode, me * kOwn + first, count, at), [] { std::this_thread::yield(); });
        CHECK(status == kSuccess && std::equal(at, at + count * 512, model.begin() + static_cast<std::ptrdiff_t>(first * 512)),
              "data");
        if (round % 100 == 99)
          CHECK(host.run(Host::command(Opcode::kFlush, 0, 1, nullptr), [] { std::this_thread::yield(); }) == kSuccess, "flush");
      }
      const std::string there = content_of(path).substr(me * model.size(), model.size());
      CHECK(
          std::equal(model.begin(), model.end(), there.begin(), [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); }),
          "file");
    });
  for (std::thread& host : hosts) host.join();
}

#if PLAIN

using native::instead;
using native::Instead;
using native::Transfer;

void check_errors() {
  const std::string path = make_file(1 << 16);
  const auto status = [&](bool writes, int error) {
    FileByHand one(path, true);
    instead = [=](const Transfer&) { return Instead{-error}; };
    const uint16_t found = writes ? one.write(0, 16, 0) : one.read(0, 16, 0);
    instead = nullptr;
    CHECK((writes ? one.write(0, 16, 0) : one.read(0, 16, 0)) == kSuccess, "the next");
    return found;
  };
  CHECK(status(false, EIO) == kUnrecoveredReadError && status(true, EIO) == kWriteFault, "EIO");
  for (const int error : {ENOSPC, EDQUOT, EFBIG, EROFS}) CHECK(status(true, error) == (kWriteFault | kDoNotRetry), "%d", error);
  CHECK(status(false, ENOMEM) == kInternalError && status(false, ENXIO) == (kInternalError | kDoNotRetry), "others");

  // One transfer of several fails: the command ends when all have ended, and once.
  FileByHand one(make_file(1 << 16), true);
  SubmissionEntry entry = Host::command(Opcode::kRead, 0, 16, one.memory.at(0));
  entry.prp2 = address(one.memory.at(8192));
  int transfers = 0;
  instead = [&](const Transfer& transfer) { return ++transfers, Instead{transfer.offset == 0 ? -EIO : 0}; };
  CHECK(one.run(entry) == kUnrecoveredReadError && transfers == 2, "%d transfers", transfers);
  instead = nullptr;
  Ending ending;
  for (int i = 0; i < 5; ++i) one.serving->turn(++one.now);
  CHECK(!one.host.poll(ending) && *one.memory.at(8192) == byte_at(4096), "the other");
}

// What moves less than it should goes on; what is interrupted, or was not aligned well enough, is done again.
void check_short_transfers() {
  const std::string path = make_file(50000);
  for (const uint32_t most : {1u << 30, 8192u, 512u, 100u}) {
    FileByHand one(path, true);
    int interrupted = 0;
    instead = [&](const Transfer&) {
      return ++interrupted % 3 == 0 ? Instead{interrupted % 2 != 0 ? -EINTR : -EAGAIN} : Instead{0, most};
    };
    CHECK(one.read(0, 104, 4096) == kSuccess, "read");
    for (uint64_t i = 0; i < 104 * 512; ++i) CHECK(*one.memory.at(4096 + i) == (i < 50000 ? byte_at(i) : 0), "byte %d", (int)i);
    CHECK(one.write(8, 96, 4096) == kSuccess, "write");
    instead = nullptr;
    std::string expected(50000, 0);
    for (uint64_t i = 0; i < 50000; ++i) expected[i] = static_cast<char>(byte_at(i < 4096 ? i : i - 4096));
    CHECK(content_of(path) == expected, "file");
    make_file(50000);
  }
  FileByHand one(path, true);
  int refused = 0;
  instead = [&](const Transfer&) { return Instead{refused++ == 0 ? -EINVAL : 0}; };
  const bool direct = one.write(0, 8, 0) == kSuccess;
  CHECK(direct == (native::SharedFile(path, false).align_offset != 0), "once more by the page cache");
  instead = nullptr;
}

// Runs of pages that lie together are one transfer. What is aligned goes past the cache, until a write cannot; then none does.
void check_transfers() {
  const std::string path = make_file((1 << 17) + 100);
  const native::SharedFile known(path, false);
  FileByHand one(path, true);
  std::vector<Transfer> all;
  native::seen = [&](const Transfer& transfer) { all.push_back(transfer); };
  const auto is_direct = [&](const Transfer& transfer) { return (::fcntl(transfer.fd, F_GETFL) & O_DIRECT) != 0; };
  const auto ways = [&](uint16_t status) {
    CHECK(status == kSuccess, "status");
    std::string told;
    for (const Transfer& transfer : all) told += (is_direct(transfer) ? "d" : "c") + std::to_string(transfer.bytes) + " ";
    all.clear();
    return told;
  };
  const bool has = known.align_offset != 0;
  const std::string d = has ? "d" : "c";
  CHECK(ways(one.read(0, 128, 0)) == d + "65536 ", "one transfer");
  CHECK(ways(one.write(0, 128, 0)) == d + "65536 ", "one transfer");
  CHECK(ways(one.read(1, 1, 512)) == (has && known.align_offset <= 512 && known.align_memory <= 512 ? "d512 " : "c512 "),
        "512");
  CHECK(ways(one.write(248, 16, 0)) == d + "4096 c100 ", "the page of the end");
  CHECK(ways(one.write(257, 7, 0)).empty() && content_of(path).size() == (1 << 17) + 100, "beyond the end");
  CHECK(ways(one.write(0, 8, 0)) == d + "4096 ", "still");
  const std::string odd = ways(one.write(0, 1, 4));
  CHECK(odd == (has && known.align_offset <= 512 && known.align_memory <= 4 ? "d512 " : "c512 "), "%s", odd.c_str());
  if (odd == "c512 ") CHECK(ways(one.write(0, 8, 0)) == "c4096 " && ways(one.read(0, 8, 0)) == "c4096 ", "all by the cache");
  native::seen = [](const Transfer&) {};
}

// A file whose file system wants whole pages for transfers past the cache.
struct Strict : native::Namespace {
  explicit Strict(const std::string& path) : file(path, true) { file.align_offset = file.align_memory = 4096; }
  uint64_t blocks() const override { return file.bytes / 512; }
  std::unique_ptr<native::Backend> open(uint32_t, std::span<const Region> regions) override {
    return std::make_unique<native::FileBackend>(file, 8, regions);
  }
  native::SharedFile file;
};

// A write by the cache waits for those that go past it, of all threads, and then none goes past it any more.
void check_order_of_ways() {
  Strict file(make_file(1 << 16));
  if (!file.file.direct.open()) return;
  HostMemory memory(2, 8, 8);
  native::Serving one({{memory.views[0], 0}}, memory.regions(), file), two({{memory.views[1], 1}}, memory.regions(), file);
  Host first(memory.views[0]), second(memory.views[1]);
  const auto write = [&](Host& host, uint64_t block, uint64_t count) {
    host.put(Host::command(Opcode::kWrite, block, count, memory.at(block * 512)));
    host.ring();
  };
  instead = [](const Transfer&) { return Instead{-EAGAIN}; };  // and again
  write(first, 0, 8);
  one.turn(1);
  write(second, 9, 1);
  for (uint64_t now = 2; now < 9; ++now) two.turn(now);
  CHECK(file.file.direct_writes == 1 && two.in_flight() == 0, "by both ways at once");
  write(first, 16, 8);
  one.turn(9);
  CHECK(file.file.direct_writes == 1 && one.in_flight() == 1, "one more past the cache");
  instead = nullptr;
  Ending ending;
  for (int ended = 0; ended < 3; ended += first.poll(ending) + second.poll(ending)) one.turn(10), two.turn(10);
  CHECK(file.file.direct_writes == 0, "all have ended");

  // A thread that stops with such a write does not hold others up.
  file.file.cached_only = false;
  auto stopping =
      std::make_unique<native::Serving>(std::vector<native::NumberedQueue>{{memory.views[0], 0}}, memory.regions(), file);
  instead = [](const Transfer&) { return Instead{-EAGAIN}; };
  for (uint64_t now = 11; now < 14; ++now) stopping->turn(now);
  instead = nullptr;
  stopping.reset();
  CHECK(file.file.direct_writes == 0, "left behind");
}

// A flush ends after its fdatasync, others go on meanwhile, and after one that failed none succeeds.
void check_flush() {
  FileByHand one(make_file(8192), true);
  const SubmissionEntry flush = Host::command(Opcode::kFlush, 0, 1, nullptr);
  may_sync = false;
  const int before = syncs;
  for (int i = 0; i < 5; ++i) one.host.put(flush);
  one.host.put(Host::command(Opcode::kRead, 0, 1, one.memory.at(0)));
  one.host.ring();
  Ending ending;
  while (!one.host.poll(ending)) one.serving->turn(++one.now);
  CHECK(ending.identifier == 5 && ending.status == kSuccess, "held up");
  while (syncs == before) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) one.serving->turn(++one.now);
  CHECK(!one.host.poll(ending), "before it is safe");
  may_sync = true;
  for (int ended = 0; ended < 5; ended += one.host.poll(ending) ? 1 : 0) one.serving->turn(++one.now);
  CHECK(syncs - before <= 2, "%d for five", syncs - before);
  sync_error = EIO;
  CHECK(one.flush() == (kWriteFault | kDoNotRetry), "failed");
  sync_error = 0;
  CHECK(one.flush() == (kWriteFault | kDoNotRetry), "what could not be written is forgotten");
}

// Destroyed while transfers are in flight: they end first, and what was not begun never is.
void check_stop() {
  const std::string path = make_file(1 << 18);
  FileByHand one(path, false, 2);
  for (uint64_t i = 0; i < 10; ++i) one.host.put(Host::command(Opcode::kRead, 8 * i, 8, one.memory.at(4096 * i)));
  one.host.ring();
  instead = [](const Transfer&) { return Instead{-EAGAIN}; };
  one.serving->turn(++one.now);
  instead = nullptr;
  one.serving.reset();
  Ending ending;
  CHECK(!one.host.poll(ending), "answered");
  CHECK(*one.memory.at(5 * 4096) == FileByHand::kUntouched, "begun");
}

#endif

}  // namespace

int main() {
  alarm(300);
  char made[] = "/tmp/hinterland-file-XXXXXX";
  CHECK(::mkdtemp(made) != nullptr, "no folder for files");
  folder = made;
  for (const uint64_t bytes : {1, 511, 4096, 5000, 65536, 200000})
    for (const unsigned depth : {1u, 32u}) check_data(bytes, depth);
  check_depth();
  check_read_only();
  check_truncation();
  check_no_space();
#if !PLAIN && !HINTERLAND_URING
  CHECK(hinterland::native::uring_refusal().find("install liburing-dev") != std::string::npos, "how to have io_uring");
#endif
#if PLAIN
  check_errors();
  check_short_transfers();
  check_transfers();
  check_order_of_ways();
  check_flush();
  check_stop();
#endif
  check_threads();
  ::unlink((folder + "/file").c_str());
  ::rmdir(made);
  return 0;
}
