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

}  // namespace hinterland::fullgraph
