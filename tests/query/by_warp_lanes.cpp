// A query's chunk by the 32 lanes of a warp: filtered, grouped, added up and merged, against the same row by row. Columns are
// of all widths, with nulls, NaN, codes, bits and a staged one; values are read whole, singly, and as the kernels choose.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "hinterland/query/by_warp.hpp"

using namespace hinterland;
using namespace hinterland::query;

namespace {

constexpr int64_t kBlocks = 3, kRoom = kBlocks * kBlockRows, kRows = kRoom - 100;
constexpr int64_t kBegin = kBlockRows;  // of the chunk: the second and the third block
__extension__ using Wide128 = __int128;

std::mt19937_64 random_bits;

void require(bool right, const char* what) {
  if (right) return;
  std::printf("%s\n", what);
  std::exit(1);
}

// A column, and its values as they are taken, one by one.
struct Column {
  std::vector<uint64_t> memory, staged;  // in words, so that all is aligned
  std::vector<uint32_t> valid;
  std::vector<int64_t> entries, bits, stored;  // stored: before entries
  std::vector<char> has;
  PieceColumn piece{};
};

template <class T, class Draw>
Column column_of(Element element, Kind kind, bool nulls, bool staged, const Draw& draw) {
  Column made;
  made.memory.resize(kRoom * sizeof(T) / 8 + 8);
  T* const values = reinterpret_cast<T*>(made.memory.data());
  made.valid.resize(kRoom / 32);
  for (int64_t row = 0; row < kRows; ++row) {
    values[row] = draw();
    const bool has = !nulls || random_bits() % 5 != 0;
    if (has) made.valid[row / 32] |= 1u << row % 32;
    made.has.push_back(has);
    made.bits.push_back(bits_of_wide(wide(values[row])));
  }
  made.stored = made.bits;
  made.piece = {values, nulls ? made.valid.data() : nullptr, nullptr, nullptr, element, kind, 1};
  if (staged) {
    made.staged.assign(made.memory.begin() + kBegin * sizeof(T) / 8, made.memory.end());
    made.piece.values = nullptr, made.piece.staged = made.staged.data();
  }
  return made;
}

std::vector<Column> columns() {
  std::vector<Column> all;
  const auto whole = [](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_bits() % (most - least + 1));
  };
  all.push_back(
      column_of<int8_t>(Element::kInt8, Kind::kSigned, true, false, [&] { return static_cast<int8_t>(whole(-9, 9)); }));
  all.push_back(column_of<uint16_t>(Element::kUint16, Kind::kUnsigned, false, false,
                                    [&] { return static_cast<uint16_t>(whole(0, 999)); }));
  all.push_back(
      column_of<uint8_t>(Element::kUint8, Kind::kFloat, true, false, [&] { return static_cast<uint8_t>(whole(0, 15)); }));
  all.push_back(column_of<double>(Element::kFloat64, Kind::kFloat, true, false, [&] {
    return random_bits() % 50 == 0 ? std::nan("") : std::ldexp(static_cast<double>(whole(-999, 999)), whole(-40, 40));
  }));
  all.push_back(column_of<int64_t>(Element::kInt64, Kind::kSigned, true, true, [&] {
    return random_bits() % 50 == 0 ? static_cast<int64_t>(random_bits()) : whole(-1500, 1500);
  }));
  all.push_back(column_of<float>(Element::kFloat32, Kind::kFloat, false, true, [&] { return std::ldexp(whole(-99, 99), -3); }));
  Column& codes = all[2];
  for (int i = 0; i < 16; ++i) codes.entries.push_back(bits_of_wide(0.5 * i - 3));
  codes.piece.entries = codes.entries.data();
  for (int64_t& bits : codes.bits) bits = codes.entries[bits];
  Column flags;
  flags.memory.resize(kRoom / 64);
  for (int64_t row = 0; row < kRows; ++row) {
    const bool set = random_bits() % 3 == 0;
    reinterpret_cast<uint32_t*>(flags.memory.data())[row / 32] |= static_cast<uint32_t>(set) << row % 32;
    flags.bits.push_back(set), flags.has.push_back(1);
  }
  flags.stored = flags.bits;
  flags.piece = {flags.memory.data(), nullptr, nullptr, nullptr, Element::kBool, Kind::kSigned, 1};
  all.push_back(std::move(flags));
  all[4].piece.scale = 100;
  return all;
}

