#include "storage/planned.hpp"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <parallel/algorithm>
#include <vector>

#include "core/parallel.hpp"

namespace hinterland::native {

using storage::Page, storage::Try;

namespace {

constexpr int64_t kFewRows = 256;  // are visited by one thread: chosen, not measured

// A row to be visited: where it lies, and its place among those that were asked for.
struct Visit {
  int64_t position, place;

  bool operator<(const Visit& other) const {
    return position < other.position || (position == other.position && place < other.place);
  }
};

std::vector<Visit> by_position(const StoredRows& table, const int64_t* numbers, int64_t count, const int64_t* places) {
  std::vector<Visit> visits(static_cast<size_t>(count));
  bool ascends = true;
#pragma omp parallel for schedule(static) reduction(&& : ascends) if (count > kFewRows)
  for (int64_t i = 0; i < count; ++i) {
    visits[i] = {table.position(numbers[i]), places == nullptr ? i : places[i]};
    ascends = ascends && (i == 0 || numbers[i - 1] <= numbers[i]);
  }
  if (!ascends || table.extents.size() > 1) __gnu_parallel::sort(visits.begin(), visits.end());
  return visits;
}

// One thread's visits, in order: pages are asked for as far ahead as there is room, and rows are moved as their pages come.
template <bool kWrites>
class Tour {
 public:
  Tour(Store& store, std::span<const Visit> visits, int64_t row_bytes, char* rows, int64_t most_ahead)
      : store_(store), visits_(visits), row_bytes_(row_bytes), rows_(rows), most_ahead_(most_ahead) {}

  // Until all rows are moved, or `stops`.
  void run(const std::atomic<bool>& stops) {
    auto since = std::chrono::steady_clock::now();
    for (uint32_t round = 0; next_ < visits_.size() && !stops.load(std::memory_order_relaxed); ++round) {
      const size_t before = next_;
      const int64_t moved_before = moved_;
      look_ahead();
      while (next_ < visits_.size() && move_page()) {
      }
      if (next_ != before || moved_ != moved_before) {
        since = std::chrono::steady_clock::now(), round = 0;
        if (asked_ < pages_end()) continue;  // there is room for more
      }
      if (next_ == visits_.size()) break;
      Store::require_answer(since);
      store_.progress(round);
    }
    store_.count(hits_, misses_, 0);
  }

 private:
  Page page_of(int64_t position) const { return static_cast<Page>(position) >> store_.line_shift(); }
  int64_t begin_of(Page page) const { return static_cast<int64_t>(page << store_.line_shift()); }
  Page pages_end() const { return page_of(visits_.back().position + row_bytes_ - 1) + 1; }

  // Has the pages of the next rows read. Positions ascend, so what was asked for is all before asked_.
  void look_ahead() {
    for (; ahead_ < visits_.size(); ++ahead_) {
      const Page first = std::max(asked_, page_of(visits_[ahead_].position));
      const Page last = page_of(visits_[ahead_].position + row_bytes_ - 1);
      for (Page page = first; page <= last; ++page) {
        if (static_cast<int64_t>(pages_asked_ - pages_left_) >= most_ahead_) return;
        if (!overwrites(ahead_, page)) {
          const Try outcome = store_.prefetch(page).outcome;
          if (outcome == Try::kFull || outcome == Try::kRefused) return;
          ++(outcome == Try::kStarted ? misses_ : hits_);
        }
        asked_ = page + 1;
        ++pages_asked_;
      }
    }
  }

  // Whether rows from visit `i` on, the first that is there, are written to all of a page: then it need not be read.
  bool overwrites(size_t i, Page page) const {
    if constexpr (!kWrites) return false;
    const int64_t begin = begin_of(page), end = begin + store_.bytes_in(page);
    if (visits_[i].position > begin) return false;
    int64_t written = visits_[i].position + row_bytes_;
    for (++i; i < visits_.size() && written < end; ++i) {
      // A row that is asked for again, and begins before this page, has its turn after it.
      if (visits_[i].position < begin || visits_[i].position > written) return false;
      written = visits_[i].position + row_bytes_;
    }
    return written >= end;
  }

  // Moves what the next rows have in their next page. False: that is not there yet.
  bool move_page() {
    const Page page = page_of(visits_[next_].position + moved_);
    const bool overwritten = overwrites(next_, page);
    const storage::Found found = overwritten ? store_.try_fill(page) : store_.try_hold(page);
    if (found.outcome == Try::kFailed) {
      if (!overwritten) store_.throw_failed(page, found.slot);
      store_.forget(found.slot, page);  // what could not be read is not needed
    }
    const bool fills = overwritten && found.outcome == Try::kStarted;
    if (found.outcome != Try::kHeld && !fills) return false;
    move_rows(page, store_.frame(found.slot));
    if (fills) {
      store_.filled(found.slot);
    } else {
      if (kWrites) store_.wrote(found.slot);
      store_.release(found.slot);
    }
    if (page != left_) left_ = page, ++pages_left_;
    return true;
  }

