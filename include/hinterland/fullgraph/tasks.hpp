// What is done at once: a row's entries, or a neighbour partition (MGG, section 4.2), which is a piece of those of a long row.
#pragma once

#include "hinterland/core/platform.hpp"

namespace hinterland::fullgraph {

// Pieces of long rows come first: tasks [0, pieces) are theirs, tasks [pieces, pieces + rows) the rows'. Those behind are not
// there, and their rows are none.
// Params: has `rows`, each one's `begins` and `ends`, `longest`, and of the `pieces` their rows, begins and ends.
struct RowTask {
  bool piece, there;
  int64_t number;  // of the piece, or of the row
  int64_t row;     // the piece's, or the row itself
  int64_t begin = 0, end = 0;
  bool mine;  // whether it has a result: a row that is in pieces has none

  template <class Params>
  HINTERLAND_FN RowTask(const Params& p, int64_t task)
      : piece(task < p.pieces),
        there(task < p.pieces + p.rows),
        number(piece ? task : task - p.pieces),
        row(piece ? p.piece_rows[number] : number),
        mine(there) {
    if (piece) {
      begin = p.piece_begins[number], end = p.piece_ends[number];
    } else if (there) {
      begin = p.begins[row], end = p.ends[row];
      if (end - begin > p.longest) mine = false, end = begin;
    }
  }

  // Whether it has what comes before the first entry of its row.
  template <class Params>
  HINTERLAND_FN bool begins_row(const Params& p) const {
    return !piece || begin == p.begins[row];
  }
};

// Pieces of long rows without a look at how many there are: room for two at each multiple of `longest` entries, of which a row
// with more than so many has one at least. The first has what lies before it of its row, if no other multiple does. Pieces that
// are not needed are empty.
struct CutParams {
  const int64_t* begins;  // [rows]
  const int64_t* ends;    // [rows], ascending
  int64_t rows;
  int64_t longest;
  int64_t count;          // of multiples
  int64_t* piece_rows;    // [2 count]
  int64_t* piece_begins;  // [2 count]
  int64_t* piece_ends;    // [2 count]
  int64_t* long_rows;     // [count]: the row whose first multiple it is; -1: of none
  int64_t* long_begins;   // [count]: that row's pieces are [begin, end)
  int64_t* long_ends;     // [count], ascending
};

HINTERLAND_FN void cut_at(const CutParams& p, int64_t number) {
  const int64_t entry = number * p.longest;
  int64_t row = 0;  // the first that ends behind it
  for (int64_t end = p.rows; row < end;) {
    const int64_t middle = (row + end) / 2;
    if (p.ends[middle] > entry)
      end = middle;
    else
      row = middle + 1;
  }
  const int64_t begin = row < p.rows ? p.begins[row] : 0, end = row < p.rows ? p.ends[row] : 0;
  const bool is_long = end - begin > p.longest && begin <= entry, is_first = is_long && begin > entry - p.longest;
  const auto set = [&](int64_t piece, bool there, int64_t from, int64_t to) {
    p.piece_rows[piece] = there ? row : 0;
    p.piece_begins[piece] = there ? from : -1;  // where no row begins
    p.piece_ends[piece] = there ? to : -1;
  };
  set(2 * number, is_first && begin < entry, begin, entry);
  set(2 * number + 1, is_long, entry, entry + p.longest < end ? entry + p.longest : end);
  const int64_t last = is_long ? 2 * ((end - 1) / p.longest) + 2 : 2 * number;
  p.long_rows[number] = is_first ? row : -1;
  p.long_begins[number] = is_first ? 2 * number : last;
  p.long_ends[number] = last;
}

}  // namespace hinterland::fullgraph
