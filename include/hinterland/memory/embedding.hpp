// Bags of rows of a table: their sum, mean or maximum (torch.nn.EmbeddingBag), and the update of the rows that were in them.
// The table may lie anywhere that this processor can address; the case that matters is host memory, read by a GPU over the
// link. So a row is read once a bag and never copied aside, and an update reads and writes it once, whatever bags it was in.
//
// A row is cut into pieces of kWide elements: 16 bytes on a GPU (one element where rows do not all begin at a multiple of 16
// bytes), more on the CPU. `lanes` neighbouring threads (a power of two, 1 to 32) take one piece each, and a row has `steps`
// times as many, so that short rows share a warp. Each piece is summed in the order of the entries, by one thread.
#pragma once

#include "hinterland/core/atomic.hpp"
#include "hinterland/core/floats.hpp"
#include "hinterland/core/platform.hpp"
#include "hinterland/core/thresholds.hpp"
#include "hinterland/core/warp.hpp"
#include "hinterland/memory/gather.hpp"

namespace hinterland::memory {

// A table of rows of `dim` elements. One that is all on the host is one whose tiers have no rows.
template <class T>
HINTERLAND_FN Table<Tiers> table_of(const Tiers& placement, int64_t dim) {
  return {placement, dim * static_cast<int64_t>(sizeof(T))};
}

// The entries of all bags, one bag after another. Bag b has entries [begin(b), end(b)).
struct Bags {
  const void* indices;  // count row numbers
  int64_t index_bytes;
  int64_t count;
  const void* offsets;  // where each bag begins, or null where all have `each` entries
  int64_t offset_bytes;
  int64_t closed;  // 1: offsets has one number more, the end of the last bag
  int64_t each;
  int64_t bags;
  int64_t rows;     // of the table
  int64_t padding;  // a row that counts for nothing, or -1

  static constexpr int64_t kSkipped = -1, kOutside = -2;

  HINTERLAND_FN int64_t begin(int64_t bag) const {
    return offsets == nullptr ? bag * each : read_index(offsets, offset_bytes, bag);
  }
  HINTERLAND_FN int64_t end(int64_t bag) const {
    return offsets == nullptr ? (bag + 1) * each : bag + 1 < bags + closed ? begin(bag + 1) : count;
  }

  // If this holds for every bag, they cover all entries in order.
  HINTERLAND_FN bool valid(int64_t bag) const {
    const int64_t from = begin(bag), to = end(bag);
    return from >= 0 && from <= to && to <= count && (bag > 0 || from == 0) && (bag + 1 < bags || to == count);
  }

  // The row of an entry; kSkipped for padding, kOutside for a number that is no row.
  HINTERLAND_FN int64_t row(int64_t entry) const {
    const int64_t number = read_index(indices, index_bytes, entry);
    if (number < 0 || number >= rows) return kOutside;
    return number == padding ? kSkipped : number;
  }

  // The bag of an entry: the last that begins at it or before. Some bag, if they are not valid.
  HINTERLAND_FN int64_t bag_of(int64_t entry) const {
    if (offsets == nullptr) return entry / each;
    int64_t low = 0, high = bags;  // begin(low) <= entry < begin(high)
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (begin(middle) <= entry ? low : high) = middle;
    }
    return low;
  }
};

// Whether pieces of this width are computed with where they lie (on the CPU), or in registers.
template <int kWide>
inline constexpr bool kInPlace = kWide > 16;

// How many rows a thread has under way before it needs the first, and how many gradients, which are nearer
// (docs/notes/thresholds.md).
template <int kWide>
inline constexpr int kRowsInFlight = kInPlace<kWide> ? 1 : 8;
template <int kWide>
inline constexpr int kGradientsInFlight = kInPlace<kWide> ? 1 : 4;

// How many entries ahead of its use the CPU asks for a row: docs/notes/thresholds.md.
inline constexpr int64_t kPrefetchDistance = 12;

// Elements of a row: a copy of them, or where they are.
template <class T, int kWide, bool = kInPlace<kWide>>
struct RowSlice {
  stdlib::remove_const_t<T> element[kWide];
};
template <class T, int kWide>
struct RowSlice<T, kWide, true> {
  T* element;
};

