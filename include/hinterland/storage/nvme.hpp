// What an NVMe queue holds, as the specification lays it out: submission and completion entries, status, and how a command says
// where its data lies in memory. Sections are those of the NVM Express base specification, revision 1.4.
//
// A device reads and writes these in little-endian order, which is that of both processors.
#pragma once

#include "hinterland/core/platform.hpp"

namespace hinterland::storage {

enum class Opcode : uint8_t { kFlush = 0x00, kWrite = 0x01, kRead = 0x02 };

// A command: section 4.2, with the words that reads and writes have.
struct alignas(64) SubmissionEntry {
  uint8_t opcode;
  uint8_t flags;        // 0: not fused, and data is described by PRPs
  uint16_t identifier;  // unique among the commands of this queue that are in flight
  uint32_t namespace_id;
  uint64_t reserved;
  uint64_t metadata;
  uint64_t prp1;
  uint64_t prp2;
  uint64_t first_block;
  uint16_t last_block;  // how many blocks, less one
  uint16_t control;
  uint32_t dataset;
  uint32_t reference_tag;
  uint32_t application_tag;
};
static_assert(sizeof(SubmissionEntry) == 64);

// What became of a command: section 4.6. In 32-bit words, because that is how it is read: the device writes the last one last.
struct alignas(16) CompletionEntry {
  uint32_t result;
  uint32_t reserved;
  uint32_t queue;  // bits 0-15: the submission queue's head; 16-31: that queue's identifier
  uint32_t last;   // bits 0-15: the command's identifier; 16: phase; 17-31: status
};
static_assert(sizeof(CompletionEntry) == 16);

#if !defined(__CUDACC_RTC__)  // has no offsetof, and lays out as the others do
static_assert(offsetof(SubmissionEntry, identifier) == 2);
static_assert(offsetof(SubmissionEntry, namespace_id) == 4);
static_assert(offsetof(SubmissionEntry, metadata) == 16);
static_assert(offsetof(SubmissionEntry, prp1) == 24);
static_assert(offsetof(SubmissionEntry, prp2) == 32);
static_assert(offsetof(SubmissionEntry, first_block) == 40);
static_assert(offsetof(SubmissionEntry, last_block) == 48);
static_assert(offsetof(SubmissionEntry, application_tag) == 60);
static_assert(offsetof(CompletionEntry, queue) == 8);
static_assert(offsetof(CompletionEntry, last) == 12);
#endif

HINTERLAND_FN constexpr uint32_t submission_head_of(uint32_t queue) { return queue & 0xffffu; }
HINTERLAND_FN constexpr uint32_t identifier_of(uint32_t last) { return last & 0xffffu; }
HINTERLAND_FN constexpr uint32_t phase_of(uint32_t last) { return last >> 16 & 1u; }
HINTERLAND_FN constexpr uint16_t status_of(uint32_t last) { return static_cast<uint16_t>(last >> 17); }

// The phase of what is at a position that counts on over all laps of a ring of `size` (a power of two): 1 in the first lap, 0
// in the second and so on. In a ring that was zero before, this tells what is new from what a lap before left there.
HINTERLAND_FN constexpr uint32_t phase_at(uint64_t position, uint32_t size) { return (position & size) == 0 ? 1u : 0u; }

// Status: section 4.6.1. Bits 0-7 are the code and 8-10 its type; a device sets kDoNotRetry if the same would fail again.
inline constexpr uint16_t kSuccess = 0x000;
inline constexpr uint16_t kInvalidOpcode = 0x001;
inline constexpr uint16_t kInvalidField = 0x002;
inline constexpr uint16_t kInternalError = 0x006;
inline constexpr uint16_t kAbortRequested = 0x007;
inline constexpr uint16_t kInvalidNamespace = 0x00b;
inline constexpr uint16_t kPrpOffsetInvalid = 0x013;
inline constexpr uint16_t kWriteProtected = 0x020;
inline constexpr uint16_t kOutOfRange = 0x080;
inline constexpr uint16_t kNamespaceNotReady = 0x082;
inline constexpr uint16_t kWriteFault = 0x280;
inline constexpr uint16_t kUnrecoveredReadError = 0x281;
// These two no device sends: the host gives them to commands that it does not wait for any longer.
inline constexpr uint16_t kHostPathError = 0x370;
inline constexpr uint16_t kAbortedByHost = 0x371;

HINTERLAND_FN constexpr bool is_of_host(uint16_t status) { return status == kHostPathError || status == kAbortedByHost; }

inline constexpr uint16_t kDoNotRetry = 1 << 14;

HINTERLAND_FN constexpr uint32_t code_of(uint16_t status) { return status & 0xffu; }
HINTERLAND_FN constexpr uint32_t code_type_of(uint16_t status) { return status >> 8 & 7u; }
HINTERLAND_FN constexpr bool is_success(uint16_t status) { return (status & 0x7ffu) == kSuccess; }

// Whether the same command may succeed if it is submitted again. A device may leave the bit out of what never will: count
// tries.
HINTERLAND_FN constexpr bool is_retryable(uint16_t status) { return !is_success(status) && (status & kDoNotRetry) == 0; }

// Blocks that commands may touch: `blocks` of a namespace from `base` on. No command leaves them, whatever was asked for.
struct BlockRange {
  uint32_t namespace_id;
  uint32_t block_bytes;
  uint64_t base;
  uint64_t blocks;

