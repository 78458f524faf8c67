#include "memory/embedding.hpp"

#include "core/thresholds.hpp"

namespace hinterland::native {

namespace {

// each(T{}) for the type of the table's elements.
template <class Each>
void with_element(ParameterType element, const Each& each) {
  switch (element) {
    case ParameterType::kFloat32: each(float{}); break;
    case ParameterType::kFloat16: each(Float16{}); break;
    case ParameterType::kBfloat16: each(Bfloat16{}); break;
  }
}

}  // namespace

std::pair<FoundFault, FoundFault> pool_bags(const memory::PoolParams& params, ParameterType element) {
  memory::IndexFault offsets, entries;
  volatile int64_t flag = 0;
  memory::PoolParams p = params;
  p.lanes = 1, p.steps = ceil_div<int64_t>(p.dim, kBagElements);
  p.offsets = {&offsets, &flag}, p.entries = {&entries, &flag};
  const int64_t pieces = p.bags.bags * p.steps;
  with_element(element, [&](auto kind) {
    using T = decltype(kind);
    const auto one = p.best == nullptr ? &memory::pool_bags<T, kBagElements, false> : &memory::pool_bags<T, kBagElements, true>;
#pragma omp parallel for schedule(dynamic, kBagPieces) if (pieces > kBagPiecesAlone)
    for (int64_t i = 0; i < pieces; ++i) one(p, i, pieces);
  });
  return {found(offsets), found(entries)};
}

void weigh_entries(const memory::WeighParams& params, ParameterType element) {
  memory::WeighParams p = params;
  p.lanes = 1;
  with_element(element, [&](auto kind) {
#pragma omp parallel for schedule(dynamic, kBagPieces) if (p.bags.count > kBagPiecesAlone)
    for (int64_t i = 0; i < p.bags.count; ++i) memory::weigh_entries<decltype(kind), kBagElements>(p, i, p.bags.count);
  });
}

void note_entries(const memory::NoteParams& p) {
  const int64_t all = max_of(p.bags.count, p.bags.bags);
#pragma omp parallel for schedule(static) if (all > kBagPiecesAlone)
  for (int64_t i = 0; i < all; ++i) note_entry(p, i);
}

void update_rows(const memory::UpdateParams& params, ParameterType element) {
  memory::UpdateParams p = params;
  p.lanes = 1, p.steps = ceil_div<int64_t>(p.dim, kBagElements);
  const int64_t pieces = p.count * p.steps;
  with_element(element, [&](auto kind) {
    using T = decltype(kind);
    const auto by = [&]<class Rule>() {
#pragma omp parallel for schedule(dynamic, kBagPieces) if (pieces > kBagPiecesAlone)
      for (int64_t i = 0; i < pieces; ++i) memory::update_rows<T, kBagElements, Rule>(p, i, pieces);
    };
    if (p.state == nullptr) {
      by.template operator()<memory::SgdRule>();
    } else if (p.state_dim == p.dim) {
      by.template operator()<memory::AdagradRule>();
    } else {
      by.template operator()<memory::RowwiseAdagradRule>();
    }
  });
}

}  // namespace hinterland::native
