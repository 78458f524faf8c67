#include "bindings.hpp"
#include "memory/bind_params.hpp"
#include "memory/embedding.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(memory::Bags, indices, index_bytes, count, offsets, offset_bytes, closed, each, bags, rows, padding);
HINTERLAND_STRUCT(memory::PoolParams, placement, dim, bags, weights, pooled, best, counts, lanes, steps, offsets, entries);
HINTERLAND_STRUCT(memory::WeighParams, placement, dim, bags, gradient, found, lanes);
HINTERLAND_STRUCT(memory::NoteParams, bags, weights, counts, keys, key_bytes, bag, factor, bad);
HINTERLAND_STRUCT(memory::UpdateParams, placement, dim, state, keys, key_bytes, order, count, bag, factor, best, gradient, bad,
                  rate, eps, lanes, steps);

namespace {

template <class Params>
const Params& at(uintptr_t params) {
  return *reinterpret_cast<const Params*>(params);
}

}  // namespace

void bind_memory_embedding(nb::module_& m) {
  using Released = nb::call_guard<GilReleased>;
  nb::dict elements;  // by their C++ names
  elements["float"] = static_cast<int64_t>(Element::kFloat32);
  elements["Float16"] = static_cast<int64_t>(Element::kFloat16);
  elements["Bfloat16"] = static_cast<int64_t>(Element::kBfloat16);
  m.attr("ELEMENTS") = elements;
  m.attr("BAG_THREADS") = memory::kBagThreads;
  m.def(
      "pool_bags",
      [](uintptr_t params, int64_t element) {
        BagFaults faults;
        {
          GilReleased released;
          faults = pool_bags(at<memory::PoolParams>(params), Element{element});
        }
        return nb::make_tuple(found(faults.offsets), found(faults.entries));
      },
      nb::arg("params"), nb::arg("element"), "What is wrong with offsets, and with entries.");
  m.def(
      "weigh_entries",
      [](uintptr_t params, int64_t element) { weigh_entries(at<memory::WeighParams>(params), Element{element}); },
      nb::arg("params"), nb::arg("element"), Released());
  def_loop(m, "note_entries", note_entries);
  m.def(
      "update_rows", [](uintptr_t params, int64_t element) { update_rows(at<memory::UpdateParams>(params), Element{element}); },
      nb::arg("params"), nb::arg("element"), Released());
}

}  // namespace hinterland::native
