// What Python fills in for kernels that read storage through queue pairs (include/hinterland/storage/page_store.hpp), and the
// same reads on the CPU.
#include <nanobind/nanobind.h>
#include <omp.h>

#include "bindings.hpp"
#include "core/pool.hpp"
#include "hinterland/storage/reads.hpp"
#include "hinterland/storage/writes.hpp"
#include "memory/array_words.hpp"
#include "params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(storage::QueuePair, submissions, completions, submission_doorbell, completion_doorbell, control, marks,
                  free_identifiers, commands, submission_size, completion_size);
HINTERLAND_STRUCT(storage::Channel, queue, lines, address, lists, lists_address);
HINTERLAND_STRUCT(storage::BlockRange, namespace_id, block_bytes, base, blocks);
HINTERLAND_STRUCT(storage::Cache<storage::Clock>, words, statuses, sets, frames, num_sets, line_bytes, pages);
HINTERLAND_STRUCT(storage::DeviceStore, cache, blocks, channels, num_channels, control, timeout_ns, hole_first, hole_end,
                  hole_met);
HINTERLAND_STRUCT(storage::StoreControl, status, padding0, expired, padding1, reads, writes, beside, beside_at, padding2);
HINTERLAND_STRUCT(storage::ReadParams, array, elements, at, count, to, sum);
HINTERLAND_STRUCT(storage::WriteParams, array, elements, at, count, run, values);
HINTERLAND_STRUCT(storage::FlushParams, store);

namespace {

// A channel whose words lie in this process, as its host copies them to where they are used: before all others.
void prepare_channel(const storage::Channel& channel, int64_t line_bytes) {
  channel.queue.prepare();
  const storage::PageDevice<storage::Cache<storage::Clock>, storage::Staged> device{
      {{}, nullptr, nullptr, nullptr, nullptr, 0, line_bytes}, channel, {}, 0};
  for (int64_t i = 0; i < channel.queue.identifiers(); ++i) device.prepare(i);
}

template <class T>
void read_on_threads(const storage::ReadParams& params) {
#pragma omp parallel if (params.count > kItemsOfChunk)
  if (params.array.store != nullptr)
    storage::read_elements<T, storage::DeviceSources>(params, omp_get_thread_num(), omp_get_num_threads());
  else
    storage::read_elements<T, memory::Unmetered>(params, omp_get_thread_num(), omp_get_num_threads());
}

void read_stored(const storage::ReadParams& params, int64_t element_bytes) {
  element_bytes == 8 ? read_on_threads<int64_t>(params) : read_on_threads<int32_t>(params);
}

template <class T>
void write_on_threads(const storage::WriteParams& params) {
#pragma omp parallel if (params.count * params.run > kItemsOfChunk)
  storage::write_elements<T, storage::WrittenOnStorage<storage::DeviceStore>>(params, omp_get_thread_num(),
                                                                              omp_get_num_threads());
}

void write_stored(const storage::WriteParams& params, int64_t element_bytes) {
  element_bytes == 8 ? write_on_threads<int64_t>(params) : write_on_threads<int32_t>(params);
}

// By one thread, since the device takes long and a look at a line does not: it has all of them begun before it waits for one.
void flush_stored(const storage::FlushParams& params) {
  const storage::DeviceStore& store = *params.store;
  for (int64_t slot = 0; slot < store.cache.num_slots(); ++slot) store.template write_back<Warp>(true, slot);
  storage::write_back(store, 0, 1);
  storage::flush(*params.store);
}

}  // namespace

const Binding page_store([](nb::module_& m) {
  m.attr("QUEUE_CONTROL_BYTES") = sizeof(storage::QueueControl);
  m.attr("COMMAND_BYTES") = sizeof(storage::Command);
  m.attr("PRP_LIST_BYTES") = sizeof(storage::PrpList);
  m.attr("READ_THREADS") = storage::kReadThreads;
  def_native(m, "prepare_channel", prepare_channel, nb::arg("channel"), nb::arg("line_bytes"));
  def_native(m, "read_stored", read_stored, nb::arg("params"), nb::arg("element_bytes"));
  def_native(m, "write_stored", write_stored, nb::arg("params"), nb::arg("element_bytes"));
  def_native(m, "flush_stored", flush_stored, nb::arg("params"));
  m.attr("STATUS_OF_WRITE") = storage::kOfWrite;
  m.attr("WHOLE_DEVICE") = storage::kWholeDevice;
});

}  // namespace hinterland::native
