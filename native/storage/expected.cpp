#include "storage/expected.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/pool.hpp"
#include "core/sort.hpp"

namespace hinterland::native {

using storage::Line, storage::Page;

uint64_t fingerprint_of(int64_t table, std::span<const int64_t> rows) {
  uint64_t sum = static_cast<uint64_t>(table) + rows.size();
  for (const int64_t row : rows) {
    uint64_t mixed = (static_cast<uint64_t>(row) + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
    sum += mixed ^ mixed >> 31;
  }
  return std::max<uint64_t>(sum, 1);
}

Expected::Told::Told(int64_t bytes) : most_(static_cast<size_t>(bytes) / sizeof(uint64_t)) { uses_.reserve(most_); }

bool Expected::Told::add(const std::vector<Page>& pages, uint64_t fingerprint) {
  const uint64_t batch = fingerprints_.size();
  if (uses_.size() + pages.size() + batch + 1 > most_ || batch + 1 >= uint64_t{1} << kBatchBits) return false;
  for (const Page page : pages) uses_.push_back(page << kBatchBits | batch);
  fingerprints_.push_back(fingerprint);
  return true;
}

void Expected::replace(Told told, std::span<uint64_t> words) {
  {
    const std::unique_lock held(mutex_);
    forget();
    move_on();
  }
  told.uses_.shrink_to_fit();
  parallel_sort(told.uses_.data(), told.uses_.data() + told.uses_.size());
  const std::unique_lock held(mutex_);
  forget();  // another's, which came meanwhile
  uses_ = std::move(told.uses_);
  fingerprints_ = std::move(told.fingerprints_);
  move_on();
  if (!any_) return;
  const storage::Belady policy = this->policy();
#pragma omp parallel for schedule(static) if (words.size() > kItemsOfChunk)
  for (size_t slot = 0; slot < words.size(); ++slot)
    policy.expect(static_cast<int64_t>(slot), next_use(Line{atomic_load(words[slot])}.page(), current_));
}

// The caller has mutex_.
void Expected::forget() {
  first_ = next_ = first_ + static_cast<int64_t>(fingerprints_.size());
  std::vector<uint64_t>().swap(uses_);
  std::vector<uint64_t>().swap(fingerprints_);
  running_.clear();
}

int64_t Expected::begin(uint64_t fingerprint) {
  const std::unique_lock held(mutex_);
  const auto turn = fingerprints_.begin() + (next_ - first_), end = fingerprints_.end();
  auto found = std::find(turn, end, fingerprint);
  if (found == end) found = std::find(fingerprints_.begin(), turn, fingerprint);  // another has passed over it
  if (found == end || *found != fingerprint) return kNoBatch;
  *found = 0;
  const int64_t batch = first_ + (found - fingerprints_.begin());
  next_ = std::max(next_, batch + 1);
  running_.push_back(batch);
  move_on();
  return batch;
}

void Expected::end(int64_t batch) {
  if (batch == kNoBatch) return;
  const std::unique_lock held(mutex_);
  if (std::erase(running_, batch) != 0) move_on();  // else others are expected since
}

// The caller has mutex_.
void Expected::move_on() {
  if (running_.empty() && next_ == first_ + static_cast<int64_t>(fingerprints_.size())) forget();
  current_ = running_.empty() ? next_ : std::ranges::min(running_);
  atomic_store(now_, static_cast<uint32_t>(current_));
  any_ = !fingerprints_.empty();
  bytes_ = static_cast<int64_t>((uses_.size() + fingerprints_.size()) * sizeof(uint64_t));
}

void Expected::place(Page page, int64_t slot, int64_t batch) {
  if (!any()) return;
  const std::shared_lock held(mutex_);
  policy().expect(slot, next_use(page, std::max(current_, batch + 1)));
}

// Of the first batch from `from` on that needs the page; of one that is over if there is none.
uint32_t Expected::next_use(Page page, int64_t from) const {
  const uint64_t wanted = page << kBatchBits | static_cast<uint64_t>(from - first_);
  const auto found = std::lower_bound(uses_.begin(), uses_.end(), wanted);
  const bool is_needed = found != uses_.end() && *found >> kBatchBits == page;
  const uint64_t within = is_needed ? *found & ((uint64_t{1} << kBatchBits) - 1) : 0;
  return static_cast<uint32_t>(is_needed ? first_ + static_cast<int64_t>(within) : current_ - 1);
}

}  // namespace hinterland::native
