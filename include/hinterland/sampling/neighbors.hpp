// Sampling of neighbours, hop by hop: every vertex that the hop before added draws from its list.
//
// A batch has vertices of one or several types, numbered apart in order of appearance, and relations: lists of neighbours of
// one type (the source of a message) for vertices of another (its target). A homogeneous graph has one of each. A hop is, for
// each relation, the frontier of its target's type, and a step of the driver is a relation of a hop, in two halves:
//
//   choose  each vertex of the frontier decides how many neighbours it draws, and a prefix sum gives its edges their places;
//   follow  a thread for each edge reads its neighbour, which is what crosses the link, and enters it in the table of its type
//           (renumber.hpp); those that appear for the first time are numbered, and edges name them by their numbers.
//
// Everything else is small and lies where the processor is fast, so a batch is bound by the requests for neighbours. Between
// the halves the number of edges is known: where the memory for any outcome is too much, the CPU reads it and allocates.
#pragma once

#include "hinterland/core/grid.hpp"
#include "hinterland/sampling/choose.hpp"
#include "hinterland/sampling/renumber.hpp"

namespace hinterland::sampling {

// The vertices of one type. Numbers within a batch are below 2^kPlaceBits.
struct VertexSet {
  int64_t num_vertices;
  int64_t* node;  // the vertices of the batch, by their numbers in it
  int64_t* tree;  // the seed in whose subtree each is; null where subtrees share vertices
  int64_t* ends;  // ends[h]: how many there were before hop h
  NumberEntry* entries;
  int64_t table_size;
  int64_t num_known;     // of `node`, which the first step enters in the table
  const int64_t* times;  // of all vertices of the type, or null
};

struct Relation {
  const graph::GraphWords* lists;
  int64_t source, target;     // types
  const int64_t* fanouts;     // for each hop; -1 is all of the list
  int64_t* ends;              // ends[h]: edges before hop h
  int64_t *row, *col, *edge;  // of each edge: source and target as numbered in the batch, and its place among all edges
  int64_t weights;            // WeightKind
  double most_weight;
  memory::ArrayWords times;  // of all edges of the lists, if they have any
};

struct BatchControl {
  int64_t bad_seed, bad_list;  // the smallest type and number of a seed, relation and vertex: see kPlaceBits; or kNone
  int64_t num_edges, num_new;  // of a step
};

// How vertices draw.
struct SampleRule {
  uint64_t seed, batch;
  int64_t replace, newest;
  uint64_t window;  // how long before the limit of its tree a neighbour's time may be; ~0 is any time
};

// A sample of fixed shape (src/hinterland/sampling/envelope.py), of one type and one relation in one launch, which a CUDA graph
// makes anew at each replay.
struct FixedShape {
  const int64_t* given;  // the number of the batch, and how many of the known vertices count; null: no fixed shape
  int64_t hops;
  const int64_t *vertices, *edges;  // the envelope, as `ends` of both count; padding is behind
  const int64_t* original_ids;      // of all vertices, which `node` is to name in place of their numbers here; or null
  // What replays find wrong (src/hinterland/sampling/replayed.py), null on a CPU: the number of replays and of the batch; and
  // of the first replay with something wrong the control's two words and these two, on the GPU and in host memory.
  int64_t *counted, *met, *told;
};

// What a launch is given. It may be one of several of its batch.
struct SampleParams {
  int64_t first, end;  // halves of steps: see sample_neighbors()
  SampleRule rule;
  int64_t num_types, num_relations;
  const VertexSet* types;
  const Relation* relations;
  BatchControl* control;
  TeamControl* team;      // zero at each launch
  const int64_t* limits;  // of each tree: the latest time of its vertices; null without times
  // Of one step: for each vertex of the frontier its list, its first edge, and `fanout` picks with keys; for each edge where
  // its neighbour is in the table; and Tiles::kRoom sums.
  int64_t *begins, *degrees, *firsts, *picks;
  uint64_t* keys;
  int64_t *found, *sums;
  FixedShape fixed;

