#include "bindings.hpp"
#include "query/aggregate.hpp"
#include "query/filter.hpp"

namespace nb = nanobind;

namespace hinterland::native {

template <>
std::string kind_of<query::Element>() {
  return "int64";
}
template <>
std::string kind_of<query::TestKind>() {
  return "int64";
}

HINTERLAND_STRUCT(query::Segment, begin, end, values, value_at, valid, valid_at, codes, entries);
HINTERLAND_STRUCT(query::Column, segments, count, element, coded, scale);
HINTERLAND_STRUCT(query::Test, kind, column, other, negated, low, high, table, orders);
HINTERLAND_STRUCT(query::FilterParams, columns, tests, program, steps, depth, words, begin, end);
HINTERLAND_STRUCT(query::Measure, column, divisor, adds, bounds, streamed);
HINTERLAND_STRUCT(query::Total, count, low, high, sum, rest, least, greatest);
HINTERLAND_STRUCT(query::AggregateParams, columns, measures, measured, keys, keyed, words, rows, begin, end);

void bind_query(nb::module_& m) {
  using query::Element, query::TestKind;
  m.attr("QUERY_ELEMENTS") = named<Element>({{"int8", Element::kInt8},
                                             {"int16", Element::kInt16},
                                             {"int32", Element::kInt32},
                                             {"int64", Element::kInt64},
                                             {"uint8", Element::kUint8},
                                             {"uint16", Element::kUint16},
                                             {"uint32", Element::kUint32},
                                             {"uint64", Element::kUint64},
                                             {"float16", Element::kFloat16},
                                             {"float32", Element::kFloat32},
                                             {"float64", Element::kFloat64},
                                             {"decimal", Element::kDecimal},
                                             {"bool", Element::kBool}});
  m.attr("QUERY_TESTS") = named<TestKind>(
      {{"range", TestKind::kRange}, {"table", TestKind::kTable}, {"null", TestKind::kNull}, {"pair", TestKind::kPair}});
  m.attr("QUERY_ORDERS") =
      named<query::Order>({{"less", query::kLess}, {"equal", query::kEqual}, {"greater", query::kGreater}});
  m.attr("QUERY_STEPS") = named<query::Step>({{"and", query::kAnd}, {"or", query::kOr}, {"not", query::kNot}});
  m.attr("QUERY_OUTCOMES") =
      named<Outcome>({{"done", Outcome::kDone}, {"damaged", Outcome::kDamaged}, {"groups", Outcome::kTooManyGroups}});
  m.attr("QUERY_BLOCK_ROWS") = query::kBlockRows;
  m.attr("QUERY_MOST_GROUPS") = kMostGroups;
  def_loop(m, "filter_rows", filter_rows, "Whether the file is damaged.");
  def_native(m, "count_sectors", count_sectors, nb::arg("words"), nb::arg("begin"), nb::arg("end"), nb::arg("address"),
             nb::arg("bits"));
  nb::class_<Groups>(m, "QueryGroups")
      .def(nb::init<int64_t, int64_t>(), nb::arg("keyed"), nb::arg("measured"))
      .def("__len__", &Groups::size)
      .def(
          "add",
          [](Groups& groups, uintptr_t params) {
            GilReleased released;
            return static_cast<int64_t>(groups.add(*reinterpret_cast<const query::AggregateParams*>(params)));
          },
          nb::arg("params"))
      .def(
          "copy_to",
          [](const Groups& groups, uintptr_t keys, uintptr_t totals) {
            groups.copy_to(reinterpret_cast<int64_t*>(keys), reinterpret_cast<query::Total*>(totals));
          },
          nb::arg("keys"), nb::arg("totals"));
}

}  // namespace hinterland::native
