// What must hold of shortest and of widest paths.
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/team.hpp"
#include "graph/bind_views.hpp"
#include "graph/entries.hpp"
#include "graph/findings.hpp"
#include "hinterland/graph/frontier.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

// What makes distances right, or widths: no edge improves one, and each is the length of some path from the source. The second
// is found by a search from the source along tight edges, those over which a vertex gets exactly what it has. Looking for one
// tight edge into each vertex would not do: cycles of weight zero (for widths, any cycle) are tight however far they lie.

// In the order in which they are reported. kGraph and kEdge are about an edge, the others about a vertex.
enum class PathRule : int64_t { kNone, kSource, kRange, kGraph, kEdge, kTight };

template <class Weight>
using ResultFor = std::conditional_t<std::is_floating_point_v<Weight>, Weight, int64_t>;

template <class Weight>
struct Distances {
  using Result = ResultFor<Weight>;
  static constexpr bool kFloat = std::is_floating_point_v<Weight>;
  static constexpr Result kUnreached = kFloat ? std::numeric_limits<Result>::infinity() : Result{-1};

  Result source() const { return 0; }
  bool in_range(Result d) const { return d >= 0; }
  static bool better(Result a, Result b) { return b == kUnreached ? a != kUnreached : a < b; }
  // Along an edge from a reached vertex.
  static Result extend(Result d, Weight w) {
    if constexpr (kFloat) {
      return d + w;
    } else {
      Result sum;
      return __builtin_add_overflow(d, static_cast<Result>(w), &sum) ? std::numeric_limits<Result>::max() : sum;
    }
  }
};

template <class Weight>
struct Widths {
  using Result = ResultFor<Weight>;
  static constexpr bool kFloat = std::is_floating_point_v<Weight>;
  static constexpr Result kUnreached = kFloat ? -std::numeric_limits<Result>::infinity() : std::numeric_limits<Result>::min();

  Result widest;

  explicit Widths(WeightKind kind)
      : widest(kFloat            ? std::numeric_limits<Result>::infinity()
               : kind.order == 0 ? Result{std::numeric_limits<uint8_t>::max()}
                                 : static_cast<Result>(std::numeric_limits<Weight>::max())) {}

  Result source() const { return widest; }
  bool in_range(Result d) const { return d <= widest; }
  static bool better(Result a, Result b) { return a > b; }
  static Result extend(Result d, Weight w) { return min_of(d, static_cast<Result>(w)); }
};

template <class Rules, class Graph>
class Verifier {
 public:
  using Result = typename Rules::Result;

  Verifier(const Rules& rules, const Graph& graph, int64_t source, const Result* found)
      : rules_(rules),
        graph_(graph),
        source_(source),
        found_(found),
        seen_(ceil_div<int64_t>(graph.num_vertices, graph::kGroup)) {}

  Finding run() {
    if (found_[source_] != rules_.source()) report(PathRule::kSource, source_);
    parallel_for(graph_.num_vertices, [&](int64_t v) {
      if (found_[v] != Rules::kUnreached && !rules_.in_range(found_[v])) report(PathRule::kRange, v);
    });
    if (broken_.any()) return broken_.finding();
    check_edges();
    if (broken_.any()) return broken_.finding();
    search();
    parallel_for(graph_.num_vertices, [&](int64_t v) {
      if (found_[v] != Rules::kUnreached && !(seen_[graph::group_of(v)] & graph::bit_of(v))) report(PathRule::kTight, v);
    });
    return broken_.finding();
  }

 private:
  void report(PathRule rule, int64_t position) { broken_.report(rule, position); }

  void check_edges() {
    for_each_vertex(graph_, [&](int64_t u) {
      if (found_[u] == Rules::kUnreached) return;
      for_each_entry(graph_, u, [&](int64_t i, int64_t v) {
        if (!graph_.has(v))
          report(PathRule::kGraph, i);
        else if (Rules::better(Rules::extend(found_[u], graph_.weights.read_alone(i)), found_[v]))
          report(PathRule::kEdge, i);
      });
    });
  }

  // Marks in `seen_` what tight edges lead to, level by level.
  void search() {
    std::vector<int64_t> level{source_}, next(graph_.num_vertices);
    seen_[graph::group_of(source_)] |= graph::bit_of(source_);
    ThreadTeam team;
    while (!level.empty()) {
      int64_t count = 0;
      const graph::AppendQueue<int64_t> queue{next.data(), &count, graph_.num_vertices};
      team.dynamic_for(static_cast<int64_t>(level.size()), [&](const auto& items) {
        auto to = team.appender(queue);
        graph::Ahead<Graph> ahead(graph_);
        const int64_t end = static_cast<int64_t>(level.size());
        items([&](int64_t at) {
          ahead(at, end, [&](int64_t later) { return graph::ask_for_list(graph_, level[later], 0, graph::kTaskEdges); });
          const int64_t u = level[at];
          for_each_entry(graph_, u, [&](int64_t i, int64_t v) {
            if (!graph_.has(v)) return;
            uint32_t& word = seen_[graph::group_of(v)];
            if ((atomic_load(word) & graph::bit_of(v)) || found_[v] == Rules::kUnreached) return;
            if (Rules::extend(found_[u], graph_.weights.read_alone(i)) != found_[v]) return;
            if (!(atomic_or(word, graph::bit_of(v)) & graph::bit_of(v))) to.append(v);
          });
        });
      });
      level.assign(next.begin(), next.begin() + count);
    }
  }

  const Rules rules_;
  const Graph& graph_;
  int64_t source_;
  const Result* found_;
  std::vector<uint32_t> seen_;
  FirstBroken<PathRule, PathRule::kTight> broken_;
};

// `found` are distances, or widths if `widest`: int64 for integer weights, else of the weights' type.
Finding verify_paths(const graph::GraphWords& words, WeightKind kind, bool widest, int64_t source, const void* found) {
  Finding finding;
  with_weight(kind, [&](auto weight) {
    using Weight = decltype(weight);
    with_lists_of_any_kind<Weight>(words, [&]<class Graph>(const Graph& graph) {
      const auto* results = static_cast<const ResultFor<Weight>*>(found);
      finding = widest ? Verifier<Widths<Weight>, Graph>(Widths<Weight>(kind), graph, source, results).run()
                       : Verifier<Distances<Weight>, Graph>({}, graph, source, results).run();
    });
  });
  return finding;
}

}  // namespace

const Binding graph_verify_paths([](nb::module_& m) {
  m.attr("PATH_RULES") = named<PathRule>({{"source", PathRule::kSource},
                                          {"range", PathRule::kRange},
                                          {"graph", PathRule::kGraph},
                                          {"edge", PathRule::kEdge},
                                          {"tight", PathRule::kTight}});
  def_native(m, "verify_paths", verify_paths, nb::arg("graph"), nb::arg("weight_bytes"), nb::arg("weight_order"),
             nb::arg("widest"), nb::arg("source"), nb::arg("found"));
});

}  // namespace hinterland::native
