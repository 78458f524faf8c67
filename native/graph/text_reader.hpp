// Text edge lists, one edge a line: SNAP and CSV lists, Matrix Market coordinate bodies, DIMACS arcs. The caller reads
// blocks of text; a block is parsed by all threads, straight into arrays that take 4 bytes a number as long as 4 suffice.
// Where it is known what becomes of the edges (`rules`), each thread makes runs, which take less, of a piece of the block at a
// time; else the arrays grow to a list.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/edge_runs.hpp"
#include "graph/growing.hpp"
#include "graph/names.hpp"

namespace hinterland::native {

enum class WeightColumn { kNone, kInteger, kReal, kAny };

struct TextLayout {
  std::string path;       // for messages
  std::string comments;   // a line that starts with one of these is skipped
  char tag = '\0';        // what each edge line starts with (DIMACS: 'a')
  char separator = '\0';  // what stands between two columns, blanks beside it or not; '\0': blanks alone
  int64_t base = 0;       // the number of the first vertex
  int64_t vertices = -1;  // what the header promises; -1: no header
  int64_t edges = -1;     // the same
  WeightColumn weights = WeightColumn::kNone;
  bool timed = false;  // the last column is a number that is not kept
  bool named = false;  // vertices are whatever stands in the first two columns, and no line behind the first is a comment
};

class EdgeParser {
 public:
  EdgeParser(TextLayout layout, int64_t first_line, std::optional<graph::EdgeRules> rules);

  // Parses the whole lines of [text, text + bytes), and the last one without a line end too if `at_end`. Returns the
  // bytes parsed. FormatError names the file, the line, the value and the remedy.
  int64_t feed(const char* text, int64_t bytes, bool at_end);

  [[nodiscard]] int64_t edges() const { return edges_; }
  [[nodiscard]] int64_t line() const { return line_; }
  [[nodiscard]] int64_t largest() const { return largest_; }
  [[nodiscard]] int64_t largest_line() const { return largest_line_; }
  [[nodiscard]] int64_t bytes_per_edge() const;
  [[nodiscard]] int64_t nbytes() const {
    return runs_.nbytes() + listed_ * bytes_per_edge() + (names_ == nullptr ? 0 : names_->nbytes());
  }
  [[nodiscard]] bool wide() const { return wide_; }
  [[nodiscard]] WeightType weight_type() const { return weight_type_; }

  // Of a list whose vertices are named, once, behind the last feed(): the names, by whose ranks the vertices are numbered now.
  Names::Ranked rank_names();

  // With rules: the entries that the edges add to the rows. They lie in this parser.
  RunEdges runs();

  // Without: the arrays, handed over: int32 or int64 (wide()) vertices, and weights of weight_type().
  GrowingBytes take_sources() { return std::move(sources_); }
  GrowingBytes take_targets() { return std::move(targets_); }
  GrowingBytes take_weights() { return std::move(weights_); }

 private:
  struct Misfits;
  struct Scratch {
    GrowingBytes sources, targets, weights;
    RunScratch runs;
    Names::Batch names;
  };
  template <class Id, class Weight>
  void parse_block(const char* begin, const char* end, Misfits& misfits);
  template <class Id>
  void parse_as(const char* begin, const char* end, Misfits& misfits);
  void widen(const Misfits& misfits);
  [[noreturn]] void fail(const char* block, const char* begin, const char* end) const;

  TextLayout layout_;
  std::unique_ptr<Names> names_;
  int64_t line_;
  std::optional<graph::EdgeRules> rules_;
  int64_t edges_ = 0;
  int64_t listed_ = 0;  // those of them that are in the arrays
  int64_t largest_ = -1;
  int64_t largest_line_ = 0;
  bool wide_ = false;
  WeightType weight_type_;
  GrowingBytes sources_, targets_, weights_;
  EdgeRuns runs_;
  std::vector<Scratch> scratch_;  // of each thread
};

}  // namespace hinterland::native
