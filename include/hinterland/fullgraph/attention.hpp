// Sums over neighbours' rows, weighted by attention: a softmax, over each vertex's list, of scores of its edges.
//
//   kGat    score(v, u) = leaky(s_u + t_v)              Velickovic et al. 2018, equation 3: s and t are numbers of each vertex
//   kGatv2  score(v, u) = a . leaky(x_u + y_v)          Brody et al. 2022, equation 7
//   kDot    score(v, u) = scale q_v . k_u               Vaswani et al. 2017, equation 1
//
// for each head, which has `channels` elements of a row. Nothing is kept for an edge: the softmax is taken as entries come,
// with the largest score so far (Milakov and Gimelshein 2018), and the gradient computes scores anew from the logarithm of each
// row's sum (as Dao et al. 2022 do). That logarithm is also what joins results over parts of a list: they are rows whose scores
// it is. So pieces of long lists, stages and shares of hubs are joined by kGat itself, with a slope of 1.
//
// A task is a row and a head; heads of a row are neighbours, so that a warp reads rows as they lie. Lanes as in aggregate.hpp.
#pragma once

#include "hinterland/core/warp.hpp"
#include "hinterland/fullgraph/aggregate.hpp"
#include "hinterland/fullgraph/part_rows.hpp"
#include "hinterland/fullgraph/tasks.hpp"

namespace hinterland::fullgraph {

inline constexpr int kMostChannels = 1024;  // of a head: 32 lanes hold 32 elements each

enum class Score : int64_t { kGat, kGatv2, kDot };
enum class AttentionPass : int64_t {
  kForward,
  kTarget,  // gradients that belong to v: along the same edges
  kSource,  // gradients that belong to u: along the edges turned round
};

struct AttentionParams {
  const int64_t* begins;  // [rows]
  const int64_t* ends;    // [rows]
  int64_t rows;
  const void* places;
  int64_t place_bytes;
  RowWords from;     // [., width] or, with kDot forward, [k, value]; kSource: [g] or, but with kGat, [g, y or q]
  RowWords numbers;  // Real[., heads]: kGat: s; kSource: [t, logarithm, delta], of heads each
  // Of the rows that the tasks are about. All but what a pass needs may be null.
  const void* row;        // [rows, width]: y or q; kSource: x, or [k, value]
  const void* gradient;   // kTarget: [rows, width]: g
  const void* number;     // Real[rows, heads]: t; kSource: s
  const void* logarithm;  // kTarget: Real[rows, heads]
  const void* delta;      // kTarget: Real[rows, heads]: g_v . out_v, by head
  const void* vector;     // kGatv2: Real[width]: a
  double slope, scale;
  int64_t loops;           // 1: every row is its own neighbour once, and its list does not name it
  int64_t first_row;       // with loops: which of the part's own rows the first one is
  const int64_t* skipped;  // [rows]: a place that does not count, or -1
  int64_t heads, channels;
  int64_t longest;
  const int64_t* piece_rows;
  const int64_t* piece_begins;
  const int64_t* piece_ends;
  int64_t pieces;
  const int64_t* row_numbers;  // [rows]: which rows of the results they are, -1: none; null: the first ones
  // Results of the rows, Real but for `out` in the last stage of a forward pass, and of pieces. What is null is not written.
  void* out;         // width: the sum; kTarget: of y or q; kSource: of x, or of the value
  void* second;      // width: kGatv2, kTarget: what the row adds to the gradient of a; kDot, kSource: of k
  void* out_number;  // heads: the logarithm; the gradient of t or s
  void* piece_out;   // the same of the pieces
  void* piece_second;
  void* piece_number;
  int64_t lanes, across;
};

// One lane of all tasks.
template <class T, class Out, class Place, class Source, int kWide, int kChunks, Score kScore, AttentionPass kPass>
class Attention {
 public:
  using R = Real<T>;
  static constexpr bool kForward = kPass == AttentionPass::kForward;
  static constexpr int kAtOnce = kWide * kChunks > 8 ? 1 : kWide * kChunks > 4 ? 2 : 4;
  static constexpr int kAhead = 8;  // entries that a CPU's caches are told of

  HINTERLAND_FN Attention(const AttentionParams& p, int lane) : p_(p), from_(p.from), numbers_(p.numbers) {
    entries_ = static_cast<int>(p.lanes / p.across);
    entry_ = lane % entries_;
    across_ = static_cast<int>(p.across);
    lane_ = lane % static_cast<int>(p.lanes) / entries_;
    vectors_ = static_cast<int>(p.channels / kWide);
    width_ = p.heads * p.channels;
  }

