// What programs that test queues and their devices share.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "hinterland/storage/queue.hpp"

namespace test {

using namespace hinterland;
using namespace hinterland::storage;

#define CHECK(holds, ...)                                     \
  do {                                                        \
    if (!(holds)) {                                           \
      std::printf("%s:%d: %s; ", __FILE__, __LINE__, #holds); \
      std::printf("" __VA_ARGS__);                            \
      std::printf("\n");                                      \
      std::fflush(stdout);                                    \
      std::_Exit(1);                                          \
    }                                                         \
  } while (false)

inline constexpr uint64_t kBase = 40;  // the device's first block that commands may touch

// Commands in flight, or given up but not settled.
inline uint64_t outstanding(const QueuePair& pair) {
  const uint64_t put = atomic_load(pair.control->put);
  return atomic_load(pair.control->tickets) + pair.identifiers() - put;
}

// A checksum over what the host says in an entry, kept in a word that devices do not read: an entry that is seen half written,
// or a lap too early, has another.
inline uint64_t seal(const SubmissionEntry& entry) {
  uint64_t sum = entry.opcode + (uint64_t{entry.namespace_id} << 8) + (uint64_t{entry.last_block} << 40);
  for (const uint64_t word : {entry.metadata, entry.prp1, entry.prp2, entry.first_block}) {
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 29;
  }
  return sum;
}

}  // namespace test