  HINTERLAND_FN bool is_fixed() const { return fixed.given != nullptr; }
  HINTERLAND_FN uint64_t number() const { return is_fixed() ? static_cast<uint64_t>(fixed.given[0]) : rule.batch; }
  HINTERLAND_FN int64_t num_known(const VertexSet& set) const {
    return is_fixed() ? max_of<int64_t>(min_of(fixed.given[1], set.num_known), 0) : set.num_known;
  }
};

// Enters the known vertices of all types in their tables.
template <class Team>
HINTERLAND_FN void enter_known(Team& team, const SampleParams& batch) {
  for (int64_t type = 0; type < batch.num_types; ++type) {
    const VertexSet& set = batch.types[type];
    const NumberTable table(set.entries, set.table_size);
    const int64_t known = batch.num_known(set);
    if (batch.is_fixed()) team.single([&] { set.ends[0] = known; });
    for_each(team, known, [&](int64_t i) {
      const int64_t vertex = set.node[i];
      if (static_cast<uint64_t>(vertex) >= static_cast<uint64_t>(set.num_vertices))
        atomic_min(batch.control->bad_seed, type << Draws::kPlaceBits | i);
      else
        table.enter(set.tree == nullptr ? vertex : set.tree[i] * set.num_vertices + vertex, static_cast<uint64_t>(i));
    });
  }
}

// One relation of one hop. Its members are called by all threads of a team. Without kMayCompare no relation has weights or
// times, and the code for them takes no registers.
template <class Graph, bool kMayCompare>
class HopStep {
 public:
  HINTERLAND_FN HopStep(const SampleParams& batch, int64_t hop, int64_t number)
      : batch_(batch),
        hop_(hop),
        number_(number),
        relation_(batch.relations[number]),
        source_(batch.types[relation_.source]),
        target_(batch.types[relation_.target]),
        graph_(*relation_.lists),
        weights_(*relation_.lists, relation_.weights),
        rule_{batch.rule.replace != 0, batch.rule.newest != 0,
              source_.times,           relation_.times.home == nullptr ? nullptr : &relation_.times,
              relation_.most_weight,   batch.rule.window},
        fanout_(relation_.fanouts[hop]),
        frontier_(hop == 0 ? 0 : target_.ends[hop - 1]),
        size_(target_.ends[hop] - frontier_) {}

  template <class Team>
  HINTERLAND_FN void choose(Team& team) const {
    if (compares()) {
      if constexpr (kMayCompare) choose_by_candidate(team);
    } else {
      choose_by_position(team);
    }
    prefix(
        team, size_, batch_.sums, batch_.control->num_edges, [&](int64_t i) { return batch_.firsts[i]; },
        [&](int64_t i, int64_t, int64_t before) { batch_.firsts[i] = before; });
  }

  template <class Team>
  HINTERLAND_FN void follow(Team& team) const {
    const int64_t edges = batch_.control->num_edges, base = relation_.ends[hop_];
    const int64_t known = max_of(source_.ends[hop_], source_.ends[hop_ + 1]);
    const NumberTable table(source_.entries, source_.table_size);
    if constexpr (kMayCompare)
      if (compares() && takes_all()) list_candidates(team, base);
    team.single([&] { relation_.ends[hop_ + 1] = base + edges; });
    follow_edges(team, table, edges, base);
    prefix(
        team, edges, batch_.sums, batch_.control->num_new,
        [&](int64_t e) -> int64_t {
          const int64_t at = batch_.found[e];
          return at >= 0 && table.number(at) == NumberTable::kNew + static_cast<uint64_t>(e);
        },
        [&](int64_t e, int64_t is_first, int64_t before) {
          if (is_first == 0) return;
          const int64_t at = batch_.found[e], number = known + before;
          const int64_t tree = source_.tree == nullptr ? 0 : table.key(at) / source_.num_vertices;
          source_.node[number] = table.key(at) - tree * source_.num_vertices;
          if (source_.tree != nullptr) source_.tree[number] = tree;
          table.set_number(at, static_cast<uint64_t>(number));
        });
    team.single([&] {
      source_.ends[hop_ + 1] = known + batch_.control->num_new;
      if (number_ == batch_.num_relations - 1)  // the hop is over, for all types
        for (int64_t type = 0; type < batch_.num_types; ++type) {
          int64_t* const ends = batch_.types[type].ends;
          ends[hop_ + 1] = max_of(ends[hop_], ends[hop_ + 1]);
        }
    });
    team.static_for(ceil_div(edges, kRun), [&](const auto& ranges) {
      ranges([&](int64_t first, int64_t last) {
        for (int64_t e = first * kRun + Warp::lane(); e < min_of(last * kRun, edges); e += Warp::kWidth) {
          const int64_t at = batch_.found[e];
          relation_.row[base + e] = at >= 0 ? static_cast<int64_t>(table.number(at)) : 0;
        }
      });
    });
  }

