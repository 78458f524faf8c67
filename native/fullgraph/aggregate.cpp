// Aggregation on the CPU: a thread is a warp of one lane.
#include "hinterland/fullgraph/aggregate.hpp"

#include "bindings.hpp"
#include "core/pool.hpp"
#include "core/thresholds.hpp"
#include "fullgraph/element.hpp"
#include "fullgraph/params.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(fullgraph::Finish, before, scale, degrees, out);
HINTERLAND_STRUCT(fullgraph::AggregateParams, begins, ends, rows, places, place_bytes, weights, from, mine, own, out_stride,
                  first_row, width, longest, piece_rows, piece_begins, piece_ends, pieces, partial, row_numbers, finish, lanes,
                  across, blocks);
HINTERLAND_STRUCT(fullgraph::CutParams, begins, ends, rows, longest, count, piece_rows, piece_begins, piece_ends, long_rows,
                  long_begins, long_ends);

namespace {

using fullgraph::AggregateParams, fullgraph::Reduce;

// kElements: of a row that a lane takes at a time; kWhole: a row has as many.
template <class T, class Out, Reduce kReduce, class Place, class Source, int kElements = fullgraph::kCpuElements,
          bool kWhole = false>
void each_task(const AggregateParams& p) {
  using Lane = fullgraph::Aggregation<T, Out, Place, Source, 1, kElements, kReduce, kWhole>;
  const int64_t tiles = ceil_div<int64_t>(p.width, kElements);
  const auto task = [&](int64_t i) {
    for (int64_t tile = 0; tile < tiles; ++tile) Lane(p, tile, 0)(i);
  };
  parallel_for(p.pieces + p.rows, task, kRowTasksTogether);
}

// What is common has instances of its own: sums and maxima of a type in that type, over what one part has. Of narrow rows they
// stay in registers; halves take longer to be made wider.
template <class T, class Out, Reduce kReduce>
void run(const AggregateParams& p) {
  using fullgraph::AnyPlace, fullgraph::AnyRows, fullgraph::HaloRows;
  if constexpr (std::is_same_v<T, Out> && (kReduce == Reduce::kSum || kReduce == Reduce::kMax)) {
    if (p.place_bytes == sizeof(uint32_t) && p.from.owners == nullptr) {
      if constexpr (sizeof(T) >= sizeof(float)) {
        if (p.width == 1) return each_task<T, Out, kReduce, uint32_t, HaloRows, 1, true>(p);
        if (p.width == 16) return each_task<T, Out, kReduce, uint32_t, HaloRows, 16, true>(p);
      }
      return each_task<T, Out, kReduce, uint32_t, HaloRows>(p);
    }
  }
  each_task<T, Out, kReduce, AnyPlace, AnyRows>(p);
}

template <class T, class Out>
void by_reduce(const AggregateParams& p, Reduce reduce) {
  switch (reduce) {
    case Reduce::kSum: run<T, Out, Reduce::kSum>(p); break;
    case Reduce::kMax: run<T, Out, Reduce::kMax>(p); break;
    case Reduce::kCount: run<T, Out, Reduce::kCount>(p); break;
    case Reduce::kMatch: run<T, Out, Reduce::kMatch>(p); break;
  }
}

// A row's elements become their own type or the one that is computed in; what was computed in it becomes any.
void aggregate(const AggregateParams& p, RowElement type, RowElement to, Reduce reduce) {
  with_row_element(type, [&](auto from) {
    with_row_element(to, [&](auto out) {
      using T = decltype(from);
      using Out = decltype(out);
      if constexpr (std::is_same_v<T, Out> || std::is_same_v<Out, fullgraph::Real<T>>)
        by_reduce<T, Out>(p, reduce);
      else if constexpr (std::is_same_v<T, fullgraph::Real<Out>>)
        reduce == Reduce::kMax ? run<T, Out, Reduce::kMax>(p) : run<T, Out, Reduce::kSum>(p);
    });
  });
}

void cut_rows(const fullgraph::CutParams& p) {
  parallel_for(p.count, [&](int64_t number) { fullgraph::cut_at(p, number); });
}

}  // namespace

const Binding fullgraph_aggregate([](nanobind::module_& m) {
  using nanobind::arg;
  def_loop(m, "aggregate_rows", aggregate, arg("type"), arg("out_type"), arg("reduce"));
  def_loop(m, "cut_rows", cut_rows);
  m.attr("AGGREGATE_THREADS") = fullgraph::kAggregateThreads;
  m.attr("ROW_BITS") = nanobind::make_tuple(fullgraph::kRowBits32, fullgraph::kRowBits64);
});

}  // namespace hinterland::native