// Where a thread's piece lies in rows of `dim` elements: [at, at + size()). T is the type of the table's elements; rows of
// anything else that has as many (gradients, states) are cut at the same places.
template <class T, int kWide>
struct RowSlices {
  // Whole units of 16 bytes, that begin at multiples of 16.
  static constexpr bool kUnits = kWide * sizeof(T) == 16;

  int64_t at, have;

  HINTERLAND_FN RowSlices(int64_t piece, int64_t dim) : at(piece * kWide), have(min_of<int64_t>(dim - at, kWide)) {}

  HINTERLAND_FN bool none() const { return have <= 0; }
  HINTERLAND_FN int64_t size() const { return kInPlace<kWide> ? have : kWide; }

  // Has `to` hold the piece of `row`. What is computed in it reaches the row with store().
  template <class U>
  HINTERLAND_FN void load(U* row, RowSlice<U, kWide>& to) const {
    if constexpr (kInPlace<kWide>) {
      to.element = row + at;
    } else if constexpr (kUnits) {
      using Plain = stdlib::remove_const_t<U>;
      constexpr int kEach = 16 / sizeof(U);
      for (int i = 0; i < kWide; i += kEach) {
        const auto unit = stdlib::bit_cast<Elements<Plain>>(*reinterpret_cast<const Unit16*>(row + at + i));
        for (int k = 0; k < kEach; ++k) to.element[i + k] = unit.element[k];
      }
    } else {
      for (int i = 0; i < kWide; ++i) to.element[i] = row[at + i];
    }
  }

  // The same for a piece of which every element is about to be computed.
  template <class U>
  HINTERLAND_FN void begin(U* row, RowSlice<U, kWide>& to) const {
    if constexpr (kInPlace<kWide>) load(row, to);
  }

  template <class U>
  HINTERLAND_FN void store(const RowSlice<U, kWide>& from, U* row) const {
    if constexpr (kUnits) {
      constexpr int kEach = 16 / sizeof(U);
      for (int i = 0; i < kWide; i += kEach) {
        Elements<U> unit;
        for (int k = 0; k < kEach; ++k) unit.element[k] = from.element[i + k];
        *reinterpret_cast<Unit16*>(row + at + i) = stdlib::bit_cast<Unit16>(unit);
      }
    } else if constexpr (!kInPlace<kWide>) {
      for (int i = 0; i < kWide; ++i) row[at + i] = from.element[i];
    }
  }

  // What store() does, for a row that the piece was not loaded from.
  template <class U>
  HINTERLAND_FN void copy(const RowSlice<U, kWide>& from, U* row) const {
    if constexpr (kInPlace<kWide>) {
      for (int64_t i = 0; i < have; ++i) row[at + i] = from.element[i];
    } else {
      store(from, row);
    }
  }

  // On the CPU, asks for the piece of a row that is needed soon.
  template <class U>
  HINTERLAND_FN void prefetch([[maybe_unused]] const U* row) const {
#if !HINTERLAND_ON_GPU
    for (int64_t i = 0; i < have; i += 64 / sizeof(U)) __builtin_prefetch(row + at + i);
#endif
  }
};

// each(item, piece) for a thread's share of `items` rows.
template <class Each>
HINTERLAND_FN void for_pieces(int64_t items, int64_t lanes, int64_t steps, int64_t thread, int64_t threads, const Each& each) {
  const int64_t lane = thread & (lanes - 1), groups = threads / lanes;
  for (int64_t i = thread / lanes; i < items * steps; i += groups) each(i / steps, i % steps * lanes + lane);
}

// What pooling is given. T are the elements of the table.
struct PoolParams {
  Tiers placement;  // of the table
  int64_t dim;
  Bags bags;
  const float* weights;  // of each entry, or null
  void* pooled;          // T [bags, dim]
  int64_t* best;         // [bags, dim] the entry that each maximum is of, or -1; of maxima alone, else null
  int64_t* counts;       // [bags] entries that are rows other than the padding; of means alone, else null
  int64_t lanes, steps;  // of a GPU
  FaultReport offsets;   // of a GPU: offsets that make no bag
  FaultReport entries;   // of a GPU: entries that are no rows
};

