// Attention and its gradients as a warp makes them, several lanes to a head and several entries at a time, against one lane
// that goes through them one by one (which tests compare with torch): lists of all lengths, also in pieces, heads and channels,
// with and without each row as its own neighbour. Prints the first seed that goes wrong.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "../rounds.hpp"
#include "hinterland/fullgraph/attention.hpp"

using namespace hinterland;
using namespace hinterland::fullgraph;

namespace {

using Numbers = std::vector<double>;

struct Case {
  int64_t rows, places, heads, channels, longest, loops;
  std::vector<int64_t> begins, ends, piece_rows, piece_begins, piece_ends;
  std::vector<uint32_t> entries;
  Numbers from, numbers, row, gradient, number, logarithm, delta, vector;
};

Numbers random_numbers(std::mt19937& random, int64_t count) {
  Numbers found(count);
  for (double& one : found) one = static_cast<double>(random() % 2000) / 1000 - 1;
  return found;
}

Case random_case(std::mt19937& random, int wide) {
  Case c;
  c.rows = 1 + random() % 20, c.places = c.rows + random() % 20;
  c.heads = 1 + random() % 3, c.channels = wide * (1 + random() % 9);
  c.longest = 1 + random() % 40, c.loops = random() % 2;
  for (int64_t row = 0; row < c.rows; ++row) {
    const int64_t count = random() % 3 == 0 ? 0 : random() % (random() % 4 == 0 ? 120 : 9);
    c.begins.push_back(static_cast<int64_t>(c.entries.size()));
    for (int64_t i = 0; i < count; ++i) c.entries.push_back(random() % c.places);
    c.ends.push_back(static_cast<int64_t>(c.entries.size()));
    for (int64_t at = c.begins.back(); count > c.longest && at < c.ends.back(); at += c.longest) {
      c.piece_rows.push_back(row), c.piece_begins.push_back(at);
      c.piece_ends.push_back(std::min(at + c.longest, c.ends.back()));
    }
  }
  const int64_t width = c.heads * c.channels;
  c.from = random_numbers(random, c.places * 2 * width), c.numbers = random_numbers(random, c.places * 3 * c.heads);
  c.row = random_numbers(random, c.rows * 2 * width), c.gradient = random_numbers(random, c.rows * width);
  c.number = random_numbers(random, c.rows * c.heads), c.logarithm = random_numbers(random, c.rows * c.heads);
  c.delta = random_numbers(random, c.rows * c.heads), c.vector = random_numbers(random, width);
  return c;
}

// All results, of the rows and of the pieces. What no task writes stays 0.
template <int kWide, int kChunks, Score kScore, AttentionPass kPass>
Numbers results(const Case& c, int across, int entries) {
  const int64_t width = c.heads * c.channels, pieces = static_cast<int64_t>(c.piece_rows.size());
  const int64_t read =
      (kScore == Score::kDot && kPass != AttentionPass::kSource) || (kScore != Score::kGat && kPass == AttentionPass::kSource)
          ? 2
          : 1;
  Numbers out(c.rows * width), second(out), number(c.rows * c.heads);
  Numbers piece_out(pieces * width), piece_second(piece_out), piece_number(pieces * c.heads);
  AttentionParams p{};
  p.begins = c.begins.data(), p.ends = c.ends.data(), p.rows = c.rows, p.places = c.entries.data(), p.place_bytes = 4;
  const auto array = [](const Numbers& held, int64_t columns) {
    return RowArray{reinterpret_cast<const char*>(held.data()), columns * static_cast<int64_t>(sizeof(double))};
  };
  p.from = {array(c.from, read * width), {}, c.places, nullptr, 0, 0};
  p.numbers = {array(c.numbers, (kPass == AttentionPass::kSource ? 3 : 1) * c.heads), {}, c.places, nullptr, 0, 0};
  p.row = c.row.data(), p.gradient = c.gradient.data(), p.number = c.number.data(), p.logarithm = c.logarithm.data();
  p.delta = c.delta.data(), p.vector = c.vector.data(), p.slope = 0.2, p.scale = 0.5, p.loops = c.loops;
  p.heads = c.heads, p.channels = c.channels, p.longest = c.longest, p.pieces = pieces;
  p.piece_rows = c.piece_rows.data(), p.piece_begins = c.piece_begins.data(), p.piece_ends = c.piece_ends.data();
  p.out = out.data(), p.out_number = number.data(), p.piece_out = piece_out.data(), p.piece_number = piece_number.data();
  if ((kScore == Score::kGatv2 && kPass == AttentionPass::kTarget) ||
      (kScore == Score::kDot && kPass == AttentionPass::kSource))
    p.second = second.data(), p.piece_second = piece_second.data();
  p.lanes = across * entries, p.across = across;
  const int64_t tasks = (pieces + c.rows) * c.heads, at_once = Warp::kWidth / p.lanes;
  Lanes::run([&] {
    for (int64_t first = 0; first < tasks; first += at_once)
      Attention<double, double, uint32_t, HaloRows, kWide, kChunks, kScore, kPass>(
          p, Warp::lane())(first + Warp::lane() / p.lanes);
  });
  for (const Numbers* part : {&second, &number, &piece_out, &piece_second, &piece_number})
    out.insert(out.end(), part->begin(), part->end());
  return out;
}

template <Score kScore, AttentionPass kPass>
bool agrees(std::mt19937& random) {
  const int across = 1 << random() % 4, entries = 1 << random() % (6 - __builtin_ctz(across));
  Case c = random_case(random, 2);
  c.channels = std::min<int64_t>(c.channels, across * 4);  // what the lanes have room for
  const Numbers wanted = results<1, 32, kScore, kPass>(c, 1, 1);
  const Numbers found = results<2, 2, kScore, kPass>(c, across, entries);
  for (size_t i = 0; i < wanted.size(); ++i)
    if (!(std::abs(found[i] - wanted[i]) <= 1e-9 * (1 + std::abs(wanted[i]))) && found[i] != wanted[i]) return false;
  return true;
}

template <Score kScore>
bool all_agree(std::mt19937& random) {
  return agrees<kScore, AttentionPass::kForward>(random) && agrees<kScore, AttentionPass::kTarget>(random) &&
         agrees<kScore, AttentionPass::kSource>(random);
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < test::rounds(24); ++seed) {
    std::mt19937 random(seed);
    if (!all_agree<Score::kGat>(random) || !all_agree<Score::kGatv2>(random) || !all_agree<Score::kDot>(random)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
  }
}