 private:
  static constexpr int64_t kRun = Warp::kWidth == 1 ? 64 : Warp::kWidth;  // edges that follow each other, for one warp

  HINTERLAND_FN bool compares() const { return kMayCompare && (weights_.any() || rule_.temporal()); }
  HINTERLAND_FN bool takes_all() const { return fanout_ < 0; }
  HINTERLAND_FN uint64_t place(int64_t i) const {
    return static_cast<uint64_t>(number_ << Draws::kPlaceBits | (frontier_ + i));
  }

  // The list of vertex i of the frontier, empty where the vertex is none or its list is broken, and notes of both. All lanes
  // call it together, each with a vertex of its own or with none, or all with the same.
  HINTERLAND_FN ListPlace open(int64_t i, bool there, graph::StepCounts<>& counts) const {
    const int64_t vertex = there ? target_.node[frontier_ + i] : -1;
    const graph::ListBounds list(graph_, vertex, static_cast<uint64_t>(vertex) < static_cast<uint64_t>(target_.num_vertices),
                                 counts);
    if (there) {
      batch_.begins[i] = list.begin;
      batch_.degrees[i] = list.end - list.begin;
    }
    return {vertex, list.begin, list.end - list.begin};
  }
  HINTERLAND_FN ListPlace opened(int64_t i) const { return {target_.node[frontier_ + i], batch_.begins[i], batch_.degrees[i]}; }
  HINTERLAND_FN Candidates<Graph> candidates(int64_t i, const ListPlace& list) const {
    const int64_t limit = batch_.limits == nullptr ? 0 : batch_.limits[target_.tree[frontier_ + i]];
    return {graph_, weights_, rule_, source_.num_vertices, list, limit};
  }
  HINTERLAND_FN void report(const graph::StepCounts<>& counts) const {
    if (counts.bad != kNone) atomic_min(batch_.control->bad_list, number_ << Draws::kPlaceBits | counts.bad);
  }

  // A lane for each vertex.
  template <class Team>
  HINTERLAND_FN void choose_by_position(Team& team) const {
    team.static_for(size_, [&](const auto& ranges) {
      const Draws draws(batch_.rule.seed, batch_.number(), Draws::kNeighbors);
      graph::StepCounts<> counts;
      ranges([&](int64_t first, int64_t last) {
        for (int64_t base = first; base < last; base += Warp::kWidth) {
          const int64_t i = base + Warp::lane();
          const int64_t degree = open(i, i < last, counts).degree;
          if (i >= last) continue;
          if (takes_all() || (!rule_.replace && degree <= fanout_)) {
            batch_.firsts[i] = degree;
            continue;
          }
          const int64_t count = batch_.firsts[i] = degree == 0 ? 0 : fanout_;
          for (int64_t j = 0; j < count; ++j) {
            const int64_t among = rule_.replace ? degree : degree - fanout_ + j + 1;  // as floyd() wants its tries
            batch_.picks[i * fanout_ + j] = draws.below(among, place(i), static_cast<uint64_t>(j));
          }
        }
      });
      report(counts);
    });
  }

  // Has what choosing for vertex i of the frontier looks at first read ahead: a list, or what the first trials of a long one
  // name.
  HINTERLAND_FN int64_t ask_for_choice(int64_t i, const ChoiceStreams& streams) const {
    const int64_t vertex = target_.node[frontier_ + i];
    if (!graph_.has(vertex)) return 0;
    const graph::Piece list = graph_.offsets.list_alone(vertex);
    if (!list.lies_within(graph_.num_edges)) return 0;
    const Candidates<Graph> from = candidates(i, {vertex, list.begin, list.length()});
    const bool tries = rule_.replace || (!rule_.newest && list.length() >= kLongPerTrial * kTrialsPerDraw * fanout_);
    if (takes_all() || !tries || list.length() <= graph::kTaskEdges) return from.ask(0, graph::kTaskEdges);
    int64_t begun = 0;
    for (int64_t j = 0; j < fanout_; ++j)
      begun +=
          from.ask_for_trial(streams.trials, place(i), static_cast<uint64_t>(rule_.replace ? j * kTrialsWithReplacement : j));
    return begun;
  }

