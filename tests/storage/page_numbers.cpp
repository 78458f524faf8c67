// Page numbers to their last bit, and arrays that begin anywhere: what BaM got wrong (its pull request 39 and its find_range)
// is right here, up to the pebibyte that 41 bits of pages of 512 bytes are.
#include <algorithm>
#include <random>
#include <vector>

#include "check.hpp"
#include "hinterland/storage/cache.hpp"
#include "hinterland/storage/source.hpp"

using namespace hinterland;
using namespace hinterland::storage;

namespace {

constexpr int64_t kLine = 512, kElements = kLine / 8;
constexpr uint64_t kPebibyte = uint64_t{1} << 50;
static_assert(Line::kMostPages * kLine == kPebibyte);

// The eight bytes at a position, which is a multiple of eight.
uint64_t stored(uint64_t position) { return (position + 8) * 0x9e3779b97f4a7c15u; }

// A cache whose device has read at once: a page's frame holds what is stored there.
template <int64_t kWays>
struct Disk {
  explicit Disk(int64_t num_sets)
      : words(num_sets * kWays), statuses(words.size()), sets(num_sets), frames(words.size() * kElements) {
    cache = {{}, words.data(), statuses.data(), sets.data(), reinterpret_cast<char*>(frames.data()), num_sets, kLine};
  }
  Disk(const Disk&) = delete;

  bool try_read(Page page, int64_t slot) {
    ++reads;
    for (int64_t i = 0; i < kElements; ++i) frames[slot * kElements + i] = stored(page * kLine + static_cast<uint64_t>(i) * 8);
    cache.end(slot, false, 0);
    return true;
  }
  bool try_write(Page, int64_t) { return false; }

  std::vector<uint64_t> words;
  std::vector<uint32_t> statuses, sets;
  std::vector<uint64_t> frames;
  Cache<storage::ClockPolicy, kWays> cache;
  int64_t reads = 0;
};

// As many pages as there are slots, which differ in one bit or in some of the highest.
std::vector<Page> alike(Page page) {
  std::vector<Page> pages{page};
  for (int bit = 0; bit < Line::kPageBits; ++bit) pages.push_back(page ^ Page{1} << bit);
  for (Page high = 2; high < 16; ++high) pages.push_back(page ^ high << (Line::kPageBits - 4));
  std::ranges::sort(pages);
  const auto again = std::ranges::unique(pages);
  pages.erase(again.begin(), again.end());
  return pages;
}

// BaM, pull request 39: a page was looked for by less than its number, and found where another lay.
void pages_differ_in_any_bit() {
  for (const Page page : {Page{0}, Page{5}, Page{1} << 32, Line::kMostPages - 1, Line::kMostPages / 2}) {
    Disk<64> disk(1);
    std::vector<Page> pages = alike(page);
    CHECK(pages.size() <= 64 && pages.size() > 50, "%zu pages", pages.size());
    for (size_t i = 0; i < pages.size(); ++i) {
      CHECK(disk.cache.try_acquire(pages[i]).slot == -1, "page %llx is taken for another", static_cast<long long>(pages[i]));
      CHECK(disk.cache.try_acquire(pages[i], disk).outcome == Try::kStarted, "not read");
    }
    for (const Page one : pages) {
      const CacheLookup found = disk.cache.try_acquire(one, disk);
      CHECK(found.outcome == Try::kHeld && disk.frames[found.slot * kElements] == stored(one * kLine), "another page");
      CHECK(Line{disk.words[found.slot]}.page() == one && Line{disk.words[found.slot]}.holders() == 1, "its word");
      release(disk.words[found.slot]);
    }
    CHECK(disk.reads == static_cast<int64_t>(pages.size()), "%lld reads", static_cast<long long>(disk.reads));
  }
}

// The last page's number touches neither flags nor holders.
void states_of_the_last_page() {
  Disk<8> disk(1);
  const Page last = Line::kMostPages - 1;
  const CacheLookup found = disk.cache.try_fill(last, disk);
  CHECK(found.outcome == Try::kStarted && Line{disk.words[found.slot]}.is(Line::kBusy), "not to be filled");
  disk.cache.filled(found.slot);
  for (uint64_t i = 0; i < Line::kHolders; ++i) CHECK(acquire(disk.words[found.slot], last) == Acquired::kHeld, "not there");
  CHECK(Line{disk.words[found.slot]}.holders() == Line::kHolders && Line{disk.words[found.slot]}.page() == last, "its word");
}

// The store of arrays (source.hpp) over such a disk.
struct Store {
  Disk<8>& disk;

