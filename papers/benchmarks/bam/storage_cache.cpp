// Ways to organise the software cache and to choose what gives way, on traces of pages: what benchmarks/storage_cache.py
// measures, and what tests/storage/test_policies.py compares with simulators. A device that has read at once stands in for a
// disk.
//
//   storage_cache rates SLOTS TRACE    hits of each organisation and policy on a file of page numbers (uint64)
//   storage_cache costs SLOTS THREADS ROUNDS    nanoseconds of a hit and of a miss, where threads do nothing else; bytes of a
// line
//   storage_cache conflicts SLOTS    misses of random reads of pages that would all fit
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <list>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "hinterland/storage/cache.hpp"
#include "hinterland_papers/bam/fifo.hpp"

using namespace hinterland;
using namespace hinterland::storage;
using hinterland::bam::Fifo;

namespace {

// CLOCK as others have it: a page has one set.
struct OneSet : storage::ClockPolicy {
  static constexpr bool kTwoSets = false;
};

// Any page in any slot, by a hash table of chains beside the slots: the organisation that has no conflicts. Looked up without
// locks; a chain changes under its head's lock, which is tried and never waited for. Only for reads.
template <class Replacement>
struct Chained {
  uint64_t* words;     // Line, of each slot
  uint32_t* statuses;  // as the other cache's
  uint32_t* heads;     // (slot + 1) << 1 | a lock; 0: none
  uint32_t* nexts;     // slot + 1 of the next in the chain of each slot
  uint32_t* hand;
  int64_t slots;  // and heads

  int64_t num_slots() const { return slots; }

  template <class Device>
  CacheLookup try_acquire(Page page, Device& device) const {
    Line seen{0};
    const int64_t slot = find(page, seen);
    if (slot < 0) return start(page, device);
    if (acquire(words[slot], page) != Acquired::kHeld) return {Try::kWait, slot};
    if (Replacement::kMarksUse && !seen.is(Line::kUsed)) atomic_or(words[slot], Line::kUsed);
    return {Try::kHeld, slot};
  }
  void end(int64_t slot, bool, uint32_t) const { end_read(words[slot], Read::kArrived); }

 private:
  static constexpr int kMostSteps = 64;  // a chain that changes meanwhile may lead on for ever