// One piece of one bag. Bags without entries give zeros, and so do bags that are not valid; entries that are no rows count for
// nothing. Returns whether there were any such entries.
template <class T, int kWide, bool kMax>
HINTERLAND_FN bool pool_piece(const PoolParams& p, int64_t bag, int64_t piece) {
  constexpr int kInFlight = kRowsInFlight<kWide>;
  const Table<Tiers> table = table_of<T>(p.placement, p.dim);
  const Bags& bags = p.bags;
  const RowSlices<T, kWide> here(piece, p.dim);
  if (here.none()) return false;
  const bool valid = bags.valid(bag);
  const int64_t begin = valid ? bags.begin(bag) : 0, end = valid ? bags.end(bag) : 0;
  float sum[kWide]{};
  RowSlice<int64_t, kWide> best{};
  if constexpr (kMax) here.begin(p.best + bag * p.dim, best);
  int64_t taken = 0;
  bool outside = false;
  for (int64_t first = begin; first < end; first += kInFlight) {
    int64_t row[kInFlight];
    const T* from[kInFlight];
    RowSlice<const T, kWide> value[kInFlight]{};
    for (int k = 0; k < kInFlight; ++k) row[k] = first + k < end ? bags.row(first + k) : Bags::kSkipped;
    for (int k = 0; k < kInFlight; ++k) outside |= row[k] == Bags::kOutside;
    const TableRows<Tiers, kInFlight> found = table.find(row);
    for (int k = 0; k < kInFlight; ++k) {
      from[k] = found.template row<const T>(k);
    }
    for (int k = 0; k < kInFlight; ++k) {
      if (row[k] >= 0) here.load(from[k], value[k]);
    }
    if constexpr (kInPlace<kWide>) {  // entries of the bags after this one, too
      const int64_t soon = first + kPrefetchDistance < bags.count ? bags.row(first + kPrefetchDistance) : Bags::kSkipped;
      if (soon >= 0) here.prefetch(table.find(soon).row<const T>(0));
    }
    for (int k = 0; k < kInFlight; ++k) {
      if (row[k] < 0) continue;
      if constexpr (kMax) {
        for (int i = 0; i < here.size(); ++i) {
          const float number = widen(value[k].element[i]);
          if (taken > 0 && !(number > sum[i])) continue;  // of equal ones the first, as torch has it
          sum[i] = number;
          best.element[i] = first + k;
        }
      } else {
        const float weight = p.weights == nullptr ? 1.0f : p.weights[first + k];
        for (int i = 0; i < here.size(); ++i) sum[i] += weight * widen(value[k].element[i]);
      }
      ++taken;
    }
  }
  const float over = p.counts != nullptr && taken > 0 ? static_cast<float>(taken) : 1.0f;
  T* const pooled = static_cast<T*>(p.pooled) + bag * p.dim;
  RowSlice<T, kWide> result{};
  here.begin(pooled, result);
  for (int i = 0; i < here.size(); ++i) narrow(sum[i] / over, result.element[i]);
  here.store(result, pooled);
  if constexpr (kMax) {
    for (int i = 0; i < here.size() && taken == 0; ++i) best.element[i] = -1;
    here.store(best, p.best + bag * p.dim);
  }
  if (p.counts != nullptr && piece == 0) p.counts[bag] = taken;
  return outside;
}

// Reports what is wrong with a bag: entries that are no rows, or the offset that makes it no bag.
HINTERLAND_FN void report_bag(const Bags& bags, int64_t bag, const FaultReport& entries, const FaultReport& offsets) {
  if (!bags.valid(bag)) {
    const int64_t begin = bags.begin(bag);
    const bool own = begin < 0 || begin > bags.count || (bag == 0 && begin != 0);  // else it is where the bag ends
    report_fault(*offsets.fault, own ? bag : bag + 1, bags.begin(own ? bag : bag + 1), bags.count, offsets.replay);
    return;
  }
  for (int64_t entry = bags.begin(bag); entry < bags.end(bag); ++entry) {
    const int64_t number = read_index(bags.indices, bags.index_bytes, entry);
    if (bags.row(entry) == Bags::kOutside) report_fault(*entries.fault, entry, number, bags.rows, entries.replay);
  }
}

// The share of thread `thread` of `threads` in pooling all bags. Threads need not run in step.
template <class T, int kWide, bool kMax>
HINTERLAND_FN void pool_bags(const PoolParams& p, int64_t thread, int64_t threads) {
  for_pieces(p.bags.bags, p.lanes, p.steps, thread, threads, [&](int64_t bag, int64_t piece) {
    const bool outside = pool_piece<T, kWide, kMax>(p, bag, piece);
    if (piece != 0) return;
    const bool valid = p.bags.valid(bag);
    if (!outside && valid) return;
    report_bag(p.bags, bag, p.entries, p.offsets);
    *(valid ? p.entries.flag : p.offsets.flag) = 1;
  });
}