  // A warp for each vertex, since it looks at the list.
  template <class Team>
  HINTERLAND_FN void choose_by_candidate(Team& team) const {
    team.dynamic_for(size_, [&](const auto& each) {
      const ChoiceStreams streams(batch_.rule.seed, batch_.number());
      graph::StepCounts<> counts;
      graph::Ahead<Graph> ahead(graph_);
      each([&](int64_t i) {
        ahead(i, size_, [&](int64_t later) { return ask_for_choice(later, streams); });
        const Candidates<Graph> from = candidates(i, open(i, true, counts));
        int64_t count = 0;
        if (takes_all()) {
          for (int64_t at = Warp::lane(); at < from.degree(); at += Warp::kWidth) count += from.weight(at) > 0.0;
          count = Warp::sum(count);
        } else {
          int64_t* const picks = batch_.picks + i * fanout_;
          uint64_t* const keys = batch_.keys + i * fanout_;
          count = rule_.replace ? choose_with_replacement(from, streams, place(i), fanout_, picks, keys)
                                : choose_distinct(from, rule_.newest, streams, place(i), fanout_, picks, keys);
        }
        if (Warp::lane() == 0) batch_.firsts[i] = count;
      });
      report(counts);
    });
  }

  // The edges of lists that are taken whole but for what has weight 0.
  template <class Team>
  HINTERLAND_FN void list_candidates(Team& team, int64_t base) const {
    team.dynamic_for(size_, [&](const auto& each) {
      each([&](int64_t i) {
        const Candidates<Graph> from = candidates(i, opened(i));
        int64_t to = base + batch_.firsts[i];
        // Weights may have changed since they were counted.
        const int64_t end = base + (i + 1 < size_ ? batch_.firsts[i + 1] : batch_.control->num_edges);
        for (int64_t first = 0; first < from.degree(); first += Warp::kWidth) {
          const int64_t at = first + Warp::lane();
          const uint32_t lanes = Warp::ballot(at < from.degree() && from.weight(at) > 0.0);
          const int64_t own = to + stdlib::popcount(lanes & ((1u << Warp::lane()) - 1));
          if ((lanes >> Warp::lane() & 1u) && own < end) relation_.edge[own] = batch_.begins[i] + at;
          to += stdlib::popcount(lanes);
        }
      });
    });
  }

  // Position of edge e in the list of vertex i of the frontier.
  HINTERLAND_FN int64_t position(int64_t i, int64_t e, int64_t base) const {
    const int64_t j = e - batch_.firsts[i], degree = batch_.degrees[i];
    if (takes_all()) return compares() ? relation_.edge[base + e] - batch_.begins[i] : j;
    const int64_t* const picks = batch_.picks + i * fanout_;
    if (compares() || rule_.replace) return picks[j];
    return degree <= fanout_ ? j : floyd(picks, degree, fanout_, j);
  }

  // The vertex of the frontier that edge e belongs to.
  HINTERLAND_FN int64_t owner(int64_t e) const {
    int64_t from = 0, until = size_;  // firsts[from] <= e < firsts[until]
    while (until - from > 1) {
      const int64_t middle = from + (until - from) / 2;
      (batch_.firsts[middle] <= e ? from : until) = middle;
    }
    return from;
  }

  template <class Team>
  HINTERLAND_FN void follow_edges(Team& team, const NumberTable& table, int64_t edges, int64_t base) const {
    team.static_for(ceil_div(edges, kRun), [&](const auto& ranges) {
      graph::StepCounts<> counts;
      graph::Ahead<Graph> ahead(graph_);
      int64_t asked = -1, asked_of = 0;  // the edge that was asked for last, and its vertex of the frontier
      const auto ask = [&](int64_t later) {
        if (later != asked + 1) asked_of = owner(later);
        while (asked_of + 1 < size_ && batch_.firsts[asked_of + 1] <= later) ++asked_of;
        asked = later;
        return ask_for_neighbor(graph_, opened(asked_of), position(asked_of, later, base));
      };
      ranges([&](int64_t first, int64_t last) {
        const int64_t end = min_of(last * kRun, edges);
        int64_t e = first * kRun + Warp::lane();
        int64_t i = e < end ? owner(e) : 0;
        for (; e - Warp::lane() < end; e += Warp::kWidth) {
          ahead(e, edges, ask);
          const bool there = e < end;
          while (there && i + 1 < size_ && batch_.firsts[i + 1] <= e) ++i;
          const ListPlace list[] = {there ? opened(i) : ListPlace{}};
          int64_t at = there ? position(i, e, base) : -1, neighbor[1];
          const int64_t asked[] = {static_cast<uint64_t>(at) < static_cast<uint64_t>(list[0].degree) ? at : -1};
          read_neighbors(graph_, list, asked, neighbor);
          if (!there) continue;
          relation_.edge[base + e] = list[0].begin + at;
          relation_.col[base + e] = frontier_ + i;
          batch_.found[e] = -1;
          if (static_cast<uint64_t>(neighbor[0]) >= static_cast<uint64_t>(source_.num_vertices)) {
            counts.bad = min_of(counts.bad, list[0].vertex);
            continue;
          }
          const int64_t tree = source_.tree == nullptr ? 0 : target_.tree[frontier_ + i];
          batch_.found[e] =
              table.enter(tree * source_.num_vertices + neighbor[0], NumberTable::kNew + static_cast<uint64_t>(e));
        }
      });
      report(counts);
    });
  }