  void move_rows(Page page, char* frame) {
    const int64_t begin = begin_of(page), end = begin + store_.line_bytes();
    while (next_ < visits_.size()) {
      const Visit& visit = visits_[next_];
      const int64_t position = visit.position + moved_, bytes = std::min(row_bytes_ - moved_, end - position);
      if (position < begin || position >= end) return;
      char* const row = rows_ + visit.place * row_bytes_ + moved_;
      char* const there = frame + (position - begin);
      kWrites ? std::memcpy(there, row, static_cast<size_t>(bytes)) : std::memcpy(row, there, static_cast<size_t>(bytes));
      moved_ += bytes;
      if (moved_ == row_bytes_) moved_ = 0, ++next_;
    }
  }

  Store& store_;
  std::span<const Visit> visits_;
  int64_t row_bytes_;
  char* rows_;
  int64_t most_ahead_;
  size_t next_ = 0, ahead_ = 0;  // of the visits: whose row is moved next, and whose pages are asked for next
  int64_t moved_ = 0;            // bytes of that row
  Page asked_ = 0, left_ = ~Page{0};
  uint64_t pages_asked_ = 0, pages_left_ = 0;
  int64_t hits_ = 0, misses_ = 0;
};

// Where part `part` of `parts` begins. Rows that begin in the same page are visited by one thread, and so one that is asked for
// several times, in the caller's order.
size_t cut(const std::vector<Visit>& visits, int line_shift, size_t part, size_t parts) {
  size_t at = visits.size() * part / parts;
  while (at > 0 && at < visits.size() && visits[at].position >> line_shift == visits[at - 1].position >> line_shift) ++at;
  return at;
}

template <bool kWrites>
void visit_rows(Store& store, const StoredRows& table, const int64_t* numbers, int64_t count, char* rows,
                const int64_t* places) {
  if (count == 0 || table.row_bytes == 0) return;
  const int64_t begun = thread_cpu_ns();
  const std::vector<Visit> visits = by_position(table, numbers, count, places);
  store.count(0, 0, thread_cpu_ns() - begun);
  const int threads = static_cast<int>(std::clamp<int64_t>(count / kFewRows, 1, std::min(num_threads(), store.threads())));
  // A quarter of the cache for all of them, so that hardly a set has more on their way than it has room for.
  const int64_t most_ahead = std::max<int64_t>(store.num_slots() / (4 * threads), 1);
  std::exception_ptr first;
  std::atomic<bool> failed{false};
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    const int64_t started = thread_cpu_ns();
    const size_t part = static_cast<size_t>(omp_get_thread_num()), parts = static_cast<size_t>(omp_get_num_threads());
    const size_t from = cut(visits, store.line_shift(), part, parts), to = cut(visits, store.line_shift(), part + 1, parts);
    try {
      if (from < to)
        Tour<kWrites>(store, std::span(visits).subspan(from, to - from), table.row_bytes, rows, most_ahead).run(failed);
    } catch (...) {
      if (!failed.exchange(true)) first = std::current_exception();
    }
    store.count(0, 0, thread_cpu_ns() - started);
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace

int64_t StoredRows::position(int64_t row) const {
  const auto after = std::ranges::upper_bound(extents, row, {}, &RowExtent::first_row);
  const RowExtent& extent = *(after - 1);
  return extent.position + (row - extent.first_row) * row_bytes;
}

int64_t first_outside(const int64_t* numbers, int64_t count, int64_t rows) {
  for (int64_t i = 0; i < count; ++i)
    if (static_cast<uint64_t>(numbers[i]) >= static_cast<uint64_t>(rows)) return i;
  return -1;
}

void gather_stored(Store& store, const StoredRows& table, const int64_t* numbers, int64_t count, char* out,
                   const int64_t* places) {
  visit_rows<false>(store, table, numbers, count, out, places);
}

void scatter_stored(Store& store, const StoredRows& table, const int64_t* numbers, int64_t count, const char* in) {
  visit_rows<true>(store, table, numbers, count, const_cast<char*>(in), nullptr);  // which is only read
}

std::vector<Page> pages_of(const Store& store, const StoredRows& table, const int64_t* numbers, int64_t count) {
  std::vector<Page> pages;
  if (table.row_bytes == 0) return pages;
  for (const Visit& visit : by_position(table, numbers, count, nullptr)) {
    const Page first = static_cast<Page>(visit.position) >> store.line_shift();
    const Page last = static_cast<Page>(visit.position + table.row_bytes - 1) >> store.line_shift();
    for (Page page = pages.empty() ? first : std::max(first, pages.back() + 1); page <= last; ++page) pages.push_back(page);
  }
  return pages;
}

void read_ahead(Store& store, const StoredRows& table, const int64_t* numbers, int64_t count) {
  std::vector<Page> pages = pages_of(store, table, numbers, count);
  if (!pages.empty()) store.read_ahead(std::move(pages));
}

}  // namespace hinterland::native
