#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <atomic>
#include <tuple>
#include <vector>

#include "graph/bind_views.hpp"
#include "graph/edges.hpp"
#include "graph/entries.hpp"
#include "graph/text_reader.hpp"
#include "graph/text_writer.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

// A one-dimensional NumPy array that owns its pages.
template <class T>
nb::object hand_over(GrowingBytes bytes, int64_t count) {
  bytes.reserve(1);
  auto* held = new GrowingBytes(std::move(bytes));
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<GrowingBytes*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(held->as<T>(), {static_cast<size_t>(count)}, owner));
}

nb::tuple take(EdgeParser& parser) {
  const int64_t n = parser.edges();
  const auto ids = [&](GrowingBytes bytes) {
    return parser.wide() ? hand_over<int64_t>(std::move(bytes), n) : hand_over<int32_t>(std::move(bytes), n);
  };
  nb::object weights = nb::none();
  switch (parser.weight_type()) {
    case WeightType::kNone: break;
    case WeightType::kInt32: weights = hand_over<int32_t>(parser.take_weights(), n); break;
    case WeightType::kInt64: weights = hand_over<int64_t>(parser.take_weights(), n); break;
    case WeightType::kFloat32: weights = hand_over<float>(parser.take_weights(), n); break;
    case WeightType::kFloat64: weights = hand_over<double>(parser.take_weights(), n); break;
  }
  return nb::make_tuple(ids(parser.take_sources()), ids(parser.take_targets()), weights);
}

nb::tuple rank_names(EdgeParser& parser) {
  Names::Ranked ranked;
  {
    GilReleased released;
    ranked = parser.rank_names();
  }
  const auto numbers = [&]<class T>(T) {
    GrowingBytes bytes;
    bytes.reserve(ranked.values.size() * sizeof(T));
    std::copy(ranked.values.begin(), ranked.values.end(), bytes.as<uint64_t>());
    return hand_over<T>(std::move(bytes), ranked.count);
  };
  const nb::object names = ranked.kind == Names::Ranked::Kind::kSigned     ? numbers(int64_t{})
                           : ranked.kind == Names::Ranked::Kind::kUnsigned ? numbers(uint64_t{})
                                                                           : nb::bytes(ranked.text.data(), ranked.text.size());
  return nb::make_tuple(ranked.count, names);
}

std::optional<std::string> weight_name(const EdgeParser& parser) {
  switch (parser.weight_type()) {
    case WeightType::kNone: return std::nullopt;
    case WeightType::kInt32: return "int32";
    case WeightType::kInt64: return "int64";
    case WeightType::kFloat32: return "float32";
    default: return "float64";
  }
}

// Edges from a vertex to itself, edges to a vertex that is not larger, whether each vertex's neighbours ascend, and the first
// position among the edges that names no vertex, or -1.
std::tuple<int64_t, int64_t, bool, int64_t> survey_graph(const graph::GraphWords& words) {
  int64_t loops = 0, lower = 0, bad = kNone;
  std::atomic<bool> ascends{true};
  with_lists(words, [&](const auto& graph) {
    for_each_vertex(graph, [&](int64_t v) {
      int64_t before = 0, own_loops = 0, own_lower = 0;
      for_each_entry(graph, v, [&](int64_t i, int64_t neighbor) {
        own_loops += neighbor == v;
        own_lower += neighbor <= v;
        if (neighbor < before) ascends.store(false, std::memory_order_relaxed);
        if (!graph.has(neighbor)) atomic_min(bad, i);
        before = neighbor;
      });
      if (own_loops != 0) atomic_add(loops, own_loops);
      if (own_lower != 0) atomic_add(lower, own_lower);
    });
  });
  return {loops, lower, ascends, none_is_minus_one(bad)};
}

}  // namespace

