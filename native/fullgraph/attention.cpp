// Attention on the CPU: a thread is a warp of one lane, which takes a head of a row at a time.
#include "hinterland/fullgraph/attention.hpp"

#include "bindings.hpp"
#include "core/pool.hpp"
#include "core/thresholds.hpp"
#include "fullgraph/element.hpp"
#include "fullgraph/params.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(fullgraph::AttentionParams, begins, ends, rows, places, place_bytes, from, numbers, row, gradient, number,
                  logarithm, delta, vector, slope, scale, loops, first_row, skipped, heads, channels, longest, piece_rows,
                  piece_begins, piece_ends, pieces, row_numbers, out, second, out_number, piece_out, piece_second, piece_number,
                  lanes, across);

namespace {

using fullgraph::AttentionParams, fullgraph::AttentionPass, fullgraph::Score;

template <class T, Score kScore, AttentionPass kPass>
void run(const AttentionParams& p) {
  using Lane = fullgraph::Attention<T, fullgraph::Real<T>, fullgraph::AnyPlace, fullgraph::AnyRows, 1, fullgraph::kMostChannels,
                                    kScore, kPass>;
  parallel_for((p.pieces + p.rows) * p.heads, [&](int64_t task) { Lane(p, 0)(task); }, kRowTasksTogether);
}

template <class T, Score kScore>
void by_pass(const AttentionParams& p, AttentionPass pass) {
  switch (pass) {
    case AttentionPass::kForward: run<T, kScore, AttentionPass::kForward>(p); break;
    case AttentionPass::kTarget: run<T, kScore, AttentionPass::kTarget>(p); break;
    case AttentionPass::kSource: run<T, kScore, AttentionPass::kSource>(p); break;
  }
}

void attend(const AttentionParams& p, RowElement type, Score score, AttentionPass pass) {
  with_row_element(type, [&](auto from) {
    using T = decltype(from);
    switch (score) {
      case Score::kGat: by_pass<T, Score::kGat>(p, pass); break;
      case Score::kGatv2: by_pass<T, Score::kGatv2>(p, pass); break;
      case Score::kDot: by_pass<T, Score::kDot>(p, pass); break;
    }
  });
}

}  // namespace

const Binding fullgraph_attention([](nanobind::module_& m) {
  using nanobind::arg;
  def_loop(m, "attend", attend, arg("type"), arg("score"), arg("pass_"));
  m.attr("MOST_CHANNELS") = fullgraph::kMostChannels;
});

}  // namespace hinterland::native
