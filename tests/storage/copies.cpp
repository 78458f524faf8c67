// A store's pages in several files: stripes, and copies that fail as they are told, by an engine in place of the system's
// (plain_transfers.hpp), and by one that is full. Pages are written to the files while their holders may write them, which
// ThreadSanitizer calls a race, so it gets -DWRITES=false.
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "check.hpp"
#include "core/errors.hpp"
#include "plain_transfers.hpp"
#include "storage/pinned.hpp"
#include "storage/planned.hpp"
#include "storage/store.hpp"
#include "storage/turn.hpp"
#include "storage/volume.hpp"

namespace {
std::atomic<int> sync_error = 0;  // of the file that is told
std::atomic<int> failing_sync = -1;
}  // namespace
extern "C" int fdatasync(int fd) {  // in place of the system's
  if (fd != failing_sync) return 0;
  errno = sync_error;
  return -1;
}

namespace hinterland::native {
void throw_errno(const std::string& what, int code) { throw StorageError(what + ": " + std::strerror(code)); }

// A file as a device of its own, whose transfers do not end while it is stuck.
std::atomic<bool> is_stuck = false;
class FileDevice : public BlockDevice {
 public:
  explicit FileDevice(const std::string& path) : file_(path, O_RDWR) {}
  std::unique_ptr<Transfers> make_transfers(unsigned depth) override { return std::make_unique<Own>(depth, file_.get()); }
  uint64_t bytes() const override { return static_cast<uint64_t>(::lseek(file_.get(), 0, SEEK_END)); }
  uint32_t block_bytes() const override { return 512; }
  int sync() override { return 0; }

 private:
  struct Own : PlainTransfers {
    Own(unsigned depth, int fd) : PlainTransfers(depth), fd(fd) {}
    bool try_begin(const Transfer& transfer) override {
      Transfer own = transfer;
      own.fd = fd;
      return PlainTransfers::try_begin(own);
    }
    size_t poll(std::span<Ended> to) override { return is_stuck ? 0 : PlainTransfers::poll(to); }
    int fd;
  };
  Descriptor file_;
};
std::shared_ptr<BlockDevice> bare_device(const std::string& name, const std::string&) {
  static std::map<std::string, std::weak_ptr<BlockDevice>> open;
  if (!name.ends_with(".device")) return nullptr;
  const std::lock_guard held(asking);
  std::shared_ptr<BlockDevice> device = open[name].lock();
  if (device == nullptr) open[name] = device = std::make_shared<FileDevice>(name);
  return device;
}
void read_device(BlockDevice&, const std::string&, uint64_t, void*, uint64_t) {}
}  // namespace hinterland::native

#ifndef WRITES
#define WRITES true
#endif

using namespace test;
using native::Engine;
using native::instead;
using native::Instead;
using native::InUse;
using native::Store;
using native::Transfer;
using native::Turn;