  // False, and the entry unchanged, if the transfer is empty, larger than an entry can say, or not within the range. `first`
  // counts from the base.
  HINTERLAND_FN bool address(SubmissionEntry& entry, Opcode opcode, uint64_t first, uint64_t count) const {
    if (count == 0 || count > 0x10000 || first > blocks || count > blocks - first) return false;
    entry.opcode = static_cast<uint8_t>(opcode);
    entry.namespace_id = namespace_id;
    entry.first_block = base + first;
    entry.last_block = static_cast<uint16_t>(count - 1);
    return true;
  }
};

// Where data lies in memory: physical region pages, section 4.3. The first may begin anywhere in its page, at a multiple of
// four bytes, and all others are whole pages. One page: PRP1. Two: PRP1 and PRP2. More: PRP2 is the address of a list of all
// but the first.
inline constexpr uint64_t kMemoryPageBytes = 4096;
inline constexpr uint64_t kMostTransferBytes = 64 * 1024;
inline constexpr uint32_t kPrpListEntries = kMostTransferBytes / kMemoryPageBytes;  // 17 pages if it begins within one

// A list must not cross a page. Aligned to its size it never does.
struct alignas(kPrpListEntries * sizeof(uint64_t)) PrpList {
  uint64_t pages[kPrpListEntries];
};
static_assert(sizeof(PrpList) == 128 && kMemoryPageBytes % sizeof(PrpList) == 0);

// How many memory pages `bytes` lie in that begin at `offset` within the first.
HINTERLAND_FN constexpr uint32_t prp_count(uint64_t offset, uint64_t bytes) {
  return static_cast<uint32_t>(ceil_div(offset + bytes, kMemoryPageBytes));
}

// Says in `entry` that its data is `bytes` from `offset` on in memory pages of which page(i) is the i-th one's address, as the
// device sees it. `list`, which the device sees at `list_address`, is written if there are more than two, and must then stay as
// it is until the command ends. False, and nothing written, if the transfer is empty, above 64 KiB, or begins where none may.
template <class Page>
HINTERLAND_FN bool set_data(SubmissionEntry& entry, uint64_t offset, uint64_t bytes, const Page& page, PrpList& list,
                            uint64_t list_address) {
  if (bytes == 0 || bytes > kMostTransferBytes || offset >= kMemoryPageBytes || offset % 4 != 0) return false;
  const uint32_t pages = prp_count(offset, bytes);
  entry.prp1 = page(0u) + offset;
  entry.prp2 = pages == 1 ? 0 : pages == 2 ? page(1u) : list_address;
  if (pages > 2)
    for (uint32_t i = 1; i < pages; ++i) list.pages[i - 1] = page(i);
  return true;
}

}  // namespace hinterland::storage