  int64_t head_of(Page page) const {
    const uint64_t mixed = (page ^ page >> 31) * 0x9e3779b97f4a7c15ull;
    return static_cast<int64_t>(((mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9ull >> 32) * static_cast<uint64_t>(slots) >> 32);
  }

  int64_t find(Page page, Line& seen) const {
    uint32_t at = atomic_load_acquire(heads[head_of(page)]) >> 1;
    for (int step = 0; at != 0 && step < kMostSteps; ++step, at = atomic_load(nexts[at - 1]))
      if ((seen = {atomic_load(words[at - 1])}).has(page)) return at - 1;
    return -1;
  }

  bool try_lock(int64_t head, uint32_t& first) const {
    const uint32_t open = atomic_load(heads[head]) & ~1u;
    first = open >> 1;
    return atomic_cas_acquire(heads[head], open, open | 1) == open;
  }
  void unlock(int64_t head, uint32_t first) const { atomic_store_release(heads[head], first << 1); }

  template <class Device>
  CacheLookup start(Page page, Device& device) const {
    const int64_t head = head_of(page);
    uint32_t first;
    if (!try_lock(head, first)) return {Try::kWait, -1};
    Line seen{0};
    const int64_t found = find(page, seen), slot = found >= 0 ? -1 : evict(page, head, first);
    if (slot >= 0) {
      atomic_store(nexts[slot], first);
      first = static_cast<uint32_t>(slot + 1);
    }
    unlock(head, first);
    if (slot < 0) return {found >= 0 ? Try::kWait : Try::kFull, found};
    device.try_read(page, slot);
    return {Try::kStarted, slot};
  }

  int64_t evict(Page page, int64_t head, uint32_t& first) const {
    for (int64_t looks = 0; looks < 2 * slots; ++looks) {
      const int64_t slot = atomic_add(*hand, 1u) % static_cast<uint32_t>(slots);
      const Line seen{atomic_load(words[slot])};
      if (Replacement::kMarksUse && seen.is(Line::kUsed)) {
        atomic_and(words[slot], ~Line::kUsed);
      } else if (seen.is_free() && take(slot, seen, page, head, first)) {
        return slot;
      }
    }
    return -1;
  }

  // Claims the slot and takes it out of its page's chain, which may be the one that is locked already.
  bool take(int64_t slot, Line seen, Page page, int64_t head, uint32_t& first) const {
    const bool chained = seen.is(Line::kValid);
    const int64_t old = chained ? head_of(seen.page()) : head;
    uint32_t old_first = first;
    if (old != head && !try_lock(old, old_first)) return false;
    const bool claimed = claim(words[slot], seen, page, Replacement::kMarksUse ? Line::kUsed : 0);
    if (claimed && chained) unlink(slot, old_first);
    if (old != head)
      unlock(old, old_first);
    else
      first = old_first;
    return claimed;
  }

  void unlink(int64_t slot, uint32_t& first) const {
    const uint32_t next = atomic_load(nexts[slot]);
    if (first == slot + 1) {
      first = next;
      return;
    }
    uint32_t at = first;
    while (atomic_load(nexts[at - 1]) != slot + 1) at = atomic_load(nexts[at - 1]);
    atomic_store(nexts[at - 1], next);
  }
};

// A cache and the memory of its words; frames are not touched.
template <class Replacement, int64_t kWays>
struct InSets {
  static constexpr double kBytes = 12 + 4. / kWays + (Replacement::kKnowsUses ? 4 : 0);
  using Type = Cache<Replacement, kWays>;
  explicit InSets(int64_t slots) : words(slots), statuses(slots), sets(slots / kWays), next_uses(slots), cache(made()) {}
  Type made() {
    Replacement replacement;
    if constexpr (Replacement::kKnowsUses) replacement = {next_uses.data(), now.data()};
    return {replacement, words.data(), statuses.data(), sets.data(), nullptr, static_cast<int64_t>(sets.size()), 4096};
  }
  std::vector<uint64_t> words;
  std::vector<uint32_t> statuses, sets, next_uses;
  std::vector<uint32_t> now{1};
  Type cache;
};

template <class Replacement>
struct InChains {
  static constexpr double kBytes = 20;
  using Type = Chained<Replacement>;
  explicit InChains(int64_t slots)
      : words(slots), statuses(slots), heads(slots), nexts(slots), cache{words.data(), statuses.data(), heads.data(),
                                                                         nexts.data(), hand.data(),     slots} {}
  std::vector<uint64_t> words;
  std::vector<uint32_t> statuses, heads, nexts;
  std::vector<uint32_t> hand{0};
  Type cache;
};

template <class CacheType>
struct Instant {
  const CacheType& cache;
  int64_t reads = 0;
  bool try_read(Page, int64_t slot) {
    ++reads;
    cache.end(slot, false, 0);
    return true;
  }
  bool try_write(Page, int64_t) { return false; }
};

// Reads the page, and returns the slot where it was.
template <class CacheType>
int64_t visit(const CacheType& cache, Instant<CacheType>& device, Page page) {
  while (true) {
    const CacheLookup found = cache.try_acquire(page, device);
    if (found.outcome != Try::kHeld) continue;
    release(cache.words[found.slot]);
    return found.slot;
  }
}

// When each page of the trace is visited next, counted from 1; 0: never.
std::vector<uint32_t> next_uses(const std::vector<Page>& trace) {
  std::vector<uint32_t> next(trace.size());
  std::unordered_map<Page, uint32_t> seen;
  for (size_t i = trace.size(); i-- > 0;) {
    uint32_t& at = seen[trace[i]];
    next[i] = at;
    at = static_cast<uint32_t>(i + 1);
  }
  return next;
}

template <class Made>
int64_t hits(int64_t slots, const std::vector<Page>& trace) {
  Made made(slots);
  Instant<typename Made::Type> device{made.cache};
  for (const Page page : trace) visit(made.cache, device, page);
  return static_cast<int64_t>(trace.size()) - device.reads;
}

template <int64_t kWays>
int64_t belady_hits(int64_t slots, const std::vector<Page>& trace, const std::vector<uint32_t>& next) {
  InSets<Belady, kWays> made(slots);
  Instant<Cache<Belady, kWays>> device{made.cache};
  for (size_t i = 0; i < trace.size(); ++i) {
    made.now[0] = static_cast<uint32_t>(i + 1);
    made.cache.expect(visit(made.cache, device, trace[i]), next[i]);
  }
  return static_cast<int64_t>(trace.size()) - device.reads;
}

// The page that was visited longest ago gives way; of `sets` sets, to which set_of deals pages.
template <class SetOf>
int64_t lru_hits(int64_t sets, int64_t ways, const std::vector<Page>& trace, const SetOf& set_of) {
  std::vector<std::list<Page>> order(sets);
  std::unordered_map<Page, std::list<Page>::iterator> where;
  int64_t hits = 0;
  for (const Page page : trace) {
    std::list<Page>& set = order[set_of(page)];
    if (const auto found = where.find(page); found != where.end()) {
      ++hits;
      set.splice(set.begin(), set, found->second);
      continue;
    }
    if (static_cast<int64_t>(set.size()) == ways) {
      where.erase(set.back());
      set.pop_back();
    }
    set.push_front(page);
    where[page] = set.begin();
  }
  return hits;
}

// The page that is needed last gives way, of all.
int64_t optimal_hits(int64_t slots, const std::vector<Page>& trace, const std::vector<uint32_t>& next) {
  std::set<std::pair<uint32_t, Page>> there;  // by their next visit
  std::unordered_map<Page, uint32_t> when;
  int64_t hits = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    const auto found = when.find(trace[i]);
    if (found != when.end()) {
      ++hits;
      there.erase({found->second, trace[i]});
    } else if (static_cast<int64_t>(there.size()) == slots) {
      when.erase(there.rbegin()->second);
      there.erase(std::prev(there.end()));
    }
    when[trace[i]] = next[i] - 1;  // 0, never, comes last
    there.insert({next[i] - 1, trace[i]});
  }
  return hits;
}

// The set that each page of the trace may lie in, as the cache shows it.
template <int64_t kWays>
std::unordered_map<Page, int64_t> sets_of(int64_t slots, const std::vector<Page>& trace) {
  InSets<Fifo, kWays> made(slots);
  Instant<Cache<Fifo, kWays>> device{made.cache};
  std::unordered_map<Page, int64_t> sets;
  for (const Page page : trace) sets[page] = visit(made.cache, device, page) / kWays;
  return sets;
}

void print(const std::string& organisation, const char* policy, int64_t hits) {
  std::printf("%s\t%s\t%lld\n", organisation.c_str(), policy, static_cast<long long>(hits));
}

template <int64_t kWays>
void rates_of_sets(int64_t slots, const std::vector<Page>& trace, const std::vector<uint32_t>& next) {
  const std::string name = std::to_string(kWays) + " ways";
  const auto sets = sets_of<kWays>(slots, trace);
  print(name, "clock", hits<InSets<OneSet, kWays>>(slots, trace));
  print(name, "fifo", hits<InSets<Fifo, kWays>>(slots, trace));
  print(name, "lru", lru_hits(slots / kWays, kWays, trace, [&](Page page) { return sets.at(page); }));
  print(name, "belady", belady_hits<kWays>(slots, trace, next));
}

void rates(int64_t slots, const char* path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<Page> trace(static_cast<size_t>(file.tellg()) / sizeof(Page));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(trace.data()), static_cast<std::streamsize>(trace.size() * sizeof(Page)));
  const std::vector<uint32_t> next = next_uses(trace);
  rates_of_sets<4>(slots, trace, next);
  rates_of_sets<8>(slots, trace, next);
  rates_of_sets<16>(slots, trace, next);
  rates_of_sets<32>(slots, trace, next);
  print("hash", "clock", hits<InChains<storage::ClockPolicy>>(slots, trace));
  print("hash", "fifo", hits<InChains<Fifo>>(slots, trace));
  print("hash", "lru", lru_hits(1, slots, trace, [](Page) { return 0; }));
  print("hash", "belady", optimal_hits(slots, trace, next));
}

