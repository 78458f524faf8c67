#include "storage/volume.hpp"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/errors.hpp"
#include "storage/file.hpp"
#include "storage/team.hpp"

namespace hinterland::native {

namespace {

constexpr int kReaders = 64;  // as many requests a disk's sequential rate takes (docs/notes/load-on-h200.md)
constexpr int kWriters = 64;  // guess: as many as kReaders

int64_t size_of(int fd, const std::string& path) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) throw_errno("cannot read the size of " + path, errno);
  if (S_ISREG(info.st_mode)) return info.st_size;
  uint64_t bytes = 0;
  if (!S_ISBLK(info.st_mode) || ::ioctl(fd, BLKGETSIZE64, &bytes) != 0)
    throw StorageError("cannot use " + path + " as storage: it is neither a regular file nor a block device");
  return static_cast<int64_t>(bytes);
}

bool is_one(const StoredFile& file, const StoredFile& other) {
  return file.bare == other.bare && file.device == other.device && file.inode == other.inode;
}

std::vector<std::unique_ptr<StoredFile>> opened(const std::vector<std::filesystem::path>& paths, bool writable) {
  if (paths.empty() || paths.size() > Volume::kMostFiles)
    throw StorageError(std::to_string(paths.size()) + " files for one array; name 1 to " + std::to_string(Volume::kMostFiles));
  std::vector<std::unique_ptr<StoredFile>> files;
  for (const auto& path : paths) {
    files.push_back(std::make_unique<StoredFile>(path, writable));
    for (size_t i = 0; i + 1 < files.size(); ++i)
      if (is_one(*files[i], *files.back()))
        throw StorageError(files[i]->path + " and " + files.back()->path + " are one file; name each once");
  }
  return files;
}

Spread spread_of(const std::vector<std::unique_ptr<StoredFile>>& files, uint64_t stripe, uint64_t base) {
  std::vector<uint64_t> sizes;
  for (const auto& file : files) sizes.push_back(static_cast<uint64_t>(file->bytes) - std::min<uint64_t>(file->bytes, base));
  return stripe == 0 ? Spread::copies(std::move(sizes)) : Spread::striped(std::move(sizes), stripe);
}

void read_from(const StoredFile& file, uint64_t offset, char* to, uint64_t bytes, int threads) {
  if (file.bare != nullptr) return read_device(*file.bare, file.path, offset, to, bytes);
  const auto at = static_cast<int64_t>(offset), count = static_cast<int64_t>(bytes);
  if (size_of(file.buffered.get(), file.path) < at + count)
    throw StorageError(file.path + " is shorter than when it was opened; restore it");
  read_file(file.buffered, file.direct, file.path, at, to, count, threads, {});
}

}  // namespace

StoredFile::StoredFile(const std::filesystem::path& file, bool writable) : path(file.native()), bare(bare_device(path)) {
  if (bare != nullptr) {
    bytes = static_cast<int64_t>(bare->bytes());
    return;
  }
  buffered = Descriptor(path, writable ? O_RDWR : O_RDONLY);
  if (!buffered.open()) throw_errno("cannot open " + path, errno);
  direct = Descriptor(path, (writable ? O_RDWR : O_RDONLY) | O_DIRECT);
  takes_direct = direct.open();
  bytes = size_of(buffered.get(), path);
  struct stat info{};
  ::fstat(buffered.get(), &info);
  device = info.st_dev;
  inode = S_ISBLK(info.st_mode) ? info.st_rdev : info.st_ino;
  ::posix_fadvise(buffered.get(), 0, 0, POSIX_FADV_RANDOM);
}

StoredFile::~StoredFile() {
  if (bare != nullptr) end_writing();  // a file's lock goes with its descriptors, of which forked processes have the same
}

void StoredFile::end_writing() {
  if (!std::exchange(claimed, false)) return;
  if (bare != nullptr)
    bare->has_writer = false;
  else
    ::flock(buffered.get(), LOCK_UN);
}

void StoredFile::become_writer() {
  if (bare == nullptr)
    native::become_writer(buffered, path);
  else if (bare->has_writer.exchange(true))
    throw_has_writer(path);
  claimed = true;
}

bool StoredFile::has_shrunk() const { return bare == nullptr && ::lseek(buffered.get(), 0, SEEK_END) < bytes; }

