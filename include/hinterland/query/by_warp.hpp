// Queries on a GPU: each warp has rows of its own (query/aggregate.hpp says in which order values are added).
//
// A chunk of the file goes through four kernels: its rows are filtered, numbered by their groups, added up block by block, and
// the blocks are added in their order. Columns lie in memory that the GPU addresses, most of them the host's. Those that the
// filter compares are staged: the copy engine, which is quicker than loads, brings a chunk of them into the GPU's memory, and
// so are wide ones of which nearly all sectors hold a match, once the filter has counted these. What is read of others comes
// over the link, in whole lines where a column is streamed, else in the sectors that hold values of matching rows.
//
// All is written for 32 lanes. A CPU runs it in tests (tests/query/by_warp_lanes.cpp): queries there are an engine's.
#pragma once

#include "hinterland/core/atomic.hpp"
#include "hinterland/core/bulk_load.hpp"
#include "hinterland/core/warp.hpp"
#include "hinterland/query/aggregate.hpp"

namespace hinterland::query {

// A column in one piece: value r is that of row r, or its code. There is room for whole blocks.
struct PieceColumn {
  const void* values;      // of bits: 32 rows a word
  const uint32_t* valid;   // a bit for each row; null where all have a value
  const void* staged;      // the values of the chunk's rows alone, which a copy brought into the GPU's memory; or null
  const int64_t* entries;  // what codes stand for: bits of values as they are taken, in the GPU's memory; null without codes
  Element element;         // of what lies there; decimals are kInt64
  Kind kind;               // how values are taken
  double scale;            // of decimals: 10 to the number of their digits after the point; else 1
};

// What was read of a column over the link.
struct ReadCount {
  int64_t bytes;
  int64_t least_bytes;  // the sectors that values of matching rows lie in
  int64_t streamed;     // blocks
  int64_t gathered;
};

struct ChunkFilterParams {
  const PieceColumn* columns;
  const Test* tests;  // in the order of their columns, so that each is read once
  int64_t tested;
  const int64_t* program;
  int64_t steps;       // 0: all rows match
  uint32_t* words;     // a bit for each row of the chunk
  int64_t* matched;    // rows, added to
  int64_t* touched;    // sectors of the chunk with a match, added to: of values of 8 bytes, and 2^32 for each of 4; or null
  int64_t rows;        // of the file
  int64_t begin, end;  // the chunk's, from a block's first row to the end of one
};

// A key of groups: codes, or whole numbers from `low` on, so many of them; nulls are one more.
struct GroupKey {
  int64_t column, low, values;
};

struct ChunkGroupParams {
  const PieceColumn* columns;
  const GroupKey* keys;
  int64_t keyed;
  const uint32_t* words;
  uint16_t* groups;  // of the chunk's rows
  ReadCount* counts;
  double gather_below;  // as kGatherBelow, for all types; negative: what is quickest
  int64_t begin, end;
};

struct ChunkTotalParams {
  const PieceColumn* columns;
  const Measure* measures;
  int64_t measured;
  const uint32_t* words;
  const uint16_t* groups;  // null: there is one group
  int64_t grouped;         // how many there are
  Total* totals;           // [blocks of the chunk, measured, grouped]
  ReadCount* counts;       // of each column
  double gather_below;
  int64_t begin, end;
};

struct ChunkMergeParams {
  const PieceColumn* columns;
  const Measure* measures;
  int64_t measured;
  int64_t grouped;
  const Total* totals;
  int64_t blocks;
  Total* into;  // [measured, grouped], added to
};

// The share of a block's sectors below which single values are read, of bytes and of wider values. Lanes that read neighbours
// come in one request, so single values are as quick as whole lines up to there: docs/notes/queries-on-h200.md.
inline constexpr double kGatherBelow[] = {0.55, 0.95};

inline constexpr int kStepRows = 32;       // a row for each lane
inline constexpr int kSteps = 8;           // whose reads are on their way together
inline constexpr int kUnitRows = 1024;     // that a warp filters: a word for each lane
inline constexpr int kDeepest = 32;        // stack of a predicate
inline constexpr int kMostTests = 64;      // of a predicate
inline constexpr int kBlockThreads = 128;  // of all four kernels

// out[k] becomes the value of row first + 32 k + lane. Small values come by whole lines: each lane reads eight neighbours, and
// passes them on.
template <class T>
HINTERLAND_FN void load_all(const T* values, int64_t first, T (&out)[kSteps]) {
  const int lane = Warp::lane();
  if constexpr (sizeof(T) >= 4) {
    for (int k = 0; k < kSteps; ++k) out[k] = values[first + kStepRows * k + lane];
  } else {
    constexpr int kWords = 2 * sizeof(T);  // of eight values
    struct alignas(4 * kWords) Eight {
      uint32_t words[kWords];
    };
    const Eight eight = reinterpret_cast<const Eight*>(values + first)[lane];
    const int at = lane % 8 * static_cast<int>(sizeof(T));  // byte of the value among the eight
    for (int k = 0; k < kSteps; ++k) {
      uint32_t mine = 0;
      for (int word = 0; word < kWords; ++word) {
        const uint32_t theirs = Warp::broadcast(eight.words[word], 4 * k + lane / 8);
        if (word == at / 4) mine = theirs;
      }
      mine >>= 8 * (at % 4);
      using Raw = stdlib::conditional_t<sizeof(T) == 1, uint8_t, uint16_t>;
      out[k] = stdlib::bit_cast<T>(static_cast<Raw>(mine));
    }
  }
}

// The same, as 64 bits each; of the rows whose bits are set in `rows`, or of all of them.
HINTERLAND_FN void load_bits(const PieceColumn& column, int64_t first, bool whole, const uint32_t (&rows)[kSteps],
                             int64_t (&out)[kSteps]) {
  const int lane = Warp::lane();
  if (column.element == Element::kBool) {
    const uint32_t* const words = static_cast<const uint32_t*>(column.values) + first / kStepRows;
    for (int k = 0; k < kSteps; ++k) out[k] = words[k] >> lane & 1;
    return;
  }
  with_element(column.element, [&](auto kind) {
    using T = decltype(kind);
    const T* const values = static_cast<const T*>(column.values);
    T taken[kSteps];
    if (whole) {
      load_all(values, first, taken);
    } else {
      for (int k = 0; k < kSteps; ++k) {
        taken[k] = T{};
        if (rows[k] >> lane & 1) taken[k] = values[first + kStepRows * k + lane];
      }
    }
    for (int k = 0; k < kSteps; ++k) out[k] = stdlib::bit_cast<int64_t>(wide(taken[k]));
  });
  if (column.entries == nullptr) return;
  for (int64_t& bits : out) bits = column.entries[bits];
}

HINTERLAND_FN int bytes_of(Element element) {
  int bytes = 0;
  with_element(element, [&](auto kind) { bytes = static_cast<int>(sizeof(kind)); });
  return bytes;
}

// The column, with its rows where they lie nearest: those of the chunk from row `begin` on may be staged.
HINTERLAND_FN PieceColumn nearest(PieceColumn column, int64_t begin) {
  if (column.staged != nullptr) {
    const int each = bytes_of(column.element);
    column.values = static_cast<const char*>(column.staged) - (each == 0 ? begin / 8 : begin * each);
  }
  return column;
}

// Groups of `each` neighbouring rows, of a word's 32, of which one is set.
HINTERLAND_FN int groups_set(uint32_t word, int each) {
  uint32_t firsts = 0;
  for (int at = 0; at < kStepRows; at += each) firsts |= 1u << at;
  for (int fold = 1; fold < each; fold *= 2) word |= word >> fold;
  return stdlib::popcount(word & firsts);
}

// A block's words, four for each lane: lane l has those of rows 128 l to 128 l + 127.
struct BlockWords {
  uint32_t of[4];