// Nanoseconds of one visit, where each thread makes `count` of them; thread i visits page_of(i, k). A cache that goes by what
// is needed is told that all is, at some time.
template <class Made, class PageOf>
double time_of(Made& made, int threads, int64_t count, const PageOf& page_of) {
  std::barrier start(threads);
  std::vector<double> took(threads);
  std::vector<std::thread> running;
  for (int me = 0; me < threads; ++me)
    running.emplace_back([&, me] {
      Instant<typename Made::Type> device{made.cache};
      start.arrive_and_wait();
      const auto begun = std::chrono::steady_clock::now();
      for (int64_t k = 0; k < count; ++k) {
        [[maybe_unused]] const int64_t slot = visit(made.cache, device, page_of(me, k));
        if constexpr (requires { made.cache.next_uses; }) made.cache.expect(slot, static_cast<uint32_t>(1 + k));
      }
      took[me] = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begun).count();
    });
  for (std::thread& thread : running) thread.join();
  double sum = 0;
  for (const double one : took) sum += one;
  return sum / threads / static_cast<double>(count);
}

constexpr int64_t kVisits = 100'000;

// What a visit costs where the page is there, in any order, and where it never is: the best of short runs.
template <class Made>
struct Costs {
  const char *organisation, *policy;
  int64_t slots;
  int threads;
  Made made{slots};
  std::vector<std::vector<Page>> drawn{static_cast<size_t>(threads)};
  Page fresh = static_cast<Page>(slots);
  double hit = 1e30, miss = 1e30;

