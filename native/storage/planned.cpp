#include "storage/planned.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/pool.hpp"
#include "core/sort.hpp"
#include "core/thresholds.hpp"
#include "storage/team.hpp"
#include "storage/turn.hpp"

namespace hinterland::native {

using storage::Page, storage::Try;

namespace {

// A row to be visited: where it lies, and its place among those that were asked for.
struct RowVisit {
  int64_t position, place;

  bool operator<(const RowVisit& other) const {
    return position < other.position || (position == other.position && place < other.place);
  }
};

std::unique_ptr<RowVisit[]> by_position(const StoredRows& table, const int64_t* numbers, int64_t count, const int64_t* places) {
  auto visits = std::make_unique_for_overwrite<RowVisit[]>(static_cast<size_t>(count));
  bool ascends = true;
#pragma omp parallel for schedule(static) reduction(&& : ascends) if (count > kRowsVisited)
  for (int64_t i = 0; i < count; ++i) {
    visits[i] = {table.position(numbers[i]), places == nullptr ? i : places[i]};
    ascends = ascends && (i == 0 || numbers[i - 1] <= numbers[i]);
  }
  if (!ascends || table.extents.size() > 1) parallel_sort(visits.get(), visits.get() + count);
  return visits;
}

// Visits in the order of their positions, which threads take some of at a time.
struct Visits {
  std::span<const RowVisit> all;
  int line_shift;
  size_t together;
  std::atomic<size_t> next{0};
  std::atomic<bool> stops{false};

  // Visits [first, second), empty if none is left. Rows that begin in the same page are visited by one thread, and so one that
  // is asked for several times, in the caller's order.
  std::pair<size_t, size_t> take() {
    for (size_t part = next++; part * together < all.size(); part = next++)
      if (const size_t from = cut(part), to = cut(part + 1); from < to) return {from, to};
    return {all.size(), all.size()};
  }

 private:
  size_t cut(size_t part) const {
    size_t at = std::min(part * together, all.size());
    while (at > 0 && at < all.size() && all[at].position >> line_shift == all[at - 1].position >> line_shift) ++at;
    return at;
  }
};

// One thread's visits: pages are asked for in order, as far ahead as there is room, and rows are moved as their pages come.
template <bool kWrites>
class Tour {
 public:
  Tour(PageCache& cache, const InUse& file, Visits& visits, int64_t row_bytes, char* rows, size_t most_ahead, int64_t batch)
      : cache_(cache),
        file_(file),
        visits_(visits),
        row_bytes_(row_bytes),
        rows_(rows),
        most_ahead_(most_ahead),
        batch_(batch),
        writes_through_(static_cast<int64_t>(visits.all.size()) * row_bytes > (cache.num_slots() << cache.line_shift()) / 4) {}

  // Until all rows are moved, or another's tour has failed.
  void run() {
    for (Waiting waiting(cache_); !visits_.stops.load(std::memory_order_relaxed);) {
      const int64_t before = moved_;
      const bool has_room = take_turn();
      if (asked_.empty() && all_taken_) break;
      if (moved_ != before) waiting.got_on();
      if (moved_ != before && has_room) continue;
      if (waiting.is_long()) require_room();
      waiting.wait();
    }
    cache_.count(hits_, misses_, 0);
  }

 private:
  // A page that was asked for, and the visits whose rows have bytes there: they are not moved yet.
  struct Asked {
    Page page;
    int64_t slot;  // where it was when it was last asked for, or -1
    size_t from, to;
    bool overwritten;  // as a whole: it need not be read
  };

  void require_room() const {
    for (const Asked& one : asked_)
      if (one.overwritten || one.slot < 0) cache_.require_room(one.page);
    if (next_.from != next_.to) cache_.require_room(next_.page);
  }

  Page page_of(int64_t position) const { return static_cast<Page>(position) >> cache_.line_shift(); }
  int64_t begin_of(Page page) const { return static_cast<int64_t>(page << cache_.line_shift()); }

