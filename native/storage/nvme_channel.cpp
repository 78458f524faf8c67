#include "storage/nvme_channel.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/thresholds.hpp"

namespace hinterland::native {

using storage::End, storage::kMemoryPageBytes, storage::Opcode, storage::PrpList, storage::CompletionReport,
    storage::SubmissionEntry;

namespace {

constexpr unsigned kMostTries = 5;  // of a command that fails and might not again

int error_of(uint16_t status) {
  switch (status & 0x7ff) {
    case storage::kWriteProtected: return EROFS;
    case storage::kOutOfRange: return ENXIO;
    default: return EIO;
  }
}

uint64_t deadline_after(NvmeChannel::Clock::duration time) {
  return static_cast<uint64_t>((NvmeChannel::Clock::now() + time).time_since_epoch().count());
}

}  // namespace

NvmeChannel::NvmeChannel(PciDevice& device, const NvmeController& controller, const storage::BlockRange& blocks,
                         uint16_t queue_number, Clock::duration patience)
    : number(queue_number),
      queue(device, std::min(kChannelEntries, controller.most_entries()), controller.doorbells(number)),
      blocks_(blocks),
      most_bytes_(controller.most_bytes()),
      patience_(patience),
      lists_(device, queue.pair.completion_size * sizeof(PrpList)),
      pages_(device, kChannelPages * kMemoryPageBytes) {
  for (uint32_t i = kChannelPages; i > 0; --i) free_pages_.push_back(i - 1);
}

void NvmeChannel::begin(NvmeMove& move) {
  if (failed_ != 0) return end(move, -failed_);
  if (move.opcode != Opcode::kFlush && move.transfer.bytes == 0) return end(move, 0);
  waiting_.push_back(&move);
  begin_waiting();
}

void NvmeChannel::serve() {
  queue.pair.poll(hearing());
  begin_waiting();
}

void NvmeChannel::begin_waiting() {
  while (!waiting_.empty() && try_submit(*waiting_.front())) waiting_.pop_front();
}

// False: there is no room for it now.
bool NvmeChannel::try_submit(NvmeMove& move) {
  const Transfer& transfer = move.transfer;
  SubmissionEntry entry{};
  entry.opcode = static_cast<uint8_t>(move.opcode);
  entry.namespace_id = blocks_.namespace_id;
  move.now = static_cast<uint32_t>(std::min<uint64_t>(transfer.bytes - move.done, most_bytes_));
  const uint64_t block = blocks_.block_bytes, offset = transfer.offset + move.done;
  const bool moves = move.opcode != Opcode::kFlush;
  if (moves && (offset % block != 0 || move.now % block != 0 ||
                !blocks_.address(entry, move.opcode, offset / block, move.now / block))) {
    end(move, -EINVAL);
    return true;
  }
  const uint64_t needed = moves && move.address == 0 ? ceil_div(uint64_t{move.now}, kMemoryPageBytes) : 0;
  if (free_pages_.size() < needed) return false;
  const storage::Place place = queue.pair.take<Alone>(true);
  if (!place.is_taken) return false;
  move.pages.assign(free_pages_.end() - static_cast<ptrdiff_t>(needed), free_pages_.end());
  free_pages_.resize(free_pages_.size() - needed);
  if (move.opcode == Opcode::kWrite && needed != 0) copy(move, true);
  const uint64_t address = move.address == 0 ? 0 : move.address + move.done;
  const auto page = [&](uint32_t i) {
    return move.address == 0 ? pages_.address() + move.pages[i] * kMemoryPageBytes
                             : (address / kMemoryPageBytes + i) * kMemoryPageBytes;
  };
  const uint64_t list = place.identifier * sizeof(PrpList);
  if (moves)
    set_data(entry, address % kMemoryPageBytes, move.now, page, *reinterpret_cast<PrpList*>(lists_.data() + list),
             lists_.address() + list);
  queue.pair.submit<Alone>(place, entry, reinterpret_cast<uint64_t>(&move), deadline_after(patience_), hearing());
  return true;
}

// Between a command's memory and its pages.
void NvmeChannel::copy(const NvmeMove& move, bool writes) const {
  char* memory = move.transfer.memory + move.done;
  uint64_t left = move.now;
  for (const uint32_t number : move.pages) {
    char* const page = pages_.data() + number * kMemoryPageBytes;
    const uint64_t bytes = std::min(left, kMemoryPageBytes);
    writes ? std::memcpy(page, memory, bytes) : std::memcpy(memory, page, bytes);
    memory += bytes;
    left -= bytes;
  }
}

void NvmeChannel::leave_pages(NvmeMove& move) {
  free_pages_.insert(free_pages_.end(), move.pages.begin(), move.pages.end());
  move.pages.clear();
}

void NvmeChannel::hear(const CompletionReport& report) {
  if (report.end == End::kNothing) return;
  NvmeMove& move = *reinterpret_cast<NvmeMove*>(report.user);
  if (report.end == End::kGivenUp && report.status == storage::kAbortedByHost)
    return overdue_.push_back({&move, report.identifier});
  if (report.end == End::kGivenUp) return cut_short_.push_back(&move);
  if (report.end == End::kLate) std::erase_if(overdue_, [&](const Overdue& one) { return one.move == &move; });
  end_command(move, report.status);
}

void NvmeChannel::end_command(NvmeMove& move, uint16_t status) {
  const bool ok = storage::is_success(status);
  if (ok && move.opcode == Opcode::kRead) copy(move, false);
  leave_pages(move);
  if (!ok && (status & 0x7ff) == storage::kAbortRequested) return end(move, -ETIMEDOUT);  // which only we ask for
  if (!ok) return storage::is_retryable(status) && move.tries < kMostTries ? again(move) : end(move, -error_of(status));
  move.done += move.now;
  move.tries = 0;
  move.done < move.transfer.bytes ? waiting_.push_back(&move) : end(move, static_cast<int32_t>(move.done));
}

void NvmeChannel::again(NvmeMove& move) {
  ++move.tries;
  waiting_.push_back(&move);
}

void NvmeChannel::end(NvmeMove& move, int32_t result) {
  move.result = result;
  move.ended->push_back(&move);
}

void NvmeChannel::expire() { queue.pair.expire(deadline_after({}), hearing()); }

void NvmeChannel::close() { queue.pair.abort(storage::kHostPathError, hearing()); }

void NvmeChannel::reopen() {
  queue.pair.prepare();
  for (const Overdue& one : std::exchange(overdue_, {})) {
    leave_pages(*one.move);
    end(*one.move, -ETIMEDOUT);
  }
  for (NvmeMove* const move : std::exchange(cut_short_, {})) {
    leave_pages(*move);
    move->tries < kMostTries ? again(*move) : end(*move, -EIO);
  }
}

void NvmeChannel::fail(int error) {
  failed_ = error;
  for (const Overdue& one : std::exchange(overdue_, {})) end(*one.move, -error);
  for (NvmeMove* const move : std::exchange(cut_short_, {})) end(*move, -error);
  for (NvmeMove* const move : std::exchange(waiting_, {})) end(*move, -error);
}

}  // namespace hinterland::native
