#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>

#include <array>
#include <utility>

#include "bindings.hpp"
#include "memory/gather.hpp"
#include "training/embedding.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

using Address = uintptr_t;

template <class T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}

// The fields of Bags, in their order.
using BagWords = std::array<int64_t, 10>;

training::Bags bags_of(const BagWords& w) {
  return {at<const void>(w[0]), w[1], w[2], at<const void>(w[3]), w[4], w[5], w[6], w[7], w[8], w[9]};
}

// first, value, size of what it is outside of, how many
std::array<int64_t, 4> words_of(const memory::IndexFault& fault) { return {fault.first, fault.value, fault.table_rows, fault.count}; }

}  // namespace

void bind_training_embedding(nb::module_& m) {
  using Released = nb::call_guard<GilReleased>;
  m.def(
      "pool_bags",
      [](int64_t element, const TableWords& table, int64_t dim, const BagWords& bags, Address weights, Address pooled, Address best,
         Address counts) {
        const BagFaults faults = pool_bags(Element{element}, tiered_table(table), dim, bags_of(bags), at<const float>(weights),
                                           at<void>(pooled), at<int64_t>(best), at<int64_t>(counts));
        return std::pair(words_of(faults.rows), words_of(faults.offsets));
      },
      nb::arg("element"), nb::arg("table"), nb::arg("dim"), nb::arg("bags"), nb::arg("weights"), nb::arg("pooled"),
      nb::arg("best"), nb::arg("counts"), Released());
  m.def(
      "weigh_entries",
      [](int64_t element, const TableWords& table, int64_t dim, const BagWords& bags, Address gradient, Address found) {
        weigh_entries(Element{element}, tiered_table(table), dim, bags_of(bags), at<const void>(gradient), at<float>(found));
      },
      nb::arg("element"), nb::arg("table"), nb::arg("dim"), nb::arg("bags"), nb::arg("gradient"), nb::arg("found"), Released());
  m.def(
      "note_entries",
      [](const BagWords& bags, Address weights, Address counts, Address keys, int64_t key_bytes, Address bag, Address factor,
         Address bad) {
        note_entries(bags_of(bags), at<const float>(weights), at<const int64_t>(counts),
                     {at<void>(keys), key_bytes, at<int64_t>(bag), at<float>(factor), at<int64_t>(bad)});
      },
      nb::arg("bags"), nb::arg("weights"), nb::arg("counts"), nb::arg("keys"), nb::arg("key_bytes"), nb::arg("bag"),
      nb::arg("factor"), nb::arg("bad"), Released());
  m.def(
      "update_rows",
      [](int64_t element, const TableWords& table, int64_t dim, Address state, Address keys, int64_t key_bytes, Address order,
         int64_t count, Address bag, Address factor, Address best, Address gradient, Address bad, int64_t rate,
         int64_t eps) {
        update_rows(Element{element}, tiered_table(table), dim, at<float>(state),
                    {at<const void>(keys), key_bytes, at<const int64_t>(order), count, at<const int64_t>(bag),
                     at<const float>(factor), at<const int64_t>(best), at<const void>(gradient), at<const int64_t>(bad)},
                    rate, eps);
      },
      nb::arg("element"), nb::arg("table"), nb::arg("dim"), nb::arg("state"), nb::arg("keys"),
      nb::arg("key_bytes"), nb::arg("order"), nb::arg("count"), nb::arg("bag"), nb::arg("factor"), nb::arg("best"),
      nb::arg("gradient"), nb::arg("bad"), nb::arg("rate"), nb::arg("eps"), Released());
}

}  // namespace hinterland::native