// What weigh_entries is given.
struct WeighParams {
  Tiers placement;  // of the table
  int64_t dim;
  Bags bags;
  const void* gradient;  // T [bags, dim]
  float* found;          // [entries]
  int64_t lanes;         // of a GPU
};

// The gradients of the weights of all entries: what each row and the gradient of its bag multiply to, added up. Lanes of a warp
// run in step.
template <class T, int kWide>
HINTERLAND_FN void weigh_entries(const WeighParams& p, int64_t thread, int64_t threads) {
  const Table<Tiers> table = table_of<T>(p.placement, p.dim);
  const Bags& bags = p.bags;
  const int64_t lanes = p.lanes;
  const int64_t lane = thread & (lanes - 1), groups = threads / lanes, first = thread / lanes;
  const int64_t in_warp = first - first % max_of<int64_t>(Warp::kWidth / lanes, 1);  // the warp's first group
  for (int64_t base = 0; in_warp + base < bags.count; base += groups) {
    const int64_t entry = first + base;
    const int64_t row = entry < bags.count ? bags.row(entry) : Bags::kSkipped;
    float sum[kWide]{};
    if (row >= 0) {
      const T* const own = table.find(row).row<const T>(0);
      const T* const given = static_cast<const T*>(p.gradient) + bags.bag_of(entry) * p.dim;
      for (int64_t piece = lane; piece * kWide < p.dim; piece += lanes) {
        const RowSlices<T, kWide> here(piece, p.dim);
        RowSlice<const T, kWide> value{}, slope{};
        here.load(own, value);
        here.load(given, slope);
        for (int i = 0; i < here.size(); ++i) sum[i] += widen(value.element[i]) * widen(slope.element[i]);
      }
    }
    for (int i = 1; i < kWide; ++i) sum[0] += sum[i];
    const float product = Warp::sum_within(sum[0], static_cast<int>(lanes));
    if (entry < bags.count && lane == 0) p.found[entry] = product;
  }
}

// What note_entry is given, and notes of each entry, for an update. Keys are row numbers, and `rows` (past all of them) for
// entries that change none.
struct NoteParams {
  Bags bags;
  const float* weights;   // of each entry, or null
  const int64_t* counts;  // as pooling found them for means, or null
  void* keys;             // to be sorted: as many bytes each as sort faster
  int64_t key_bytes;
  int64_t* bag;
  float* factor;  // by which the bag's gradient counts for this entry, or null where it is 1
  int64_t* bad;   // set where an entry is no row or a bag is not valid: then nothing is updated
};

// Takes entry i and looks at bag i, for every i below the larger of their numbers.
HINTERLAND_FN void note_entry(const NoteParams& p, int64_t i) {
  const Bags& bags = p.bags;
  if (i < bags.bags && !bags.valid(i)) atomic_store(*p.bad, int64_t{1});
  if (i >= bags.count) return;
  const int64_t row = bags.row(i), bag = bags.bag_of(i);
  if (row == Bags::kOutside) atomic_store(*p.bad, int64_t{1});
  const int64_t key = row >= 0 ? row : bags.rows;
  if (p.key_bytes == 4) {
    static_cast<int32_t*>(p.keys)[i] = static_cast<int32_t>(key);
  } else {
    static_cast<int64_t*>(p.keys)[i] = key;
  }
  p.bag[i] = bag;
  if (p.weights != nullptr) p.factor[i] = p.weights[i];
  if (p.counts != nullptr) p.factor[i] = 1.0f / static_cast<float>(max_of<int64_t>(p.counts[bag], 1));
}

// What an update is given: its entries, sorted by row and within a row by their place.
struct UpdateParams {
  Tiers placement;  // of the table
  int64_t dim;
  float* state;       // [rows, state_dim] of what the optimizer keeps of each row, or null where it keeps nothing
  int64_t state_dim;  // dim, or 1
  const void* keys;
  int64_t key_bytes;
  const int64_t* order;  // the entry of each key
  int64_t count;
  const int64_t* bag;    // of each entry
  const float* factor;   // of each entry, or null
  const int64_t* best;   // [bags, dim] of maxima: the entry that alone has the gradient; else null
  const void* gradient;  // T [bags, dim]
  const int64_t* bad;
  float rate, eps;
  int64_t lanes, steps;  // of a GPU

