// Sums and maxima over the rows that a part's vertices name (MGG, sections 4.2 and 4.3).
//
// A task (tasks.hpp) has `lanes` neighbouring lanes of a warp (a power of two): `across` of them for each of `lanes / across`
// entries at a time, every one of which takes kChunks vectors of the row. Sums stay in registers, and each row's sum is written
// once: pieces go to a buffer of their own, over which a second call sums in their order. So no addition is atomic, and the
// same call gives the same bits.
//
// Where a row is wider than the lanes have vectors, `tiles` tasks share it.
//
// A CPU's warp has one lane. Its sums lie in the first cache: so it has room for wide rows, and of its chunks those count that
// a row has.
#pragma once

#include "hinterland/core/warp.hpp"
#include "hinterland/fullgraph/part_rows.hpp"
#include "hinterland/fullgraph/tasks.hpp"

namespace hinterland::fullgraph {

inline constexpr int kAggregateThreads = 256;  // of a GPU's block at most
inline constexpr int kCpuElements = 1024;      // of a row that a CPU's lane takes at a time

// How entries are combined.
enum class Reduce : int64_t {
  kSum,
  kMax,
  kCount,  // how many entries' rows are the row `mine`, by element
  kMatch,  // the gradient of kMax: see below
};

// What becomes of a row's result, in this order. All but `out` may be null.
struct Finish {
  const void* before;      // Real[rows, width]: what other entries of the rows gave; may be `out`, where that is Real
  const void* scale;       // Real[rows]: with kSum: the sum is multiplied by it
  const int64_t* degrees;  // [rows]: entries anywhere: a row without any becomes 0, and with kSum others are divided by them
  void* out;               // [rows, width]
};

struct AggregateParams {
  const int64_t* begins;  // [rows]: each row's entries are [begin, end)
  const int64_t* ends;    // [rows]
  int64_t rows;
  const void* places;  // [entries], of place_bytes; none: an entry's place is its own number
  int64_t place_bytes;
  const void* weights;  // Real[entries], or null
  RowWords from;
  const void* mine;             // kCount, kMatch: [rows, width]: what is compared
  const void* own;              // Real[rows]: kSum: how often a row counts itself; null: not at all
  int64_t out_stride;           // elements from one row of Finish::out to the next
  int64_t first_row;            // with own: which of the part's own rows the first one is
  int64_t width;                // elements of a row
  int64_t longest;              // entries of a task: rows with more are in pieces
  const int64_t* piece_rows;    // [pieces]
  const int64_t* piece_begins;  // [pieces]
  const int64_t* piece_ends;    // [pieces]
  int64_t pieces;
  void* partial;               // Real[pieces, width]
  const int64_t* row_numbers;  // [rows]: which rows of Finish's arrays they are, -1: none; null: the first ones
  Finish finish;
  int64_t lanes, across;  // of a task; see above
  int64_t blocks;         // of a tile, on a GPU
};

// The gradient of a maximum y_v = max x_u goes to those x_u that are y_v, in equal shares (as torch has it). Read along the
// edges turned round: for each u the sum, over the v that read it, of (x_u == y_v) g_v / count_v. A row of the source is y_v
// and behind it g_v / count_v.

template <class T, int kWide, int kChunks, Reduce kReduce>
class Accumulator {
 public:
  using R = Real<T>;

  HINTERLAND_FN explicit Accumulator(int chunks = kChunks) {
    for (int k = 0; k < chunks; ++k)
      for (R& one : value_[k].at) one = kReduce == Reduce::kMax ? lowest() : R{0};
  }

  // A vector of an entry's row, times `weight`.
  HINTERLAND_FN void add(int chunk, const Vector<T, kWide>& row, R weight) {
    for (int i = 0; i < kWide; ++i) {
      R& to = value_[chunk].at[i];
      if constexpr (kReduce == Reduce::kMax)
        to = both(to, widen(row.at[i]));
      else
        to += weight * widen(row.at[i]);
    }
  }

  HINTERLAND_FN void count(int chunk, const Vector<T, kWide>& mine, const Vector<T, kWide>& row) {
    for (int i = 0; i < kWide; ++i) value_[chunk].at[i] += widen(mine.at[i]) == widen(row.at[i]) ? R{1} : R{0};
  }

  HINTERLAND_FN void match(int chunk, const Vector<T, kWide>& mine, const Vector<T, kWide>& row,
                           const Vector<T, kWide>& share) {
    for (int i = 0; i < kWide; ++i)
      if (widen(mine.at[i]) == widen(row.at[i])) value_[chunk].at[i] += widen(share.at[i]);
  }

