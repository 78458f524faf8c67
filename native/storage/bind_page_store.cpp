// What Python fills in for kernels that read storage through queue pairs (include/hinterland/storage/page_store.hpp), and a
// flush on the CPU.
#include <nanobind/nanobind.h>

#include "bindings.hpp"
#include "hinterland/storage/written.hpp"
#include "params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(storage::QueuePair, submissions, completions, submission_doorbell, completion_doorbell, control, marks,
                  free_identifiers, commands, submission_size, completion_size, overdue);
HINTERLAND_STRUCT(storage::Channel, queue, lines, address, lists, lists_address);
HINTERLAND_STRUCT(storage::BlockRange, namespace_id, block_bytes, base, blocks);
HINTERLAND_STRUCT(storage::Cache<storage::ClockPolicy>, words, statuses, sets, frames, num_sets, line_bytes, pages);
HINTERLAND_STRUCT(storage::DeviceStore, cache, blocks, channels, num_channels, control, timeout_ns, hole_first, hole_end,
                  hole_met);
HINTERLAND_STRUCT(storage::StoreControl, status, padding0, expired, padding1, reads, writes, padding2, asked);
HINTERLAND_STRUCT(storage::FlushParams, store);

namespace {

// A channel whose words lie in this process, as its host copies them to where they are used: before all others.
void prepare_channel(const storage::Channel& channel, int64_t line_bytes) {
  channel.queue.prepare();
  const storage::PageDevice<storage::Cache<storage::ClockPolicy>> device{
      {{}, nullptr, nullptr, nullptr, nullptr, 0, line_bytes}, channel, {}, 0};
  for (int64_t i = 0; i < channel.queue.identifiers(); ++i) device.prepare(i);
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
  m.attr("ASKED_WORDS") = storage::kAskedWords;
  m.attr("QUEUE_CONTROL_BYTES") = sizeof(storage::QueueControl);
  m.attr("COMMAND_BYTES") = sizeof(storage::Command);
  m.attr("PRP_LIST_BYTES") = sizeof(storage::PrpList);
  m.attr("FLUSH_THREADS") = storage::kFlushThreads;
  def_native(m, "prepare_channel", prepare_channel, nb::arg("channel"), nb::arg("line_bytes"));
  def_native(m, "flush_stored", flush_stored, nb::arg("params"));
  m.attr("STATUS_OF_WRITE") = storage::kOfWrite;
  m.attr("WHOLE_DEVICE") = storage::kWholeDevice;
});

}  // namespace hinterland::native