int StoredFile::sync() {
  const std::lock_guard held(syncing_);
  if (!wrote.exchange(false)) return lost_;
  const int failed = bare != nullptr ? bare->sync() : ::fdatasync(buffered.get()) != 0 ? errno : 0;
  return failed != 0 ? lost_ = failed : lost_;
}

Volume::Volume(const std::vector<std::filesystem::path>& paths, bool for_writing, uint64_t stripe_bytes, uint64_t base_bytes)
    : files(opened(paths, for_writing)),
      writable(for_writing),
      stripe(stripe_bytes),
      base(base_bytes),
      spread(spread_of(files, stripe, base)) {}

bool Volume::is_like(const Volume& other) const {
  return stripe == other.stripe && base == other.base &&
         std::ranges::equal(files, other.files, [](const auto& a, const auto& b) { return is_one(*a, *b); });
}

void Volume::become_writer() {
  for (const auto& file : files) file->become_writer();
}

void Volume::end_writing() {
  for (const auto& file : files) file->end_writing();
}

std::vector<std::shared_ptr<BlockDevice>> Volume::bare_devices() const {
  std::vector<std::shared_ptr<BlockDevice>> devices;
  for (const auto& file : files)
    if (file->bare != nullptr) devices.push_back(file->bare);
  return devices;
}

std::vector<int> Volume::descriptors() const {
  std::vector<int> numbers;
  for (const auto& file : files) numbers.push_back(file->buffered.get());
  return numbers;
}

uint64_t Volume::choose_copy(uint64_t asked, uint64_t number) const {
  return native::choose_copy(files.size(), asked, number, [&](uint64_t copy) {
    return std::pair(files[copy]->failed_reads.load(std::memory_order_relaxed),
                     files[copy]->in_flight.load(std::memory_order_relaxed));
  });
}

void Volume::count_failure(uint64_t copy, const std::string& why) {
  if (files[copy]->failed_reads.fetch_add(1, std::memory_order_relaxed) != 0) return;
  const std::lock_guard held(guard_);
  failures_.push_back(why + "; another copy is read in its place: replace this one by that, and open them anew");
}

std::vector<std::string> Volume::take_failures() {
  const std::lock_guard held(guard_);
  return std::exchange(failures_, {});
}

std::string Volume::sentence(uint64_t member, uint64_t offset, bool writes, uint32_t error) const {
  const std::string where = files[member]->path + " at offset " + std::to_string(offset);
  const std::string what = (writes ? "cannot write " : "cannot read ") + where + ": ";
  if (error == kFileShrank) return what + "the file is shorter than when it was opened; restore it";
  const std::string why = what + std::strerror(static_cast<int>(error));
  return error == ENOSPC ? why + "; make room, and call flush() again: what could not be written is still held" : why;
}

void Volume::read(int64_t offset, char* to, int64_t bytes) {
  if (bytes == 0) return;
  const auto from = static_cast<uint64_t>(offset), until = static_cast<uint64_t>(offset + bytes);
  if (stripe == 0) {
    for (uint64_t asked = 0;;) {
      const uint64_t copy = choose_copy(asked, 0);
      asked |= uint64_t{1} << copy;
      try {
        return read_from(*files[copy], base + from, to, until - from, kReaders);
      } catch (const std::exception& error) {
        if (choose_copy(asked, 0) == kNobody) throw;
        count_failure(copy, error.what());
      }
    }
  }
  const uint64_t first = from / stripe, last = (until - 1) / stripe;
  for_each_of_team(static_cast<int64_t>(last - first + 1), kReaders, [&](int64_t i) {
    const uint64_t number = first + static_cast<uint64_t>(i), at = std::max(from, number * stripe);
    const Spread::Place place = spread.place(at);
    read_from(*files[place.member], base + place.offset, to + (at - from), std::min(until, (number + 1) * stripe) - at, 1);
  });
}

void Volume::write(int64_t offset, const char* from, int64_t bytes) {
  StoredFile& file = *files.front();
  if (!writable || files.size() > 1 || file.bare != nullptr)
    throw StorageError("cannot write " + file.path + " past its cache: it has to be one file that is open for writing");
  if (offset < 0 || bytes < 0 || offset + bytes > file.bytes - static_cast<int64_t>(base))
    throw StorageError("cannot write " + file.path + " past its end");
  file.wrote = true;
  write_direct(file.buffered, file.direct, file.path, static_cast<int64_t>(base) + offset, from, bytes, kWriters);
}

}  // namespace hinterland::native