  // What was found so far.
  HINTERLAND_FN void join(int chunk, const Vector<R, kWide>& before) {
    for (int i = 0; i < kWide; ++i) value_[chunk].at[i] = both(value_[chunk].at[i], before.at[i]);
  }

  // Over `lanes` neighbouring lanes, which have other entries of the same task.
  HINTERLAND_FN void combine(int lanes) {
    for (int step = 1; step < lanes; step *= 2)
      for (auto& chunk : value_)
        for (R& one : chunk.at) one = both(one, Warp::swapped(one, step));
  }

  HINTERLAND_FN Vector<R, kWide>& chunk(int k) { return value_[k]; }

  HINTERLAND_FN static R lowest() {
    if constexpr (sizeof(R) == 8)
      return stdlib::bit_cast<double>(uint64_t{0xfff0000000000000});
    else
      return float_of(0xff800000u);
  }

 private:
  HINTERLAND_FN static R both(R a, R b) {
    if constexpr (kReduce == Reduce::kMax)
      return b > a || b != b ? b : a;  // what is no number stays
    else
      return a + b;
  }

  Vector<R, kWide> value_[kChunks];
};

// One lane of all tasks. T: elements that are read, Out: those that are written. Place: see place_of(). kWhole: a row's width
// is a whole number of tiles.
template <class T, class Out, class Place, class Source, int kWide, int kChunks, Reduce kReduce, bool kWhole>
class Aggregation {
 public:
  using R = Real<T>;
  using Sum = Accumulator<T, kWide, kChunks, kReduce>;
  static constexpr bool kOnCpu = Warp::kWidth == 1;
  static constexpr int kAtOnce = kChunks >= 4 && !kOnCpu ? 2 : 4;  // entries whose rows are under way

  HINTERLAND_FN Aggregation(const AggregateParams& p, int64_t tile, int lane) : p_(p), from_(p.from) {
    entries_ = static_cast<int>(p.lanes / p.across);
    entry_ = lane % entries_;
    across_ = static_cast<int>(p.across);
    first_ = (static_cast<int>(tile) * kChunks) * across_ + lane % static_cast<int>(p.lanes) / entries_;
    vectors_ = static_cast<int>(p.width / kWide);
  }

  // All lanes of a warp call this together, with tasks of their own, or none.
  HINTERLAND_FN void operator()(int64_t number) const {
    RowTask task(p_, number);
    if (!task.piece && task.begin == task.end && adds_in_place()) task.mine = false;
    Sum sum(chunks());
    if (p_.own != nullptr && task.mine && entry_ == 0 && task.begins_row(p_)) add_own(task.row, sum);
    gather(task.row, task.begin, task.end, sum);
    sum.combine(entries_);
    if (!task.mine) return;
    if (task.piece) return keep(task.number, sum);
    const int64_t row = p_.row_numbers == nullptr ? task.number : p_.row_numbers[task.number];
    if (row >= 0) finish(row, sum);
  }

 private:
  // Whether a row without entries stays what it is.
  HINTERLAND_FN bool adds_in_place() const {
    const Finish& f = p_.finish;
    return f.before == f.out && f.scale == nullptr && f.degrees == nullptr && p_.own == nullptr;
  }

  HINTERLAND_FN int vector(int k) const { return first_ + k * (kOnCpu ? 1 : across_); }
  HINTERLAND_FN bool has(int at) const { return kWhole || kOnCpu || at < vectors_; }
  HINTERLAND_FN int chunks() const { return kOnCpu && !kWhole ? min_of(kChunks, vectors_ - first_) : kChunks; }

  HINTERLAND_FN int64_t place(int64_t entry) const { return place_of<Place>(p_.places, p_.place_bytes, entry); }

  HINTERLAND_FN void add_own(int64_t row, Sum& sum) const {
    for (int k = 0; k < chunks(); ++k)
      if (has(vector(k)))
        sum.add(k, load_vector<T, kWide>(p_.from.own.template row<T>(p_.first_row + row) + vector(k) * kWide),
                static_cast<const R*>(p_.own)[row]);
  }

  HINTERLAND_FN void gather(int64_t row, int64_t begin, int64_t end, Sum& sum) const {
    int64_t entry = begin + entry_;
    if constexpr (kOnCpu) expect(entry, min_of(entry + kAtOnce, end));
    for (; entry + (kAtOnce - 1) * entries_ < end; entry += kAtOnce * entries_) {
      if constexpr (kOnCpu) expect(entry + kAtOnce, min_of(entry + 2 * kAtOnce, end));
      add<kAtOnce>(row, entry, sum);
    }
    HINTERLAND_ROLLED
    for (; entry < end; entry += entries_) add<1>(row, entry, sum);
  }

