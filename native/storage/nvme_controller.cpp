#include "storage/nvme_controller.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <thread>

namespace hinterland::native {

using storage::SubmissionEntry;

namespace {

using Clock = std::chrono::steady_clock;

// Registers, as bytes from the first.
constexpr uint32_t kCapabilities = 0x00, kConfiguration = 0x14, kStatus = 0x1c, kAdminSizes = 0x24, kAdminSubmissions = 0x28,
                   kAdminCompletions = 0x30, kDoorbells = 0x1000;
// Of the configuration: on, entries of 64 and of 16 bytes; and what tells it to shut down in order.
constexpr uint32_t kOn = 1, kEntrySizes = 6 << 16 | 4 << 20, kShutDown = 1 << 14, kShutDownMask = 3 << 14;
// Of the status.
constexpr uint32_t kReady = 1, kFatal = 1 << 1, kShutDownMaskOfStatus = 3 << 2, kIsShutDown = 2 << 2;
constexpr uint32_t kNotThere = ~0u;  // what is read of a device that was removed

enum AdminOpcode : uint8_t {
  kDeleteSubmissions = 0x00,
  kDeleteCompletions = 0x04,
  kCreateSubmissions = 0x01,
  kCreateCompletions = 0x05,
  kIdentify = 0x06,
  kAbort = 0x08,
  kSetFeatures = 0x09
};
constexpr uint32_t kNamespace = 0, kController = 1;  // what Identify tells of
constexpr uint32_t kNumberOfQueues = 0x07;           // a feature
constexpr uint32_t kContiguous = 1;                  // of a queue
constexpr uint32_t kAdminEntries = 32, kQueuesWanted = 128;

// Dwords 10 and 11 of an admin command lie where reads and writes have their first block.
SubmissionEntry admin(AdminOpcode opcode, uint32_t word10, uint32_t word11 = 0, uint64_t memory = 0) {
  SubmissionEntry entry{};
  entry.opcode = opcode;
  entry.prp1 = memory;
  entry.first_block = word10 | uint64_t{word11} << 32;
  return entry;
}

template <class T>
T field(const char* told, size_t at) {
  T value;
  std::memcpy(&value, told + at, sizeof(value));
  return value;
}

std::string status_text(uint16_t status) {
  char text[48];
  std::snprintf(text, sizeof(text), "NVMe status type %u, code 0x%02x", storage::code_type_of(status),
                storage::code_of(status));
  return text;
}

}  // namespace

NvmeController::NvmeController(PciDevice& device, std::string name, std::chrono::nanoseconds patience)
    : name_(std::move(name)),
      patience_(patience),
      registers_(device.registers()),
      capabilities_(read(kCapabilities) | uint64_t{read(kCapabilities + 4)} << 32),
      admin_(device, std::min(kAdminEntries, most_entries()), doorbells(0)),
      told_(device, storage::kMemoryPageBytes) {
  require_usable();
  switch_off();
  switch_on();
  const auto exponent = field<uint8_t>(identify(kController, 0), 77);
  most_bytes_ = exponent == 0 || exponent > 4 ? storage::kMostTransferBytes : storage::kMemoryPageBytes << exponent;
}

NvmeController::~NvmeController() {
  if (failed()) return;
  try {
    write(kConfiguration, (read(kConfiguration) & ~kShutDownMask) | kShutDown);
    wait_for(kShutDownMaskOfStatus, kIsShutDown, "shut down");
    switch_off();
  } catch (const StorageError&) {
    // The kernel resets a device that is given back.
  }
}

void NvmeController::restart() {
  const std::lock_guard held(guard_);
  switch_off();
  switch_on();
}

bool NvmeController::failed() const {
  const uint32_t status = read(kStatus);
  return status == kNotThere || (status & kFatal) != 0;
}

uint32_t NvmeController::read(uint32_t at) const { return system_load_acquire(*reinterpret_cast<uint32_t*>(&registers_[at])); }

void NvmeController::write(uint32_t at, uint32_t value) const {
  system_store_release(*reinterpret_cast<uint32_t*>(&registers_[at]), value);
}

uint32_t NvmeController::most_entries() const { return std::bit_floor(static_cast<uint32_t>(capabilities_ & 0xffff) + 1); }

Doorbells NvmeController::doorbells(uint16_t number) const {
  const size_t stride = size_t{4} << (capabilities_ >> 32 & 0xf);
  char* const first = registers_.data() + kDoorbells + 2 * number * stride;
  return {reinterpret_cast<uint32_t*>(first), reinterpret_cast<uint32_t*>(first + stride)};
}

std::span<char> NvmeController::all_doorbells() const {
  const char* const end = reinterpret_cast<char*>(doorbells(static_cast<uint16_t>(most_queues_ + 1)).submission);
  return registers_.subspan(kDoorbells, whole_pages(static_cast<uint64_t>(end - registers_.data()) - kDoorbells));
}

void NvmeController::require_usable() const {
  if (capabilities_ == ~uint64_t{0}) throw StorageError(name_ + " does not answer: it was removed, or has lost its power");
  if ((capabilities_ >> 37 & 1) == 0) throw StorageError(name_ + " does not know NVMe's command set for blocks");
  if ((capabilities_ >> 48 & 0xf) != 0)
    throw StorageError(name_ + " takes memory pages from " + std::to_string(4096 << (capabilities_ >> 48 & 0xf)) +
                       " bytes on; the library has pages of 4096");
}

void NvmeController::switch_on() {
  admin_.pair.prepare();
  const uint32_t last = admin_.pair.submission_size - 1;
  write(kAdminSizes, last | last << 16);
  const RingAddresses rings = admin_.rings();
  for (const auto& [at, address] :
       {std::pair(kAdminSubmissions, rings.submissions), std::pair(kAdminCompletions, rings.completions)}) {
    write(at, static_cast<uint32_t>(address));
    write(at + 4, static_cast<uint32_t>(address >> 32));
  }
  write(kConfiguration, kOn | kEntrySizes);
  wait_for(kReady, kReady, "switch on");
  // It says how many it has, less one, in either half, which may be fewer or more.
  const uint32_t wanted = kQueuesWanted - 1;
  const uint32_t has = run(admin(kSetFeatures, kNumberOfQueues, wanted | wanted << 16), "say how many queues it has");
  // Those whose doorbells there are registers for.
  const size_t pair_bytes = size_t{8} << (capabilities_ >> 32 & 0xf);
  const size_t most = (registers_.size() - kDoorbells) / pair_bytes - 1;
  most_queues_ =
      static_cast<uint16_t>(std::min({size_t{has & 0xffff} + 1, size_t{has >> 16} + 1, size_t{kQueuesWanted}, most}));
}

void NvmeController::switch_off() {
  write(kConfiguration, read(kConfiguration) & ~(kOn | kShutDownMask));
  wait_for(kReady, 0, "switch off");
}

// Until the status is so: as long as the controller says that may take, in units of half a second.
void NvmeController::wait_for(uint32_t mask, uint32_t value, const char* what) const {
  const uint64_t units = std::max<uint64_t>(capabilities_ >> 24 & 0xff, 1);
  const auto until = Clock::now() + std::chrono::milliseconds(500) * units;
  for (;;) {
    const uint32_t status = read(kStatus);
    if (status == kNotThere) throw StorageError(name_ + " does not answer: it was removed, or has lost its power");
    if ((status & mask) == value) return;
    if ((status & kFatal) != 0 && value == kReady)
      throw StorageError(name_ + " says that it has failed (CSTS.CFS) and does not " + what +
                         "; switch the machine off and on");
    if (Clock::now() > until)
      throw StorageError(name_ + " does not " + what + " within the " + std::to_string(units * 500) + " ms that it asks for");
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// Runs one admin command, with the guard held or before anybody else has the controller; its result.
uint32_t NvmeController::run(const SubmissionEntry& entry, const char* what) {
  const storage::QueuePair& pair = admin_.pair;
  bool over = false;
  uint16_t status = 0;
  const auto hear = [&](const storage::CompletionReport& report) {
    if (report.end != storage::End::kCompleted && report.end != storage::End::kGivenUp) return;  // of one before, late
    over = true;
    status = report.status;
  };
  const auto until = Clock::now() + patience_;
  if (pair.try_submit(entry, 0, storage::kNoDeadline - 1, hear) != storage::Submitted::kYes)
    throw StorageError(name_ + " has left too many commands unanswered");
  while (!over) {
    pair.poll(hear);
    if (over) break;
    if (Clock::now() > until) pair.expire(storage::kNoDeadline - 1, hear);
    std::this_thread::yield();
  }
  if (status == storage::kAbortedByHost) throw StorageError(name_ + " does not " + what + ": it does not answer");
  if (!storage::is_success(status)) throw StorageError(name_ + " does not " + what + ": " + status_text(status));
  const uint64_t last = pair.control->completion_head - 1;
  return pair.completions[last & (pair.completion_size - 1)].result;
}

const char* NvmeController::identify(uint32_t what, uint32_t number) {
  SubmissionEntry entry = admin(kIdentify, what, 0, told_.address());
  entry.namespace_id = number;
  run(entry, what == kController ? "say what it is" : "say what its namespace is");
  return told_.data();
}

storage::BlockRange NvmeController::namespace_blocks(uint32_t number) {
  const std::lock_guard held(guard_);
  const char* const told = identify(kNamespace, number);
  const uint64_t blocks = field<uint64_t>(told, 0);
  const auto format = field<uint32_t>(told, 128 + 4 * (field<uint8_t>(told, 26) & 0xf));
  const uint32_t shift = format >> 16 & 0xff, beside = format & 0xffff;
  if (blocks == 0) throw StorageError(name_ + " has no namespace " + std::to_string(number) + "; the first is 1");
  if (shift < 9 || shift > 12 || beside != 0)
    throw StorageError(name_ + " has blocks of 2^" + std::to_string(shift) + " bytes with " + std::to_string(beside) +
                       " bytes beside them; format it (nvme format) with blocks of 512 or 4096 bytes and nothing beside them");
  return {number, uint32_t{1} << shift, 0, blocks};
}

void NvmeController::create_queue(uint16_t number, const RingAddresses& rings) {
  const std::lock_guard held(guard_);
  run(admin(kCreateCompletions, number | (rings.completion_size - 1) << 16, kContiguous, rings.completions),
      "make a completion queue");
  run(admin(kCreateSubmissions, number | (rings.submission_size - 1) << 16, kContiguous | uint32_t{number} << 16,
            rings.submissions),
      "make a submission queue");
}

void NvmeController::delete_queue(uint16_t number) {
  const std::lock_guard held(guard_);
  run(admin(kDeleteSubmissions, number), "delete a submission queue");
  run(admin(kDeleteCompletions, number), "delete a completion queue");
}

bool NvmeController::abort(uint16_t queue, uint16_t identifier) {
  const std::lock_guard held(guard_);
  return (run(admin(kAbort, queue | uint32_t{identifier} << 16), "abort a command") & 1) == 0;
}

}  // namespace hinterland::native
