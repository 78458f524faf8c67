#include "training/embedding.hpp"

namespace hinterland::native {

namespace {

constexpr int kWide = 128;       // elements of a piece: whole rows, mostly, whose sums fit the first cache
constexpr int64_t kAlone = 512;  // fewer pieces take less time than waking other threads

// each(T{}) for the type of the table's elements.
template <class Each>
void with_element(Element element, const Each& each) {
  switch (element) {
    case Element::kFloat32: each(float{}); break;
    case Element::kFloat16: each(Float16{}); break;
    case Element::kBfloat16: each(Bfloat16{}); break;
  }
}

}  // namespace

BagFaults pool_bags(Element element, const memory::TieredTable& table, int64_t dim, const training::Bags& bags, const float* weights, void* pooled,
                    int64_t* best, int64_t* counts) {
  BagFaults faults{{memory::kNoFault, 0, 0, 0, 0}, {memory::kNoFault, 0, 0, 0, 0}};
  const int64_t steps = ceil_div<int64_t>(dim, kWide), pieces = bags.bags * steps;
  volatile int64_t flag = 0;
  with_element(element, [&](auto kind) {
    using T = decltype(kind);
    const training::TableRows<T> rows{table, dim};
    const training::Pooled<T> to{static_cast<T*>(pooled), best, counts};
    const auto one = best == nullptr ? &training::pool_bags<kWide, false, T>
                                     : &training::pool_bags<kWide, true, T>;
#pragma omp parallel for schedule(dynamic, 64) if (pieces > kAlone)
    for (int64_t i = 0; i < pieces; ++i) {
      one(rows, bags, weights, to, 1, steps, i, pieces, faults.rows, faults.offsets, &flag, &flag);
    }
  });
  return faults;
}

void weigh_entries(Element element, const memory::TieredTable& table, int64_t dim, const training::Bags& bags, const void* gradient, float* found) {
  with_element(element, [&](auto kind) {
    using T = decltype(kind);
    const training::TableRows<T> rows{table, dim};
#pragma omp parallel for schedule(dynamic, 64) if (bags.count > kAlone)
    for (int64_t i = 0; i < bags.count; ++i) {
      training::weigh_entries<kWide>(rows, bags, static_cast<const T*>(gradient), found, 1, i, bags.count);
    }
  });
}

void note_entries(const training::Bags& bags, const float* weights, const int64_t* counts, const training::EntryNotes& notes) {
  const int64_t all = max_of(bags.count, bags.bags);
#pragma omp parallel for schedule(static) if (all > kAlone)
  for (int64_t i = 0; i < all; ++i) note_entry(bags, weights, counts, notes, i);
}

void update_rows(Element element, const memory::TieredTable& table, int64_t dim, float* state, const AnyGradients& given, int64_t rate,
                 int64_t eps) {
  const int64_t steps = ceil_div<int64_t>(dim, kWide), pieces = given.count * steps;
  with_element(element, [&](auto kind) {
    using T = decltype(kind);
    const training::TableRows<T> weights{table, dim};
    const training::StateRows states{state, dim};
    const training::SortedGradients<T> sorted{given.keys, given.key_bytes, given.order, given.count, given.bag,
                                    given.factor, given.best, static_cast<const T*>(given.rows), given.bad};
    const auto by = [&](const auto& rule) {
#pragma omp parallel for schedule(dynamic, 64) if (pieces > kAlone)
      for (int64_t i = 0; i < pieces; ++i) {
        training::update_rows<kWide>(weights, states, rule, sorted, 1, steps, i, pieces);
      }
    };
    if (state == nullptr) {
      by(training::SgdRule(rate, eps));
    } else {
      by(training::AdagradRule(rate, eps));
    }
  });
}

}  // namespace hinterland::native