  HINTERLAND_FN static BlockWords read(const uint32_t* words) {
    struct alignas(16) Four {
      uint32_t of[4];
    };
    const Four four = reinterpret_cast<const Four*>(words)[Warp::lane()];
    return {{four.of[0], four.of[1], four.of[2], four.of[3]}};
  }

  HINTERLAND_FN void keep(const BlockWords& others) {
    for (int i = 0; i < 4; ++i) of[i] &= others.of[i];
  }
  HINTERLAND_FN bool any() const { return Warp::any((of[0] | of[1] | of[2] | of[3]) != 0); }
  HINTERLAND_FN int64_t count() const {
    return Warp::sum(stdlib::popcount(of[0]) + stdlib::popcount(of[1]) + stdlib::popcount(of[2]) + stdlib::popcount(of[3]));
  }

  // Those of 256 rows, the same in each lane.
  HINTERLAND_FN void steps(int batch, uint32_t (&rows)[kSteps]) const {
    for (int k = 0; k < kSteps; ++k) rows[k] = Warp::broadcast(of[k % 4], 2 * batch + k / 4);
  }

  // Sectors that values of so many bytes lie in; 0 bytes are bits.
  HINTERLAND_FN int64_t sectors(int bytes) const {
    if (bytes == 0) {
      uint32_t some = of[0] | of[1] | of[2] | of[3];
      some |= Warp::swapped(some, 1);  // 256 rows: two lanes'
      return Warp::sum(some != 0 && Warp::lane() % 2 == 0 ? 1 : 0);
    }
    int found = 0;
    for (const uint32_t word : of) found += groups_set(word, kSectorBytes / bytes);
    return Warp::sum(found);
  }
};

// How a column is read in a block, and the rows of `words` that have a value in it.
struct BlockReading {
  const PieceColumn* column;
  bool whole;

