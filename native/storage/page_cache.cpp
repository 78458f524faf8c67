#include "storage/page_cache.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/errors.hpp"
#include "core/pool.hpp"
#include "core/thresholds.hpp"
#include "storage/team.hpp"
#include "storage/turn.hpp"

namespace hinterland::native {

using storage::CacheLookup, storage::Line, storage::Page, storage::Try;

namespace {

constexpr auto kLongestRead = std::chrono::seconds(60);  // for one page: a disk that answers takes milliseconds
constexpr auto kNap = std::chrono::milliseconds(1);

}  // namespace

PageCache::PageCache(const Frames& frames, Rings& rings, Volumes& volumes)
    : line_shift_(frames.line_shift),
      rings_(rings),
      volumes_(volumes),
      words_(static_cast<size_t>(frames.slots)),
      statuses_(words_.size()),
      sets_(words_.size() / kWays),
      expected_(frames.slots),
      lines_{expected_.policy(),  words_.data(),        statuses_.data(), sets_.data(),
             frames.memory.get(), frames.slots / kWays, frames.line_bytes},
      kept_(words_, kWays, frames.line_bytes) {}

// What is on its way to several copies goes to all of them.
PageCache::~PageCache() {
  for (Ring& ring : rings_)
    while (ring.transfers.in_flight() != 0) {
      ring.transfers.wait(kNap, 1);
      end_some(ring);
    }
}

CacheLookup PageCache::try_acquire(Page page) {
  const CacheLookup found = lines_.try_acquire(page);
  return found.slot < 0 ? lookup_or_issue(page) : found;
}

CacheLookup PageCache::prefetch(Page page) {
  const CacheLookup found = lines_.look(page);
  return found.slot < 0 ? lookup_or_issue(page) : found;
}

bool PageCache::Device::has_room(Page page) const {
  if (ring == nullptr) return false;
  const bool is_used = volume != nullptr && volume->has(page);
  return is_used ? Volumes::has_room(*ring, *volume) : cache.volumes_.has_room(*ring, page);
}

// Gives a page that is not there a slot and has it read, if there is room for a transfer: before that no page gives way. Who
// waits for room asks again and again, and would empty a set of the cache.
CacheLookup PageCache::lookup_or_issue(Page page, Device& device) {
  return device.has_room(page) ? lines_.lookup_or_issue(page, device) : CacheLookup{Try::kRefused, -1};
}

CacheLookup PageCache::lookup_or_issue(Page page) {
  const TakenRing ring = rings_.try_take();
  Device device{*this, ring.get()};
  return lookup_or_issue(page, device);
}

bool PageCache::begin(const Device& device, Page page, int64_t slot, bool writes) {
  if (device.ring == nullptr) return false;
  Volume* const volume = device.volume != nullptr && device.volume->has(page) ? device.volume : volumes_.find(page);
  if (volume == nullptr) return false;
  const auto status = volumes_.begin(*device.ring, *volume, page, slot, writes);
  if (!status) return false;
  if (*status != 0)
    lines_.end(slot, writes, *status);
  else if (!writes)
    expected_.place(page, slot);
  return true;
}

// Ends what the ring's transfers have ended. The ring is taken.
size_t PageCache::end_some(Ring& ring) {
  Ended ended[64];
  const size_t count = ring.transfers.poll(ended);
  for (size_t i = 0; i < count; ++i)
    if (const auto moved = volumes_.end(ring, ended[i]))
      lines_.end(moved->slot, moved->writes, moved->status);  // its volume may be closed from now on
  return count;
}

void PageCache::submit() {
  Ring& ring = rings_.own();
  if (!ring.try_take()) return;
  ring.transfers.submit();
  ring.give_back();
}

void PageCache::progress(uint32_t round) {
  Ring& own = rings_.own();
  size_t ended = 0;
  bool waits = false;
  if (own.try_take()) {
    ended = end_some(own);
    if (ended == 0 && own.transfers.in_flight() != 0) {
      waits = true;
      // Several at a time where many are on their way: to sleep, to wake and to tell the device of new ones costs more than
      // one.
      own.transfers.wait(kNap, std::max(own.transfers.in_flight() / 8, 1u));
      ended = end_some(own);
    }
    own.give_back();
  }
  if (ended != 0) return;
  for (Ring& ring : rings_) {
    if (&ring == &own || !ring.try_take()) continue;
    ring.transfers.submit();
    ended += end_some(ring);
    ring.give_back();
  }
  if (ended == 0 && !waits) round < 16 ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void PageCache::throw_unread(Page page, uint32_t status) {
  for (uint64_t& word : words_) storage::forget(word, Line{atomic_load(word)}.page());  // others may have failed with it
  throw StorageError(volumes_.sentence(page, false, status));
}

void PageCache::require_room(Page page) const {
  for (int64_t slot = lines_.first_slot(page), end = slot + kWays; slot < end; ++slot)
    if (const Line seen{atomic_load(words_[slot])}; seen.is(Line::kDirty) && seen.is(Line::kFailed))
      throw StorageError(volumes_.sentence(seen.page(), true, lines_.status(slot)));
}

void PageCache::close(int64_t position) {
  const InUse used(*this, static_cast<Page>(position) >> line_shift());
  leave(used.volume());
}

// The last one who leaves a volume closes it.
void PageCache::leave(Volume& volume) {
  if (!volumes_.leave(volume)) return;
  drop_pages(volume, [](int64_t, Line) { return false; });  // or what could not be written would keep a slot for ever
  volumes_.close(volume);
}

// Empties the slots of a volume's pages, but for those of which stays(slot, line) holds, once they are at rest.
template <class Stays>
void PageCache::drop_pages(const Volume& volume, const Stays& stays) {
  for (int64_t slot = 0; slot < num_slots(); ++slot)
    for (uint32_t round = 0;; ++round) {
      const Line seen{atomic_load_acquire(words_[slot])};
      if (seen.page() < volume.first || seen.page() >= volume.end || stays(slot, seen)) break;
      if (seen.is(Line::kBusy | Line::kWriting)) {
        progress(round);
      } else if (!seen.is(Line::kValid | Line::kFailed) || drop(words_[slot], seen)) {
        break;
      }
    }
}

void PageCache::forget_pages(int64_t position) {
  const InUse used(*this, static_cast<Page>(position) >> line_shift());
  drop_pages(used.volume(), [&](int64_t slot, Line line) {
    for (uint32_t round = 0; line.holders() != 0; ++round) {  // who reads it, or writes to it, does not take long
      if (kept_.has(slot)) return true;
      progress(round);
      line = seen(slot);
    }
    return line.is(Line::kDirty);
  });
}

// Every slot that has to be written, in the order of the files, by threads that take some at a time.
class PageCache::Flush {
 public:
  explicit Flush(PageCache& cache) : cache_(cache) {
    for (int64_t slot = 0; slot < cache.num_slots(); ++slot)
      if (const Line seen{atomic_load_acquire(cache.words_[slot])}; seen.is(Line::kDirty | Line::kWriting))
        all_.push_back({seen.page(), slot, false});
    std::ranges::sort(all_, {}, &Due::page);
  }

  int threads() const {
    return static_cast<int>(std::min(static_cast<size_t>(num_threads()), all_.size() / kPagesFlushed + 1));
  }

  // One thread's part: takes slots until none is left. Returns what failed first, or nothing.
  std::string write() {
    std::string error;
    std::vector<Due> under_way;
    for (Waiting waiting(cache_);; waiting.wait()) {
      const size_t before = under_way.size();
      {
        const TakenRing ring = cache_.rings_.try_take();
        Device device{cache_, ring.get()};
        bool refused = false;
        size_t left = 0;
        for (Due& one : under_way)
          if (!is_over(one, device, error, refused)) under_way[left++] = one;
        under_way.resize(left);
        if (under_way.size() != before) waiting.got_on();
        while (!refused) {
          const size_t first = next_.fetch_add(kPagesFlushed, std::memory_order_relaxed);
          if (first >= all_.size()) break;
          for (Due& one : std::span(all_).subspan(first, std::min(kPagesFlushed, all_.size() - first)))
            if (!is_over(one, device, error, refused)) under_way.push_back(one);
        }
      }
      if (under_way.empty()) return error;
    }
  }

 private:
  struct Due {
    Page page;
    int64_t slot;
    bool is_begun;
  };

  // Whether what a slot held as the flush began is written, or could not be; has it written if it is not yet.
  bool is_over(Due& due, Device& device, std::string& error, bool& refused) {
    const Line seen{atomic_load_acquire(cache_.words_[due.slot])};
    if (seen.is(Line::kWriting)) return false;
    if (!seen.is(Line::kDirty)) return true;
    if (due.is_begun) {  // written once since, and dirty again: by a newer write, or because it failed
      if (seen.is(Line::kFailed) && error.empty())
        error = cache_.volumes_.sentence(seen.page(), true, cache_.lines_.status(due.slot));
      return true;
    }
    if (refused) return false;
    due.is_begun = cache_.lines_.write_back(due.slot, device) == Try::kStarted;
    refused = !due.is_begun;
    return false;
  }

  PageCache& cache_;
  std::vector<Due> all_;
  std::atomic<size_t> next_{0};
};

void PageCache::flush() {
  const int64_t begun = thread_cpu_ns();
  Flush flush(*this);
  cpu_ns_ += thread_cpu_ns() - begun;
  std::string error;
  std::mutex guard;
  parallel_team(flush.threads(), [&] {
    const int64_t started = thread_cpu_ns();
    const std::string failed = flush.write();
    cpu_ns_ += thread_cpu_ns() - started;
    const std::lock_guard held(guard);
    if (error.empty()) error = failed;
  });
  const std::string lost = volumes_.sync();
  if (!error.empty() || !lost.empty()) throw StorageError(error.empty() ? lost : error);
}

void PageCache::add_to(StoreCounts& counts) const {
  counts.hits += hits_;
  counts.misses += misses_;
  counts.cpu_ns += cpu_ns_;
  counts.pinned = kept_.slots();
  counts.expected_bytes = expected_.bytes();
}

int64_t InUse::bytes_in(Page page) const {
  return std::min(cache_.lines_.line_bytes,
                  volume_.bytes() - (static_cast<int64_t>(page - volume_.first) << cache_.line_shift_));
}

CacheLookup Turn::prefetch(Page page) {
  const CacheLookup found = device_.cache.lines_.look(page);
  return found.slot < 0 ? device_.cache.lookup_or_issue(page, device_) : found;
}

CacheLookup Turn::try_fill(Page page) {
  const CacheLookup found = device_.cache.lines_.try_fill(page, device_);
  if (found.outcome == Try::kStarted) device_.cache.expected_.place(page, found.slot);
  return found;
}

bool Turn::has_room(Page page) {
  if (device_.has_room(page)) return true;
  if (device_.ring != nullptr) device_.cache.end_some(*device_.ring);
  return device_.has_room(page);
}

bool Waiting::is_long() const { return std::chrono::steady_clock::now() - since_ > kRoomPatience; }

void Waiting::wait() {
  if (std::chrono::steady_clock::now() - since_ > kLongestRead)
    throw StorageError("the disk has not answered for a minute; see the system's log (dmesg)");
  cache_.progress(round_++);
}

}  // namespace hinterland::native
