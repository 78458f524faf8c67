#include "bindings.hpp"
#include "graph/bind_views.hpp"
#include "sampling/negatives.hpp"
#include "sampling/neighbors.hpp"
#include "sampling/walks.hpp"

namespace nb = nanobind;

namespace hinterland::native {

void bind_sampling(nb::module_& m) {
  m.attr("SAMPLE_TILES") = sampling::Tiles::kRoom;
  m.def(
      "sample_neighbors",
      [](uintptr_t batch, uintptr_t, int64_t from, int64_t to) {
        GilReleased released;
        sample_neighbors(*reinterpret_cast<const sampling::BatchWords*>(batch), from, to);
      },
      nb::arg("batch"), nb::arg("team"), nb::arg("from_half"), nb::arg("to_half"),
      "Halves of a batch's steps (include/hinterland/sampling/neighbors.hpp). `team` is what the GPU's kernel takes besides.");
  m.def(
      "random_walks",
      [](uintptr_t graph, uintptr_t task, uintptr_t) {
        GilReleased released;
        random_walks(*words(graph), *reinterpret_cast<const sampling::WalkWords*>(task));
      },
      nb::arg("graph"), nb::arg("task"), nb::arg("team"), "Random walks (include/hinterland/sampling/walks.hpp).");
  m.def(
      "negative_edges",
      [](uintptr_t graph, uintptr_t task, uintptr_t, int64_t phase) {
        GilReleased released;
        negative_edges(*words(graph), *reinterpret_cast<const sampling::NegativeWords*>(task), phase);
      },
      nb::arg("graph"), nb::arg("task"), nb::arg("team"), nb::arg("phase"),
      "A phase of drawing pairs that are no edges (include/hinterland/sampling/negatives.hpp).");
}

}  // namespace hinterland::native