  HINTERLAND_FN Vector<T, kWide> mine(int64_t row, int at) const {
    return load_vector<T, kWide>(static_cast<const T*>(p_.mine) + row * p_.width + at);
  }

  template <int kCount>
  HINTERLAND_FN void add(int64_t row, int64_t entry, Sum& sum) const {
    const T* rows[kCount];
    R weights[kCount];
    for (int j = 0; j < kCount; ++j) {
      rows[j] = from_.template row<T>(place(entry + j * entries_));
      weights[j] =
          kReduce == Reduce::kSum && p_.weights != nullptr ? static_cast<const R*>(p_.weights)[entry + j * entries_] : R{1};
    }
    if constexpr (kOnCpu) {
      for (int k = 0, count = chunks(); k < count; ++k) {
        HINTERLAND_UNROLLED
        for (int j = 0; j < kCount; ++j)
          add(row, k, load_vector<T, kWide>(rows[j] + vector(k) * kWide), rows[j], weights[j], sum);
      }
    } else {  // the rows of all are asked for before the first is needed
      Vector<T, kWide> found[kCount][kChunks];
      for (int j = 0; j < kCount; ++j)
        for (int k = 0; k < kChunks; ++k)
          if (has(vector(k))) found[j][k] = load_vector<T, kWide>(rows[j] + vector(k) * kWide);
      for (int j = 0; j < kCount; ++j)
        for (int k = 0; k < kChunks; ++k)
          if (has(vector(k))) add(row, k, found[j][k], rows[j], weights[j], sum);
    }
  }

  // A vector of an entry's row, which begins at `from`.
  HINTERLAND_FN void add(int64_t row, int k, const Vector<T, kWide>& found, const T* from, R weight, Sum& sum) const {
    const int at = vector(k) * kWide;
    if constexpr (kReduce == Reduce::kCount)
      sum.count(k, mine(row, at), found);
    else if constexpr (kReduce == Reduce::kMatch)
      sum.match(k, mine(row, at), found, load_vector<T, kWide>(from + p_.width + at));
    else
      sum.add(k, found, weight);
  }

  // A CPU's caches are told of rows that come next: 2 to 4 times as fast where rows lie behind them.
  HINTERLAND_WITHIN void expect(int64_t entry, int64_t end) const {
    for (; entry < end; ++entry) {
      const T* const row = from_.template row<T>(place(entry)) + first_ * kWide;
      const int64_t nbytes = chunks() * kWide * static_cast<int64_t>(sizeof(T));
      prefetch_bytes(row, nbytes);
      if constexpr (kReduce == Reduce::kMatch) prefetch_bytes(row + p_.width, nbytes);
    }
  }

  // Of the lanes that all have a task's sums, each writes some vectors.
  template <class Write>
  HINTERLAND_FN void each_chunk(Sum& sum, const Write& write) const {
    for (int k = 0; k < chunks(); ++k)
      if (k % entries_ == entry_ && has(vector(k))) write(k, vector(k) * kWide, sum.chunk(k));
  }

  HINTERLAND_FN void keep(int64_t piece, Sum& sum) const {
    R* const to = static_cast<R*>(p_.partial) + piece * p_.width;
    each_chunk(sum, [&](int, int at, const Vector<R, kWide>& value) { store_vector(to + at, value); });
  }

  HINTERLAND_WITHIN void finish(int64_t row, Sum& sum) const {
    const Finish& f = p_.finish;
    const int64_t degree = f.degrees == nullptr ? 1 : f.degrees[row];
    R scale = f.scale == nullptr ? R{1} : static_cast<const R*>(f.scale)[row];
    if (kReduce == Reduce::kSum && degree > 1) scale /= static_cast<R>(degree);
    each_chunk(sum, [&](int k, int at, Vector<R, kWide>& value) {
      if (f.before != nullptr) sum.join(k, load_vector<R, kWide>(static_cast<const R*>(f.before) + row * p_.width + at));
      Vector<Out, kWide> out;
      for (int i = 0; i < kWide; ++i) narrow(degree == 0 ? R{0} : value.at[i] * scale, out.at[i]);
      store_vector(static_cast<Out*>(f.out) + row * p_.out_stride + at, out);
    });
  }

  const AggregateParams& p_;
  const Source from_;
  int entries_, entry_, across_, first_, vectors_;
};

}  // namespace hinterland::fullgraph
