#include "graph/text_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/pool.hpp"

namespace hinterland::native {

namespace {

constexpr int64_t kLargestVertex = int64_t{1} << 48;
constexpr int64_t kShortestLine = 4;  // bytes: "1 1\n"
// A piece of text is parsed by one thread and becomes one run: pieces for each thread, so that all end together, and bytes
// of one. Chosen, not measured.
constexpr int64_t kPiecesPerThread = 4, kSmallestPiece = 1 << 18, kLargestPiece = 1 << 20;

enum class Line {
  kEdge,
  kBlank,       // or a comment
  kWideVertex,  // right, but a vertex needs 8 bytes
  kWideWeight,  // right, but the weight needs 8 bytes
  kRealWeight,  // right, but the weights so far were integers
  kWrong,
};

// What is wrong with a line, in words; filled on the slow path only.
struct Complaint {
  std::string what;
  std::string remedy;
};

// A field as a message quotes it: short, and only printable characters.
std::string quote(const char* begin, const char* end) {
  std::string text;
  for (const char* p = begin; p < end && text.size() < 40; ++p) {
    text += *p >= ' ' && *p <= '~' ? *p : '?';
  }
  return '"' + text + (end - begin > 40 ? "...\"" : "\"");
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

struct Cursor {
  const char* at;
  const char* end;
  bool commas;

  void skip_spaces() {
    while (at < end && is_space(*at)) ++at;
  }
  // To the next column: spaces, or one comma among them.
  void next_column() {
    skip_spaces();
    if (commas && at < end && *at == ',') {
      ++at;
      skip_spaces();
    }
  }
  [[nodiscard]] bool at_separator() const { return at == end || is_space(*at) || (commas && *at == ','); }
  [[nodiscard]] const char* field_end() const {
    const char* p = at;
    while (p < end && !is_space(*p) && !(commas && *p == ',')) ++p;
    return p;
  }
};

bool is_comment(const TextLayout& layout, char first) { return layout.comments.find(first) != std::string::npos; }

// Vertex numbers are digits only. On success the cursor stands behind them.
bool parse_vertex(Cursor& cursor, int64_t& value) {
  const char* p = cursor.at;
  uint64_t number = 0;
  while (p < cursor.end) {
    const unsigned digit = static_cast<unsigned char>(*p) - '0';
    if (digit > 9) break;
    number = number * 10 + digit;
    if (++p - cursor.at > 18) return false;
  }
  if (p == cursor.at) return false;
  cursor.at = p;
  value = static_cast<int64_t>(number);
  return cursor.at_separator();
}

bool in_range(const TextLayout& layout, int64_t vertex) {
  return vertex >= layout.base && vertex - layout.base < (layout.vertices >= 0 ? layout.vertices : kLargestVertex);
}

Complaint about_vertex(const TextLayout& layout, const char* role, Cursor cursor) {
  const std::string text = quote(cursor.at, cursor.field_end());
  if (cursor.at == cursor.end) {
    return {std::string("the line ends before its ") + role, "complete the line or remove it"};
  }
  int64_t vertex = 0;
  if (!parse_vertex(cursor, vertex)) {
    return {std::string("the ") + role + " is " + text + ", which is not a vertex number",
            "vertices must be whole numbers from " + std::to_string(layout.base) + " up to 2^48"};
  }
  if (vertex < layout.base) {
    return {std::string(role) + ' ' + std::to_string(vertex) + " is below 1, the number of the first vertex",
            "number the vertices from 1 in this format"};
  }
  if (layout.vertices >= 0) {
    return {std::string(role) + ' ' + std::to_string(vertex) + " exceeds the " + std::to_string(layout.vertices) +
                " vertices that the header promises",
            "correct the header or this line"};
  }
  return {std::string(role) + ' ' + std::to_string(vertex) + " exceeds 2^48, the largest vertex number that is taken",
          "renumber the vertices from 0 without gaps"};
}

enum class Number { kInteger, kReal, kWrong };

// One weight: an integer where it reads as one, else a double. Neither NaN nor infinity.
Number parse_weight(Cursor& cursor, int64_t& integer, double& real) {
  const char* begin = cursor.at;
  if (begin < cursor.end && *begin == '+') ++begin;
  const auto whole = std::from_chars(begin, cursor.end, integer);
  cursor.at = whole.ptr;
  if (whole.ec == std::errc{} && cursor.at_separator()) return Number::kInteger;
  const auto fraction = std::from_chars(begin, cursor.end, real);
  cursor.at = fraction.ptr;
  const bool fine = fraction.ec == std::errc{} && cursor.at_separator() && std::isfinite(real);
  return fine ? Number::kReal : Number::kWrong;
}

Complaint about_weight(const TextLayout& layout, Cursor cursor) {
  const char* const begin = cursor.at;
  const char* const end = cursor.field_end();
  if (begin == end) return {"the line ends before its weight", "every line of a weighted list needs a third column"};
  int64_t integer = 0;
  double real = 0;
  const Number number = parse_weight(cursor, integer, real);
  if (number != Number::kWrong) {
    return {"the weight is " + quote(begin, end) + ", which is no 64-bit integer",
            "declare the field real, or correct the value"};
  }
  return {"the weight is " + quote(begin, end) + ", which is not a finite number",
          std::string("weights must be ") + (layout.weights == WeightColumn::kInteger ? "integers" : "numbers") +
              ", neither NaN nor infinite"};
}

template <class Weight>
struct Edge {
  int64_t source, target;
  Weight weight;
};

struct Nothing {};

// The weight as `Weight`, if that holds it exactly.
template <class Weight>
Line store_weight(Number number, int64_t integer, double real, Weight& weight) {
  if constexpr (std::is_same_v<Weight, int32_t>) {
    if (number == Number::kReal) return Line::kRealWeight;
    if (integer != static_cast<int32_t>(integer)) return Line::kWideWeight;
    weight = static_cast<int32_t>(integer);
  } else if constexpr (std::is_same_v<Weight, int64_t>) {
    if (number == Number::kReal) return Line::kRealWeight;
    weight = integer;
  } else {
    const double value = number == Number::kReal ? real : static_cast<double>(integer);
    weight = static_cast<Weight>(value);
    if (static_cast<double>(weight) != value) return Line::kWideWeight;
  }
  return Line::kEdge;
}

// One line, without its line end. `complaint` is filled if it is wrong and someone wants to know.
template <class Id, class Weight>
Line parse_line(const TextLayout& layout, const char* begin, const char* end, Edge<Weight>& edge,
                Complaint* complaint = nullptr) {
  Cursor cursor{begin, end, layout.commas};
  cursor.skip_spaces();
  if (cursor.at == end || is_comment(layout, *cursor.at)) return Line::kBlank;
  const auto wrong = [&](auto&& describe) {
    if (complaint != nullptr) *complaint = describe();
    return Line::kWrong;
  };
  if (layout.tag != '\0') {
    const Cursor start = cursor;
    ++cursor.at;
    if (*start.at != layout.tag || cursor.at == end || !is_space(*cursor.at)) {
      return wrong([&] {
        return Complaint{
            "the line starts with " + quote(start.at, start.field_end()),
            std::string("only lines that start with '") + layout.tag + "' or '" + layout.comments + "' may follow the header"};
      });
    }
    cursor.skip_spaces();
  }
  Cursor field = cursor;
  if (!parse_vertex(cursor, edge.source) || !in_range(layout, edge.source)) {
    return wrong([&] { return about_vertex(layout, "vertex", field); });
  }
  cursor.next_column();
  field = cursor;
  if (!parse_vertex(cursor, edge.target) || !in_range(layout, edge.target)) {
    return wrong([&] { return about_vertex(layout, "neighbour", field); });
  }
  Line result = Line::kEdge;
  if constexpr (!std::is_same_v<Weight, Nothing>) {
    cursor.next_column();
    field = cursor;
    int64_t integer = 0;
    double real = 0;
    Number number = parse_weight(cursor, integer, real);
    if (number == Number::kInteger && layout.weights == WeightColumn::kReal) {
      number = Number::kReal;
      real = static_cast<double>(integer);
    }
    if (number == Number::kWrong || (number == Number::kReal && layout.weights == WeightColumn::kInteger)) {
      return wrong([&] { return about_weight(layout, field); });
    }
    result = store_weight(number, integer, real, edge.weight);
  }
  cursor.skip_spaces();
  if (cursor.at != end) {
    return wrong([&] {
      const bool weighted = !std::is_same_v<Weight, Nothing>;
      return Complaint{"after the " + std::string(weighted ? "weight" : "neighbour") + " follows " + quote(cursor.at, end),
                       weighted ? "lines must hold two vertices and a weight" : "lines must hold two vertices"};
    });
  }
  edge.source -= layout.base;
  edge.target -= layout.base;
  if constexpr (sizeof(Id) == 4) {
    if ((edge.source | edge.target) > std::numeric_limits<int32_t>::max()) return Line::kWideVertex;
  }
  return result;
}

struct Piece {
  const char* begin;
  const char* end;
  int64_t at = 0;     // in a list its first edge's place, counted from the block's start, if every line were an edge
  int64_t edges = 0;  // the edges it has
  int64_t lines = 0;  // the lines it has
  int64_t largest = -1;
  int64_t largest_line = 0;  // counted from the piece's start
  const char* wrong_at = nullptr;
  std::vector<SortedRun> runs{};
};

// Pieces of about the same length that end where a line does: several for each thread, unless runs would become short.
std::vector<Piece> cut(const char* begin, const char* end) {
  std::vector<Piece> pieces;
  const int64_t step = std::clamp((end - begin) / (kPiecesPerThread * num_threads()), kSmallestPiece, kLargestPiece);
  while (begin < end) {
    const char* stop = end - begin > step ? begin + step : end;
    if (stop < end) {
      const void* newline = std::memchr(stop, '\n', end - stop);
      stop = newline == nullptr ? end : static_cast<const char*>(newline) + 1;
    }
    pieces.push_back({begin, stop});
    begin = stop;
  }
  return pieces;
}

const char* line_end(const char* begin, const char* end) {
  const void* newline = std::memchr(begin, '\n', end - begin);
  return newline == nullptr ? end : static_cast<const char*>(newline);
}

// The edges of a piece, up to the first line that is wrong.
template <class Id, class Weight, class Misfits>
void parse_piece(const TextLayout& layout, Piece& piece, Id* sources, Id* targets, [[maybe_unused]] Weight* weights,
                 Misfits& misfits) {
  piece.edges = 0;
  for (const char* p = piece.begin; p < piece.end;) {
    const char* const stop = line_end(p, piece.end);
    Edge<Weight> edge{};
    const Line line = parse_line<Id>(layout, p, stop, edge);
    if (line == Line::kEdge) {
      const int64_t place = piece.edges++;
      sources[place] = static_cast<Id>(edge.source);
      targets[place] = static_cast<Id>(edge.target);
      if constexpr (!std::is_same_v<Weight, Nothing>) weights[place] = edge.weight;
      const int64_t larger = std::max(edge.source, edge.target);
      if (larger > piece.largest) {
        piece.largest = larger;
        piece.largest_line = piece.lines;
      }
    } else if (line == Line::kWrong) {
      piece.wrong_at = p;
      return;
    } else if (line != Line::kBlank) {
      (line == Line::kWideVertex   ? misfits.wide_vertex
       : line == Line::kWideWeight ? misfits.wide_weight
                                   : misfits.real_weight) = true;
    }
    piece.lines += stop < piece.end;
    p = stop + 1;
  }
}

template <class To, class From>
GrowingBytes convert(const GrowingBytes& from, int64_t count) {
  GrowingBytes to;
  to.reserve(count * sizeof(To));
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) to.as<To>()[i] = static_cast<To>(from.as<From>()[i]);
  return to;
}

// Whether a float holds each of the integers.
template <class Integer>
bool all_exact(const GrowingBytes& weights, int64_t count) {
  bool exact = true;
#pragma omp parallel for schedule(static) reduction(&& : exact)
  for (int64_t i = 0; i < count; ++i) {
    const Integer value = weights.as<Integer>()[i];
    exact = exact && static_cast<double>(static_cast<float>(value)) == static_cast<double>(value);
  }
  return exact;
}

}  // namespace

// What some line of a block has that the arrays' types do not hold.
struct EdgeParser::Misfits {
  std::atomic<bool> wide_vertex{false}, wide_weight{false}, real_weight{false};
  [[nodiscard]] bool any() const { return wide_vertex || wide_weight || real_weight; }
};

EdgeParser::EdgeParser(TextLayout layout, int64_t first_line, std::optional<graph::EdgeRules> rules)
    : layout_(std::move(layout)), line_(first_line), rules_(rules) {
  switch (layout_.weights) {
    case WeightColumn::kNone: weight_type_ = WeightType::kNone; break;
    case WeightColumn::kReal: weight_type_ = WeightType::kFloat32; break;
    default: weight_type_ = WeightType::kInt32;
  }
}

int64_t EdgeParser::bytes_per_edge() const { return (wide_ ? 16 : 8) + weight_bytes(weight_type_); }

int64_t EdgeParser::feed(const char* text, int64_t bytes, bool at_end) {
  const char* end = text + bytes;
  if (!at_end) {
    while (end > text && end[-1] != '\n') --end;
  }
  if (end == text) return 0;
  for (;;) {
    Misfits misfits;
    wide_ ? parse_as<int64_t>(text, end, misfits) : parse_as<int32_t>(text, end, misfits);
    if (!misfits.any()) break;
    widen(misfits);  // then this block once more
  }
  return end - text;
}

template <class Id>
void EdgeParser::parse_as(const char* begin, const char* end, Misfits& misfits) {
  switch (weight_type_) {
    case WeightType::kNone: return parse_block<Id, Nothing>(begin, end, misfits);
    case WeightType::kInt32: return parse_block<Id, int32_t>(begin, end, misfits);
    case WeightType::kInt64: return parse_block<Id, int64_t>(begin, end, misfits);
    case WeightType::kFloat32: return parse_block<Id, float>(begin, end, misfits);
    default: return parse_block<Id, double>(begin, end, misfits);
  }
}

template <class Id, class Weight>
void EdgeParser::parse_block(const char* begin, const char* end, Misfits& misfits) {
  constexpr bool kWeighted = !std::is_same_v<Weight, Nothing>;
  std::vector<Piece> pieces = cut(begin, end);
  if (rules_) {
    scratch_.resize(num_threads());
  } else {
    parallel_tasks(pieces.size(),
                   [&](int64_t i, int64_t) { pieces[i].edges = std::count(pieces[i].begin, pieces[i].end, '\n') + 1; });
    int64_t lines = 0;
    for (Piece& piece : pieces) piece.at = std::exchange(lines, lines + piece.edges);
    sources_.reserve((listed_ + lines) * sizeof(Id));
    targets_.reserve((listed_ + lines) * sizeof(Id));
    if constexpr (kWeighted) weights_.reserve((listed_ + lines) * sizeof(Weight));
  }

  parallel_tasks(pieces.size(), [&](int64_t i, int64_t thread) {
    Piece& piece = pieces[i];
    if (!rules_) {
      const int64_t at = listed_ + piece.at;
      Weight* const weights = kWeighted ? weights_.as<Weight>() + at : nullptr;
      parse_piece(layout_, piece, sources_.as<Id>() + at, targets_.as<Id>() + at, weights, misfits);
      return;
    }
    Scratch& scratch = scratch_[thread];
    const int64_t most = (piece.end - piece.begin) / kShortestLine + 1;
    scratch.sources.reserve(most * sizeof(Id));
    scratch.targets.reserve(most * sizeof(Id));
    scratch.weights.reserve(most * weight_bytes(weight_type_));
    Id* const sources = scratch.sources.as<Id>();
    Id* const targets = scratch.targets.as<Id>();
    Weight* const weights = scratch.weights.as<Weight>();
    parse_piece(layout_, piece, sources, targets, weights, misfits);
    if (piece.wrong_at != nullptr || misfits.any()) return;  // nobody will want the runs
    piece.runs = make_runs(*rules_, sources, targets, weights, weight_type_, piece.edges, scratch.runs);
  });

  for (const Piece& piece : pieces) {
    if (piece.wrong_at != nullptr) fail(begin, piece.wrong_at, end);
  }
  if (misfits.any()) return;

  const int64_t before = listed_;
  int64_t found = edges_;
  for (const Piece& piece : pieces) {
    found += piece.edges;
    if (layout_.edges >= 0 && found > layout_.edges) fail(begin, nullptr, end);
  }
  for (Piece& piece : pieces) {
    if (rules_) {
      runs_.append(std::move(piece.runs));
    } else {
      const auto close_up = [&](GrowingBytes& array, int64_t bytes) {
        std::memmove(array.as<char>() + listed_ * bytes, array.as<char>() + (before + piece.at) * bytes, piece.edges * bytes);
      };
      close_up(sources_, sizeof(Id));
      close_up(targets_, sizeof(Id));
      if constexpr (kWeighted) close_up(weights_, sizeof(Weight));
      listed_ += piece.edges;
    }
    edges_ += piece.edges;
    if (piece.largest > largest_) {
      largest_ = piece.largest;
      largest_line_ = line_ + piece.largest_line;
    }
    line_ += piece.lines;
  }
}

RunEdges EdgeParser::runs() {
  scratch_.clear();
  return {&runs_, weight_type_};
}

void EdgeParser::widen(const Misfits& misfits) {
  if (misfits.wide_vertex) {
    sources_ = convert<int64_t, int32_t>(sources_, listed_);
    targets_ = convert<int64_t, int32_t>(targets_, listed_);
    wide_ = true;
  }
  if (!misfits.wide_weight && !misfits.real_weight) return;
  if (misfits.real_weight) {
    const bool exact = runs_.all_exact() && (weight_type_ == WeightType::kInt32 ? all_exact<int32_t>(weights_, listed_)
                                                                                : all_exact<int64_t>(weights_, listed_));
    weights_ = weight_type_ == WeightType::kInt32
                   ? (exact ? convert<float, int32_t>(weights_, listed_) : convert<double, int32_t>(weights_, listed_))
                   : (exact ? convert<float, int64_t>(weights_, listed_) : convert<double, int64_t>(weights_, listed_));
    weight_type_ = exact ? WeightType::kFloat32 : WeightType::kFloat64;
  } else if (weight_type_ == WeightType::kFloat32) {
    weights_ = convert<double, float>(weights_, listed_);
    weight_type_ = WeightType::kFloat64;
  } else {
    weights_ = convert<int64_t, int32_t>(weights_, listed_);
    weight_type_ = WeightType::kInt64;
  }
}

// Says what is wrong: at line `at`, or (nullptr) at the first edge beyond those promised.
void EdgeParser::fail(const char* block, const char* at, const char* end) const {
  Complaint complaint;
  const auto examine = [&](const char* p) {
    Edge<double> weighted{};
    Edge<Nothing> bare{};
    const char* const stop = line_end(p, end);
    return layout_.weights == WeightColumn::kNone ? parse_line<int64_t>(layout_, p, stop, bare, &complaint)
                                                  : parse_line<int64_t>(layout_, p, stop, weighted, &complaint);
  };
  if (at != nullptr) {
    examine(at);
  } else {
    int64_t found = edges_;
    for (at = block; at < end; at = line_end(at, end) + 1) {
      if (examine(at) != Line::kBlank && ++found > layout_.edges) break;
    }
    complaint = {"this is more than the " + std::to_string(layout_.edges) + " entries that the header promises",
                 "correct the header or remove what follows"};
  }
  throw FormatError(layout_.path + ": line " + std::to_string(line_ + std::count(block, at, '\n')) + ": " + complaint.what +
                    "; " + complaint.remedy);
}

}  // namespace hinterland::native
