#include "bindings.hpp"
#include "memory/bind_params.hpp"
#include "training/embedding.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(training::Bags, indices, index_bytes, count, offsets, offset_bytes, closed, each, bags, rows, padding);
HINTERLAND_STRUCT(training::PoolParams, table, dim, bags, weights, pooled, best, counts, lanes, steps, offsets, entries);
HINTERLAND_STRUCT(training::WeighParams, table, dim, bags, gradient, found, lanes);
HINTERLAND_STRUCT(training::NoteParams, bags, weights, counts, keys, key_bytes, bag, factor, bad);
HINTERLAND_STRUCT(training::UpdateParams, table, dim, state, keys, key_bytes, order, count, bag, factor, best, gradient, bad,
                  rate, eps, lanes, steps);

void bind_training_embedding(nb::module_& m) {
  m.attr("ELEMENTS") = named<Element>(  // by their C++ names
      {{"float", Element::kFloat32}, {"Float16", Element::kFloat16}, {"Bfloat16", Element::kBfloat16}});
  m.attr("BAG_THREADS") = training::kBagThreads;
  m.def(
      "pool_bags",
      [](uintptr_t params, int64_t element) {
        BagFaults faults;
        {
          GilReleased released;
          faults = pool_bags(*reinterpret_cast<const training::PoolParams*>(params), Element{element});
        }
        return nb::make_tuple(found(faults.offsets), found(faults.entries));
      },
      nb::arg("params"), nb::arg("element"), "What is wrong with offsets, and with entries.");
  def_loop(m, "weigh_entries", weigh_entries, nb::arg("element"));
  def_loop(m, "note_entries", note_entries);
  def_loop(m, "update_rows", update_rows, nb::arg("element"));
}

}  // namespace hinterland::native