  HINTERLAND_FN float* state_row(int64_t row) const { return state + row * dim; }
  HINTERLAND_FN int64_t key(int64_t place) const { return read_index(keys, key_bytes, place); }
  HINTERLAND_FN bool belongs(int64_t place, int64_t row) const { return place < count && key(place) == row; }
  // Whether the first entry of the row of a place is there, and it is one of the table.
  HINTERLAND_FN bool begins(int64_t place, int64_t row) const {
    return row < placement.size() && (place == 0 || key(place - 1) != row);
  }
};

// How a row learns.

// w - rate g: torch.optim.SGD on sparse gradients.
struct SgdRule {
  static constexpr bool kState = false, kWholeRow = false;
  float rate;

  HINTERLAND_FN explicit SgdRule(const UpdateParams& p) : rate(p.rate) {}
  HINTERLAND_FN float step(float weight, float gradient, float&) const { return weight - rate * gradient; }
};

// s + g^2, then w - rate g / (sqrt(s) + eps): Duchi, Hazan and Singer 2011, as torch.optim.Adagrad has it.
struct AdagradRule {
  static constexpr bool kState = true, kWholeRow = false;
  float rate, eps;

  HINTERLAND_FN explicit AdagradRule(const UpdateParams& p) : rate(p.rate), eps(p.eps) {}
  HINTERLAND_FN float step(float weight, float gradient, float& sum) const {
    sum += gradient * gradient;
    return weight - rate * (gradient / (square_root(sum) + eps));
  }
};

// s + the mean of g^2 over the row, then as AdagradRule: Mudigere et al. 2022, as FBGEMM and torchrec have it.
struct RowwiseAdagradRule {
  static constexpr bool kState = true, kWholeRow = true;
  float rate, eps;

  HINTERLAND_FN explicit RowwiseAdagradRule(const UpdateParams& p) : rate(p.rate), eps(p.eps) {}
  HINTERLAND_FN float step(float weight, float gradient, float sum) const {
    return weight - rate * (gradient / (square_root(sum) + eps));
  }
};

// Adds up the gradients of a piece of a row, whose first entry is at `place`, in sorted order.
template <class T, int kWide>
HINTERLAND_FN void add_gradients(const UpdateParams& given, const RowSlices<T, kWide>& here, int64_t place, int64_t row,
                                 float (&sum)[kWide]) {
  constexpr int kInFlight = kGradientsInFlight<kWide>;
  const T* const gradient = static_cast<const T*>(given.gradient);
  for (float& one : sum) one = 0;
  for (int64_t first = place; given.belongs(first, row); first += kInFlight) {
    int64_t entry[kInFlight], from[kInFlight];
    RowSlice<const T, kWide> value[kInFlight]{};
    for (int k = 0; k < kInFlight; ++k) entry[k] = given.belongs(first + k, row) ? given.order[first + k] : -1;
    for (int k = 0; k < kInFlight; ++k) from[k] = entry[k] < 0 ? 0 : given.bag[entry[k]] * given.dim;
    for (int k = 0; k < kInFlight; ++k) {
      if (entry[k] >= 0) here.load(gradient + from[k], value[k]);
    }
    for (int k = 0; k < kInFlight; ++k) {
      if (entry[k] < 0) continue;
      const float factor = given.factor == nullptr ? 1.0f : given.factor[entry[k]];
      if (given.best == nullptr) {
        for (int i = 0; i < here.size(); ++i) sum[i] += factor * widen(value[k].element[i]);
        continue;
      }
      for (int i = 0; i < here.size(); ++i) {
        if (given.best[from[k] + here.at + i] == entry[k]) sum[i] += widen(value[k].element[i]);
      }
    }
  }
}

