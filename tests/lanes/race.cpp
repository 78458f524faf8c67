// What the lanes of a warp must not do, for ThreadSanitizer to find: RACE is `shared_words`, read where only a vote came after
// the writes, or `plain_sum`, which all add to. With `nothing` it must find nothing.
#include <cstdio>

#include "hinterland/core/atomic.hpp"
#include "hinterland/core/warp.hpp"

using namespace hinterland;

namespace {

enum Race { nothing, shared_words, plain_sum };

}  // namespace

int main() {
  int64_t sum = 0;
  Lanes::run([&] {
    uint32_t* words = Warp::scratch();
    words[Warp::lane()] = 1;
    if constexpr (RACE == shared_words) {
      Warp::any(true);
    } else {
      Warp::sync();
    }
    const uint32_t next = words[(Warp::lane() + 1) % Warp::kWidth];
    if constexpr (RACE == plain_sum) {
      sum += next;
    } else {
      atomic_add(sum, int64_t{next});
    }
  });
  std::printf("%lld\n", static_cast<long long>(sum));
  return sum == Warp::kWidth ? 0 : 1;
}