  // Counts what is read, too. `values`: whether they are.
  HINTERLAND_FN BlockReading(const PieceColumn& from, ReadCount& count, int64_t block, double gather_below, bool values,
                             BlockWords& words)
      : column(&from), whole(false) {
    int64_t bytes = 0, least = 0;
    if (from.valid != nullptr) {
      bytes += kBlockRows / 8;
      least += kSectorBytes * words.sectors(0);
      words.keep(BlockWords::read(from.valid + block / kStepRows));
    }
    if (values && from.staged == nullptr) {
      const int each = bytes_of(from.element);
      const int64_t sectors = words.sectors(each), all = each == 0 ? kBlockRows / 8 : kBlockRows * each;
      const double below = gather_below >= 0 ? gather_below : kGatherBelow[each == 1 ? 0 : 1];
      whole = each == 0 || static_cast<double>(kSectorBytes * sectors) >= below * static_cast<double>(all);
      bytes += whole ? all : kSectorBytes * sectors;
      least += kSectorBytes * sectors;
    }
    if (Warp::lane() == 0 && bytes != 0) {
      atomic_add(count.bytes, bytes);
      atomic_add(count.least_bytes, least);
      atomic_add(whole ? count.streamed : count.gathered, int64_t{1});
    }
  }

  HINTERLAND_FN void load(int64_t first, int64_t begin, const uint32_t (&rows)[kSteps], int64_t (&out)[kSteps]) const {
    load_bits(nearest(*column, begin), first, whole, rows, out);
  }
};

// Bits of the rows first + 32 lane and the 31 after it that are there.
HINTERLAND_FN uint64_t rows_there(int64_t first, int64_t rows) {
  const int64_t left = rows - first - kStepRows * Warp::lane();
  return left >= kStepRows ? 0xffffffffu : left <= 0 ? 0u : (1u << left) - 1;
}

// Which of eight times 32 values a test of one column takes.
HINTERLAND_FN bool taken(const Test& test, Kind kind, int64_t bits) {
  if (test.kind == TestKind::kTable) return test.table[bits] != 0;
  bool holds = false;
  with_kind(kind, [&](auto type) {
    using T = decltype(type);
    holds = in_range(wide_of_bits<T>(bits), wide_of_bits<T>(test.low), wide_of_bits<T>(test.high));
  });
  return holds;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define HINTERLAND_BULK_LOADS 1
#else
#define HINTERLAND_BULK_LOADS 0
#endif

// A warp's shared memory, into which values of 1024 rows come together; before compute capability 9.0 lanes read them where
// they are.
class UnitStage {
 public:
  HINTERLAND_FN UnitStage()
#if HINTERLAND_BULK_LOADS
      : load_(room(), barrier(), Warp::lane() == 0) {
    Warp::sync();
  }
#else
  {
  }
#endif

  // The column, with the rows from `first` on where they are read from.
  HINTERLAND_FN PieceColumn stage_column(PieceColumn column, [[maybe_unused]] int64_t first) {
#if HINTERLAND_BULK_LOADS
    const int each = bytes_of(column.element);
    if (each == 0) return column;
    Warp::sync();  // nobody reads what came before
    if (Warp::lane() == 0) load_.begin(static_cast<const char*>(column.values) + first * each, kUnitRows * each);
    load_.wait();
    column.values = room() - first * each;
#endif
    return column;
  }

#if HINTERLAND_BULK_LOADS
 private:
  HINTERLAND_FN static char* room() {
    __shared__ __align__(128) char bytes[kBlockThreads / Warp::kWidth][kUnitRows * sizeof(int64_t)];
    return bytes[threadIdx.x / Warp::kWidth];
  }
  HINTERLAND_FN static BulkBarrier* barrier() {
    __shared__ BulkBarrier barriers[kBlockThreads / Warp::kWidth];
    return &barriers[threadIdx.x / Warp::kWidth];
  }

  BulkLoad load_;
#endif
};

// 1024 rows. Each lane has the truth of 32 of them.
HINTERLAND_FN void filter_unit(const ChunkFilterParams& p, int64_t first, UnitStage& stage) {
  const int lane = Warp::lane();
  const uint64_t there = rows_there(first, p.rows);
  const auto valid_of = [&](const PieceColumn& column) {
    return column.valid == nullptr ? there : there & column.valid[first / kStepRows + lane];
  };
  const uint32_t all[kSteps] = {};
  uint32_t holds[kMostTests];  // of each test
  const auto load = [&](const PieceColumn& column, int batch, int64_t (&bits)[kSteps]) {
    load_bits(column, first + int64_t{kSteps} * kStepRows * batch, true, all, bits);
  };
  for (int64_t at = 0; at < p.tested;) {
    const int64_t group = at;
    const PieceColumn column = nearest(p.columns[p.tests[group].column], p.begin);
    const bool pair = p.tests[group].kind == TestKind::kPair;
    bool values = false;  // whether any test needs them
    for (; at < p.tested && p.tests[at].column == p.tests[group].column && (p.tests[at].kind == TestKind::kPair) == pair;
         ++at) {
      holds[at] = 0;
      values |= p.tests[at].kind != TestKind::kNull;
      if (pair && at > group) break;  // each pair by itself
    }
    if (pair) at = group + 1;
    const PieceColumn brought = values ? stage.stage_column(column, first) : column;
    for (int batch = 0; values && batch < kUnitRows / kStepRows / kSteps; ++batch) {
      int64_t bits[kSteps], others[kSteps];
      load(brought, batch, bits);
      if (pair) load(nearest(p.columns[p.tests[group].other], p.begin), batch, others);
      for (int64_t number = group; number < at; ++number) {
        const Test& test = p.tests[number];
        if (test.kind == TestKind::kNull) continue;
        for (int k = 0; k < kSteps; ++k) {
          bool mine = false;
          if (pair) {
            with_kind(column.kind, [&](auto a) {
              with_kind(p.columns[test.other].kind, [&](auto b) {
                mine = (order_of(wide_of_bits<decltype(a)>(bits[k]), wide_of_bits<decltype(b)>(others[k])) & test.orders) != 0;
              });
            });
          } else {
            mine = first + kStepRows * (kSteps * batch + k) + lane < p.rows && taken(test, column.kind, bits[k]);
          }
          const uint32_t word = Warp::ballot(mine);
          if (lane == kSteps * batch + k) holds[number] = word;
        }
      }
    }
  }
  Truth stack[kDeepest];
  int depth = 0;
  for (int64_t i = 0; i < p.steps; ++i) {
    const int64_t step = p.program[i];
    if (step >= 0) {
      const Test& test = p.tests[step];
      uint64_t valid = valid_of(p.columns[test.column]);
      if (test.kind == TestKind::kPair) valid &= valid_of(p.columns[test.other]);
      const Truth truth = test.kind == TestKind::kNull ? Truth{there & ~valid, there} : Truth{holds[step] & valid, valid};
      stack[depth++] = test.negated != 0 ? negation(truth) : truth;
    } else if (step == kNot) {
      stack[depth - 1] = negation(stack[depth - 1]);
    } else {
      --depth;
      stack[depth - 1] = step == kAnd ? both(stack[depth - 1], stack[depth]) : either(stack[depth - 1], stack[depth]);
    }
  }
  const auto word = static_cast<uint32_t>(p.steps == 0 ? there : stack[0].holds);
  p.words[(first - p.begin) / kStepRows + lane] = word;
  const int64_t matched = Warp::sum(stdlib::popcount(word));
  if (lane == 0 && matched != 0) atomic_add(*p.matched, matched);
  if (p.touched == nullptr || matched == 0) return;
  const int64_t touched = Warp::sum(groups_set(word, 4) + (int64_t{groups_set(word, 8)} << 32));
  if (lane == 0) atomic_add(*p.touched, touched);
}

// The groups of a block's rows.
HINTERLAND_FN void number_block(const ChunkGroupParams& p, int64_t block) {
  const BlockWords words = BlockWords::read(p.words + (block - p.begin) / kStepRows);
  if (!words.any()) return;
  const int lane = Warp::lane();
  uint32_t whole = 0;  // keys
  for (int64_t key = 0; key < p.keyed; ++key) {
    BlockWords has = words;
    const int64_t column = p.keys[key].column;
    const BlockReading reading(p.columns[column], p.counts[column], block, p.gather_below, true, has);
    whole |= static_cast<uint32_t>(reading.whole) << key;
  }
  for (int batch = 0; batch < kBlockRows / kStepRows / kSteps; ++batch) {
    uint32_t rows[kSteps];
    words.steps(batch, rows);
    const int64_t first = block + int64_t{kSteps} * kStepRows * batch;
    int64_t numbers[kSteps] = {}, bits[kSteps];
    for (int64_t i = 0; i < p.keyed; ++i) {
      const GroupKey key = p.keys[i];
      PieceColumn column = nearest(p.columns[key.column], p.begin);
      column.entries = nullptr;  // groups go by codes
      load_bits(column, first, (whole >> i & 1) != 0, rows, bits);
      for (int k = 0; k < kSteps; ++k) {
        const bool has = column.valid == nullptr || (column.valid[first / kStepRows + k] >> lane & 1) != 0;
        numbers[k] = numbers[k] * (key.values + 1) + (has ? bits[k] - key.low : key.values);
      }
    }
    for (int k = 0; k < kSteps; ++k) {
      if (rows[k] >> lane & 1) p.groups[first - p.begin + kStepRows * k + lane] = static_cast<uint16_t>(numbers[k]);
    }
  }
}

HINTERLAND_FN Kind kind_of(const PieceColumn* columns, const Measure& measure) {
  if (measure.divisor >= 0) return Kind::kFloat;
  return measure.column < 0 ? Kind::kSigned : columns[measure.column].kind;
}

// The total of a lane's group, while its rows come one after the other.
template <class T>
class GroupTotal {
 public:
  HINTERLAND_FN explicit GroupTotal(Total* totals) : totals_(totals) {}

  HINTERLAND_FN Total& of(int group) {
    if (group != at_) {
      write();
      at_ = group;
      mine_ = totals_[group];
    }
    return mine_;
  }
  HINTERLAND_FN void write() const {
    if (at_ >= 0) totals_[at_] = mine_;
  }

  // The rows of a step that are set in `rows`, in their order; each lane has the group and the bits of its row.
  HINTERLAND_FN void add(const Measure& measure, uint32_t rows, int groups, int64_t bits) {
    for (uint32_t left = rows; left != 0; left &= left - 1) {
      const int from = stdlib::countr_zero(left);
      const int group = Warp::broadcast(groups, from);
      const T value = wide_of_bits<T>(Warp::broadcast(bits, from));
      if (group % Warp::kWidth != Warp::lane()) continue;
      Total& total = of(group);
      ++total.count;
      if (measure.adds != 0) add_value(total, value);
      if (measure.bounds != 0) widen_bounds(total, value);
    }
  }

 private:
  Total* totals_;
  int at_ = -1;
  Total mine_;
};

// What a lane adds up of its rows, where there are no groups.
template <class T>
class LaneTotal {
 public:
  HINTERLAND_FN void add(T value) {
    if constexpr (stdlib::is_same_v<T, double>) {
      sum_ += value;
    } else {
      halves_.add(value);
    }
    widen_bounds(bounds_, value);
  }

  // All lanes' together.
  HINTERLAND_FN void write(const Measure& measure, int64_t count, Total* to) {
    for (int half = kLanes / 2; half > 0; half /= 2) {
      sum_ += Warp::swapped(sum_, half);  // lane l takes lane l + 16, then l + 8, ...
      Total other{};
      other.least = Warp::swapped(bounds_.least, half);
      other.greatest = Warp::swapped(bounds_.greatest, half);
      join_bounds<T>(bounds_, other);
    }
    halves_.high = Warp::sum(halves_.high);
    halves_.low = Warp::sum(halves_.low);
    if (Warp::lane() != 0) return;
    Total total = nothing<T>();
    total.count = count;
    total.sum = sum_;
    if constexpr (!stdlib::is_same_v<T, double>) add_halves(total, halves_);
    if (measure.bounds != 0) total.least = bounds_.least, total.greatest = bounds_.greatest;
    *to = total;
  }

 private:
  double sum_ = 0;
  Halves halves_{};
  Total bounds_ = nothing<T>();
};

// A measure's totals of a block. Lane g of a warp has groups g, g + 32, ...; without groups each lane has rows.
template <class T>
HINTERLAND_FN void total_block(const ChunkTotalParams& p, const Measure& measure, int64_t block, Total* totals) {
  const int lane = Warp::lane();
  BlockWords words = BlockWords::read(p.words + (block - p.begin) / kStepRows);
  for (int64_t group = lane; group < p.grouped; group += Warp::kWidth) totals[group] = nothing<T>();
  if (!words.any()) return;
  const bool values = measure.adds != 0 || measure.bounds != 0;
  const PieceColumn none{};
  ReadCount nowhere{};
  const auto reading_of = [&](int64_t column) {
    return column < 0 ? BlockReading(none, nowhere, block, 0, false, words)
                      : BlockReading(p.columns[column], p.counts[column], block, p.gather_below, values, words);
  };
  const BlockReading over = reading_of(measure.column), under = reading_of(measure.divisor);
  if (p.groups == nullptr && !values) {
    const int64_t count = words.count();
    if (lane == 0) totals[0].count = count;
    return;
  }
  LaneTotal<T> lane_total;
  GroupTotal<T> group_total(totals);
  for (int batch = 0; batch < kBlockRows / kStepRows / kSteps; ++batch) {
    uint32_t rows[kSteps];
    words.steps(batch, rows);
    uint32_t some = 0;
    for (const uint32_t word : rows) some |= word;
    if (some == 0) continue;
    const int64_t first = block + int64_t{kSteps} * kStepRows * batch;
    int64_t bits[kSteps] = {};
    int groups[kSteps] = {};
    if (p.groups != nullptr) {
      for (int k = 0; k < kSteps; ++k) groups[k] = p.groups[first - p.begin + kStepRows * k + lane];
    }
    if (values) over.load(first, p.begin, rows, bits);
    if (values && measure.divisor >= 0) {
      int64_t divisors[kSteps];
      under.load(first, p.begin, rows, divisors);
      for (int k = 0; k < kSteps; ++k)
        bits[k] = bits_of_wide(as_double(over.column->kind, bits[k], over.column->scale) /
                               as_double(under.column->kind, divisors[k], under.column->scale));
    }
    for (int k = 0; k < kSteps; ++k) {
      if (p.groups != nullptr) {
        group_total.add(measure, rows[k], groups[k], bits[k]);
      } else if (rows[k] >> lane & 1) {
        lane_total.add(wide_of_bits<T>(bits[k]));
      }
    }
  }
  if (p.groups != nullptr) {
    group_total.write();
  } else {
    lane_total.write(measure, words.count(), totals);
  }
}

// Adds the blocks' totals of a group in their order.
template <class T>
HINTERLAND_FN void merge_blocks(const ChunkMergeParams& p, int64_t measure, int64_t group) {
  Total& into = p.into[measure * p.grouped + group];
  Total sums = into, rest = nothing<T>();  // floats, which all lanes add; and what the order does not matter for, by lanes
  const auto read = [&](int64_t at) {
    return at < p.blocks ? p.totals[(at * p.measured + measure) * p.grouped + group] : nothing<T>();
  };
  Total next = read(Warp::lane());
  for (int64_t base = 0; base < p.blocks; base += Warp::kWidth) {
    Total block = next;
    next = read(base + Warp::kWidth + Warp::lane());  // on its way while the others are added
    if constexpr (stdlib::is_same_v<T, double>) {
      for (uint32_t left = Warp::ballot(block.count != 0); left != 0; left &= left - 1)
        add_compensated(sums, Warp::broadcast(block.sum, stdlib::countr_zero(left)));
    }
    block.sum = 0;
    add_block<T>(rest, block);
  }
  for (int half = Warp::kWidth / 2; half > 0; half /= 2) {
    Total other{};
    other.count = Warp::swapped(rest.count, half);
    other.low = Warp::swapped(rest.low, half);
    other.high = Warp::swapped(rest.high, half);
    other.least = Warp::swapped(rest.least, half);
    other.greatest = Warp::swapped(rest.greatest, half);
    add_block<T>(rest, other);
  }
  Warp::sync();  // all have read what is written now
  if (Warp::lane() != 0) return;
  rest.sum = 0;
  Total merged = sums;
  add_block<T>(merged, rest);
  merged.sum = sums.sum, merged.rest = sums.rest;
  into = merged;
}

}  // namespace hinterland::query