  // Asks for pages and moves what has come. False: no more can be asked for now.
  bool take_turn() {
    Turn turn(file_);
    bool has_room = false;
    while (asked_.size() < most_ahead_ && (has_room = ask(turn))) {
    }
    size_t left = 0;
    bool is_stopped = false;  // no more can be written; what was filled now would wait, until the cache is full of such
    for (Asked& one : asked_) {
      is_stopped = is_stopped || (one.overwritten && writes_through_ && !turn.has_room(one.page));
      if (is_stopped || !move_page(turn, one)) asked_[left++] = one;
    }
    asked_.resize(left);
    return has_room && !is_stopped && asked_.size() < most_ahead_;
  }

  // Asks for the next page. False: there is none, or no room for it now.
  bool ask(Turn& turn) {
    if (next_.from == next_.to && !take_more()) return false;
    if (!next_.overwritten && !prefetch(turn, next_, true)) return false;
    asked_.push_back(next_);
    const bool goes_on = end_of(next_.to - 1) > begin_of(next_.page + 1);
    if (next_.to == taken_to_ && !goes_on)
      next_.from = next_.to;
    else
      look_at(goes_on ? next_.page + 1 : page_of(visits_.all[next_.to].position), goes_on ? next_.from : next_.to);
    return true;
  }

  bool take_more() {
    const auto [from, to] = visits_.take();
    all_taken_ = from == to;
    if (all_taken_) return false;
    taken_to_ = to;
    look_at(page_of(visits_.all[from].position), from);
    return true;
  }

  // The next page is this one; its first visit is `from` or after it.
  void look_at(Page page, size_t from) {
    const int64_t begin = begin_of(page), end = begin_of(page + 1);
    while (end_of(from) <= begin) ++from;
    size_t to = from;
    while (to < taken_to_ && visits_.all[to].position < end) ++to;
    next_ = {page, -1, from, to, kWrites && overwrites(page, from, to)};
  }

  int64_t end_of(size_t visit) const { return visits_.all[visit].position + row_bytes_; }

  // Whether the rows of these visits cover all of a page that the file has.
  bool overwrites(Page page, size_t from, size_t to) const {
    int64_t written = begin_of(page);
    const int64_t end = written + file_.bytes_in(page);
    for (; from < to && visits_.all[from].position <= written; ++from) written = std::max(written, end_of(from));
    return written >= end;
  }

  // Has a page read. False: there is no room for it now.
  bool prefetch(Turn& turn, Asked& one, bool counts) {
    const storage::CacheLookup found = turn.prefetch(one.page);
    if (found.outcome == Try::kFull || found.outcome == Try::kRefused) return false;
    one.slot = found.slot;
    if (counts) ++(found.outcome == Try::kStarted ? misses_ : hits_);
    return true;
  }

  // Moves what rows have in a page. False: it is not there yet.
  bool move_page(Turn& turn, Asked& one) {
    if (one.overwritten) return fill_page(turn, one);
    if (one.slot < 0 || !cache_.seen(one.slot).has(one.page)) {  // it has no slot yet, or had to make room again
      prefetch(turn, one, false);
      return false;
    }
    if (cache_.seen(one.slot).is(storage::Line::kBusy)) return false;
    const storage::Acquired held = cache_.acquire(one.slot, one.page);
    if (held == storage::Acquired::kFailed) cache_.throw_unread(one.page, cache_.lines().status(one.slot));
    if (held != storage::Acquired::kHeld) return false;
    move_rows(one, cache_.lines().frame(one.slot));
    if (kWrites) cache_.lines().wrote(one.slot);
    if (batch_ != Expected::kNoBatch) cache_.expected().place(one.page, one.slot, batch_);
    cache_.lines().release(one.slot);
    return true;
  }

  bool fill_page(Turn& turn, const Asked& one) {
    const storage::CacheLookup found = turn.try_fill(one.page);
    if (found.outcome == Try::kFailed)
      storage::forget(cache_.lines().words[found.slot], one.page);  // what could not be read is not needed
    if (found.outcome != Try::kHeld && found.outcome != Try::kStarted) return false;
    move_rows(one, cache_.lines().frame(found.slot));
    if (found.outcome == Try::kStarted) {
      cache_.lines().filled(found.slot);
    } else {
      cache_.lines().wrote(found.slot);
      cache_.lines().release(found.slot);
    }
    if (writes_through_) turn.write_back(found.slot);
    return true;
  }