  void prepare() {
    Instant<typename Made::Type> device{made.cache};
    std::mt19937_64 random(1);
    const auto there = static_cast<uint64_t>(slots / 2);
    for (Page page = 0; page < there; ++page) visit(made.cache, device, page);
    for (auto& pages : drawn)
      for (int64_t k = 0; k < kVisits; ++k) pages.push_back(random() % there);
  }
  void run_hits() {
    hit = std::min(hit, time_of(made, threads, kVisits, [&](int me, int64_t k) { return drawn[me][k]; }));
  }
  void run_misses() {
    const auto page_of = [&](int me, int64_t k) { return fresh + static_cast<Page>(me * kVisits + k); };
    miss = std::min(miss, time_of(made, threads, kVisits, page_of));
    fresh += static_cast<Page>(threads * kVisits);
  }
  void print() const { std::printf("%s\t%s\t%f\t%f\t%f\n", organisation, policy, hit, miss, Made::kBytes); }
};

template <int64_t kWays>
auto costs_of_sets(const char* name, int64_t slots, int threads) {
  return std::tuple{Costs<InSets<OneSet, kWays>>{name, "clock", slots, threads},
                    Costs<InSets<Fifo, kWays>>{name, "fifo", slots, threads},
                    Costs<InSets<Belady, kWays>>{name, "belady", slots, threads}};
}

// By turns: others may use the machine.
void costs(int64_t slots, int threads, int rounds) {
  auto all = std::tuple_cat(costs_of_sets<4>("4 ways", slots, threads), costs_of_sets<8>("8 ways", slots, threads),
                            costs_of_sets<16>("16 ways", slots, threads), costs_of_sets<32>("32 ways", slots, threads),
                            std::tuple{Costs<InChains<storage::ClockPolicy>>{"hash", "clock", slots, threads},
                                       Costs<InChains<Fifo>>{"hash", "fifo", slots, threads}});
  const auto each = [&](const auto& what) { std::apply([&](auto&... one) { (what(one), ...); }, all); };
  each([](auto& one) { one.prepare(); });
  for (int round = 0; round < rounds; ++round) each([](auto& one) { one.run_hits(); });
  for (int round = 0; round < rounds; ++round) each([](auto& one) { one.run_misses(); });
  each([](auto& one) { one.print(); });
}

// Of random reads of so many pages, after all of them were read.
template <class Made>
void conflicts_of(const std::string& name, int64_t slots) {
  for (const double fill : {0.5, 0.75, 0.9, 1.0}) {
    Made made(slots);
    Instant<typename Made::Type> device{made.cache};
    const auto pages = static_cast<int64_t>(fill * static_cast<double>(slots));
    for (int64_t page = 0; page < pages; ++page) visit(made.cache, device, static_cast<Page>(page));
    device.reads = 0;
    std::mt19937_64 random(2);
    const int64_t count = 8 * slots;
    for (int64_t k = 0; k < count; ++k) visit(made.cache, device, random() % static_cast<uint64_t>(pages));
    std::printf("%s\t%g\t%f\n", name.c_str(), fill, static_cast<double>(device.reads) / static_cast<double>(count));
  }
}

void conflicts(int64_t slots) {
  conflicts_of<InSets<OneSet, 4>>("4 ways", slots);
  conflicts_of<InSets<OneSet, 8>>("8 ways", slots);
  conflicts_of<InSets<storage::ClockPolicy, 8>>("8 ways of two sets", slots);
  conflicts_of<InSets<OneSet, 16>>("16 ways", slots);
  conflicts_of<InSets<OneSet, 32>>("32 ways", slots);
  conflicts_of<InChains<storage::ClockPolicy>>("hash", slots);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  const int64_t slots = argc > 2 ? std::atoll(argv[2]) : 0;
  if (what == "rates" && argc == 4)
    rates(slots, argv[3]);
  else if (what == "costs" && argc == 5)
    costs(slots, std::atoi(argv[3]), std::atoi(argv[4]));
  else if (what == "conflicts")
    conflicts(slots);
  else
    return 2;
}
