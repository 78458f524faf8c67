#include "graph/text_writer.hpp"

#include <algorithm>
#include <charconv>

#include "core/pool.hpp"
#include "core/thresholds.hpp"
#include "graph/edges.hpp"

namespace hinterland::native {

namespace {

constexpr size_t kLongestNumber = 32;

template <class Number>
char* put(char* at, Number value) {
  return std::to_chars(at, at + kLongestNumber, value).ptr;
}

template <class Id>
std::string format_piece(const EdgeRun& run, const EdgeText& text, int64_t begin, int64_t end) {
  const size_t longest = text.start.size() + 3 * (kLongestNumber + 1);
  std::string out;
  size_t used = 0;
  const CsrEdges<Id> edges{run.indptr, static_cast<const Id*>(run.indices), run.vertices, end};
  edges.walk(begin, end, [&](int64_t i, const graph::Edge& edge) {
    if (text.lower_only && edge.to > edge.from) return;
    if (out.size() - used < longest) out.resize(std::max(out.size() * 2, (end - begin) * size_t{8} + longest));
    char* at = std::copy(text.start.begin(), text.start.end(), out.data() + used);
    at = put(at, edge.from + text.base);
    *at++ = text.separator;
    at = put(at, edge.to + text.base);
    if (run.integers != nullptr) {
      *at++ = text.separator;
      at = put(at, run.integers[i - run.begin]);
    } else if (run.reals != nullptr) {
      *at++ = text.separator;
      char* const number = at;
      at = put(at, run.reals[i - run.begin]);
      // A point keeps whole values apart from integers when the file is read again.
      if (std::all_of(number, at, [](char c) { return c == '-' || (c >= '0' && c <= '9'); })) {
        *at++ = '.';
        *at++ = '0';
      }
    }
    *at++ = '\n';
    used = at - out.data();
  });
  out.resize(used);
  return out;
}

}  // namespace

std::vector<std::string> format_edges(const EdgeRun& run, const EdgeText& text) {
  std::vector<std::string> pieces((run.end - run.begin + kEdgesWritten - 1) / kEdgesWritten);
  parallel_for(
      static_cast<int64_t>(pieces.size()),
      [&](int64_t i) {
        const int64_t begin = run.begin + i * kEdgesWritten, end = std::min(begin + kEdgesWritten, run.end);
        pieces[i] =
            run.index_bytes == 4 ? format_piece<int32_t>(run, text, begin, end) : format_piece<int64_t>(run, text, begin, end);
      },
      1);
  return pieces;
}

}  // namespace hinterland::native
