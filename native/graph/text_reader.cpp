#include "graph/text_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/pool.hpp"
#include "core/thresholds.hpp"
#include "core/utf8.hpp"

namespace hinterland::native {

namespace {

constexpr int64_t kLargestVertex = int64_t{1} << 48;
constexpr int64_t kShortestLine = 4;  // bytes: "1 1\n"

enum class LineKind {
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
  int64_t characters = 0;
  const char* p = begin;
  for (; p < end && characters < 40; ++characters) {
    const auto* const at = reinterpret_cast<const uint8_t*>(p);
    const int64_t bytes = utf8_bytes(at, reinterpret_cast<const uint8_t*>(end));
    const bool control = *at < ' ' || *at == 0x7f || (*at == 0xc2 && bytes == 2 && at[1] < 0xa0);
    text.append(bytes == 0 || control ? "?" : std::string_view(p, bytes));
    p += std::max<int64_t>(bytes, 1);
  }
  return '"' + text + (p < end ? "...\"" : "\"");
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

struct Cursor {
  const char* at;
  const char* end;
  char separator;

  void skip_spaces() {
    while (at < end && is_space(*at) && *at != separator) ++at;
  }
  // To the next column: spaces, and the separator among them, if there is one. False where it is missing.
  bool next_column() {
    skip_spaces();
    if (separator == '\0') return true;
    if (at == end || *at != separator) return false;
    ++at;
    skip_spaces();
    return true;
  }
  [[nodiscard]] bool at_separator() const { return at == end || is_space(*at) || (separator != '\0' && *at == separator); }
  [[nodiscard]] const char* field_end() const {
    Cursor cursor = *this;
    while (!cursor.at_separator()) ++cursor.at;
    return cursor.at;
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

// A number in quotation marks, as csv.QUOTE_ALL writes it, that `parse` takes; of edge lists alone. On success the cursor
// stands behind it. Apart, so that the loops of numbers without them stay short.
template <class Parse>
[[gnu::noinline]] bool in_quotes(const TextLayout& layout, Cursor& cursor, Parse&& parse) {
  if (layout.vertices >= 0) return false;
  const auto* const mark = static_cast<const char*>(std::memchr(cursor.at + 1, '"', cursor.end - cursor.at - 1));
  if (mark == nullptr) return false;
  Cursor inside{cursor.at + 1, mark, '\0'};
  if (!parse(inside) || inside.at != mark) return false;
  cursor.at = mark + 1;
  return cursor.at_separator();
}

// Anything is a name that does not end before its column does; blanks around it are not part of it. In quotation marks stands
// what may hold separators, and two of these marks for one. On success the cursor stands behind it.
bool take_name(Cursor& cursor, Names::Batch& names, int64_t& value) {
  const char* const begin = cursor.at;
  if (begin < cursor.end && *begin == '"') {
    std::string name;
    for (const char* p = begin + 1;; ++p) {
      const auto* mark = static_cast<const char*>(std::memchr(p, '"', cursor.end - p));
      if (mark == nullptr) return false;
      name.append(p, mark);
      p = mark + 1;
      if (p == cursor.end || *p != '"') {
        cursor.at = p;
        break;
      }
      name += '"';
    }
    if (name.empty() || !cursor.at_separator()) return false;
    value = names.add(std::move(name));
    return true;
  }
  const auto inside = [&](char c) { return cursor.separator == '\0' ? !is_space(c) : c != cursor.separator; };
  while (cursor.at < cursor.end && inside(*cursor.at)) ++cursor.at;
  const char* end = cursor.at;
  while (end > begin && is_space(end[-1])) --end;
  if (end == begin) return false;
  value = names.add(std::string_view(begin, end));
  return true;
}

bool take_vertex(const TextLayout& layout, Cursor& cursor, int64_t& value) {
  if (cursor.at == cursor.end || *cursor.at != '"') return parse_vertex(cursor, value);
  return in_quotes(layout, cursor, [&](Cursor& inside) { return parse_vertex(inside, value); });
}

bool in_range(const TextLayout& layout, int64_t vertex) {
  return vertex >= layout.base && vertex - layout.base < (layout.vertices >= 0 ? layout.vertices : kLargestVertex);
}

Complaint about_vertex(const TextLayout& layout, const char* role, Cursor cursor) {
  const std::string text = quote(cursor.at, cursor.field_end());
  if (cursor.at == cursor.end) {
    return {std::string("the line ends before its ") + role, "complete the line or remove it"};
  }
  if (layout.named) {
    return {std::string("the ") + role + " is " + text + ", which is no whole name",
            "write a name, or one between quotation marks with those within it twice"};
  }
  const std::string names =
      layout.vertices >= 0 ? "" : "; lists of names and of other numbers are read with ids='any' (--ids any)";
  int64_t vertex = 0;
  if (!take_vertex(layout, cursor, vertex)) {
    if (layout.vertices < 0 && layout.separator == '\0' && text.find_first_of(",;|") != std::string::npos) {
      return {std::string("the ") + role + " is " + text + ", and the columns of the first line have blanks between them",
              "separate all columns alike"};
    }
    return {std::string("the ") + role + " is " + text + ", which is not a vertex number",
            "vertices must be whole numbers from " + std::to_string(layout.base) + " up to 2^48" + names};
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
          "renumber the vertices from 0 without gaps, as ids='any' does"};
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

Number take_weight(const TextLayout& layout, Cursor& cursor, int64_t& integer, double& real) {
  if (cursor.at == cursor.end || *cursor.at != '"') return parse_weight(cursor, integer, real);
  Number number = Number::kWrong;
  const bool taken = in_quotes(layout, cursor, [&](Cursor& inside) {
    number = parse_weight(inside, integer, real);
    return number != Number::kWrong;
  });
  return taken ? number : Number::kWrong;
}

Complaint about_weight(const TextLayout& layout, Cursor cursor) {
  const char* const begin = cursor.at;
  const char* const end = cursor.field_end();
  if (begin == end) return {"the line ends before its weight", "every line of a weighted list needs a third column"};
  int64_t integer = 0;
  double real = 0;
  const Number number = take_weight(layout, cursor, integer, real);
  if (number != Number::kWrong) {
    return {"the weight is " + quote(begin, end) + ", which is no 64-bit integer",
            "declare the field real, or correct the value"};
  }
  if (std::from_chars(begin, end, real).ec == std::errc::result_out_of_range) {
    const bool small = std::abs(std::strtod(std::string(begin, end).c_str(), nullptr)) < 1;
    return {"the weight is " + quote(begin, end) + ", which is too " + (small ? "small" : "large") + " for a double",
            small ? "write 0, or scale all weights" : "scale all weights"};
  }
  return {"the weight is " + quote(begin, end) + ", which is not a finite number",
          std::string("weights must be ") + (layout.weights == WeightColumn::kInteger ? "integers" : "numbers") +
              ", neither NaN nor infinite"};
}

template <class Weight>
struct ParsedEdge {
  int64_t source, target;
  Weight weight;
};

struct Nothing {};

// The weight as `Weight`, if that holds it exactly.
template <class Weight>
LineKind store_weight(Number number, int64_t integer, double real, Weight& weight) {
  if constexpr (std::is_same_v<Weight, int32_t>) {
    if (number == Number::kReal) return LineKind::kRealWeight;
    if (integer != static_cast<int32_t>(integer)) return LineKind::kWideWeight;
    weight = static_cast<int32_t>(integer);
  } else if constexpr (std::is_same_v<Weight, int64_t>) {
    if (number == Number::kReal) return LineKind::kRealWeight;
    weight = integer;
  } else {
    const double value = number == Number::kReal ? real : static_cast<double>(integer);
    weight = static_cast<Weight>(value);
    if (static_cast<double>(weight) != value) return LineKind::kWideWeight;
  }
  return LineKind::kEdge;
}

Complaint about_separator(const TextLayout& layout, const char* before, Cursor cursor) {
  return {std::string("after the ") + before + " follows " + quote(cursor.at, cursor.end) + ", and not the " +
              quote(&layout.separator, &layout.separator + 1) + " that stands between the columns of the first line",
          "separate all columns alike"};
}

// The line's last column: a time, which a graph does not hold.
bool pass_time(const TextLayout& layout, Cursor& cursor, Complaint* complaint) {
  int64_t integer = 0;
  double real = 0;
  const bool is_separate = cursor.next_column();
  const Cursor field = cursor;
  if (is_separate && take_weight(layout, cursor, integer, real) != Number::kWrong) return true;
  if (complaint != nullptr) {
    const std::string found = field.at == field.end
                                  ? "the line ends before its time"
                                  : "the time is " + quote(field.at, field.field_end()) + ", which is no number";
    *complaint = {found, "write times as numbers, or cut the column off"};
  }
  return false;
}

// One line, without its line end. `complaint` is filled if it is wrong and someone wants to know.
template <class Id, class Weight>
LineKind parse_line(const TextLayout& layout, Names::Batch* names, const char* begin, const char* end, ParsedEdge<Weight>& edge,
                    Complaint* complaint = nullptr) {
  Cursor cursor{begin, end, layout.separator};
  cursor.skip_spaces();
  if (cursor.at == end) return LineKind::kBlank;
  const auto wrong = [&](auto&& describe) {
    if (complaint != nullptr) *complaint = describe();
    return LineKind::kWrong;
  };
  if (is_comment(layout, *cursor.at)) {
    if (!layout.named) return LineKind::kBlank;
    return wrong([&] {
      return Complaint{"the line starts with " + quote(cursor.at, cursor.field_end()) + ", a name or a comment",
                       "put the name between quotation marks, or the comment before the first edge"};
    });
  }
  const auto take_end = [&](int64_t& vertex) {
    return names == nullptr ? take_vertex(layout, cursor, vertex) && in_range(layout, vertex)
                            : take_name(cursor, *names, vertex);
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
  if (!take_end(edge.source)) {
    return wrong([&] { return about_vertex(layout, "vertex", field); });
  }
  if (!cursor.next_column() && cursor.at != end) {
    return wrong([&] { return about_separator(layout, "vertex", cursor); });
  }
  field = cursor;
  if (!take_end(edge.target)) {
    return wrong([&] { return about_vertex(layout, "neighbour", field); });
  }
  LineKind result = LineKind::kEdge;
  if constexpr (!std::is_same_v<Weight, Nothing>) {
    if (!cursor.next_column() && cursor.at != end) {
      return wrong([&] { return about_separator(layout, "neighbour", cursor); });
    }
    field = cursor;
    int64_t integer = 0;
    double real = 0;
    Number number = take_weight(layout, cursor, integer, real);
    if (number == Number::kInteger && layout.weights == WeightColumn::kReal) {
      number = Number::kReal;
      real = static_cast<double>(integer);
    }
    if (number == Number::kWrong || (number == Number::kReal && layout.weights == WeightColumn::kInteger)) {
      return wrong([&] { return about_weight(layout, field); });
    }
    result = store_weight(number, integer, real, edge.weight);
  }
  if (layout.timed && !pass_time(layout, cursor, complaint)) return LineKind::kWrong;
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
    if ((edge.source | edge.target) > std::numeric_limits<int32_t>::max()) return LineKind::kWideVertex;
  }
  return result;
}

struct TextPiece {
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
std::vector<TextPiece> cut(const char* begin, const char* end) {
  std::vector<TextPiece> pieces;
  const int64_t step = std::clamp((end - begin) / (kTextPieces * num_threads()), kSmallestText, kLargestText);
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
void parse_piece(const TextLayout& layout, Names::Batch* names, TextPiece& piece, Id* sources, Id* targets,
                 [[maybe_unused]] Weight* weights, Misfits& misfits) {
  piece.edges = 0;
  for (const char* p = piece.begin; p < piece.end;) {
    const char* const stop = line_end(p, piece.end);
    ParsedEdge<Weight> edge{};
    const LineKind line = parse_line<Id>(layout, names, p, stop, edge);
    if (line == LineKind::kEdge) {
      const int64_t place = piece.edges++;
      sources[place] = static_cast<Id>(edge.source);
      targets[place] = static_cast<Id>(edge.target);
      if constexpr (!std::is_same_v<Weight, Nothing>) weights[place] = edge.weight;
      const int64_t larger = std::max(edge.source, edge.target);
      if (larger > piece.largest) {
        piece.largest = larger;
        piece.largest_line = piece.lines;
      }
    } else if (line == LineKind::kWrong) {
      piece.wrong_at = p;
      return;
    } else if (line != LineKind::kBlank) {
      (line == LineKind::kWideVertex   ? misfits.wide_vertex
       : line == LineKind::kWideWeight ? misfits.wide_weight
                                       : misfits.real_weight) = true;
    }
    piece.lines += stop < piece.end;
    p = stop + 1;
  }
}

// The ends of a piece's edges, which are places in a batch of names, become the numbers of these.
template <class Id>
void number_ends(Names& names, Names::Batch& batch, const TextPiece& piece, Id* sources, Id* targets) {
  const std::vector<int64_t>& numbers = names.number(batch);
  for (Id* const ends : {sources, targets}) {
    for (int64_t i = 0; i < piece.edges; ++i) ends[i] = static_cast<Id>(numbers[ends[i]]);
  }
  batch.clear();
}

template <class To, class From>
GrowingBytes convert(const GrowingBytes& from, int64_t count) {
  GrowingBytes to;
  to.reserve(count * sizeof(To));
  parallel_for(count, [&](int64_t i) { to.as<To>()[i] = static_cast<To>(from.as<From>()[i]); }, kItemsOfPiece);
  return to;
}

// Whether a float holds each of the integers.
template <class Integer>
bool all_exact(const GrowingBytes& weights, int64_t count) {
  std::atomic<bool> exact{true};
  parallel_pieces(count, [&](int64_t begin, int64_t end) {
    bool all = true;
    for (int64_t i = begin; i < end; ++i) {
      const Integer value = weights.as<Integer>()[i];
      all &= static_cast<double>(static_cast<float>(value)) == static_cast<double>(value);
    }
    if (!all) exact = false;
  });
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
  if (layout_.named) {
    names_ = std::make_unique<Names>();
    wide_ = true;
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
  std::vector<TextPiece> pieces = cut(begin, end);
  if (rules_ || names_ != nullptr) scratch_.resize(num_threads());
  if (!rules_) {
    parallel_tasks(pieces.size(),
                   [&](int64_t i, int64_t) { pieces[i].edges = std::count(pieces[i].begin, pieces[i].end, '\n') + 1; });
    int64_t lines = 0;
    for (TextPiece& piece : pieces) piece.at = std::exchange(lines, lines + piece.edges);
    sources_.reserve((listed_ + lines) * sizeof(Id));
    targets_.reserve((listed_ + lines) * sizeof(Id));
    if constexpr (kWeighted) weights_.reserve((listed_ + lines) * sizeof(Weight));
  }

  parallel_tasks(pieces.size(), [&](int64_t i, int64_t thread) {
    TextPiece& piece = pieces[i];
    if (!rules_) {
      const int64_t at = listed_ + piece.at;
      Weight* const weights = kWeighted ? weights_.as<Weight>() + at : nullptr;
      Names::Batch* const names = names_ == nullptr ? nullptr : &scratch_[thread].names;
      parse_piece(layout_, names, piece, sources_.as<Id>() + at, targets_.as<Id>() + at, weights, misfits);
      if (names != nullptr) number_ends(*names_, *names, piece, sources_.as<Id>() + at, targets_.as<Id>() + at);
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
    parse_piece(layout_, nullptr, piece, sources, targets, weights, misfits);
    if (piece.wrong_at != nullptr || misfits.any()) return;  // nobody will want the runs
    piece.runs = make_runs(*rules_, sources, targets, weights, weight_type_, piece.edges, scratch.runs);
  });

  for (const TextPiece& piece : pieces) {
    if (piece.wrong_at != nullptr) fail(begin, piece.wrong_at, end);
  }
  if (misfits.any()) return;

  const int64_t before = listed_;
  int64_t found = edges_;
  for (const TextPiece& piece : pieces) {
    found += piece.edges;
    if (layout_.edges >= 0 && found > layout_.edges) fail(begin, nullptr, end);
  }
  for (TextPiece& piece : pieces) {
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

Names::Ranked EdgeParser::rank_names() {
  Names::Ranked ranked = names_->rank();
  const auto rank_in = [&]<class Id>(GrowingBytes& ends, Id) {
    GrowingBytes to;
    to.reserve(listed_ * sizeof(Id));
    parallel_for(listed_, [&](int64_t i) { to.as<Id>()[i] = static_cast<Id>(names_->final_of(ends.as<int64_t>()[i])); });
    ends = std::move(to);
  };
  wide_ = ranked.count > std::numeric_limits<int32_t>::max();
  for (GrowingBytes* ends : {&sources_, &targets_}) wide_ ? rank_in(*ends, int64_t{}) : rank_in(*ends, int32_t{});
  names_.reset();
  scratch_.clear();
  return ranked;
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
    ParsedEdge<double> weighted{};
    ParsedEdge<Nothing> bare{};
    Names::Batch batch;
    Names::Batch* const names = layout_.named ? &batch : nullptr;
    const char* const stop = line_end(p, end);
    return layout_.weights == WeightColumn::kNone ? parse_line<int64_t>(layout_, names, p, stop, bare, &complaint)
                                                  : parse_line<int64_t>(layout_, names, p, stop, weighted, &complaint);
  };
  if (at != nullptr) {
    examine(at);
  } else {
    int64_t found = edges_;
    for (at = block; at < end; at = line_end(at, end) + 1) {
      if (examine(at) != LineKind::kBlank && ++found > layout_.edges) break;
    }
    complaint = {"this is more than the " + std::to_string(layout_.edges) + " entries that the header promises",
                 "correct the header or remove what follows"};
  }
  throw FormatError(layout_.path + ": line " + std::to_string(line_ + std::count(block, at, '\n')) + ": " + complaint.what +
                    "; " + complaint.remedy);
}

}  // namespace hinterland::native
