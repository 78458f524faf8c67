#include "storage/file_backend.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace hinterland::native {

namespace {

using storage::kDoNotRetry;
using storage::Opcode;

uint16_t status_of(int error, bool writes) {
  switch (error) {
    case EIO: return writes ? storage::kWriteFault : storage::kUnrecoveredReadError;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EROFS: return storage::kWriteFault | kDoNotRetry;
    case ENOMEM: return storage::kInternalError;
    default: return storage::kInternalError | kDoNotRetry;
  }
}

}  // namespace

FileBackend::FileBackend(SharedFile& file, unsigned depth, std::span<const Region> regions)
    : file_(file), parts_(depth), transfers_(file.bare ? file.bare->make_transfers(depth) : make_transfers(depth)) {
  const auto largest = std::max_element(regions.begin(), regions.end(), [](auto& a, auto& b) { return a.bytes < b.bytes; });
  if (largest != regions.end()) transfers_->keep({reinterpret_cast<char*>(largest->base), largest->bytes});
  for (uint32_t i = depth; i > 0; --i) free_parts_.push_back(i - 1);
}

FileBackend::~FileBackend() {
  transfers_.reset();
  file_.direct_writes -= direct_writes_;  // others may wait for them
}

bool FileBackend::try_begin(Request& request, uint64_t) {
  if (unfinished_ != nullptr) return false;
  request.status = storage::kSuccess;
  request.parts = request.run = 0;
  request.at = request.done = 0;
  request.direct = false;
  if (request.opcode == Opcode::kFlush) {
    request.due = file_.flusher.ask();
    flushes_.push(request);
  } else if (file_.bare && !is_aligned(request)) {
    request.status = storage::kInvalidField | kDoNotRetry;
    ended_.push(request);
  } else if (request.opcode == Opcode::kWrite && !file_.writable) {
    request.status = storage::kWriteProtected | kDoNotRetry;
    ended_.push(request);
  } else if (request.opcode == Opcode::kWrite && has_shrunk()) {
    // Writing would make the file as long as before, with a hole that reads as zeros.
    request.status = storage::kWriteFault | kDoNotRetry;
    ended_.push(request);
  } else {
    if (!choose_way(request)) return false;
    if (!begin_rest(request)) unfinished_ = &request;
  }
  ++in_flight_;
  return true;
}

// Whether the request goes past the page cache. False: it has to wait for those that do.
bool FileBackend::choose_way(Request& request) {
  const bool writes = request.opcode == Opcode::kWrite;
  if (writes && request.offset >= file_.page_of_end) return true;  // by the cache at all times
  request.direct = is_aligned(request);
  if (!writes) {
    request.direct = request.direct && !file_.cached_only;
    return true;
  }
  if (request.direct) {
    ++file_.direct_writes;
    if (!file_.cached_only) return ++direct_writes_, true;
    --file_.direct_writes;
    request.direct = false;
  }
  file_.cached_only = true;
  return file_.direct_writes == 0;
}

bool FileBackend::is_aligned(const Request& request) const {
  if (file_.align_offset == 0 || request.offset % file_.align_offset != 0) return false;
  return std::all_of(request.runs, request.runs + request.run_count, [&](const MemoryRun& run) {
    return run.bytes % file_.align_offset == 0 && reinterpret_cast<uintptr_t>(run.memory) % file_.align_memory == 0;
  });
}

bool FileBackend::is_aligned(const Transfer& transfer) const {
  return transfer.offset % file_.align_offset == 0 && transfer.bytes % file_.align_offset == 0 &&
         reinterpret_cast<uintptr_t>(transfer.memory) % file_.align_memory == 0;
}

// Looks once for all that is submitted together.
bool FileBackend::has_shrunk() {
  if (looked_at_size_ || file_.bare) return false;
  struct stat now{};
  if (::fstat(file_.cached.get(), &now) != 0) return true;
  looked_at_size_ = !S_ISREG(now.st_mode) || static_cast<uint64_t>(now.st_size) >= file_.bytes;
  return !looked_at_size_;
}

// Begins what has not been begun of a request, as far as there is room; true if that was all.
bool FileBackend::begin_rest(Request& request) {
  while (request.run < request.run_count && request.status == storage::kSuccess) {
    const MemoryRun& run = request.runs[request.run];
    const bool beyond = request.offset + request.done >= file_.bytes;
    const Transfer transfer = next_transfer(request);
    if (beyond && !transfer.writes) std::memset(transfer.memory, 0, transfer.bytes);
    if (!beyond && !begin(request, transfer)) return false;
    request.at += transfer.bytes;
    request.done += transfer.bytes;
    if (request.at < run.bytes) continue;
    request.at = 0;
    ++request.run;
  }
  request.run = request.run_count;
  finish_if_over(request);
  return true;
}

