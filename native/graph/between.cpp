// A shortest path between two vertices, on the CPU and by one thread: Dijkstra's algorithm from both ends (Nicholson 1966),
// which looks at what lies near them alone, or from the source until the target is reached.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <queue>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "hinterland/graph/lists.hpp"
#include "params.hpp"

namespace hinterland::native {

// Lists that end before `edges`; no weights count edges.
struct PathRows {
  const int64_t* indptr;
  const void *neighbors, *weights;
};

struct BetweenParams {
  PathRows out, in;  // `in`, the edges turned round, has no offsets where the search goes from the source alone
  int64_t neighbor_bytes, weight_bytes, weight_order, vertices, edges, source, target;
  int64_t* path;  // [vertices]
  void* length;   // int64, or double where the weights are floats
};

HINTERLAND_STRUCT(PathRows, indptr, neighbors, weights);
HINTERLAND_STRUCT(BetweenParams, out, in, neighbor_bytes, weight_bytes, weight_order, vertices, edges, source, target, path,
                  length);

namespace {

struct NoWeights {};  // each edge counts as 1

// No weight is negative, and no sum of those of two paths is beyond Distance.
template <class Neighbor, class Weight>
class Between {
 public:
  explicit Between(const BetweenParams& p) : p_(p), sides_{Side(p.out, p.vertices), Side(p.in, p.vertices)} {}

  // How many vertices the path has, which p.path then holds; 0 if there is none.
  int64_t run() {
    label(0, p_.source, p_.source, 0, 0);
    label(1, p_.target, p_.target, 0, 0);
    const bool from_both = p_.in.indptr != nullptr;
    while (!sides_[0].heap.empty() && !sides_[1].heap.empty()) {
      // A path that is still to be met has an edge at least between what the two sides look at next.
      if (meets_ >= 0 && sides_[0].heap.top().first + sides_[1].heap.top().first + kLeastEdge >= length_) break;
      expand(from_both && sides_[1].heap.size() < sides_[0].heap.size());
    }
    return meets_ < 0 ? 0 : write();
  }

 private:
  using Distance = std::conditional_t<std::is_floating_point_v<Weight>, double, int64_t>;
  static constexpr Distance kLeastEdge = std::is_same_v<Weight, NoWeights> ? 1 : 0;

  struct Label {
    Distance distance, step;  // the last edge's weight
    int64_t from;             // the vertex before, plus 1; 0 of what was not met
  };

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  struct Side {
    Side(const PathRows& its_rows, int64_t vertices)
        : rows(its_rows), labels(static_cast<Label*>(std::calloc(vertices, sizeof(Label)))) {
      if (labels == nullptr) throw std::bad_alloc();
    }

    PathRows rows;
    std::unique_ptr<Label[], Free> labels;  // zeros, of which only what is met takes memory
    std::priority_queue<std::pair<Distance, int64_t>, std::vector<std::pair<Distance, int64_t>>, std::greater<>> heap;
  };

  void label(int side, int64_t v, int64_t from, Distance distance, Distance step) {
    Label& own = sides_[side].labels[v];
    if (own.from != 0 && own.distance <= distance) return;
    own = {distance, step, from + 1};
    sides_[side].heap.emplace(distance, v);
    const Label& other = sides_[1 - side].labels[v];
    if (other.from == 0 || (meets_ >= 0 && distance + other.distance >= length_)) return;
    length_ = distance + other.distance;
    meets_ = v;
  }

  void expand(int side) {
    const auto [distance, u] = sides_[side].heap.top();
    sides_[side].heap.pop();
    if (distance > sides_[side].labels[u].distance) return;
    const PathRows& rows = sides_[side].rows;
    const graph::Piece list = graph::list_within(rows.indptr, u, p_.edges);
    for (int64_t i = list.begin; i < list.end; ++i) {
      const int64_t v = static_cast<const Neighbor*>(rows.neighbors)[i];
      Distance step = 1;
      if constexpr (!std::is_same_v<Weight, NoWeights>) step = static_cast<const Weight*>(rows.weights)[i];
      if (v < 0 || v >= p_.vertices || step < 0) continue;  // arrays that were changed
      label(side, v, u, distance + step, step);
    }
  }

  int64_t write() {
    int64_t count = 0;
    for (int64_t v = meets_;; v = before(0, v)) {
      p_.path[count++] = v;
      if (v == p_.source) break;
    }
    std::reverse(p_.path, p_.path + count);
    Distance length = sides_[0].labels[meets_].distance;  // floats are added along the path
    for (int64_t v = meets_; v != p_.target;) {
      length += sides_[1].labels[v].step;
      p_.path[count++] = v = before(1, v);
    }
    *static_cast<Distance*>(p_.length) = length;
    return count;
  }

  int64_t before(int side, int64_t v) const { return sides_[side].labels[v].from - 1; }

  const BetweenParams& p_;
  Side sides_[2];
  int64_t meets_ = -1;  // where the sides meet on the shortest path so far, and its length
  Distance length_ = 0;
};

int64_t path_between(const BetweenParams& p) {
  const auto with = [&]<class Weight>(Weight) {
    return p.neighbor_bytes == 4 ? Between<int32_t, Weight>(p).run() : Between<int64_t, Weight>(p).run();
  };
  if (p.out.weights == nullptr) return with(NoWeights{});
  if (p.weight_order == 2) return p.weight_bytes == 4 ? with(float{}) : with(double{});
  if (p.weight_order == 0) return with(uint8_t{});
  return p.weight_bytes == 4 ? with(int32_t{}) : with(int64_t{});
}

}  // namespace

const Binding graph_between([](nanobind::module_& m) { def_native(m, "path_between", path_between); });

}  // namespace hinterland::native
