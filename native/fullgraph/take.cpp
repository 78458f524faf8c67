// Rows brought from where they are, by all threads of the CPU.
#include "hinterland/fullgraph/take.hpp"

#include "bindings.hpp"
#include "core/pool.hpp"
#include "core/thresholds.hpp"
#include "fullgraph/params.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(fullgraph::TakeParams, places, place_bytes, count, begin, from, units, to, lanes);

namespace {

template <int kUnitBytes>
void take(const fullgraph::TakeParams& p) {
  const auto some = [&](int64_t first) {
    const int64_t begin = first * kRowsTaken;
    fullgraph::TakeParams part = p;
    part.places = static_cast<const char*>(p.places) + begin * p.place_bytes;
    part.to = p.to + begin * p.units * kUnitBytes;
    part.count = std::min(kRowsTaken, p.count - begin);
    fullgraph::take_rows<fullgraph::AnyPlace, fullgraph::AnyRows, kUnitBytes>(part, 0, 1);
  };
  parallel_for(ceil_div(p.count, kRowsTaken), some, 1);
}

void take_rows(const fullgraph::TakeParams& params, int64_t unit_bytes) {
  fullgraph::TakeParams p = params;
  p.lanes = 1;
  p.begin = 0;  // threads share the rows out as they come
  switch (unit_bytes) {
    case 16: take<16>(p); break;
    case 8: take<8>(p); break;
    case 4: take<4>(p); break;
    default: take<2>(p);
  }
}

}  // namespace

const Binding fullgraph_take([](nanobind::module_& m) {
  def_loop(m, "take_rows", take_rows, nanobind::arg("unit_bytes"));
  m.attr("TAKE_THREADS") = fullgraph::kTakeThreads;
});

}  // namespace hinterland::native
