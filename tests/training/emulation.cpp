// Runs the GPU's share of training/embedding.hpp on the CPU, warp by warp, each of 32 emulated lanes: compiled by
// test_embedding_emulation.py, with tests/lanes before include/.
#include <cstdint>

#include "hinterland/training/embedding.hpp"

using namespace hinterland;

namespace {

using Words = const int64_t*;

memory::TieredTable table_of(Words w) {
  const auto at = [](int64_t address) { return reinterpret_cast<char*>(address); };
  const auto list = [](int64_t address) { return reinterpret_cast<char* const*>(address); };
  return {at(w[0]), w[1], at(w[2]), w[3], at(w[4]), w[5], w[6], list(w[7]), w[8], w[9], list(w[10]), w[11]};
}

training::Bags bags_of(Words w) {
  const auto at = [](int64_t address) { return reinterpret_cast<const void*>(address); };
  return {at(w[0]), w[1], w[2], at(w[3]), w[4], w[5], w[6], w[7], w[8], w[9]};
}

// body(thread) for every thread of `warps` warps, the lanes of a warp in step.
template <class Body>
void run(int64_t warps, const Body& body) {
  for (int64_t warp = 0; warp < warps; ++warp) Lanes::run([&] { body(warp * 32 + Warp::lane()); });
}

// each(T{}, integral_constant<int, wide>{})
template <class Each>
void with_width(int64_t element, int64_t wide, const Each& each) {
  const auto by = [&](auto kind) {
    constexpr int kUnit = 16 / sizeof(kind);
    if (wide == 1) {
      each(kind, std::integral_constant<int, 1>{});
    } else {
      each(kind, std::integral_constant<int, kUnit>{});
    }
  };
  if (element == 0) by(float{});
  if (element == 1) by(Float16{});
  if (element == 2) by(Bfloat16{});
}

}  // namespace

extern "C" {

// faults: the fields of the offsets' IndexFault and those of the rows'; flags: theirs
void pool(int64_t element, int64_t wide, int64_t warps, Words table, int64_t dim, Words words, const float* weights,
          char* pooled, int64_t* best, int64_t* counts, int64_t lanes, int64_t steps, int64_t* faults, int64_t* flags) {
  const training::Bags bags = bags_of(words);
  memory::IndexFault offsets{memory::kNoFault, 0, 0, 0, 0}, rows{memory::kNoFault, 0, 0, 0, 0};
  with_width(element, wide, [&](auto kind, auto width) {
    using T = decltype(kind);
    constexpr int kWide = decltype(width)::value;
    const training::TableRows<T> from{table_of(table), dim};
    const training::Pooled<T> to{reinterpret_cast<T*>(pooled), best, counts};
    run(warps, [&](int64_t thread) {
      const auto share = best == nullptr ? &training::pool_bags<kWide, false, T> : &training::pool_bags<kWide, true, T>;
      share(from, bags, weights, to, lanes, steps, thread, warps * 32, rows, offsets, flags + 1, flags);
    });
  });
  const memory::IndexFault found[] = {offsets, rows};
  for (int i = 0; i < 2; ++i) {
    const int64_t fields[] = {found[i].first, found[i].value, found[i].table_rows, found[i].count};
    for (int k = 0; k < 4; ++k) faults[4 * i + k] = fields[k];
  }
}

void weigh(int64_t element, int64_t wide, int64_t warps, Words table, int64_t dim, Words words, const char* gradient,
           float* found, int64_t lanes) {
  const training::Bags bags = bags_of(words);
  with_width(element, wide, [&](auto kind, auto width) {
    using T = decltype(kind);
    const training::TableRows<T> from{table_of(table), dim};
    run(warps, [&](int64_t thread) {
      weigh_entries<decltype(width)::value>(from, bags, reinterpret_cast<const T*>(gradient), found, lanes, thread, warps * 32);
    });
  });
}

void update(int64_t element, int64_t wide, int64_t warps, Words table, int64_t dim, float* state, const void* keys,
            int64_t key_bytes, const int64_t* order, int64_t count, const int64_t* bag, const float* factor,
            const int64_t* best, const char* gradient, const int64_t* bad, int64_t rate, int64_t eps, int64_t lanes,
            int64_t steps) {
  with_width(element, wide, [&](auto kind, auto width) {
    using T = decltype(kind);
    constexpr int kWide = decltype(width)::value;
    const training::TableRows<T> weights{table_of(table), dim};
    const training::StateRows states{state, dim};
    const T* const slopes = reinterpret_cast<const T*>(gradient);
    const training::SortedGradients<T> given{keys, key_bytes, order, count, bag, factor, best, slopes, bad};
    run(warps, [&](int64_t thread) {
      if (state == nullptr) {
        update_rows<kWide>(weights, states, training::SgdRule(rate, eps), given, lanes, steps, thread, warps * 32);
      } else {
        update_rows<kWide>(weights, states, training::AdagradRule(rate, eps), given, lanes, steps, thread, warps * 32);
      }
    });
  });
}
}