namespace {

constexpr int64_t kPage = 512, kSet = 8 * (kPage + 64);

std::string folder;

std::string make_file(const std::string& name, const std::string& content) {
  const std::string path = folder + "/" + name;
  ::unlink(path.c_str());
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string numbers(uint64_t bytes, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::string content(bytes, 0);
  for (char& byte : content) byte = static_cast<char>(random() >> 30);
  return content;
}

// Files of the same content, and a store that has them open as copies.
struct Copies {
  Copies(uint64_t count, uint64_t bytes, int64_t budget, bool writable = true)
      : content(numbers(bytes)), store(budget, kPage, 4, 32, Engine::kBest) {
    for (uint64_t i = 0; i < count; ++i) paths.emplace_back(make_file(std::to_string(i), content));
    position = store.volumes.open(paths, writable, 0, 0);
  }
  ~Copies() { instead = nullptr; }

  // Which copy a transfer is for.
  uint64_t copy_of(const Transfer& transfer) const {
    const std::string name = "/proc/self/fd/" + std::to_string(transfer.fd);
    const std::filesystem::path path = std::filesystem::read_symlink(name);
    return static_cast<uint64_t>(std::find(paths.begin(), paths.end(), path) - paths.begin());
  }
  InUse used() { return InUse(store.cache, page(0)); }
  Page page(int64_t byte) const { return static_cast<Page>(position + byte) / kPage; }

  // Calls body(frame) while a page is held.
  template <class Body>
  void acquire(int64_t byte, const Body& body, bool writes = false) {
    for (uint32_t round = 0;; ++round) {
      const CacheLookup found = store.cache.try_acquire(page(byte));
      if (found.outcome == Try::kFailed) store.cache.throw_unread(page(byte), store.cache.lines().status(found.slot));
      if (found.outcome != Try::kHeld) {
        store.cache.progress(round);
        continue;
      }
      body(store.cache.lines().frame(found.slot));
      if (writes) store.cache.lines().wrote(found.slot);
      store.cache.lines().release(found.slot);
      return;
    }
  }
  void check(int64_t byte) {
    acquire(byte, [&](const char* frame) {
      const int64_t count = InUse(store.cache, page(byte)).bytes_in(page(byte));
      CHECK(std::memcmp(frame, content.data() + byte, static_cast<size_t>(count)) == 0, "byte %d", (int)byte);
      for (int64_t i = count; i < kPage; ++i) CHECK(frame[i] == 0, "beyond the end");
    });
  }
  void write(int64_t byte, char value) {
    const int64_t count = InUse(store.cache, page(byte)).bytes_in(page(byte));
    std::fill_n(content.begin() + byte, count, value);
    acquire(byte, [&](char* frame) { std::fill_n(frame, count, value); }, true);
  }
  std::string flushed() {
    try {
      store.cache.flush();
    } catch (const native::StorageError& error) {
      return error.what();
    }
    return {};
  }

  std::string content;
  std::vector<std::filesystem::path> paths;
  Store store;
  int64_t position;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Each page is read once, from whichever copy; those that fail are left out from then on, each failure said once.
void check_failing_reads() {
  constexpr int64_t kBytes = 200 * kPage + 100;
  {
    Copies all(3, kBytes, kSet);
    std::map<uint64_t, int> reads;
    instead = [&](const Transfer& transfer) { return ++reads[all.copy_of(transfer)], Instead{}; };
    for (int64_t byte = 0; byte < kBytes; byte += kPage) all.check(byte);
    CHECK(reads[0] > 50 && reads[1] > 50 && reads[2] > 50 && all.store.counts().reads == 201, "%d reads", reads[0]);
    CHECK(all.store.volumes.take_failures().empty() && all.store.counts().failed_reads == 0, "no failure");
  }
  Copies all(3, kBytes, kSet);
  instead = [&](const Transfer& transfer) {
    const uint64_t copy = all.copy_of(transfer);
    return Instead{copy == 0 ? -EIO : copy == 1 && transfer.offset >= 100 * kPage ? -ENXIO : 0};
  };
  for (int64_t byte = 0; byte < kBytes; byte += kPage) all.check(byte);
  const std::vector<std::string> said = all.store.volumes.take_failures();
  CHECK(said.size() == 2 && contains(said[0], "/0 at offset ") && contains(said[0], "Input/output error; another copy"), "%s",
        said[0].c_str());
  CHECK(contains(said[1], "/1 at offset ") && all.store.volumes.take_failures().empty(), "said once");
  CHECK(all.store.counts().failed_reads == 2, "%d failures", (int)all.store.counts().failed_reads);
  instead = [&](const Transfer&) { return Instead{-EIO}; };
  try {
    all.check(0);
    CHECK(false, "no copy can be read");
  } catch (const native::StorageError& error) {
    CHECK(contains(error.what(), "at offset 0: Input/output error"), "%s", error.what());
  }
  instead = nullptr;
  all.check(0);
}

// Moves of parts, interrupted ones, and blocks that are larger than pages: as with one file.
void check_short_transfers() {
  constexpr int64_t kBytes = 50 * kPage;
  Copies all(2, kBytes, kSet);
  int count = 0;
  instead = [&](const Transfer&) { return ++count % 3 == 0 ? Instead{-EINTR} : count % 7 == 0 ? Instead{0, 100} : Instead{}; };
  for (int64_t byte = 0; byte < kBytes; byte += kPage) all.check(byte);
  for (int64_t byte = 0; byte < kBytes; byte += 3 * kPage) all.write(byte, 'w');
  CHECK(all.flushed().empty() && all.store.counts().failed_reads == 0, "flushed");
  for (const auto& path : all.paths) CHECK(content_of(path) == all.content, "a copy");

  // Each copy has as many tries as one file.
  std::map<uint64_t, int> tries;
  instead = [&](const Transfer& transfer) {
    return Instead{transfer.writes && ++tries[all.copy_of(transfer)] <= 60 ? -EINTR : 0};
  };
  all.write(0, 'x');
  CHECK(all.flushed().empty() && tries[0] == 61 && tries[1] == 61, "%d and %d tries", tries[0], tries[1]);
}

// A write goes to each copy; where one fails it has failed, and is done again, to all, by the next flush.
void check_failing_writes() {
  constexpr int64_t kBytes = 40 * kPage + 7;
  for (const uint64_t bad : {0, 1, 2}) {
    Copies all(3, kBytes, 20 * kSet);
    for (int64_t byte = 0; byte < kBytes; byte += kPage) all.write(byte, 'a');
    std::map<uint64_t, int> writes;
    instead = [&](const Transfer& transfer) {
      const uint64_t copy = all.copy_of(transfer);
      return ++writes[copy], Instead{copy == bad && transfer.offset == 5 * kPage ? -EIO : 0};
    };
    const std::string error = all.flushed();
    CHECK(contains(error, "cannot write " + all.paths[bad].string() + " at offset 2560: Input/output error"), "%s",
          error.c_str());
    CHECK(writes[0] == 41 && writes[1] == 41 && writes[2] == 41 && all.store.counts().writes == 123, "writes");
    for (uint64_t i = 0; i < 3; ++i) CHECK((content_of(all.paths[i]) == all.content) == (i != bad), "copy %d", (int)i);
    instead = nullptr;
    CHECK(all.flushed().empty() && content_of(all.paths[bad]) == all.content, "once more");
    all.check(5 * kPage);

    all.write(0, 'b');
    failing_sync = all.used().volume().descriptors()[bad];
    sync_error = EIO;
    CHECK(contains(all.flushed(), "what was last written to " + all.paths[bad].string() + " may be lost"), "lost");
    failing_sync = -1;
    CHECK(contains(all.flushed(), "may be lost"), "for good");
  }
}

void check_stripes() {
  for (const uint64_t stripe : {512, 1536, 4096})
    for (const uint64_t base : {0, 512}) {
      const std::string content = numbers(77 * 512 + 99, stripe);
      std::vector<std::string> parts(3, std::string(base, 'h'));
      for (uint64_t at = 0; at < content.size(); ++at) parts[at / stripe % 3] += content[at];
      Store store(kSet, kPage, 2, 8, Engine::kBest);
      std::vector<std::filesystem::path> paths;
      for (uint64_t i = 0; i < 3; ++i) paths.emplace_back(make_file(std::to_string(i), parts[i]));
      const int64_t position = store.volumes.open(paths, false, stripe, base);
      std::string read(content.size() - 100, 0);
      const InUse used(store.cache, static_cast<Page>(position) / kPage);
      used.volume().read(51, read.data(), static_cast<int64_t>(read.size()));
      CHECK(read == content.substr(51, read.size()), "past the cache");
      CHECK(store.volumes.open(paths, false, stripe, base) == position &&
                store.volumes.open(paths, false, stripe, base + 512) != position,
            "the same files, spread alike");
      ::truncate(paths[1].c_str(), static_cast<off_t>(base));
      try {
        used.volume().read(0, read.data(), static_cast<int64_t>(read.size()));
        CHECK(false, "a file is shorter");
      } catch (const native::StorageError& error) {
        CHECK(contains(error.what(), "/1 is shorter than when it was opened"), "%s", error.what());
      }
    }
}

// Who asks again and again while no transfer can begin has nothing give way meanwhile.
void check_full_ring() {
  constexpr uint64_t kThere = 6;  // of the eight pages of the only set
  for (const bool prefetches : {false, true}) {
    Store store(kSet, kPage, 1, 2, Engine::kBest);
    const Page first = static_cast<Page>(store.volumes.open({make_file("0", numbers(20 * kPage))}, false, 0, 0)) / kPage;
    const auto ask = [&](Page page) {
      return prefetches ? store.cache.prefetch(first + page) : store.cache.try_acquire(first + page);
    };
    for (Page page = 0; page < kThere; ++page)
      for (uint32_t round = 0; store.cache.prefetch(first + page).outcome != Try::kHeld; ++round) store.cache.progress(round);
    for (const Page page : {10, 11}) CHECK(ask(page).outcome == Try::kStarted, "there is room for two");
    for (int i = 0; i < 100; ++i) CHECK(ask(12).outcome == Try::kRefused, "and for no third");
    for (Page page = 0; page < kThere; ++page)
      CHECK(store.cache.prefetch(first + page).outcome == Try::kHeld, "page %d", (int)page);
    for (uint32_t round = 0; store.cache.prefetch(first + 12).outcome != Try::kHeld; ++round) store.cache.progress(round);
    CHECK(store.counts().reads == kThere + 3, "%d reads", (int)store.counts().reads);
  }
}

// A page on its way from one copy to the next, on a device that takes no transfer now, waits there.
void check_full_device() {
  const std::string content = numbers(20 * kPage), file = make_file("0", content), device = make_file("1.device", content);
  Store store(kSet, kPage, 1, 2, Engine::kBest);
  const Page copied = static_cast<Page>(store.volumes.open({file, device}, true, 0, 0)) / kPage;
  const Page alone = static_cast<Page>(store.volumes.open({device}, false, 0, 0)) / kPage;
  CacheLookup found{};
  for (uint32_t round = 0; (found = store.cache.try_acquire(copied)).outcome != Try::kHeld; ++round)
    store.cache.progress(round);
  std::fill_n(store.cache.lines().frame(found.slot), kPage, 'w');
  store.cache.lines().wrote(found.slot);
  store.cache.lines().release(found.slot);
  const InUse used(store.cache, copied);
  Turn(used).write_back(found.slot);
  native::is_stuck = true;
  for (const Page page : {1, 2}) CHECK(store.cache.prefetch(alone + page).outcome == Try::kStarted, "there is room for two");
  for (uint32_t round = 0; round < 4; ++round) store.cache.progress(round);
  CHECK(content_of(file).substr(0, kPage) == std::string(kPage, 'w') && content_of(device) == content, "one of two");
  native::is_stuck = false;
  store.cache.flush();
  CHECK(content_of(device).substr(0, kPage) == std::string(kPage, 'w') && store.counts().writes == 2, "both, written once");
}

// body(number of the thread) by so many.
template <class Body>
void by_threads(uint64_t count, const Body& body) {
  std::vector<std::jthread> threads;
  for (uint64_t me = 0; me < count; ++me) threads.emplace_back(body, me);
}

// Readers and writers of pages of their own, in a small cache, while two of three copies fail now and then.
void check_threads() {
  constexpr int64_t kThreads = 4, kPages = 64;
  Copies all(3, kThreads * kPages * kPage, 4 * kSet);
  instead = [&](const Transfer& transfer) {
    return Instead{!transfer.writes && transfer.offset / kPage % 5 == 0 && all.copy_of(transfer) != 2 ? -EIO : 0};
  };
  by_threads(kThreads, [&](uint64_t me) {
    std::mt19937_64 random(me);
    for (int round = 0; round < 3000; ++round) {
      const int64_t byte = static_cast<int64_t>(me * kPages + random() % kPages) * kPage;
      if (WRITES && random() % 3 == 0)
        all.write(byte, static_cast<char>(random()));
      else
        all.check(byte);
      if (round % 500 == 0) all.store.cache.flush();
    }
  });
  CHECK(all.flushed().empty(), "flushed");
  for (const auto& path : all.paths) CHECK(content_of(path) == all.content, "a copy");
}

// All that a store can do, by several threads, with files and devices that come and go.
void check_all_at_once() {
  constexpr int64_t kRows = 4096, kRowBytes = 128, kAsked = 200;
  const std::string files[] = {make_file("0", numbers(kRows * kRowBytes)), make_file("1", numbers(kRows * kRowBytes))};
  const std::string devices[] = {make_file("2.device", numbers(kRows * kRowBytes)),
                                 make_file("3.device", numbers(kRows * kRowBytes))};
  const std::vector<std::filesystem::path> opened[] = {
      {files[0], devices[0]}, {files[1]}, {devices[0]}, {devices[1], files[1]}, {devices[1]}};
  const std::string content = numbers(kRows * kRowBytes);
  Store store(14 * kSet, kPage, 3, 4, Engine::kBest);
  by_threads(6, [&](uint64_t me) {
    std::mt19937_64 random(me);
    std::vector<int64_t> rows(kAsked);
    std::vector<char> read(kAsked * kRowBytes);
    for (int round = 0; round < 140; ++round) {
      const int64_t at = store.volumes.open(opened[random() % std::size(opened)], false, 0, 0);
      const native::RowExtent extent{0, at};
      const native::StoredRows table{{&extent, 1}, kRows, kRowBytes};
      for (int64_t& row : rows) row = static_cast<int64_t>(random() % kRows);
      const std::vector<Page> pages = pages_of(store.cache, table, rows.data(), kAsked);
      const uint64_t fingerprint = native::fingerprint_of(at, rows);
      int64_t batch = native::Expected::kNoBatch;
      switch (round % 7) {
        case 0: store.read_ahead.begin(pages); break;
        case 1: native::Pinned(store.cache, {pages.begin(), pages.begin() + 5}).release(); break;
        case 2: store.cache.forget_pages(at); break;
        case 3: InUse(store.cache, pages[0]).volume().read(51, read.data(), kAsked * kRowBytes - 51); break;
        case 4: store.host_pages.begin_run(), store.host_pages.end_run(); break;
        case 5: CHECK(store.volumes.take_failures().empty() && store.counts().failed_reads == 0, "no failure"); break;
        default:
          native::Expected::Told told(1 << 16);
          CHECK(told.add(pages, fingerprint), "there is room for a batch");
          store.cache.expect(std::move(told));
          batch = store.cache.expected().begin(fingerprint);
      }
      gather_stored(store.cache, table, rows.data(), kAsked, read.data(), nullptr, batch);
      store.cache.expected().end(batch);
      for (int64_t i = 0; i < kAsked; ++i)
        CHECK(std::memcmp(&read[i * kRowBytes], &content[rows[i] * kRowBytes], kRowBytes) == 0, "row %d", (int)rows[i]);
      if (round % 20 == 0) store.cache.flush();
      store.cache.close(at);
    }
  });
}

}  // namespace

int main() {
  alarm(300);
  folder = std::filesystem::temp_directory_path() / "hinterland-copies-XXXXXX";
  CHECK(::mkdtemp(folder.data()) != nullptr, "a folder");
  check_failing_reads();
  check_short_transfers();
  check_failing_writes();
  check_stripes();
  check_full_ring();
  check_full_device();
  check_threads();
  check_all_at_once();
  std::filesystem::remove_all(folder);
  return 0;
}
