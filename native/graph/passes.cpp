// Passes over arrays with a number for each vertex, before, between and after runs (src/hinterland/graph/passes.py).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "core/team.hpp"
#include "graph/bind_views.hpp"
#include "hinterland/graph/sswp.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

template <class Element>
void fill_elements(void* to, int64_t count, int64_t value) {
  Element* const elements = static_cast<Element*>(to);
  ThreadTeam team;
  team.pieces_for(
      count, [&](int64_t begin, int64_t end) { std::fill(elements + begin, elements + end, static_cast<Element>(value)); });
}

// element_bytes (4 or 8) is the width of an element.
void fill(void* to, int element_bytes, int64_t count, int64_t value) {
  element_bytes == 8 ? fill_elements<int64_t>(to, count, value) : fill_elements<int32_t>(to, count, value);
}

void scale(double* values, int64_t count, double factor) {
  ThreadTeam team;
  team.pieces_for(count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) values[i] *= factor;
  });
}

void divide(double* values, int64_t count, double by) {
  parallel_pieces(count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) values[i] /= by;
  });
}

void add(double* to, int64_t count, double factor, const double* values) {
  parallel_pieces(count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] += factor * values[i];
  });
}

void multiply(const double* left, const double* right, int64_t count, double* to) {
  parallel_pieces(count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = left[i] * right[i];
  });
}

// number / values[i] as PyTorch finds it, by the reciprocal; and 0 where that is 0.
void shares(double number, const double* values, int64_t count, double* to) {
  parallel_pieces(count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = values[i] == 0 ? 0 : 1 / values[i] * number;
  });
}

// The sum of term(i) for i in [0, count): the same for any number of threads.
template <class Term>
double sum_of(int64_t count, const Term& term) {
  constexpr int64_t kLanes = 8;  // sums at once, so that none waits for the last addition
  std::vector<double> sums(ceil_div(count, kItemsOfPiece));
  parallel_pieces(count, [&](int64_t begin, int64_t end) {
    std::array<double, kLanes> lanes{};
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes)
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
    for (; i < end; ++i) lanes[0] += term(i);
    sums[begin / kItemsOfPiece] = std::accumulate(lanes.begin(), lanes.end(), 0.0);
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// With `where` of those values alone for which it has a 0.
double total(const double* values, int64_t count, const double* where) {
  if (where == nullptr) return sum_of(count, [&](int64_t i) { return values[i]; });
  return sum_of(count, [&](int64_t i) { return where[i] == 0 ? values[i] : 0; });
}

double length(const double* values, int64_t count) {
  return std::sqrt(sum_of(count, [&](int64_t i) { return values[i] * values[i]; }));
}

double distance(const double* left, const double* right, int64_t count) {
  return sum_of(count, [&](int64_t i) { return std::abs(left[i] - right[i]); });
}

// Labels of four bytes are the first half of the memory that they take with eight. From the end, half of those that are left
// each time are written where nothing is to be read any more.
void widen_labels(void* memory, int64_t count) {
  using Label [[gnu::may_alias]] = uint32_t;
  const Label* const labels = static_cast<const Label*>(memory);
  int64_t* const widened = static_cast<int64_t*>(memory);
  ThreadTeam team;
  for (int64_t end = count; end > 0;) {
    const int64_t first = end > 1 ? ceil_div<int64_t>(end, 2) : 0;
    team.pieces_for(end - first, [&](int64_t begin, int64_t past) {
      for (int64_t i = first + begin; i < first + past; ++i) widened[i] = labels[i];
    });
    end = first;
  }
}

// Integer keys of shortest paths as distances, -1 where there is none; those of eight bytes are distances as they are. The
// first vertex whose distance is more than keys can say, or -1.
template <class Weight>
int64_t distances_of(const void* given, int64_t count, int64_t* distances) {
  using Policy = graph::Shortest<Weight>;
  using Key = typename Policy::Key;
  const Key* const keys = static_cast<const Key*>(given);
  int64_t first = count;
  ThreadTeam team;
  team.pieces_for(count, [&](int64_t begin, int64_t end) {
    bool exceeds = false;
    for (int64_t i = begin; i < end; ++i) {
      exceeds |= keys[i] == Policy::kOverflow;
      if constexpr (sizeof(Key) < 8) distances[i] = static_cast<int64_t>(static_cast<Key>(keys[i] + 1)) - 1;
    }
    if (exceeds) atomic_min(first, static_cast<int64_t>(std::find(keys + begin, keys + end, Policy::kOverflow) - keys));
  });
  return first < count ? first : -1;
}

int64_t distances(const void* keys, int key_bytes, int64_t count, int64_t* distances) {
  return key_bytes == 8 ? distances_of<int64_t>(keys, count, distances) : distances_of<int32_t>(keys, count, distances);
}

// The inverse of Widest::key_of: of a float its bits, in place of no integer the least of eight bytes.
template <class Weight>
auto width_of(graph::KeyFor<Weight> key) {
  using Policy = graph::Widest<Weight>;
  using Key = typename Policy::Key;
  constexpr Key kRest = static_cast<Key>(~graph::kSignBit<Key>);
  if constexpr (Policy::kFloat)
    return key & graph::kSignBit<Key> ? key : key ^ kRest;
  else
    return key == Policy::kUnset ? std::numeric_limits<int64_t>::min()
                                 : int64_t{static_cast<std::make_signed_t<Key>>(key ^ kRest)};
}

// Keys of widest paths as widths: of floats, of integers int64. Those that are as wide as keys may take their place.
void widths(const void* given, WeightKind kind, int64_t count, void* to) {
  with_weight(kind, [&]<class Weight>(Weight) {
    using Width = decltype(width_of<Weight>(0));
    const auto* const keys = static_cast<const graph::KeyFor<Weight>*>(given);
    Width* const found = static_cast<Width*>(to);
    ThreadTeam team;
    team.pieces_for(count, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) found[i] = width_of<Weight>(keys[i]);
    });
  });
}

}  // namespace

const Binding graph_passes([](nb::module_& m) {
  def_native(m, "fill", fill, nb::arg("to"), nb::arg("element_bytes"), nb::arg("count"), nb::arg("value"));
  def_native(m, "scale", scale, nb::arg("values"), nb::arg("count"), nb::arg("factor"));
  def_native(m, "divide", divide, nb::arg("values"), nb::arg("count"), nb::arg("by"));
  def_native(m, "add", add, nb::arg("to"), nb::arg("count"), nb::arg("factor"), nb::arg("values"));
  def_native(m, "multiply", multiply, nb::arg("left"), nb::arg("right"), nb::arg("count"), nb::arg("to"));
  def_native(m, "shares", shares, nb::arg("number"), nb::arg("values"), nb::arg("count"), nb::arg("to"));
  def_native(m, "total", total, nb::arg("values"), nb::arg("count"), nb::arg("where"));
  def_native(m, "length", length, nb::arg("values"), nb::arg("count"));
  def_native(m, "distance", distance, nb::arg("left"), nb::arg("right"), nb::arg("count"));
  def_native(m, "widen_labels", widen_labels, nb::arg("memory"), nb::arg("count"));
  def_native(m, "distances", distances, nb::arg("keys"), nb::arg("key_bytes"), nb::arg("count"), nb::arg("distances"));
  def_native(m, "widths", widths, nb::arg("keys"), nb::arg("weight_bytes"), nb::arg("weight_order"), nb::arg("count"),
             nb::arg("widths"));
});

}  // namespace hinterland::native