  // Of each row, or piece of a row, all heads in turn. All lanes of a warp call this together, with tasks of their own, or
  // none.
  HINTERLAND_FN void operator()(int64_t number) {
    const int64_t of_heads = number / p_.heads;
    const RowTask task(p_, of_heads);
    head_ = number - of_heads * p_.heads;
    const int64_t row = task.there ? task.row : 0;  // lanes without a task look at what there is
    start(row, task.there);
    gather(row, task.begin, task.end, p_.loops != 0 && task.mine && task.begins_row(p_));
    combine();
    if (task.mine) write(task.number, task.piece);
  }

 private:
  // A lane's elements of a head. Where there is room for all that a head may have, as on a CPU, only those that are there
  // count.
  struct Vectors {
    R at[kChunks * kWide];
  };
  static constexpr bool kAll = kChunks * kWide == kMostChannels;
  HINTERLAND_FN int size() const { return kAll ? vectors_ * kWide : kChunks * kWide; }
  HINTERLAND_FN int chunks() const { return kAll ? vectors_ : kChunks; }

  HINTERLAND_FN void clear(Vectors& values) const {
    for (int i = 0; i < size(); ++i) values.at[i] = 0;
  }

  HINTERLAND_FN int at(int k) const { return kAll ? k * kWide : (lane_ + k * across_) * kWide; }
  HINTERLAND_FN bool has(int k) const { return kAll || lane_ + k * across_ < vectors_; }
  HINTERLAND_FN int64_t column() const { return head_ * p_.channels; }

  // This lane's elements of a head of a row, widened; 0 where it has none.
  template <class U>
  HINTERLAND_FN void load(const U* row, Vectors& found) const {
    if constexpr (!kAll) clear(found);
    const U* const of_head = row + column();
    for (int k = 0, count = chunks(); k < count; ++k)
      if (has(k)) {
        const auto part = load_vector<U, kWide>(of_head + at(k));
        for (int i = 0; i < kWide; ++i) found.at[k * kWide + i] = widen(part.at[i]);
      }
  }

  HINTERLAND_FN R dot(const Vectors& a, const Vectors& b) const {
    R sum = 0;
    for (int i = 0; i < size(); ++i) sum += a.at[i] * b.at[i];
    return over_head(sum);
  }

  // Over the lanes that share an entry.
  HINTERLAND_FN R over_head(R value) const {
    for (int step = entries_; step < entries_ * across_; step *= 2) value += Warp::swapped(value, step);
    return value;
  }

  HINTERLAND_FN static R slope_of(R value, R below) { return value > 0 ? R{1} : below; }
  HINTERLAND_FN static R leaky(R value, R below) { return value * slope_of(value, below); }

  HINTERLAND_FN int64_t own_place(int64_t row) const { return from_.own_place(p_.first_row + row); }

  // What is the same for all entries of a row.
  HINTERLAND_FN void start(int64_t row, bool there) {
    clear(sum_);
    if constexpr (kHasSecond) clear(second_);
    const T* const rows = static_cast<const T*>(p_.row);
    const int64_t of = row * width_;
    if (!there) return;
    if constexpr (kScore == Score::kDot && kPass == AttentionPass::kSource) {
      load(rows + 2 * of, mine_), load(rows + 2 * of + width_, value_);
    } else if constexpr (kScore != Score::kGat || kPass == AttentionPass::kSource) {
      load(rows + of, mine_);
    }
    if constexpr (kScore == Score::kGatv2) load(static_cast<const R*>(p_.vector), vector_);
    if constexpr (kPass == AttentionPass::kTarget) load(static_cast<const T*>(p_.gradient) + of, gradient_);
    number_ = read(p_.number, row), logarithm_ = read(p_.logarithm, row), delta_ = read(p_.delta, row);
  }

  HINTERLAND_FN R read(const void* numbers, int64_t row) const {
    return numbers == nullptr ? R{0} : static_cast<const R*>(numbers)[row * p_.heads + head_];
  }

  // All lanes of a warp take as many turns, since they exchange values in each: entries beyond the end count for nothing.
  HINTERLAND_FN void gather(int64_t row, int64_t begin, int64_t end, bool own) {
    const int64_t first = begin - (own ? 1 : 0);  // the row itself comes before its list
    const int64_t skipped = p_.skipped != nullptr ? p_.skipped[row] : p_.loops != 0 ? own_place(row) : -1;
    const int64_t turns = Warp::max((end - first + entries_ * kAtOnce - 1) / (entries_ * kAtOnce));
    HINTERLAND_ROLLED
    for (int64_t turn = 0; turn < turns; ++turn) {
      if constexpr (kAll) expect(first + turn + kAhead, end);
      int64_t entry[kAtOnce], place[kAtOnce];
      for (int j = 0; j < kAtOnce; ++j) {
        entry[j] = first + (turn * kAtOnce + j) * entries_ + entry_;
        const bool is_own = own && entry[j] < begin;
        place[j] = entry[j] >= end ? -1 : is_own ? own_place(row) : this->place(entry[j]);
        if (!is_own && place[j] == skipped) place[j] = -1;
      }
      add(place);
    }
  }

