// The samplers on the CPU.
#include "core/team.hpp"
#include "graph/bind_views.hpp"
#include "hinterland/sampling/negatives.hpp"
#include "hinterland/sampling/neighbors.hpp"
#include "hinterland/sampling/walks.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(sampling::NumberEntry, key, number);
HINTERLAND_STRUCT(sampling::VertexSet, num_vertices, node, tree, ends, entries, table_size, num_known, times);
HINTERLAND_STRUCT(sampling::Relation, lists, source, target, fanouts, ends, row, col, edge, weights, most_weight, times);
HINTERLAND_STRUCT(sampling::BatchControl, bad_seed, bad_list, num_edges, num_new);
HINTERLAND_STRUCT(sampling::SampleRule, seed, batch, replace, newest, window);
HINTERLAND_STRUCT(sampling::FixedShape, given, hops, vertices, edges, original_ids, counted, met, told);
HINTERLAND_STRUCT(sampling::SampleParams, first, end, rule, num_types, num_relations, types, relations, control, team, limits,
                  begins, degrees, firsts, picks, keys, found, sums, fixed);
HINTERLAND_STRUCT(sampling::WalkControl, team, bad_start, bad_list);
HINTERLAND_STRUCT(sampling::WalkParams, graph, seed, batch, first, num_walks, length, restart, weights, most_weight, starts,
                  walks, control);
HINTERLAND_STRUCT(sampling::NegativeControl, team, bad_source, full_source, bad_list, left);
HINTERLAND_STRUCT(sampling::NegativeParams, graph, phase, seed, batch, count, each, sources, exact, source, target, absent,
                  control);

namespace {

void run_neighbors(const sampling::SampleParams& params) {
  // Lists of one call have the form of those of its first step, and lie on storage if those do.
  const int64_t first = params.first == 0 ? 0 : (params.first - 1) / 2 % params.num_relations;
  with_lists(*params.relations[first].lists, [&]<class Graph>(const Graph&) {
    ThreadTeam team;
    sampling::sample_neighbors<Graph, true>(team, params);
  });
}

void run_walks(const sampling::WalkParams& params) {
  with_lists(*params.graph, [&]<class Graph>(const Graph&) {
    ThreadTeam team;
    sampling::random_walks<Graph>(team, params);
  });
}

void run_negatives(const sampling::NegativeParams& params) {
  with_lists(*params.graph, [&]<class Graph>(const Graph&) {
    ThreadTeam team;
    sampling::negative_edges<Graph>(team, params);
  });
}

}  // namespace

const Binding sampling([](nanobind::module_& m) {
  using namespace sampling;
  using Weights = sampling::SampleWeightKind;
  m.attr("SAMPLE_NONE") = kNone;
  m.attr("SAMPLE_WEIGHTS") = named<int64_t>({{"none", Weights::kNone},
                                             {"uint8", Weights::kUint8},
                                             {"int32", Weights::kInt32},
                                             {"int64", Weights::kInt64},
                                             {"float32", Weights::kFloat32},
                                             {"float64", Weights::kFloat64}});
  m.attr("SAMPLE_TILES") = Tiles::kRoom;
  m.attr("SAMPLE_PLACE_BITS") = Draws::kPlaceBits;
  m.attr("SAMPLE_MOST_FANOUT") = kMostFanout;
  m.attr("WALK_MOST_STEPS") = kMostSteps;
  m.attr("NEGATIVE_PHASES") = named<int64_t>({{"try", kTryPairs}, {"count", kCountAbsent}, {"pick", kPickAbsent}});
  def_loop(m, "sample_neighbors", run_neighbors, "Steps of a batch (include/hinterland/sampling/neighbors.hpp).");
  def_loop(m, "random_walks", run_walks, "Random walks (include/hinterland/sampling/walks.hpp).");
  def_loop(m, "negative_edges", run_negatives, "A phase of drawing pairs (include/hinterland/sampling/negatives.hpp).");
});

}  // namespace hinterland::native