enum Number { kSmall, kShort, kCode, kReal, kLong, kNarrow, kFlag };

std::vector<Test> tests(const std::vector<uint8_t>& table) {
  const auto range = [](Number column, auto low, auto high, bool negated) {
    return Test{TestKind::kRange, column, 0, negated, bits_of_wide(low), bits_of_wide(high), nullptr, 0};
  };
  return {
      range(kSmall, int64_t{-5}, int64_t{6}, false),
      Test{TestKind::kNull, kSmall, 0, 1, 0, 0, nullptr, 0},
      Test{TestKind::kPair, kShort, kLong, 0, 0, 0, nullptr, kLess | kEqual},
      Test{TestKind::kPair, kShort, kReal, 1, 0, 0, nullptr, kGreater},
      range(kReal, -1e6, 1e6, true),
      Test{TestKind::kNull, kReal, 0, 0, 0, 0, nullptr, 0},
      range(kLong, int64_t{-700}, int64_t{900}, false),
      range(kNarrow, -4.0, 7.5, false),
      Test{TestKind::kTable, kFlag, 0, 0, 0, 0, table.data(), 0},
  };
}

// 1: holds, 0: does not, -1: it is not known.
int truth_of(const Test& test, const std::vector<Column>& all, int64_t row) {
  const Column& column = all[test.column];
  int truth = 0;
  if (test.kind == TestKind::kNull) {
    truth = column.has[row] ? 0 : 1;
  } else if (!column.has[row] || (test.kind == TestKind::kPair && !all[test.other].has[row])) {
    return -1;
  } else if (test.kind == TestKind::kTable) {
    truth = test.table[column.bits[row]];
  } else {
    with_kind(column.piece.kind, [&](auto a) {
      using A = decltype(a);
      const auto value = wide_of_bits<A>(column.bits[row]);
      if (test.kind == TestKind::kRange) {
        truth = value >= wide_of_bits<A>(test.low) && value <= wide_of_bits<A>(test.high);
        return;
      }
      with_kind(all[test.other].piece.kind, [&](auto b) {
        // Of values that a long double holds.
        const auto mine = static_cast<long double>(value);
        const auto other = static_cast<long double>(wide_of_bits<decltype(b)>(all[test.other].bits[row]));
        truth = ((test.orders & kLess) != 0 && mine < other) || ((test.orders & kEqual) != 0 && mine == other) ||
                ((test.orders & kGreater) != 0 && mine > other);
      });
    });
  }
  return test.negated != 0 ? 1 - truth : truth;
}

bool holds(const std::vector<int64_t>& program, const std::vector<Test>& all_tests, const std::vector<Column>& all,
           int64_t row) {
  if (row >= kRows) return false;
  std::vector<int> stack;
  for (const int64_t step : program) {
    if (step >= 0) {
      stack.push_back(truth_of(all_tests[step], all, row));
      continue;
    }
    const int right = stack.back();
    stack.pop_back();
    if (step == kNot) {
      stack.push_back(right < 0 ? -1 : 1 - right);
      continue;
    }
    int& left = stack.back();
    const int decides = step == kAnd ? 0 : 1;
    left = left == decides || right == decides ? decides : left < 0 || right < 0 ? -1 : 1 - decides;
  }
  return stack.empty() || stack.back() == 1;
}

std::vector<int64_t> program_of(int64_t count) {
  std::vector<int64_t> program{static_cast<int64_t>(random_bits() % count)};
  for (uint64_t more = random_bits() % 5; more > 0; --more) {
    program.push_back(static_cast<int64_t>(random_bits() % count));
    if (random_bits() % 3 == 0) program.push_back(kNot);
    program.push_back(random_bits() % 2 == 0 ? kAnd : kOr);
  }
  return program;
}