  void move_rows(const Asked& one, char* frame) {
    const int64_t begin = begin_of(one.page), end = begin_of(one.page + 1);
    for (size_t i = one.from; i < one.to; ++i) {
      const RowVisit& visit = visits_.all[i];
      const int64_t first = std::max(visit.position, begin), bytes = std::min(end_of(i), end) - first;
      char* const row = rows_ + visit.place * row_bytes_ + (first - visit.position);
      char* const there = frame + (first - begin);
      kWrites ? std::memcpy(there, row, static_cast<size_t>(bytes)) : std::memcpy(row, there, static_cast<size_t>(bytes));
    }
    ++moved_;
  }

  PageCache& cache_;
  const InUse& file_;
  Visits& visits_;
  int64_t row_bytes_;
  char* rows_;
  size_t most_ahead_;
  int64_t batch_;
  bool writes_through_;  // pages that are written as a whole are on their way at once: so many would soon have to make room
  std::vector<Asked> asked_;
  Asked next_{0, -1, 0, 0, false};  // to be asked for; no visits: those that were taken are all asked for
  size_t taken_to_ = 0;
  bool all_taken_ = false;
  int64_t moved_ = 0;  // pages
  int64_t hits_ = 0, misses_ = 0;
};

template <bool kWrites>
void visit_rows(PageCache& cache, const StoredRows& table, const int64_t* numbers, int64_t count, char* rows,
                const int64_t* places, int64_t batch) {
  if (count == 0 || table.row_bytes == 0) return;
  const int64_t begun = thread_cpu_ns();
  const auto all = by_position(table, numbers, count, places);
  cache.count(0, 0, thread_cpu_ns() - begun);
  const int64_t together = std::clamp<int64_t>(kBytesVisited / table.row_bytes, 1, kRowsVisited);
  Visits visits{{all.get(), static_cast<size_t>(count)}, cache.line_shift(), static_cast<size_t>(together)};
  const InUse file(cache, static_cast<Page>(all[0].position) >> cache.line_shift());
  const int threads = static_cast<int>(
      std::clamp<int64_t>((count + together - 1) / together, 1, std::min(num_threads(), cache.rings().size())));
  // A quarter of the cache for all of them, so that hardly a set has more on their way than it has room for.
  const size_t most_ahead = static_cast<size_t>(std::max<int64_t>(cache.num_slots() / (4 * threads), 1));
  parallel_team(threads, [&] {
    const int64_t started = thread_cpu_ns();
    try {
      Tour<kWrites>(cache, file, visits, table.row_bytes, rows, most_ahead, batch).run();
    } catch (...) {
      visits.stops = true;
      throw;
    }
    cache.count(0, 0, thread_cpu_ns() - started);
  });
}

}  // namespace

int64_t StoredRows::position(int64_t row) const {
  const auto after = std::ranges::upper_bound(extents, row, {}, &RowExtent::first_row);
  const RowExtent& extent = *(after - 1);
  return extent.position + (row - extent.first_row) * row_bytes;
}

void gather_stored(PageCache& cache, const StoredRows& table, const int64_t* numbers, int64_t count, char* out,
                   const int64_t* places, int64_t batch) {
  visit_rows<false>(cache, table, numbers, count, out, places, batch);
}

void scatter_stored(PageCache& cache, const StoredRows& table, const int64_t* numbers, int64_t count, const char* in) {
  // which is only read
  visit_rows<true>(cache, table, numbers, count, const_cast<char*>(in), nullptr, Expected::kNoBatch);
}

std::vector<Page> pages_of(const PageCache& cache, const StoredRows& table, const int64_t* numbers, int64_t count) {
  std::vector<Page> pages;
  if (table.row_bytes == 0) return pages;
  const auto visits = by_position(table, numbers, count, nullptr);
  for (const RowVisit& visit : std::span(visits.get(), static_cast<size_t>(count))) {
    const Page first = static_cast<Page>(visit.position) >> cache.line_shift();
    const Page last = static_cast<Page>(visit.position + table.row_bytes - 1) >> cache.line_shift();
    for (Page page = pages.empty() ? first : std::max(first, pages.back() + 1); page <= last; ++page) pages.push_back(page);
  }
  return pages;
}

}  // namespace hinterland::native