  HINTERLAND_FN int64_t place(int64_t entry) const { return place_of<Place>(p_.places, p_.place_bytes, entry); }

  // A CPU's caches are told of an entry that comes soon.
  HINTERLAND_WITHIN void expect(int64_t entry, int64_t end) const {
    if (entry >= end) return;
    const int64_t place = this->place(entry), nbytes = p_.channels * static_cast<int64_t>(sizeof(T));
    const T* const row = from_.template row<T>(place) + column();
    prefetch_bytes(row, nbytes);
    if constexpr (kTwo) prefetch_bytes(row + width_, nbytes);
    if constexpr (kScore == Score::kGat || kPass == AttentionPass::kSource) prefetch(numbers_.template row<R>(place) + head_);
  }

  HINTERLAND_FN void add(const int64_t (&place)[kAtOnce]) {
    Vectors found[kAtOnce], other[kAtOnce];
    R numbers[kAtOnce][3] = {};
    for (int j = 0; j < kAtOnce; ++j) {
      if (place[j] < 0) continue;
      const T* const row = from_.template row<T>(place[j]);
      load(row, found[j]);
      if constexpr (kTwo) load(row + width_, other[j]);
      if constexpr (kScore == Score::kGat || kPass == AttentionPass::kSource) {
        const R* const of = numbers_.template row<R>(place[j]) + head_;
        numbers[j][0] = of[0];
        if constexpr (kPass == AttentionPass::kSource) numbers[j][1] = of[p_.heads], numbers[j][2] = of[2 * p_.heads];
      }
    }
    const auto& second = kTwo ? other : found;  // who takes one row does not look at another
    if constexpr (kForward)
      add_forward(place, found, second, numbers);
    else
      for (int j = 0; j < kAtOnce; ++j) add_backward(place[j] >= 0, found[j], second[j], numbers[j]);
  }

  // The score, and for kGatv2 what it is made of: z = x_u + y_v. `u`, `v`: their rows, of which kDot reads k and q.
  HINTERLAND_FN R score(const Vectors& u, const Vectors& v, R numbers, Vectors& z) const {
    const R below = static_cast<R>(p_.slope);
    if constexpr (kScore == Score::kGat) {
      return leaky(numbers, below);
    } else if constexpr (kScore == Score::kGatv2) {
      R sum = 0;
      for (int i = 0; i < size(); ++i) z.at[i] = u.at[i] + v.at[i], sum += vector_.at[i] * leaky(z.at[i], below);
      return over_head(sum);
    } else {
      return dot(u, v) * static_cast<R>(p_.scale);
    }
  }

  HINTERLAND_FN void add_forward(const int64_t (&place)[kAtOnce], const Vectors (&found)[kAtOnce],
                                 const Vectors (&other)[kAtOnce], const R (&numbers)[kAtOnce][3]) {
    R scores[kAtOnce], highest = highest_;
    for (int j = 0; j < kAtOnce; ++j) {
      Vectors z;
      const R given = place[j] >= 0 ? numbers[j][0] + number_ : R{0};
      const R one = score(found[j], mine_, given, z);
      scores[j] = place[j] >= 0 ? one : lowest();
      if (scores[j] > highest || scores[j] != scores[j]) highest = scores[j];  // what is no number stays
    }
    if (highest == lowest()) return;
    const R shrink = stdlib::exp(highest_ - highest);
    total_ *= shrink;
    for (int i = 0; i < size(); ++i) sum_.at[i] *= shrink;
    for (int j = 0; j < kAtOnce; ++j) {
      if (place[j] < 0) continue;
      const R weight = stdlib::exp(scores[j] - highest);
      const Vectors& value = kScore == Score::kDot ? other[j] : found[j];
      total_ += weight;
      for (int i = 0; i < size(); ++i) sum_.at[i] += weight * value.at[i];
    }
    highest_ = highest;
  }

