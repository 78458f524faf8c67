#include <cstdint>

#include "bindings.hpp"
#include "hinterland/query/by_warp.hpp"
#include "query/coded.hpp"
#include "query/footer.hpp"
#include "query/page_cache.hpp"
#include "query/texts.hpp"

namespace nb = nanobind;

namespace hinterland::native {

template <>
std::string kind_of<query::Element>() {
  return "int64";
}
template <>
std::string kind_of<query::Kind>() {
  return "int64";
}
template <>
std::string kind_of<query::TestKind>() {
  return "int64";
}

HINTERLAND_STRUCT(query::Test, kind, column, other, negated, low, high, table, orders);
HINTERLAND_STRUCT(query::Measure, column, divisor, adds, bounds);
HINTERLAND_STRUCT(query::Total, count, low, high, sum, rest, least, greatest);
HINTERLAND_STRUCT(query::PieceColumn, values, valid, staged, entries, element, kind, scale);
HINTERLAND_STRUCT(query::ReadCount, bytes, least_bytes, streamed, gathered);
HINTERLAND_STRUCT(query::ChunkFilterParams, columns, tests, tested, program, steps, words, matched, touched, rows, begin, end);
HINTERLAND_STRUCT(query::GroupKey, column, low, values);
HINTERLAND_STRUCT(query::ChunkGroupParams, columns, keys, keyed, words, groups, counts, gather_below, begin, end);
HINTERLAND_STRUCT(query::ChunkTotalParams, columns, measures, measured, words, groups, grouped, totals, counts, gather_below,
                  begin, end);
HINTERLAND_STRUCT(query::ChunkMergeParams, columns, measures, measured, grouped, totals, blocks, into);
HINTERLAND_STRUCT(ParquetChunk, physical, codec, encodings, values, full, bytes, data_at, dictionary_at, path_at, path_bytes,
                  encrypted, nulls, least_at, least_bytes, greatest_at, greatest_bytes, index_at, index_bytes);
HINTERLAND_STRUCT(TextArray, offsets, offset_bytes, bytes, count, valid, valid_at);

namespace {

void bind_parquet(nb::module_& m) {
  m.def(
      "parquet_footer",
      [](uintptr_t address, int64_t size) -> nb::object {
        std::vector<ParquetChunk> chunks;
        bool ordered = false;
        if (!parquet_footer(reinterpret_cast<const uint8_t*>(address), size, chunks, ordered)) return nb::none();
        return nb::make_tuple(nb::bytes(reinterpret_cast<const char*>(chunks.data()), chunks.size() * sizeof(ParquetChunk)),
                              ordered);
      },
      nb::arg("address"), nb::arg("size"));
}

// The names of what programs and columns are made of.
void bind_names(nb::module_& m) {
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
                                             {"bool", Element::kBool}});
  m.attr("QUERY_KINDS") = named<query::Kind>(
      {{"int64", query::Kind::kSigned}, {"uint64", query::Kind::kUnsigned}, {"float64", query::Kind::kFloat}});
  m.attr("QUERY_TESTS") = named<TestKind>(
      {{"range", TestKind::kRange}, {"table", TestKind::kTable}, {"null", TestKind::kNull}, {"pair", TestKind::kPair}});
  m.attr("QUERY_ORDERS") =
      named<query::Order>({{"less", query::kLess}, {"equal", query::kEqual}, {"greater", query::kGreater}});
  m.attr("QUERY_STEPS") = named<query::Step>({{"and", query::kAnd}, {"or", query::kOr}, {"not", query::kNot}});
  m.attr("QUERY_BLOCK_ROWS") = query::kBlockRows;
  m.attr("QUERY_UNIT_ROWS") = query::kUnitRows;
  m.attr("QUERY_MOST_TESTS") = query::kMostTests;
  m.attr("QUERY_DEEPEST") = query::kDeepest;
  m.attr("QUERY_BLOCK_THREADS") = query::kBlockThreads;
}

}  // namespace

const Binding query([](nb::module_& m) {
  bind_parquet(m);
  bind_names(m);
  m.attr("FILE_PAGE") = kFilePage;
  def_native(m, "pages_missing", pages_missing, nb::arg("pages"), nb::arg("count"));
  def_native(m, "ask_for_pages", ask_for_pages, nb::arg("ranges"), nb::arg("count"), nb::arg("at_once"));
  def_native(m, "read_around", read_around, nb::arg("address"), nb::arg("bytes"), nb::arg("around"));
  nb::class_<Texts>(m, "QueryTexts")
      .def(nb::init<>())
      .def("__len__", &Texts::size)
      .def(
          "number",
          [](Texts& texts, uintptr_t array, uintptr_t numbers) {
            GilReleased released;
            texts.number(*reinterpret_cast<const TextArray*>(array), reinterpret_cast<int32_t*>(numbers));
          },
          nb::arg("array"), nb::arg("numbers"))
      .def(
          "copy_array", [](const Texts& texts, uintptr_t to) { *reinterpret_cast<TextArray*>(to) = texts.array(); },
          nb::arg("to"), "Fills in a TextArray of all texts, which holds until more are numbered.");
  nb::class_<Codes>(m, "QueryCodes")
      .def(nb::init<int64_t>(), nb::arg("bytes"))
      .def("__len__", &Codes::size)
      .def(
          "add",
          [](Codes& known, uintptr_t values, int64_t count, uintptr_t codes) {
            GilReleased released;
            return known.add(reinterpret_cast<const void*>(values), count, reinterpret_cast<uint16_t*>(codes));
          },
          nb::arg("values"), nb::arg("count"), nb::arg("codes"), "Whether there are enough codes.")
      .def(
          "copy_to", [](const Codes& known, uintptr_t values) { known.copy_to(reinterpret_cast<void*>(values)); },
          nb::arg("values"));
});

}  // namespace hinterland::native
