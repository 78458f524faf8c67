// Runs the GPU's share of memory/embedding.hpp on the CPU, warp by warp, each of 32 emulated lanes: compiled by
// test_embedding_emulation.py, with tests/lanes before include/.
#include <cstdint>

#include "hinterland/memory/embedding.hpp"

using namespace hinterland;

namespace {

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

// faults: the offsets' and the entries'; flags: theirs
void pool(const memory::PoolParams* params, int64_t element, int64_t wide, int64_t warps, memory::IndexFault* faults,
          int64_t* flags) {
  memory::PoolParams p = *params;
  faults[0] = faults[1] = {};
  p.offsets = {faults, flags}, p.entries = {faults + 1, flags + 1};
  with_width(element, wide, [&](auto kind, auto width) {
    using T = decltype(kind);
    constexpr int kWide = decltype(width)::value;
    const auto share = p.best == nullptr ? &memory::pool_bags<T, kWide, false> : &memory::pool_bags<T, kWide, true>;
    run(warps, [&](int64_t thread) { share(p, thread, warps * 32); });
  });
}

void weigh(const memory::WeighParams* p, int64_t element, int64_t wide, int64_t warps) {
  with_width(element, wide, [&](auto kind, auto width) {
    using T = decltype(kind);
    run(warps, [&](int64_t thread) { memory::weigh_entries<T, decltype(width)::value>(*p, thread, warps * 32); });
  });
}

void update(const memory::UpdateParams* p, int64_t element, int64_t wide, int64_t warps) {
  with_width(element, wide, [&](auto kind, auto width) {
    using T = decltype(kind);
    constexpr int kWide = decltype(width)::value;
    const auto share = p->state == nullptr      ? &memory::update_rows<T, kWide, memory::SgdRule>
                       : p->state_dim == p->dim ? &memory::update_rows<T, kWide, memory::AdagradRule>
                                                : &memory::update_rows<T, kWide, memory::RowwiseAdagradRule>;
    run(warps, [&](int64_t thread) { share(*p, thread, warps * 32); });
  });
}
}