  using Lines = Cache<storage::ClockPolicy, 8>;
  Lines lines() const { return disk.cache; }
  template <class Lanes>
  CacheLookup start(bool asks, Page page) const {
    return asks ? disk.cache.try_acquire(page, disk) : CacheLookup{Try::kWait, -1};
  }
  template <class Lanes>
  void prefetch(bool asks, Page page) const {
    if (asks) disk.cache.prefetch(page, disk);
  }
  uint32_t status(int64_t slot) const { return disk.cache.status(slot); }
  template <class Lanes>
  bool progress(uint32_t, uint64_t) const {
    return true;
  }
  uint64_t until() const { return 0; }
  void fail(Page page, uint32_t) const { CHECK(false, "page %llx", static_cast<long long>(page)); }
  bool failed() const { return false; }
};

// BaM's find_range took an array's count for its end: with several ranges in one cache elements came from another's.
void arrays_begin_anywhere() {
  Disk<8> disk(4);
  const Store store{disk};
  std::mt19937_64 random(1);
  for (int turn = 0; turn < 2000; ++turn) {
    const int64_t count = 1 + static_cast<int64_t>(random() % 1000);
    // Mostly near the beginning of the space, near 2^32 pages, or up to its last byte.
    const uint64_t end = turn % 3 == 0   ? kPebibyte
                         : turn % 3 == 1 ? (kLine << 32) + random() % 4096 * 8
                                         : (2048 + random() % 4096) * 8;
    const uint64_t home = end - static_cast<uint64_t>(count) * 8;
    const Stored<uint64_t, Store> array({reinterpret_cast<const void*>(home), nullptr, nullptr, const_cast<Store*>(&store)},
                                        count);
    CHECK(array.page_of(count - 1) == (end - 1) / kLine && array.page_of(0) == home / kLine, "its pages");
    RunReader<uint64_t, Store> reader(array, &store, 0, count);
    for (const int64_t at : {int64_t{0}, count / 2, count - 1}) {
      CHECK(array.read_alone(at) == stored(home + static_cast<uint64_t>(at) * 8), "element %lld", static_cast<long long>(at));
      CHECK(reader.read_alone(at) == stored(home + static_cast<uint64_t>(at) * 8), "element %lld", static_cast<long long>(at));
    }
  }
  for (const uint64_t word : disk.words) CHECK(Line{word}.holders() == 0, "held for ever");
}

// What a device is asked for at the end of the space, for the smallest lines and the largest.
void blocks_of_the_last_page() {
  for (const uint64_t blocks : {uint64_t{1}, uint64_t{128}}) {  // of 512 bytes, in a line
    const BlockRange all{1, 512, 40, Line::kMostPages * blocks};
    SubmissionEntry entry{};
    CHECK(all.address(entry, Opcode::kRead, (Line::kMostPages - 1) * blocks, blocks), "refused");
    CHECK(entry.first_block == 40 + (Line::kMostPages - 1) * blocks && entry.last_block == blocks - 1, "other blocks");
    CHECK(!all.address(entry, Opcode::kRead, Line::kMostPages * blocks, blocks), "past the end");
  }
}

}  // namespace

int main() {
  pages_differ_in_any_bit();
  states_of_the_last_page();
  arrays_begin_anywhere();
  blocks_of_the_last_page();
  return 0;
}