  const SampleParams& batch_;
  int64_t hop_, number_;
  const Relation& relation_;
  const VertexSet &source_, &target_;
  Graph graph_;
  SampleWeights<typename Graph::Family> weights_;
  ChoiceRule rule_;
  int64_t fanout_;
  int64_t frontier_, size_;  // the vertices that draw: the first one's number, and how many
};

// Has the next call of the CPU's raise what this replay found wrong, unless one before it did.
HINTERLAND_FN void tell(const BatchControl& control, const FixedShape& fixed) {
  if (fixed.counted == nullptr) return;
  const int64_t words[] = {control.bad_seed, control.bad_list, ++fixed.counted[0], fixed.counted[1] = fixed.given[0]};
  if ((words[0] == kNone && words[1] == kNone) || fixed.met[0] != kNone || fixed.met[1] != kNone) return;
  for (int k = 0; k < 4; ++k) fixed.met[k] = fixed.told[k] = words[k];
}

// Fills a sample of fixed shape behind what was drawn. Where more was drawn than there is place for, edges name the last vertex
// that their hop has, so that nobody who reads the sample leaves it.
template <class Team>
HINTERLAND_FN void pad(Team& team, const SampleParams& batch) {
  const VertexSet& set = batch.types[0];
  const Relation& relation = batch.relations[0];
  const FixedShape& fixed = batch.fixed;
  const int64_t hops = fixed.hops, seeds = set.ends[0], vertices = set.ends[hops], edges = relation.ends[hops];
  const int64_t most = fixed.vertices[hops];
  bool overflows = false;
  for (int64_t hop = 1; hop <= hops; ++hop) overflows |= set.ends[hop] >= fixed.vertices[hop];
  team.single([&] { tell(*batch.control, fixed); });
  for_each(team, most + fixed.edges[hops], [&](int64_t i) {
    if (i < most) {
      if (i < vertices && i >= seeds && fixed.original_ids == nullptr) return;
      const int64_t vertex = i < vertices ? set.node[i] : -1;
      const bool is = static_cast<uint64_t>(vertex) < static_cast<uint64_t>(set.num_vertices);
      set.node[i] = !is ? 0 : fixed.original_ids == nullptr ? vertex : fixed.original_ids[vertex];
      return;
    }
    const int64_t e = i - most;
    if (e >= edges) {
      relation.row[e] = relation.col[e] = most - 1;
      relation.edge[e] = 0;
    } else if (overflows) {
      int64_t hop = 1;
      while (e >= relation.ends[hop]) ++hop;
      relation.row[e] = min_of(relation.row[e], fixed.vertices[hop] - 1);
      relation.col[e] = min_of(relation.col[e], fixed.vertices[hop - 1] - 1);
    }
  });
}

// Halves [first, end) of a batch's steps: 0 enters the seeds, and from 1 on there are two for each relation of each hop. The
// lists that one call reads are all plain, or all packed.
template <class Graph, bool kMayCompare, class Team>
HINTERLAND_FN void sample_neighbors(Team& team, const SampleParams& batch) {
  for (int64_t half = batch.first; half < batch.end; ++half) {
    if (half == 0) {
      enter_known(team, batch);
      continue;
    }
    const int64_t number = (half - 1) / 2;
    const HopStep<Graph, kMayCompare> step(batch, number / batch.num_relations, number % batch.num_relations);
    if (half % 2 == 1)
      step.choose(team);
    else
      step.follow(team);
  }
  if (batch.is_fixed()) pad(team, batch);
}

}  // namespace hinterland::sampling
