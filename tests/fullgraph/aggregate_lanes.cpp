// Sums, maxima, counts and the gradient of maxima as a warp makes them, against loops in double: rows of all lengths, also in
// pieces, of every width and cut, with weights, own rows and what was found before. Prints the first seed that goes wrong.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "../rounds.hpp"
#include "hinterland/fullgraph/aggregate.hpp"

using namespace hinterland;
using namespace hinterland::fullgraph;

namespace {

struct Case {
  int64_t rows, own, halo, width, longest;
  std::vector<int64_t> begins, ends;
  std::vector<uint32_t> places;
  std::vector<double> weights, x, scale, once, before;
  std::vector<int64_t> piece_rows, piece_begins, piece_ends;
};

Case random_case(std::mt19937& random, int wide) {
  Case c;
  c.rows = 1 + random() % 40, c.own = c.rows + random() % 20, c.halo = random() % 30;
  c.width = wide * (1 + random() % 40), c.longest = 1 + random() % 50;
  for (int64_t row = 0; row < c.rows; ++row) {
    const int64_t count = random() % 3 == 0 ? 0 : random() % (random() % 5 == 0 ? 200 : 12);
    c.begins.push_back(static_cast<int64_t>(c.places.size()));
    for (int64_t i = 0; i < count; ++i) c.places.push_back(random() % (c.own + c.halo)), c.weights.push_back(random() % 5);
    c.ends.push_back(static_cast<int64_t>(c.places.size()));
    for (int64_t at = c.begins.back(); count > c.longest && at < c.ends.back(); at += c.longest) {
      c.piece_rows.push_back(row), c.piece_begins.push_back(at);
      c.piece_ends.push_back(std::min(at + c.longest, c.ends.back()));
    }
    c.scale.push_back(1 + random() % 3), c.once.push_back(random() % 2);
  }
  for (int64_t i = 0; i < (c.own + c.halo) * c.width; ++i) c.x.push_back(static_cast<int>(random() % 9) - 4);
  for (int64_t i = 0; i < c.rows * c.width; ++i) c.before.push_back(static_cast<int>(random() % 9) - 4);
  return c;
}

template <Reduce kReduce>
double expected(const Case& c, int64_t row, int64_t at) {
  double found = kReduce == Reduce::kMax ? -INFINITY : 0;
  for (int64_t i = c.begins[row]; i < c.ends[row]; ++i) {
    const double value = c.x[c.places[i] * c.width + at];
    if (kReduce == Reduce::kSum) found += c.weights[i] * value;
    if (kReduce == Reduce::kMax) found = std::max(found, value);
    if (kReduce == Reduce::kCount) found += value == c.x[row * c.width + at];
  }
  const double before = c.before[row * c.width + at];
  if (kReduce == Reduce::kSum) return (found + c.once[row] * c.x[row * c.width + at] + before) * c.scale[row];
  return kReduce == Reduce::kMax ? std::max(found, before) : found + before;
}

template <Reduce kReduce, int kWide, int kChunks, bool kWhole>
bool agrees(const Case& c, int across, int entries) {
  std::vector<double> out(c.rows * c.width), partial(c.piece_rows.size() * c.width);
  AggregateParams p{};
  p.begins = c.begins.data(), p.ends = c.ends.data(), p.rows = c.rows, p.places = c.places.data(), p.place_bytes = 4;
  const char* const base = reinterpret_cast<const char*>(c.x.data());
  const int64_t stride = c.width * static_cast<int64_t>(sizeof(double));
  p.from = {{base, stride}, {base + c.own * stride, stride}, c.own, nullptr, 0, 0};
  p.mine = c.x.data(), p.width = p.out_stride = c.width, p.longest = c.longest;
  p.piece_rows = c.piece_rows.data(), p.piece_begins = c.piece_begins.data(), p.piece_ends = c.piece_ends.data();
  p.pieces = static_cast<int64_t>(c.piece_rows.size()), p.partial = partial.data();
  p.finish.before = c.before.data(), p.finish.out = out.data();
  if (kReduce == Reduce::kSum) p.weights = c.weights.data(), p.own = c.once.data(), p.finish.scale = c.scale.data();
  p.lanes = across * entries, p.across = across;
  const int64_t vectors = c.width / kWide, tiles = ceil_div<int64_t>(vectors, across * kChunks);
  const int64_t at_once = 32 / p.lanes, tasks = p.pieces + p.rows;
  Lanes::run([&] {
    for (int64_t tile = 0; tile < tiles; ++tile)
      for (int64_t first = 0; first < tasks; first += at_once)
        Aggregation<double, double, uint32_t, HaloRows, kWide, kChunks, kReduce, kWhole>(
            p, tile, Warp::lane())(first + Warp::lane() / p.lanes);
  });
  // The second call, over the pieces.
  std::vector<int64_t> numbers, firsts, lasts;
  for (int64_t i = 0; i < p.pieces; ++i) {
    if (numbers.empty() || numbers.back() != c.piece_rows[i])
      numbers.push_back(c.piece_rows[i]), firsts.push_back(i), lasts.push_back(i);
    ++lasts.back();
  }
  AggregateParams q{};
  q.begins = firsts.data(), q.ends = lasts.data(), q.rows = static_cast<int64_t>(numbers.size());
  q.from = {{reinterpret_cast<const char*>(partial.data()), stride}, {}, p.pieces, nullptr, 0, 0};
  q.width = q.out_stride = c.width, q.longest = 1 << 20, q.row_numbers = numbers.data(), q.finish = p.finish;
  q.lanes = across, q.across = across;
  constexpr Reduce kJoin = kReduce == Reduce::kMax ? Reduce::kMax : Reduce::kSum;
  Lanes::run([&] {
    for (int64_t tile = 0; tile < tiles; ++tile)
      for (int64_t first = 0; first < q.rows; first += 32 / across)
        Aggregation<double, double, void, HaloRows, kWide, kChunks, kJoin, kWhole>(q, tile,
                                                                                   Warp::lane())(first + Warp::lane() / across);
  });
  for (int64_t row = 0; row < c.rows; ++row)
    for (int64_t at = 0; at < c.width; ++at)
      if (out[row * c.width + at] != expected<kReduce>(c, row, at)) return false;
  return true;
}

template <int kWide, int kChunks>
bool all_agree(unsigned seed) {
  std::mt19937 random(seed);
  const int across = 1 << random() % 6, entries = 1 << random() % 6 % (6 - __builtin_ctz(across));
  Case c = random_case(random, kWide);
  const auto every = [&]<bool kWhole> {
    return agrees<Reduce::kSum, kWide, kChunks, kWhole>(c, across, entries) &&
           agrees<Reduce::kMax, kWide, kChunks, kWhole>(c, across, entries) &&
           agrees<Reduce::kCount, kWide, kChunks, kWhole>(c, across, entries);
  };
  if (!every.template operator()<false>()) return false;
  if (c.width % (kWide * kChunks * across) != 0) return true;
  return every.template operator()<true>();
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < test::rounds(40); ++seed)
    if (!all_agree<1, 1>(seed) || !all_agree<2, 1>(seed) || !all_agree<2, 2>(seed) || !all_agree<1, 4>(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
}
