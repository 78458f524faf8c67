#include "storage/request.hpp"

#include <algorithm>

#include "hinterland/core/system.hpp"

namespace hinterland::native {

using storage::kMemoryPageBytes;

namespace {

bool within(std::span<const Region> regions, uint64_t address, uint64_t bytes) {
  return std::any_of(regions.begin(), regions.end(), [&](const Region& region) { return region.holds(address, bytes); });
}

// Adds memory to the request, to its last run if it goes on there.
bool add(Request& request, std::span<const Region> regions, uint64_t address, uint64_t bytes) {
  if (!within(regions, address, bytes)) return false;
  char* const memory = reinterpret_cast<char*>(address);
  MemoryRun* const last = request.run_count == 0 ? nullptr : &request.runs[request.run_count - 1];
  if (last != nullptr && last->memory + last->bytes == memory)
    last->bytes += bytes;
  else
    request.runs[request.run_count++] = {memory, bytes};
  return true;
}

// All pages but the first, from the list at PRP2. Where it comes to the end of a memory page, its last entry is the address of
// what follows (section 4.3). Each entry is read once: its host might change it meanwhile.
uint16_t add_list(Request& request, std::span<const Region> regions, uint64_t left) {
  constexpr uint64_t kEntry = sizeof(uint64_t);
  for (uint64_t at = request.entry.prp2; left > 0; at += kEntry) {
    if (at % kEntry != 0) return storage::kPrpOffsetInvalid;
    if (!within(regions, at, kEntry)) return storage::kInvalidField;
    const uint64_t page = system_load(*reinterpret_cast<uint64_t*>(at));
    if (page % kMemoryPageBytes != 0) return storage::kPrpOffsetInvalid;  // so a list never leads back into itself at once
    if ((at + kEntry) % kMemoryPageBytes == 0 && left > kMemoryPageBytes) {
      at = page - kEntry;
      continue;
    }
    const uint64_t bytes = std::min(left, kMemoryPageBytes);
    if (!add(request, regions, page, bytes)) return storage::kInvalidField;
    left -= bytes;
  }
  return storage::kSuccess;
}

uint16_t add_data(Request& request, std::span<const Region> regions) {
  const storage::SubmissionEntry& entry = request.entry;
  if (entry.prp1 % 4 != 0) return storage::kPrpOffsetInvalid;
  const uint64_t first = std::min(request.bytes, kMemoryPageBytes - entry.prp1 % kMemoryPageBytes);
  if (!add(request, regions, entry.prp1, first)) return storage::kInvalidField;
  const uint64_t left = request.bytes - first;
  if (left > kMemoryPageBytes) return add_list(request, regions, left);
  if (left == 0) return storage::kSuccess;
  if (entry.prp2 % kMemoryPageBytes != 0) return storage::kPrpOffsetInvalid;
  return add(request, regions, entry.prp2, left) ? storage::kSuccess : storage::kInvalidField;
}

uint16_t examine(Request& request, uint64_t blocks, std::span<const Region> regions) {
  const storage::SubmissionEntry& entry = request.entry;
  request.opcode = static_cast<storage::Opcode>(entry.opcode);
  request.offset = request.bytes = 0;
  request.run_count = 0;
  const bool flushes = request.opcode == storage::Opcode::kFlush;
  const bool moves = request.opcode == storage::Opcode::kRead || request.opcode == storage::Opcode::kWrite;
  if (!flushes && !moves) return storage::kInvalidOpcode;
  if (entry.flags != 0) return storage::kInvalidField;
  if (entry.namespace_id != kNamespaceId && !(flushes && entry.namespace_id == ~0u)) return storage::kInvalidNamespace;
  if (flushes) return storage::kSuccess;
  const uint64_t count = uint64_t{entry.last_block} + 1;
  if (entry.first_block > blocks || count > blocks - entry.first_block) return storage::kOutOfRange;
  if (count * kBlockBytes > storage::kMostTransferBytes) return storage::kInvalidField;
  request.offset = entry.first_block * kBlockBytes;
  request.bytes = count * kBlockBytes;
  return add_data(request, regions);
}

}  // namespace

uint16_t decode(Request& request, uint64_t blocks, std::span<const Region> regions) {
  const uint16_t status = examine(request, blocks, regions);
  return status == storage::kSuccess ? status : status | storage::kDoNotRetry;
}

void trim(Request& request, uint64_t first, uint64_t count) {
  uint64_t skipped = first * kBlockBytes, left = count * kBlockBytes;
  request.offset += skipped;
  request.bytes = left;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < request.run_count && left > 0; ++i) {
    MemoryRun run = request.runs[i];
    const uint64_t before = std::min(skipped, run.bytes);
    skipped -= before;
    run = {run.memory + before, std::min(run.bytes - before, left)};
    left -= run.bytes;
    if (run.bytes > 0) request.runs[kept++] = run;
  }
  request.run_count = kept;
}

}  // namespace hinterland::native
