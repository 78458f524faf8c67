// Lists as those of papers that cite each other, of which few have labels. A vertex is in a field, the field in an area. Its list
// holds who cites it: younger vertices, most of its own field, few of other areas. How long a list is, is unrelated to how many
// lists hold the vertex. Training on one area therefore meets a small part of the graph, which degrees do not tell (GNNLab:
// Wang et al.'s survey, figure 15). Entry j of a list follows from the seed, the vertex and j alone, and no two are one vertex.
#pragma once

#include "hinterland/core/philox.hpp"
#include "hinterland/core/platform.hpp"
#include "hinterland/graph/communities.hpp"
#include "hinterland/graph/generate.hpp"

namespace hinterland::datasets {

// What lists are made from, and for whom: rows [first, end).
struct CitationParams {
  uint64_t seed;           // of lengths and neighbours
  uint64_t vertices_seed;  // of the numbers of vertices
  int64_t vertices;
  int64_t fields;  // of an area
  int64_t areas;
  int64_t first, end;
  const int64_t* indptr;  // [end - first + 1], of the rows from `first` on
  void* indices;          // of them, from entry indptr[0] on; Id
};

// Before vertices are renumbered, x is of field x mod (fields of all areas), and all that are younger are numbered lower.
class CitationLists {
 public:
  HINTERLAND_FN explicit CitationLists(const CitationParams& p)
      : random_{p.seed},
        renumber_(graph::CommunityVertices{p.vertices_seed, p.vertices, p.fields * p.areas}.renumber()),
        own_(p.fields),
        all_(p.fields * p.areas) {}

  HINTERLAND_FN const graph::Permutation& renumber() const { return renumber_; }

  // The list of vertex x, in three parts: of its field, its area, and the others.
  struct List {
    int64_t x, field, block;  // x = block * (fields of all areas) + field
    int64_t part[3];          // entries of each
    int64_t choice[3];        // vertices that each is chosen from
  };

  HINTERLAND_FN List list(int64_t x, int64_t length) const {
    List list{x, x % all_, x / all_, {}, {}};
    const int64_t in_area = list.field % own_;
    list.choice[0] = list.block;
    list.choice[1] = list.block * (own_ - 1) + in_area;
    list.choice[2] = list.block * (all_ - own_) + list.field - in_area;
    const Philox::Block drawn = random_(static_cast<uint64_t>(x), kOwn);
    const auto most = [&](int part, int64_t wanted) { return min_of(wanted, list.choice[part] - list.part[part]); };
    list.part[2] = most(2, min_of(share(length, kElsewhere, drawn.word[2]), length));
    list.part[0] = most(0, min_of(share(length, kField, drawn.word[3]), length - list.part[2]));
    list.part[1] = most(1, length - list.part[0] - list.part[2]);
    // What a part has no room for, the others take.
    list.part[0] += most(0, length - list.part[0] - list.part[1] - list.part[2]);
    list.part[2] += most(2, length - list.part[0] - list.part[1] - list.part[2]);
    return list;
  }

  // Entry j of a list: in part i the j-th of equal slices of those to choose from, moved by j, so that none comes twice.
  HINTERLAND_FN int64_t neighbor(const List& list, int64_t j) const {
    const uint64_t bits = random_(static_cast<uint64_t>(list.x), static_cast<uint64_t>(j / 2)).half(static_cast<int>(j % 2));
    int part = 0;
    while (j >= list.part[part]) j -= list.part[part++];
    const uint64_t slice = ~uint64_t{0} / static_cast<uint64_t>(list.part[part]);
    const uint64_t at = static_cast<uint64_t>(j) * slice + Philox::multiply_high(bits, slice);
    const int64_t chosen = j + graph::pick(at, list.choice[part] - list.part[part] + 1);
    if (part == 0) return renumber_(chosen * all_ + list.field);
    // Of each block all fields of the area but the own one, or of all areas but the own one.
    const int64_t in_area = list.field % own_, area = list.field - in_area;
    const int64_t of_block = part == 1 ? own_ - 1 : all_ - own_, left_out = part == 1 ? in_area : area;
    int64_t field = chosen % of_block;
    if (field >= left_out) field += part == 1 ? 1 : own_;
    return renumber_(chosen / of_block * all_ + field + (part == 1 ? area : 0));
  }

  // Random bits that decide how long the list of x is.
  HINTERLAND_FN Philox::Block length_bits(int64_t x) const { return random_(static_cast<uint64_t>(x), kOwn); }

 private:
  static constexpr uint64_t kOwn = ~uint64_t{0};  // the upper half of the counter of what a list has one of
  static constexpr uint32_t kField = static_cast<uint32_t>(0.7 * 4294967296.0);
  // Of an area's readers so few look elsewhere that caches of 5 % serve what GNNLab's serve (tests/datasets/test_citations.py).
  static constexpr uint32_t kElsewhere = static_cast<uint32_t>(0.02 * 4294967296.0);

  // `of` times a share of 2^32, rounded up or down at random.
  HINTERLAND_FN static int64_t share(int64_t of, uint32_t part, uint32_t random) {
    return static_cast<int64_t>((static_cast<uint64_t>(of) * part + random) >> 32);
  }

  Philox random_;
  graph::Permutation renumber_;
  int64_t own_, all_;
};

}  // namespace hinterland::datasets
