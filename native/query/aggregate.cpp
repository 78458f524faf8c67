#include "query/aggregate.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>

#include "core/pool.hpp"
#include "query/bits.hpp"
#include "query/clones.hpp"
#include "query/damage.hpp"
#include "query/mixed.hpp"

namespace hinterland::native {

namespace {

using query::Column, query::Element, query::Kind, query::Measure, query::Segment, query::Total, query::with_kind;

// Blocks whose groups are kept before they are added to the query's: of a thread, lest they leave its cache, and without keys.
constexpr int64_t kSpan = 32, kLongSpan = 1024;
constexpr int64_t kAhead = 16;            // groups whose totals are fetched before they are added to
constexpr uint64_t kSmallKeys = 1 << 17;  // that a thread looks up in an array
constexpr int64_t kFewGroups = 4096;      // of blocks, for which no threads are started: chosen, not measured
constexpr int64_t kAtOnce = 8;            // blocks that a thread takes: chosen, not measured

// How a measure's values are taken.
Kind kind_of(const query::AggregateParams& p, const Measure& measure) {
  if (measure.divisor >= 0) return Kind::kFloat;
  return measure.column < 0 ? Kind::kSigned : query::kind_of(p.columns[measure.column].element);
}

template <class T>
HINTERLAND_CLONES void widen(const T* __restrict values, int64_t count, int64_t* __restrict to_bits) {
  for (int64_t i = 0; i < count; ++i) to_bits[i] = std::bit_cast<int64_t>(query::wide(values[i]));
}

// take(row, place of its value from row `from`'s on) for rows [from, to) of a block, counted in it, whose bits are set in `words`:
// some of those that match.
template <class Take>
void each_value(const Segment& segment, int64_t from, int64_t to, const uint64_t* words, const uint64_t* matched,
                const Take& take) {
  if (segment.kept == nullptr) return for_rows(words, from, to, [&](int64_t row) { take(row, row - from); });
  int64_t word = -1, before = 0, through = 0;  // of the word at hand: matching rows before it, and up to its end
  const auto in_segment = [&](int64_t i) {
    const uint64_t above = from > i * kWordRows ? ~uint64_t{0} << (from - i * kWordRows) : ~uint64_t{0};
    return matched[i] & above;
  };
  for_rows(words, from, to, [&](int64_t row) {
    while (word < row / kWordRows) {
      ++word, before = through;
      if ((word + 1) * kWordRows > from) through += std::popcount(in_segment(word));
    }
    take(row, before + std::popcount(in_segment(word) & ((uint64_t{1} << row % kWordRows) - 1)));
  });
}

// The bits of a column's values, taken as 64 bits each, of the rows of a block whose bits are set in `words`, some of those that
// match, or of all rows that are there: anything may stand in the others. Returns whether the file is damaged.
bool load(const Column& column, int64_t block, const uint64_t* words, const uint64_t* matched, bool whole, int64_t* to_bits) {
  bool damaged = false;
  query::for_segments(column, block, block + kBlockRows, [&](const Segment& segment, int64_t from, int64_t to) {
    const auto each_row = [&](const auto& take) { each_value(segment, from - block, to - block, words, matched, take); };
    if (column.element == Element::kBool) {
      const auto* const bits = static_cast<const uint8_t*>(segment.values);
      each_row(
          [&](int64_t row, int64_t) { to_bits[row] = query::bit_at(bits, segment.value_at + block + row - segment.begin); });
      return;
    }
    query::with_element(column.element, [&](auto kind) {
      using T = decltype(kind);
      const int64_t first =
          segment.kept != nullptr ? segment.kept[from / kBlockRows - segment.begin / kBlockRows] : from - segment.begin;
      const T* const values = static_cast<const T*>(segment.values) + first;
      bool bad = false;  // perhaps
      if (column.coded != 0) {
        if constexpr (std::is_integral_v<T>) {
          each_row([&](int64_t row, int64_t at) {
            const auto code = static_cast<uint64_t>(values[at]);
            const bool there = code < static_cast<uint64_t>(segment.entries);
            bad |= !there;
            to_bits[row] = there ? segment.codes[code] : 0;
          });
        }
      } else if (whole && segment.kept == nullptr) {
        widen(values, to - from, to_bits + (from - block));
        bad = std::is_same_v<T, query::Decimal>;
      } else {
        each_row([&](int64_t row, int64_t at) {
          if constexpr (std::is_same_v<T, query::Decimal>) bad |= is_damaged(values[at], segment);
          to_bits[row] = std::bit_cast<int64_t>(query::wide(values[at]));
        });
      }
      if (!bad) return;
      each_row([&](int64_t row, int64_t at) { damaged |= is_damaged(values[at], segment) && has_value(segment, block + row); });
    });
  });
  return damaged;
}

// Rows of `words` that have a value in a column.
void keep_valid(const Column& column, int64_t block, const uint64_t* words, uint64_t* kept) {
  uint64_t valid[kBlockWords]{};
  query::for_segments(column, block, block + kBlockRows,
                      [&](const Segment& segment, int64_t from, int64_t to) { set_valid(valid, segment, block, from, to); });
  for (int64_t i = 0; i < kBlockWords; ++i) kept[i] = words[i] & valid[i];
}

int64_t count_of(const uint64_t* words) {
  int64_t count = 0;
  for (int64_t i = 0; i < kBlockWords; ++i) count += std::popcount(words[i]);
  return count;
}

constexpr int kFew = 12;  // rows of a word that are taken one by one: chosen, not measured

// All bits of a row that matches, and none of others.
int64_t mask_of(uint64_t word, int64_t row) { return -static_cast<int64_t>(word >> row & 1); }

// The lanes' sums of a block. Rows that do not match add zero, by which no lane changes: none is ever -0.0.
HINTERLAND_CLONES void add_floats(const uint64_t* __restrict words, const int64_t* __restrict bits, double* __restrict lanes) {
  for (int64_t i = 0; i < kBlockWords; ++i, bits += kWordRows) {
    const uint64_t word = words[i];
    if (std::popcount(word) < kFew) {
      for_bits(word, 0, [&](int64_t row) { lanes[row % query::kLanes] += std::bit_cast<double>(bits[row]); });
      continue;
    }
    for (int64_t first = 0; first < kWordRows; first += query::kLanes) {
      for (int64_t lane = 0; lane < query::kLanes; ++lane)
        lanes[lane] += std::bit_cast<double>(bits[first + lane] & mask_of(word, first + lane));
    }
  }
}

// Sums of whole numbers, whose order is nothing to them.
template <class T>
[[gnu::always_inline]] inline void add_integers(const uint64_t* __restrict words, const int64_t* __restrict bits,
                                                query::Halves& halves) {
  int64_t high = 0;
  uint64_t low = 0;
  for (int64_t i = 0; i < kBlockWords; ++i, bits += kWordRows) {
    const uint64_t word = words[i];
    if (std::popcount(word) < kFew) {
      for_bits(word, 0, [&](int64_t row) { halves.add(std::bit_cast<T>(bits[row])); });
      continue;
    }
    for (int64_t row = 0; row < kWordRows; ++row) {
      const int64_t value = bits[row] & mask_of(word, row);
      high += static_cast<int64_t>(std::bit_cast<T>(value) >> 32);
      low += static_cast<uint64_t>(value) & 0xffffffffu;
    }
  }
  halves.high += high, halves.low += low;
}
HINTERLAND_CLONES void add_numbers(const uint64_t* words, const int64_t* bits, query::Halves& halves, int64_t) {
  add_integers<int64_t>(words, bits, halves);
}
HINTERLAND_CLONES void add_numbers(const uint64_t* words, const int64_t* bits, query::Halves& halves, uint64_t) {
  add_integers<uint64_t>(words, bits, halves);
}

// Adds a block's values without groups: in lanes.
template <class T>
void fold(const Measure& measure, const uint64_t* words, const int64_t* bits, Total& total) {
  if (measure.adds != 0) {
    if constexpr (std::is_same_v<T, double>) {
      double lanes[query::kLanes]{};
      add_floats(words, bits, lanes);
      total.sum = query::add_lanes(lanes);
    } else {
      query::Halves halves{};
      add_numbers(words, bits, halves, T{});
      query::add_halves(total, halves);
    }
  }
  if (measure.bounds != 0) {
    for (int64_t word = 0; word < kBlockWords; ++word) {
      for_bits(words[word], word * kWordRows, [&](int64_t row) { query::widen_bounds(total, std::bit_cast<T>(bits[row])); });
    }
  }
}

}  // namespace

uint64_t Keys::hash_of(const int64_t* key) const {
  uint64_t hash = 0;
  for (int64_t i = 0; i < words_; ++i) hash = mixed(hash, static_cast<uint64_t>(key[i]));
  return hash;
}

bool Keys::is_key(int64_t number, const int64_t* key) const {  // without std::equal, which calls memcmp for a few words
  const int64_t* const known = this->key(number);
  int64_t same = 0;
  while (same < words_ && known[same] == key[same]) ++same;
  return same == words_;
}

size_t Keys::slot_of(const int64_t* key) const {
  size_t slot = hash_of(key) & (slots_.size() - 1);
  while (slots_[slot] >= 0 && !is_key(slots_[slot], key)) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

int64_t Keys::number_of(const int64_t* key) {
  size_t slot = slot_of(key);
  if (slots_[slot] >= 0) return slots_[slot];
  if (size_ == kMostGroups) return kTooMany;
  if (2 * static_cast<size_t>(size_) >= slots_.size()) {
    grow();
    slot = slot_of(key);
  }
  keys_.insert(keys_.end(), key, key + words_);
  slots_[slot] = static_cast<int32_t>(size_);
  return size_++;
}

void Keys::grow() {
  slots_.assign(4 * slots_.size(), -1);
  for (int64_t i = 0; i < size_; ++i) slots_[slot_of(key(i))] = static_cast<int32_t>(i);
}

// What a block found: its groups by the worker's numbers, those of a share after another's, and a total of each measure for each.
struct Groups::Block {
  int worker = 0;
  std::array<int64_t, kShares + 1> shares{};  // where each one's groups begin, and where the last ones end
  std::vector<int32_t> groups;

  void make_room(const query::AggregateParams& p) {
    sums_.resize(groups.size() * p.measured);
    if (std::any_of(p.measures, p.measures + p.measured, [](const Measure& one) { return one.bounds != 0; }))
      bounds_.resize(sums_.size());
  }

  template <class T>
  Total total(int64_t at) const {
    Total total = query::nothing<T>();
    total.count = sums_[at].count;
    if constexpr (std::is_same_v<T, double>) {
      total.sum = std::bit_cast<double>(sums_[at].low);
    } else {
      total.low = sums_[at].low, total.high = sums_[at].high;
    }
    if (!bounds_.empty()) total.least = bounds_[at].least, total.greatest = bounds_[at].greatest;
    return total;
  }

  template <class T>
  void put(int64_t at, const Total& total) {
    sums_[at] = {total.count, total.high, std::is_same_v<T, double> ? std::bit_cast<uint64_t>(total.sum) : total.low};
    if (!bounds_.empty()) bounds_[at] = {total.least, total.greatest};
  }

 private:
  // Of Total what a block needs, or fewer blocks would stay in the cache.
  struct Sum {
    int64_t count, high;
    uint64_t low;  // or a float's bits
  };
  struct Bounds {
    int64_t least, greatest;
  };

  std::vector<Sum> sums_;
  std::vector<Bounds> bounds_;  // empty where no measure asks for any
};

// A thread's keys and room.
struct Groups::Worker {
  explicit Worker(const query::AggregateParams& p) : keys(p.keyed + 1), words(kBlockRows * (p.keyed + 1)) {}

  Keys keys;
  std::vector<int32_t> by_key;   // of small keys the number; -1 where that is not known yet
  std::vector<int32_t> numbers;  // of each of its groups among its share's; -1 where that is not known yet
  std::vector<uint8_t> shares;   // of each
  std::vector<int32_t> place;    // of each in the block at hand
  std::vector<int64_t> words;    // [4096, keyed + 1] the keys of rows
  alignas(64) int64_t left[kBlockRows], right[kBlockRows];
  uint64_t matched[kBlockWords], kept[kBlockWords];
  int64_t group[kBlockRows];  // of each matched row: its place among the block's groups
  int64_t moved[kBlockRows];  // of each of the block's groups, as they came: its place
  bool damaged = false, too_many = false;

  void find_rows(const query::AggregateParams& p, int64_t block);
  bool find_groups(const query::AggregateParams& p, int64_t block, Block& found);
  int64_t group_of(const int64_t* key);
  void sort_by_share(Block& found);
  void measure(const query::AggregateParams& p, int64_t block, int64_t number, Block& found);
};

void Groups::Worker::find_rows(const query::AggregateParams& p, int64_t block) {
  if (p.words != nullptr) {
    std::copy_n(p.words + block / kWordRows, kBlockWords, matched);
    return;
  }
  std::fill_n(matched, kBlockWords, 0);
  set_bits(matched, 0, std::min(kBlockRows, p.rows - block));
}

// The group of each matched row. Returns whether any row matches, and there are not too many groups.
bool Groups::Worker::find_groups(const query::AggregateParams& p, int64_t block, Block& found) {
  const int64_t wide = p.keyed + 1;
  if (p.keyed == 0) {
    const int64_t nothing = 0;
    found.groups.push_back(static_cast<int32_t>(group_of(&nothing)));
    sort_by_share(found);
    return true;
  }
  const auto each_row = [&](const auto& take) {
    for (int64_t i = 0; i < kBlockWords; ++i) for_bits(matched[i], i * kWordRows, take);
  };
  each_row([&](int64_t row) { words[row * wide + p.keyed] = 0; });
  for (int64_t k = 0; k < p.keyed; ++k) {
    const Column& column = p.columns[p.keys[k]];
    damaged |= load(column, block, matched, matched, false, left);
    keep_valid(column, block, matched, kept);
    each_row([&](int64_t row) {
      const bool has = (kept[row / kWordRows] >> (row % kWordRows) & 1) != 0;
      words[row * wide + k] = has ? left[row] : 0;
      if (!has) words[row * wide + p.keyed] |= int64_t{1} << k;
    });
  }
  each_row([&](int64_t row) {
    const int64_t number = too_many ? Keys::kTooMany : group_of(words.data() + row * wide);
    if (number == Keys::kTooMany) {
      too_many = true;
      return;
    }
    if (place[number] < 0) {
      place[number] = static_cast<int32_t>(found.groups.size());
      found.groups.push_back(static_cast<int32_t>(number));
    }
    group[row] = place[number];
  });
  for (const int32_t number : found.groups) place[number] = -1;
  if (found.groups.empty() || too_many) return false;
  sort_by_share(found);
  each_row([&](int64_t row) { group[row] = moved[group[row]]; });
  return true;
}

// The worker's number of a key. Codes of texts and other small numbers are not hashed where they are all of the key.
int64_t Groups::Worker::group_of(const int64_t* key) {
  const auto small = static_cast<uint64_t>(key[0]);
  const bool is_small = keys.words() == 2 && key[1] == 0 && small < kSmallKeys;
  if (is_small && small < by_key.size() && by_key[small] >= 0) return by_key[small];
  const int64_t number = keys.number_of(key);
  if (number == Keys::kTooMany) return number;
  if (number == static_cast<int64_t>(numbers.size())) {
    numbers.push_back(-1), place.push_back(-1);
    shares.push_back(static_cast<uint8_t>(keys.hash_of(key) >> (64 - kShareBits)));
  }
  if (is_small) {
    if (small >= by_key.size()) by_key.resize(std::min(2 * small + kWordRows, kSmallKeys), -1);
    by_key[small] = static_cast<int32_t>(number);
  }
  return number;
}

void Groups::Worker::sort_by_share(Block& found) {
  auto& ends = found.shares;  // all zero
  for (const int32_t number : found.groups) ++ends[shares[number] + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  const std::vector<int32_t> groups = found.groups;
  std::array<int64_t, kShares> next;
  std::copy_n(ends.begin(), kShares, next.begin());
  for (size_t i = 0; i < groups.size(); ++i) {
    moved[i] = next[shares[groups[i]]]++;
    found.groups[moved[i]] = groups[i];
  }
}

void Groups::Worker::measure(const query::AggregateParams& p, int64_t block, int64_t number, Block& found) {
  const Measure& measure = p.measures[number];
  const auto at = [&](int64_t place) { return place * p.measured + number; };
  std::copy_n(matched, kBlockWords, kept);
  if (measure.column >= 0) keep_valid(p.columns[measure.column], block, matched, kept);
  if (measure.divisor >= 0) keep_valid(p.columns[measure.divisor], block, kept, kept);
  const bool values = measure.adds != 0 || measure.bounds != 0;
  if (values) damaged |= load(p.columns[measure.column], block, kept, matched, measure.streamed != 0, left);
  if (values && measure.divisor >= 0) {
    const Column &over = p.columns[measure.column], &under = p.columns[measure.divisor];
    damaged |= load(under, block, kept, matched, measure.streamed != 0, right);
    for (int64_t i = 0; i < kBlockWords; ++i) {
      for_bits(kept[i], i * kWordRows, [&](int64_t row) {
        const double ratio = as_double(query::kind_of(over.element), left[row], over.scale) /
                             as_double(query::kind_of(under.element), right[row], under.scale);
        left[row] = std::bit_cast<int64_t>(ratio);
      });
    }
  }
  with_kind(kind_of(p, measure), [&](auto kind) {
    using T = decltype(kind);
    for (size_t i = 0; i < found.groups.size(); ++i) found.put<T>(at(i), query::nothing<T>());
    const auto change = [&](int64_t place, const auto& add) {
      Total total = found.total<T>(at(place));
      add(total);
      found.put<T>(at(place), total);
    };
    if (p.keyed == 0) {
      return change(0, [&](Total& total) {
        total.count = count_of(kept);
        if (values) fold<T>(measure, kept, left, total);
      });
    }
    for (int64_t i = 0; i < kBlockWords; ++i) {
      for_bits(kept[i], i * kWordRows, [&](int64_t row) {
        change(group[row], [&](Total& total) {
          ++total.count;
          if (measure.adds != 0) query::add_value(total, std::bit_cast<T>(left[row]));
          if (measure.bounds != 0) query::widen_bounds(total, std::bit_cast<T>(left[row]));
        });
      });
    }
  });
}

// Adds what a block found of a share's groups.
void Groups::Share::add(const query::AggregateParams& p, const Block& block, int64_t share, Worker& worker) {
  const int64_t end = block.shares[share + 1];
  for (int64_t i = block.shares[share]; i < end; ++i) {
    if (i + kAhead < end) {
      const int32_t later = worker.numbers[block.groups[i + kAhead]];
      if (later >= 0) __builtin_prefetch(&totals[later * p.measured], 1);
    }
    int32_t& number = worker.numbers[block.groups[i]];
    if (number < 0) number = static_cast<int32_t>(keys.number_of(worker.keys.key(block.groups[i])));
    if (number == Keys::kTooMany) {
      too_many = true;
      return;
    }
    if (number * p.measured == static_cast<int64_t>(totals.size())) {
      for (int64_t m = 0; m < p.measured; ++m) {
        with_kind(kind_of(p, p.measures[m]), [&](auto kind) { totals.push_back(query::nothing<decltype(kind)>()); });
      }
    }
    for (int64_t m = 0; m < p.measured; ++m) {
      with_kind(kind_of(p, p.measures[m]), [&](auto kind) {
        using T = decltype(kind);
        query::add_block<T>(totals[number * p.measured + m], block.total<T>(i * p.measured + m));
      });
    }
  }
}

Groups::Groups(int64_t keyed) : shares_(kShares, Share(keyed)) {}
Groups::~Groups() = default;

Outcome Groups::add_span(const query::AggregateParams& p, int64_t begin, std::span<Block> blocks) {
  const auto count = static_cast<int64_t>(blocks.size());
  const auto find = [&](int64_t i, int64_t thread) {
    Worker& worker = *workers_[thread];
    Block& found = blocks[i];
    found.worker = static_cast<int>(thread);
    found.groups.clear(), found.shares.fill(0);
    const int64_t block = (begin + i) * kBlockRows;
    worker.find_rows(p, block);
    if (std::all_of(worker.matched, worker.matched + kBlockWords, [](uint64_t word) { return word == 0; })) return;
    if (!worker.find_groups(p, block, found)) return;
    found.make_room(p);
    for (int64_t m = 0; m < p.measured; ++m) worker.measure(p, block, m, found);
  };
  parallel_tasks((count + kAtOnce - 1) / kAtOnce, [&](int64_t task, int64_t thread) {
    if (workers_[thread] == nullptr) workers_[thread] = std::make_unique<Worker>(p);
    for (int64_t i = task * kAtOnce; i < std::min(count, (task + 1) * kAtOnce); ++i) find(i, thread);
  });
  for (const auto& worker : workers_) {
    if (worker == nullptr) continue;
    if (worker->damaged) return Outcome::kDamaged;
    if (worker->too_many) return Outcome::kTooManyGroups;
  }
  const auto add_share = [&](int64_t share, int64_t) {
    for (const Block& block : blocks) shares_[share].add(p, block, share, *workers_[block.worker]);
  };
  int64_t groups = 0;
  for (const Block& block : blocks) groups += static_cast<int64_t>(block.groups.size());
  if (groups > kFewGroups) {
    parallel_tasks(kShares, add_share);
  } else {
    for (int64_t share = 0; share < kShares; ++share) add_share(share, 0);
  }
  const bool too_many = std::ranges::any_of(shares_, [](const Share& share) { return share.too_many; });
  return too_many || size() > kMostGroups ? Outcome::kTooManyGroups : Outcome::kDone;
}

Outcome Groups::add(const query::AggregateParams& p) {
  workers_.resize(std::max<size_t>(workers_.size(), num_threads()));
  std::vector<Block> blocks(std::min(p.end - p.begin, p.keyed == 0 ? kLongSpan : kSpan * num_threads()));
  for (int64_t begin = p.begin; begin < p.end; begin += static_cast<int64_t>(blocks.size())) {
    const std::span<Block> some = std::span(blocks).first(std::min<int64_t>(p.end - begin, blocks.size()));
    const Outcome outcome = add_span(p, begin, some);
    if (outcome != Outcome::kDone) return outcome;
  }
  return Outcome::kDone;
}

int64_t Groups::size() const {
  int64_t all = 0;
  for (const Share& share : shares_) all += share.keys.size();
  return all;
}

void Groups::copy_to(int64_t* keys, query::Total* totals) const {
  for (const Share& share : shares_) {
    keys = std::copy_n(share.keys.key(0), share.keys.size() * share.keys.words(), keys);
    totals = std::copy(share.totals.begin(), share.totals.end(), totals);
  }
}

// Words are shifted so that sectors begin at multiples of as many rows as a sector holds.
int64_t count_sectors(const uint64_t* words, int64_t begin, int64_t end, uint64_t address, int64_t bits) {
  const int64_t each = 8 * kSectorBytes / bits;  // values: a power of two from 2 to 256
  const auto phase = static_cast<int64_t>(address / bits % each);
  const int64_t moved = ((phase - begin) % each + each) % each;  // row r is value (r + moved) of sectors counted from somewhere
  const int64_t shift = moved % kWordRows, ahead = moved / kWordRows;
  const int64_t first = begin / kWordRows, last = (end - 1) / kWordRows;
  const auto word_at = [&](int64_t i) -> uint64_t {
    if (i < first || i > last) return 0;
    uint64_t word = words[i];
    if (i == first) word &= ~uint64_t{0} << (begin % kWordRows);
    if (i == last && end % kWordRows != 0) word &= (uint64_t{1} << (end % kWordRows)) - 1;
    return word;
  };
  const int64_t words_each = std::max<int64_t>(each / kWordRows, 1);
  uint64_t starts = 0;  // of sectors, in a word
  for (int64_t at = 0; at < kWordRows; at += each) starts |= uint64_t{1} << at;
  int64_t count = 0;
  uint64_t gathered = 0;
  for (int64_t i = first; i <= last + 1; ++i) {
    uint64_t word = word_at(i) << shift;
    if (shift != 0) word |= word_at(i - 1) >> (kWordRows - shift);
    if (each < kWordRows) {
      for (int64_t fold = 1; fold < each; fold *= 2) word |= word >> fold;
      count += std::popcount(word & starts);
      continue;
    }
    gathered |= word;
    if ((i + ahead + 1) % words_each == 0 || i == last + 1) {
      count += gathered != 0;
      gathered = 0;
    }
  }
  return count;
}

}  // namespace hinterland::native