const Binding graph_formats([](nb::module_& m) {
  nb::class_<EdgeParser>(m, "EdgeParser", "Text edges, block by block, to arrays of sources, targets and weights.")
      .def(
          "__init__",
          [](EdgeParser* self, const std::filesystem::path& path, const std::string& comments, const std::string& tag,
             const std::string& separator, int64_t base, int64_t vertices, int64_t edges, const std::string& weights,
             int64_t first_line, std::optional<graph::EdgeRules> rules, bool timed, bool named) {
            const WeightColumn column = weights == "none"      ? WeightColumn::kNone
                                        : weights == "integer" ? WeightColumn::kInteger
                                        : weights == "real"    ? WeightColumn::kReal
                                                               : WeightColumn::kAny;
            const auto one = [](const std::string& text) { return text.empty() ? '\0' : text[0]; };
            new (self)
                EdgeParser({path.native(), comments, one(tag), one(separator), base, vertices, edges, column, timed, named},
                           first_line, rules);
          },
          nb::arg("path"), nb::kw_only(), nb::arg("comments"), nb::arg("tag") = "", nb::arg("separator") = "",
          nb::arg("base") = 0, nb::arg("vertices") = -1, nb::arg("edges") = -1, nb::arg("weights") = "none",
          nb::arg("first_line") = 1, nb::arg("rules") = nb::none(), nb::arg("timed") = false, nb::arg("named") = false)
      .def(
          "feed",
          [](EdgeParser& self, uintptr_t text, int64_t bytes, bool at_end) {
            GilReleased released;
            return self.feed(reinterpret_cast<const char*>(text), bytes, at_end);
          },
          nb::arg("text"), nb::arg("bytes"), nb::arg("at_end"))
      .def("take", &take, "(sources, targets, weights or None), once, if there were no rules.")
      .def("rank_names", &rank_names,
           "Of a list with named vertices, once, before take(): (count, the names, ascending, as int64 or uint64 values or as "
           "UTF-8 with a line end between two). Vertices are numbered by their names' ranks from now on.")
      .def(
          "runs", [](EdgeParser& self) { return EdgeSource{self.runs()}; }, nb::keep_alive<0, 1>(),
          "What the edges add to the rows by the rules; for scatter_runs.")
      .def_prop_ro("weight_type", &weight_name, "A torch type's name; None if there are no weights.")
      .def_prop_ro("nbytes", &EdgeParser::nbytes)
      .def_prop_ro("edges", &EdgeParser::edges)
      .def_prop_ro("line", &EdgeParser::line)
      .def_prop_ro("largest", &EdgeParser::largest)
      .def_prop_ro("largest_line", &EdgeParser::largest_line)
      .def_prop_ro("bytes_per_edge", &EdgeParser::bytes_per_edge);

  m.def(
      "format_edges",
      [](uintptr_t indptr, int64_t vertices, uintptr_t indices, int index_bytes, uintptr_t integers, uintptr_t reals,
         int64_t begin, int64_t end, const std::string& start, const std::string& separator, int64_t base, bool lower_only) {
        std::vector<std::string> pieces;
        {
          GilReleased released;
          pieces = format_edges(
              {reinterpret_cast<const int64_t*>(indptr), vertices, reinterpret_cast<const void*>(indices), index_bytes,
               reinterpret_cast<const int64_t*>(integers), reinterpret_cast<const double*>(reals), begin, end},
              {start, separator.at(0), base, lower_only});
        }
        nb::list text;
        for (const std::string& piece : pieces) text.append(nb::bytes(piece.data(), piece.size()));
        return text;
      },
      nb::arg("indptr"), nb::arg("vertices"), nb::arg("indices"), nb::arg("index_bytes"), nb::arg("integers"), nb::arg("reals"),
      nb::arg("begin"), nb::arg("end"), nb::kw_only(), nb::arg("start"), nb::arg("separator"), nb::arg("base"),
      nb::arg("lower_only"));

  def_native(m, "survey_graph", survey_graph, nb::arg("graph"));
});

}  // namespace hinterland::native
