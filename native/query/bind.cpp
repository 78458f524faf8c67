#include <algorithm>
#include <atomic>
#include <cstdint>

#include "bindings.hpp"
#include "core/pool.hpp"
#include "hinterland/query/by_warp.hpp"
#include "query/aggregate.hpp"
#include "query/coded.hpp"
#include "query/decode.hpp"
#include "query/filter.hpp"
#include "query/lengths.hpp"
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
template <>
std::string kind_of<Physical>() {
  return "int64";
}

HINTERLAND_STRUCT(query::Segment, begin, end, values, value_at, valid, valid_at, codes, entries, kept);
HINTERLAND_STRUCT(query::Column, segments, count, element, coded, scale);
HINTERLAND_STRUCT(query::Test, kind, column, other, negated, low, high, table, orders);
HINTERLAND_STRUCT(query::FilterParams, columns, tests, program, steps, depth, words, begin, end);
HINTERLAND_STRUCT(query::Measure, column, divisor, adds, bounds, streamed);
HINTERLAND_STRUCT(query::Total, count, low, high, sum, rest, least, greatest);
HINTERLAND_STRUCT(query::AggregateParams, columns, measures, measured, keys, keyed, words, rows, begin, end);
HINTERLAND_STRUCT(query::PieceColumn, values, valid, staged, entries, element, kind, scale);
HINTERLAND_STRUCT(query::ReadCount, bytes, least_bytes, streamed, gathered);
HINTERLAND_STRUCT(query::ChunkFilterParams, columns, tests, tested, program, steps, words, matched, touched, rows, begin, end);
HINTERLAND_STRUCT(query::GroupKey, column, low, values);
HINTERLAND_STRUCT(query::ChunkGroupParams, columns, keys, keyed, words, groups, counts, gather_below, begin, end);
HINTERLAND_STRUCT(query::ChunkTotalParams, columns, measures, measured, words, groups, grouped, totals, counts, gather_below,
                  begin, end);
HINTERLAND_STRUCT(query::ChunkMergeParams, columns, measures, measured, grouped, totals, blocks, into);
HINTERLAND_STRUCT(ParquetChunk, physical, codec, encodings, values, bytes, data_at, dictionary_at, path_at, path_bytes,
                  encrypted, offsets_at, offsets_bytes, bounds_at, bounds_bytes, nulls, least_at, least_bytes, greatest_at,
                  greatest_bytes);
HINTERLAND_STRUCT(ParquetPage, chunk, kind, at, head, bytes, full, row, values, nulls, encoding, levels, compressed, least_at,
                  least_bytes, greatest_at, greatest_bytes);
HINTERLAND_STRUCT(TextArray, offsets, offset_bytes, bytes, count, valid, valid_at);
HINTERLAND_STRUCT(TextLiteral, bytes, size);
HINTERLAND_STRUCT(ChunkOfPages, codec, dictionary, entries);
HINTERLAND_STRUCT(DecodeParams, pages, count, chunks, file, physical, length, width, decimal, optional, rows, nulls, values,
                  valid, wanted, wanted_at, kept, literals, literal_count, far);