// What is left of the run at hand; a write only up to where the file's last page begins, or to the file's end.
Transfer FileBackend::next_transfer(const Request& request) const {
  const MemoryRun& run = request.runs[request.run];
  const uint64_t offset = request.offset + request.done;
  Transfer transfer{file_.fd(request.direct), request.opcode == Opcode::kWrite, run.memory + request.at, 0, offset, 0};
  uint64_t bytes = run.bytes - request.at;
  if (transfer.writes && offset < file_.bytes) {
    const bool in_last_page = offset >= file_.page_of_end;
    if (in_last_page) transfer.fd = file_.cached.get();
    bytes = std::min(bytes, (in_last_page ? file_.bytes : file_.page_of_end) - offset);
  }
  transfer.bytes = static_cast<uint32_t>(bytes);
  return transfer;
}

bool FileBackend::begin(Request& request, const Transfer& transfer) {
  if (free_parts_.empty()) return false;
  const uint32_t index = free_parts_.back();
  parts_[index] = {&request, transfer};
  parts_[index].transfer.user = index;
  if (!transfers_->try_begin(parts_[index].transfer)) return false;
  free_parts_.pop_back();
  ++request.parts;
  return true;
}

// The rest of a transfer that moved less than it should have.
void FileBackend::go_on(uint32_t index, uint64_t moved) {
  Transfer& transfer = parts_[index].transfer;
  transfer.memory += moved;
  transfer.offset += moved;
  transfer.bytes -= static_cast<uint32_t>(moved);
  if (transfer.fd == file_.direct.get() && !is_aligned(transfer)) transfer.fd = file_.cached.get();
  if (!transfers_->try_begin(transfer)) end_part(index, -ENOMEM);
}

void FileBackend::end_part(uint32_t index, int32_t result) {
  Part& part = parts_[index];
  Request& request = *part.request;
  Transfer& transfer = part.transfer;
  const uint64_t moved = result > 0 ? static_cast<uint64_t>(result) : 0;
  if (result == -EINTR || result == -EAGAIN) return go_on(index, 0);
  if (result == -EINVAL && !file_.bare && transfer.fd == file_.direct.get()) {  // it asks for more than it said
    file_.cached_only = true;
    transfer.fd = file_.cached.get();
    return go_on(index, 0);
  }
  if (result < 0) {
    fail(request, status_of(-result, transfer.writes));
  } else if (moved < transfer.bytes) {
    const bool at_end = !transfer.writes && transfer.offset + moved >= file_.bytes;
    if (!at_end && moved > 0) return go_on(index, moved);
    if (at_end)
      std::memset(transfer.memory + moved, 0, transfer.bytes - moved);
    else
      fail(request, (transfer.writes ? storage::kWriteFault : storage::kUnrecoveredReadError) | kDoNotRetry);
  }
  free_parts_.push_back(index);
  --request.parts;
  finish_if_over(request);
}

void FileBackend::finish_if_over(Request& request) {
  if (request.parts != 0 || request.run < request.run_count) return;
  if (request.opcode == Opcode::kWrite && request.direct) --file_.direct_writes, --direct_writes_;
  ended_.push(request);
}

void FileBackend::submit() {
  transfers_->submit();
  looked_at_size_ = false;
}

size_t FileBackend::poll(uint64_t, std::span<Request*> to) {
  std::array<Ended, 64> over;
  for (size_t count = over.size(); count == over.size();) {
    count = transfers_->poll(over);
    for (size_t i = 0; i < count; ++i) end_part(static_cast<uint32_t>(over[i].user), over[i].result);
  }
  if (unfinished_ != nullptr && begin_rest(*unfinished_)) unfinished_ = nullptr;
  if (transfers_->in_flight() != 0) transfers_->submit();
  while (flushes_.first() != nullptr && flushes_.first()->due <= file_.flusher.done()) {
    Request& request = *flushes_.pop();
    if (file_.flusher.failed(request.due)) request.status = storage::kWriteFault | kDoNotRetry;
    ended_.push(request);
  }
  size_t ended = 0;
  while (ended < to.size() && ended_.first() != nullptr) to[ended++] = ended_.pop();
  in_flight_ -= ended;
  return ended;
}

void FileBackend::wait(uint64_t, uint64_t most) {
  if (transfers_->in_flight() != 0) return transfers_->wait(std::chrono::nanoseconds(most), 1);
  if (in_flight_ != 0) std::this_thread::sleep_for(std::chrono::nanoseconds(most));  // a flush
}

}  // namespace hinterland::native