// One piece of the row whose first entry is at `place`, if any is: adds up its gradients in sorted order, and takes one step.
// No other thread has this piece, so every copy of it is written here.
template <class T, int kWide, class Rule>
HINTERLAND_FN void update_piece(const UpdateParams& given, const Rule& rule, int64_t place, int64_t piece) {
  const Table<Tiers> table = table_of<T>(given.placement, given.dim);
  const RowSlices<T, kWide> here(piece, given.dim);
  const int64_t row = given.key(place), rows = table.size();
  if (here.none() || !given.begins(place, row)) return;
  if constexpr (kInPlace<kWide>) {
    const int64_t soon = place + kPrefetchDistance < given.count ? given.key(place + kPrefetchDistance) : rows;
    if (soon < rows) here.prefetch(table.find(soon).row<const T>(0));
    if (soon < rows && Rule::kState) here.prefetch(given.state_row(soon));
  }
  T* const own = table.find(row).row<T>(0);
  RowSlice<T, kWide> weight{};
  RowSlice<float, kWide> state{};
  here.load(own, weight);  // asked for first: they come over the link
  if constexpr (Rule::kState) here.load(given.state_row(row), state);

  float sum[kWide];
  add_gradients(given, here, place, row, sum);
  for (int i = 0; i < here.size(); ++i) {
    float kept = 0;
    float& sums = Rule::kState ? state.element[i] : kept;
    narrow(rule.step(widen(weight.element[i]), sum[i], sums), weight.element[i]);
  }
  here.store(weight, own);
  table.find(row).copies(0).each([&](char* other) { here.copy(weight, reinterpret_cast<T*>(other)); });
  if constexpr (Rule::kState) here.store(state, given.state_row(row));
}

// Steps of whole rows, `lanes` threads for each: a row's one sum needs all of its gradient, which is added up once more where a
// thread has several pieces. Lanes of a warp run in step.
template <class T, int kWide, class Rule>
HINTERLAND_FN void update_whole_rows(const UpdateParams& p, int64_t thread, int64_t threads) {
  const Table<Tiers> table = table_of<T>(p.placement, p.dim);
  const Rule rule(p);
  const int64_t lane = thread & (p.lanes - 1), groups = threads / p.lanes, own = thread / p.lanes;
  const int64_t in_warp = own - own % max_of<int64_t>(Warp::kWidth / p.lanes, 1);  // the warp's first group
  for (int64_t base = 0; in_warp + base < p.count; base += groups) {
    const int64_t place = own + base;
    const int64_t row = place < p.count ? p.key(place) : table.size();
    const bool begins = p.begins(place, row);
    RowSlice<T, kWide> weight{};
    float sum[kWide]{}, squares = 0, state = 0;
    if (begins) {
      const RowSlices<T, kWide> first(lane, p.dim);
      if (!first.none()) first.load(table.find(row).row<T>(0), weight);  // asked for first: they come over the link
      state = p.state[row];
      for (int64_t step = p.steps; step-- > 0;) {  // to the first piece, whose sums are kept
        const RowSlices<T, kWide> here(step * p.lanes + lane, p.dim);
        if (here.none()) continue;
        add_gradients(p, here, place, row, sum);
        for (int i = 0; i < here.size(); ++i) squares += sum[i] * sum[i];
      }
    }
    state += Warp::sum_within(squares, static_cast<int>(p.lanes)) / static_cast<float>(p.dim);
    if (!begins) continue;
    if (lane == 0) p.state[row] = state;
    for (int64_t step = 0; step < p.steps; ++step) {
      const RowSlices<T, kWide> here(step * p.lanes + lane, p.dim);
      if (here.none()) break;
      T* const to = table.find(row).row<T>(0);
      if (step > 0) {
        here.load(to, weight);
        add_gradients(p, here, place, row, sum);
      }
      for (int i = 0; i < here.size(); ++i) narrow(rule.step(widen(weight.element[i]), sum[i], state), weight.element[i]);
      here.store(weight, to);
      table.find(row).copies(0).each([&](char* other) { here.copy(weight, reinterpret_cast<T*>(other)); });
    }
  }
}

// The share of a thread in an update. Threads need not run in step, but for steps of whole rows. Nothing is written where
// anything is bad.
template <class T, int kWide, class Rule>
HINTERLAND_FN void update_rows(const UpdateParams& p, int64_t thread, int64_t threads) {
  if (*p.bad != 0) return;
  if constexpr (Rule::kWholeRow) {
    update_whole_rows<T, kWide, Rule>(p, thread, threads);
  } else {
    const Rule rule(p);
    for_pieces(p.count, p.lanes, p.steps, thread, threads,
               [&](int64_t place, int64_t piece) { update_piece<T, kWide>(p, rule, place, piece); });
  }
}

}  // namespace hinterland::memory