namespace {

template <class T>
nb::bytes bytes_of(const std::vector<T>& all) {
  return nb::bytes(reinterpret_cast<const char*>(all.data()), all.size() * sizeof(T));
}

// A function whose outcome is its number.
template <auto function>
inline constexpr auto numbered = []<class... Args>(Decoded (*)(Args...)) {
  return +[](Args... args) { return static_cast<int64_t>(function(args...)); };
}(function);

// What read(i, pages) appends for i in [0, count), in their order. Returns the first that is damaged, or `count`.
template <class Read>
int64_t read_ranges(int64_t count, int64_t at_once, const Read& read, std::vector<ParquetPage>& pages) {
  std::vector<std::vector<ParquetPage>> found(count == 0 ? 0 : (count - 1) / at_once + 1);
  std::atomic<int64_t> damaged{count};
  parallel_tasks(static_cast<int64_t>(found.size()), [&](int64_t task, int64_t) {
    const int64_t first = task * at_once, last = first + std::min(at_once, count - first);
    for (int64_t i = first; i < last; ++i) {
      const size_t before = found[task].size();
      if (!read(i, found[task])) {
        for (int64_t known = damaged; i < known && !damaged.compare_exchange_weak(known, i);) {
        }
        return;
      }
      for (size_t page = before; page < found[task].size(); ++page) found[task][page].chunk = i;
    }
  });
  for (const auto& some : found) pages.insert(pages.end(), some.begin(), some.end());
  return damaged;
}

// Python's name for a function that reads metadata: of `count` ranges of a file, [at, size], the structs found, one range after
// another, as bytes; or the number of the first range that is damaged. A thread takes `at_once` ranges at a time.
template <class Read>
void def_metadata(nb::module_& m, const char* name, Read read, int64_t at_once = INT64_MAX) {
  m.def(
      name,
      [read, at_once](uintptr_t file, uintptr_t ranges, int64_t count) -> nb::object {
        std::vector<ParquetPage> pages;
        const auto read_all = [&] {
          GilReleased released;  // headers may have to come from a disk
          return read_ranges(
              count, at_once,
              [&](int64_t i, auto& found) {
                return read(reinterpret_cast<const uint8_t*>(file), reinterpret_cast<const FileRange*>(ranges)[i], found);
              },
              pages);
        };
        const int64_t damaged = read_all();
        return damaged == count ? nb::object(bytes_of(pages)) : nb::int_(damaged);
      },
      nb::arg("file"), nb::arg("ranges"), nb::arg("count"));
}

void bind_parquet(nb::module_& m) {
  m.def(
      "parquet_footer",
      [](uintptr_t address, int64_t size) -> nb::object {
        std::vector<ParquetChunk> chunks;
        bool ordered = false;
        if (!parquet_footer(reinterpret_cast<const uint8_t*>(address), size, chunks, ordered)) return nb::none();
        return nb::make_tuple(bytes_of(chunks), ordered);
      },
      nb::arg("address"), nb::arg("size"));
  def_metadata(m, "parquet_pages", parquet_pages, 1);
  def_metadata(m, "parquet_offsets", parquet_offsets);
  def_metadata(m, "parquet_bounds", parquet_bounds);
  def_metadata(m, "parquet_page", parquet_page);
  def_native(m, "parquet_decode", numbered<parquet_decode>, nb::arg("params"), nb::arg("first"), nb::arg("count"),
             nb::arg("bytes"));
  def_native(m, "parquet_decode_all", parquet_decode_all, nb::arg("columns"), nb::arg("count"), nb::arg("outcomes"));
  def_native(m, "parquet_texts", numbered<parquet_texts>, nb::arg("data"), nb::arg("size"), nb::arg("entries"),
             nb::arg("offsets"), nb::arg("bytes"));
  def_native(m, "decompressed_bytes", decompressed_bytes, nb::arg("codec"), nb::arg("data"), nb::arg("size"));
  m.attr("PARQUET_PAGES") =
      named<ParquetPageKind>({{"data", kData}, {"other", kOther}, {"dictionary", kDictionary}, {"data v2", kDataV2}});
  m.attr("PARQUET_DECODED") = named<Decoded>({{"done", Decoded::kDone},
                                              {"damaged", Decoded::kDamaged},
                                              {"other", Decoded::kOther},
                                              {"compressed", Decoded::kCompressed},
                                              {"far", Decoded::kFar}});
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
                                             {"decimal", Element::kDecimal},
                                             {"bool", Element::kBool}});
  m.attr("QUERY_KINDS") = named<query::Kind>(
      {{"int64", query::Kind::kSigned}, {"uint64", query::Kind::kUnsigned}, {"float64", query::Kind::kFloat}});
  m.attr("QUERY_TESTS") = named<TestKind>({{"range", TestKind::kRange},
                                           {"table", TestKind::kTable},
                                           {"null", TestKind::kNull},
                                           {"pair", TestKind::kPair},
                                           {"set", TestKind::kSet},
                                           {"bits", TestKind::kBits}});
  m.attr("QUERY_ORDERS") =
      named<query::Order>({{"less", query::kLess}, {"equal", query::kEqual}, {"greater", query::kGreater}});
  m.attr("QUERY_STEPS") = named<query::Step>({{"and", query::kAnd}, {"or", query::kOr}, {"not", query::kNot}});
  m.attr("QUERY_OUTCOMES") =
      named<Outcome>({{"done", Outcome::kDone}, {"damaged", Outcome::kDamaged}, {"groups", Outcome::kTooManyGroups}});
  m.attr("QUERY_BLOCK_ROWS") = query::kBlockRows;
  m.attr("QUERY_MOST_GROUPS") = kMostGroups;
  m.attr("QUERY_UNIT_ROWS") = query::kUnitRows;
  m.attr("QUERY_MOST_TESTS") = query::kMostTests;
  m.attr("QUERY_DEEPEST") = query::kDeepest;
  m.attr("QUERY_BLOCK_THREADS") = query::kBlockThreads;
}

}  // namespace

const Binding query([](nb::module_& m) {
  bind_parquet(m);
  bind_names(m);
  def_loop(m, "filter_rows", filter_rows, "Whether the file is damaged.");
  def_native(m, "count_sectors", count_sectors, nb::arg("words"), nb::arg("begin"), nb::arg("end"), nb::arg("address"),
             nb::arg("bits"));
  m.attr("FILE_PAGE") = kFilePage;
  def_native(m, "pages_missing", pages_missing, nb::arg("pages"), nb::arg("count"));
  def_native(m, "ask_for_pages", ask_for_pages, nb::arg("ranges"), nb::arg("count"), nb::arg("at_once"));
  def_native(m, "place_texts", place_texts, nb::arg("texts"), nb::arg("literals"), nb::arg("count"), nb::arg("places"));
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
  nb::class_<Groups>(m, "QueryGroups")
      .def(nb::init<int64_t>(), nb::arg("keyed"))
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
});

}  // namespace hinterland::native