  // With alpha = exp(score - logarithm_v) and d = alpha (g_v . value_u - delta_v), the gradient of the score.
  HINTERLAND_FN void add_backward(bool there, const Vectors& found, const Vectors& other, const R (&numbers)[3]) {
    constexpr bool kOfSource = kPass == AttentionPass::kSource;
    Vectors z;
    const R number = there ? numbers[0] + number_ : R{0};
    // kDot: u's row is k, v's is q; forward along edges they are `found` and `mine_`, turned round `mine_` and `other`.
    const R e = kOfSource ? score(mine_, other, number, z) : score(found, mine_, number, z);
    const Vectors& value = kScore != Score::kDot ? (kOfSource ? mine_ : found) : (kOfSource ? value_ : other);
    const R product = dot(kOfSource ? found : gradient_, value);
    if (!there) return;
    const R alpha = stdlib::exp(e - (kOfSource ? numbers[1] : logarithm_));
    const R d = alpha * (product - (kOfSource ? numbers[2] : delta_)), below = static_cast<R>(p_.slope);
    if constexpr (kScore == Score::kGat) total_ += d * slope_of(number, below);
    for (int i = 0, count = size(); i < count; ++i) {
      if constexpr (kOfSource) sum_.at[i] += alpha * found.at[i];
      if constexpr (kScore == Score::kGatv2) {
        sum_.at[i] += d * vector_.at[i] * slope_of(z.at[i], below);
        if constexpr (!kOfSource) second_.at[i] += d * leaky(z.at[i], below);
      }
      if constexpr (kScore == Score::kDot) {
        R& to = kOfSource ? second_.at[i] : sum_.at[i];
        to += d * static_cast<R>(p_.scale) * (kOfSource ? other.at[i] : found.at[i]);
      }
    }
  }

  // Over the lanes that have other entries of the same task.
  HINTERLAND_FN void combine() {
    for (int step = 1; step < entries_; step *= 2) {
      R mine = 1, theirs = 1;
      if constexpr (kForward) {
        const R other = Warp::swapped(highest_, step), highest = max_of(highest_, other);
        mine = highest_ == lowest() ? R{0} : stdlib::exp(highest_ - highest);
        theirs = other == lowest() ? R{0} : stdlib::exp(other - highest);
        highest_ = highest;
      }
      total_ = mine * total_ + theirs * Warp::swapped(total_, step);
      for (int i = 0; i < size(); ++i) sum_.at[i] = mine * sum_.at[i] + theirs * Warp::swapped(sum_.at[i], step);
      if constexpr (kHasSecond)
        for (int i = 0; i < size(); ++i) second_.at[i] += Warp::swapped(second_.at[i], step);
    }
  }

  HINTERLAND_FN void write(int64_t row, bool piece) {
    if (!piece && p_.row_numbers != nullptr) row = p_.row_numbers[row];
    if (entry_ != 0 || row < 0) return;
    if constexpr (kForward) {
      const bool none = total_ == 0;
      const R share = none ? R{0} : 1 / total_;
      for (int i = 0; i < size(); ++i) sum_.at[i] *= share;
      total_ = none ? lowest() : highest_ + stdlib::log(total_);
    }
    if (void* const to = piece ? p_.piece_number : p_.out_number; to != nullptr && lane_ == 0)
      static_cast<R*>(to)[row * p_.heads + head_] = total_;
    if (piece)
      store(static_cast<R*>(p_.piece_out), row, sum_), store(static_cast<R*>(p_.piece_second), row, second_);
    else
      store(static_cast<Out*>(p_.out), row, sum_), store(static_cast<R*>(p_.second), row, second_);
  }

  template <class U>
  HINTERLAND_FN void store(U* to, int64_t row, const Vectors& values) const {
    if (to == nullptr) return;
    for (int k = 0; k < chunks(); ++k) {
      if (!has(k)) continue;
      Vector<U, kWide> part;
      for (int i = 0; i < kWide; ++i) narrow(values.at[k * kWide + i], part.at[i]);
      store_vector(to + row * width_ + column() + at(k), part);
    }
  }

  HINTERLAND_FN static R lowest() { return Accumulator<T, 1, 1, Reduce::kMax>::lowest(); }

  // Whether an entry has two rows, one behind the other.
  static constexpr bool kTwo =
      (kScore == Score::kDot && kPass != AttentionPass::kSource) || (kScore != Score::kGat && kPass == AttentionPass::kSource);
  static constexpr bool kHasSecond = (kScore == Score::kGatv2 && kPass == AttentionPass::kTarget) ||
                                     (kScore == Score::kDot && kPass == AttentionPass::kSource);

  const AttentionParams& p_;
  const Source from_, numbers_;
  int entries_, entry_, across_, lane_, vectors_;
  int64_t width_, head_ = 0;
  Vectors mine_, value_, vector_, gradient_, sum_, second_;
  R number_ = 0, logarithm_ = 0, delta_ = 0;
  R highest_ = lowest(), total_ = 0;
};

}  // namespace hinterland::fullgraph
