// One thread's requests to a file: each becomes as many transfers as its memory has runs, and ends when all of them have.
#pragma once

#include <vector>

#include "storage/backend.hpp"
#include "storage/file_namespace.hpp"

namespace hinterland::native {

class FileBackend : public Backend {
 public:
  FileBackend(SharedFile& file, unsigned depth, std::span<const Region> regions);
  ~FileBackend() override;

  bool try_begin(Request& request, uint64_t now) override;
  void submit() override;
  size_t poll(uint64_t now, std::span<Request*> to) override;
  bool try_drop(Request&) override { return false; }  // the system has it
  [[nodiscard]] size_t in_flight() const override { return in_flight_; }
  void wait(uint64_t now, uint64_t most) override;

 private:
  // A transfer, or what is left of it, and whose it is.
  struct Part {
    Request* request;
    Transfer transfer;
  };

  bool choose_way(Request& request);
  bool is_aligned(const Request& request) const;
  bool is_aligned(const Transfer& transfer) const;
  bool has_shrunk();
  bool begin_rest(Request& request);
  Transfer next_transfer(const Request& request) const;
  bool begin(Request& request, const Transfer& transfer);
  void go_on(uint32_t index, uint64_t moved);
  void end_part(uint32_t index, int32_t result);
  void finish_if_over(Request& request);

  SharedFile& file_;
  std::vector<Part> parts_;
  std::vector<uint32_t> free_parts_;
  RequestList flushes_, ended_;
  Request* unfinished_ = nullptr;  // begun, but not all of it: there was no room
  size_t in_flight_ = 0;
  uint32_t direct_writes_ = 0;
  bool looked_at_size_ = false;
  std::unique_ptr<Transfers> transfers_;  // last: it ends first, and waits for what is in flight
};

}  // namespace hinterland::native
