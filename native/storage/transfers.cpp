#include "storage/transfers.hpp"

#include "core/errors.hpp"

namespace hinterland::native {

std::unique_ptr<Transfers> make_transfers(unsigned depth, Engine engine) {
  std::unique_ptr<Transfers> made;
  if (engine != Engine::kThreads) made = make_uring(depth);
  if (!made && engine == Engine::kUring) throw StorageError("io_uring is not to be had: " + uring_refusal());
  return made ? std::move(made) : make_pread_pool(depth);
}

}  // namespace hinterland::native