double double_of(const Column& column, int64_t row) {
  double value = 0;
  with_kind(column.piece.kind, [&](auto type) { value = static_cast<double>(wide_of_bits<decltype(type)>(column.bits[row])); });
  return value / column.piece.scale;
}

// What one measure is of some rows, in their order.
struct Expected {
  int64_t count = 0;
  Wide128 whole = 0;
  double real = 0, least = HUGE_VAL, greatest = -HUGE_VAL;
  int64_t first = INT64_MAX, last = INT64_MIN;
};

Expected expected_of(const Measure& measure, const std::vector<Column>& all, const std::vector<int64_t>& rows, bool grouped) {
  Expected found;
  std::map<int64_t, std::array<double, 32>> blocks;
  for (const int64_t row : rows) {
    if (measure.column >= 0 && !all[measure.column].has[row]) continue;
    if (measure.divisor >= 0 && !all[measure.divisor].has[row]) continue;
    ++found.count;
    if (measure.column < 0) continue;
    const Column& column = all[measure.column];
    double value = double_of(column, row) * column.piece.scale;
    if (measure.divisor >= 0) value = double_of(column, row) / double_of(all[measure.divisor], row);
    blocks[row / kBlockRows][grouped ? 0 : row % 32] += value;
    found.whole += column.bits[row];
    found.first = std::min(found.first, column.bits[row]), found.last = std::max(found.last, column.bits[row]);
    if (value < found.least) found.least = value;
    if (value > found.greatest) found.greatest = value;
  }
  double rest = 0;
  for (auto& [block, lanes] : blocks) {
    for (int half = 16; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    const double sum = found.real + lanes[0];
    rest += std::abs(found.real) >= std::abs(lanes[0]) ? (found.real - sum) + lanes[0] : (lanes[0] - sum) + found.real;
    found.real = sum;
  }
  found.real += rest;
  return found;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void check(const Measure& measure, const std::vector<Column>& all, const Total& total, const Expected& expected) {
  require(total.count == expected.count, "a count is wrong");
  const bool real = measure.divisor >= 0 || (measure.column >= 0 && all[measure.column].piece.kind == Kind::kFloat);
  if (measure.adds != 0 && real) require(same(total.sum + total.rest, expected.real), "a sum of floats is not in its order");
  if (measure.adds != 0 && !real)
    require((static_cast<Wide128>(total.high) << 64) + total.low == expected.whole, "a sum of whole numbers is not exact");
  if (measure.bounds == 0 || expected.count == 0) return;
  const bool right =
      real ? wide_of_bits<double>(total.least) == expected.least && wide_of_bits<double>(total.greatest) == expected.greatest
           : total.least == expected.first && total.greatest == expected.last;
  require(right, "a least or a greatest value is wrong");
}

// Totals of the chunk, after those of the first block, which are `into`.
void add_up(const std::vector<Column>& all, const std::vector<PieceColumn>& pieces, const std::vector<uint32_t>& words,
            const std::vector<int64_t>& matched, double gather_below, bool grouped) {
  const std::vector<Measure> measures{{-1, -1, 0, 0},        {kSmall, -1, 1, 1}, {kReal, -1, 1, 1},   {kLong, -1, 1, 1},
                                      {kLong, kShort, 1, 0}, {kCode, -1, 1, 1},  {kNarrow, -1, 0, 1}, {kShort, -1, 0, 0}};
  const std::vector<GroupKey> keys{{kSmall, -9, 19}, {kFlag, 0, 2}, {kCode, 0, 16}};
  const int64_t blocks = kBlocks - 1, many = grouped ? 20 * 3 * 17 : 1, count = std::ssize(measures);
  std::vector<uint16_t> groups(kRoom - kBegin);
  std::vector<ReadCount> counts(all.size());
  std::vector<int64_t> group_of(kRoom);
  if (grouped) {
    const ChunkGroupParams p{pieces.data(), keys.data(),  std::ssize(keys), words.data(), groups.data(),
                             counts.data(), gather_below, kBegin,           kRoom};
    for (int64_t block = kBegin; block < kRoom; block += kBlockRows) Lanes::run([&] { number_block(p, block); });
    for (const int64_t row : matched) {
      for (const GroupKey& key : keys) {
        const Column& column = all[key.column];
        group_of[row] = group_of[row] * (key.values + 1) + (column.has[row] ? column.stored[row] - key.low : key.values);
      }
      require(groups[row - kBegin] == group_of[row], "a row has another group");
    }
  }
  std::vector<Total> totals(blocks * count * many), into(count * many);
  const ChunkTotalParams p{pieces.data(), measures.data(), count,         words.data(), grouped ? groups.data() : nullptr,
                           many,          totals.data(),   counts.data(), gather_below, kBegin,
                           kRoom};
  const ChunkMergeParams merge{pieces.data(), measures.data(), count, many, totals.data(), blocks, into.data()};
  for (int64_t i = 0; i < count; ++i) {
    with_kind(kind_of(pieces.data(), measures[i]), [&](auto kind) {
      using T = decltype(kind);
      for (int64_t b = 0; b < blocks; ++b)
        Lanes::run([&] { total_block<T>(p, measures[i], kBegin + b * kBlockRows, &totals[(b * count + i) * many]); });
      for (int64_t group = 0; group < many; ++group) {
        into[i * many + group] = nothing<T>();
        Lanes::run([&] { merge_blocks<T>(merge, i, group); });
      }
    });
    std::map<int64_t, std::vector<int64_t>> rows_of;
    for (const int64_t row : matched) rows_of[group_of[row]].push_back(row);
    for (int64_t group = 0; group < many; ++group)
      check(measures[i], all, into[i * many + group], expected_of(measures[i], all, rows_of[group], grouped));
  }
  for (const ReadCount& one : counts) require(one.least_bytes <= one.bytes, "less is read than values lie in");
  if (gather_below == 0) require(counts[kReal].gathered == 0, "values are read singly that were to be read whole");
  require(counts[kNarrow].bytes == 0, "a staged column is read over the link");
}

void ask() {
  const std::vector<Column> all = columns();
  std::vector<PieceColumn> pieces;
  for (const Column& column : all) pieces.push_back(column.piece);
  const std::vector<uint8_t> table{0, 1};
  const std::vector<Test> all_tests = tests(table);
  const std::vector<int64_t> program = random_bits() % 6 == 0 ? std::vector<int64_t>{} : program_of(std::ssize(all_tests));
  std::vector<uint32_t> words((kRoom - kBegin) / 32);
  int64_t matched = 0, touched = 0;
  const ChunkFilterParams p{pieces.data(),
                            all_tests.data(),
                            std::ssize(all_tests),
                            program.data(),
                            std::ssize(program),
                            words.data(),
                            &matched,
                            &touched,
                            kRows,
                            kBegin,
                            kRoom};
  for (int64_t first = kBegin; first < kRoom; first += kUnitRows)
    Lanes::run([&] {
      UnitStage stage;
      filter_unit(p, first, stage);
    });
  std::vector<int64_t> rows;
  int64_t sectors = 0;  // of 4 values, and of 8
  for (int64_t row = kBegin; row < kRoom; ++row) {
    const bool expected = holds(program, all_tests, all, row);
    require((words[(row - kBegin) / 32] >> row % 32 & 1) == static_cast<uint32_t>(expected), "a row is filtered wrongly");
    if (!expected) continue;
    const int64_t before = rows.empty() ? -1 : rows.back();
    sectors += (before / 4 != row / 4) + (static_cast<int64_t>(before / 8 != row / 8) << 32);
    rows.push_back(row);
  }
  require(matched == std::ssize(rows) && touched == sectors, "matches are counted wrongly");
  for (const double gather_below : {-1.0, 0.0, 2.0}) add_up(all, pieces, words, rows, gather_below, false);
  add_up(all, pieces, words, rows, random_bits() % 2 == 0 ? 0.0 : 2.0, true);
}

}  // namespace

int main() {
  for (int turn = 0; turn < 6; ++turn) {
    random_bits.seed(turn);
    ask();
  }
  return 0;
}
