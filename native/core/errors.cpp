#include "core/errors.hpp"

#include <nanobind/nanobind.h>

#include <cerrno>
#include <cstring>

namespace hinterland::native {

namespace {

void raise(const char* name, const char* message) {
  nanobind::object type = nanobind::module_::import_("hinterland.runtime.errors").attr(name);
  // As Python's own errors have it: bytes of a file name that are no UTF-8 come through.
  nanobind::object text = nanobind::steal(PyUnicode_DecodeUTF8(message, std::strlen(message), "surrogateescape"));
  PyErr_SetObject(type.ptr(), text.ptr());
}

const char* remedy(int code) {
  switch (code) {
    case EMFILE:
    case ENFILE: return "; close some, or raise the limit (ulimit -n)";
    case ENOENT: return "; check the path";
    case EACCES:
    case EPERM:
    case EROFS: return "; check the permissions";
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return "; the disk or the quota is full: free space or write elsewhere";
    default: return "";
  }
}

void translate(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const FormatError& e) {
    raise("FormatError", e.what());
  } catch (const StorageError& e) {
    raise("StorageError", e.what());
  } catch (const OutOfMemory& e) {
    raise("OutOfMemory", e.what());
  } catch (const DeviceError& e) {
    raise("DeviceError", e.what());
  }
}

}  // namespace

void throw_errno(const std::string& what, int code) { throw StorageError(what + ": " + std::strerror(code) + remedy(code)); }

void register_errors() { nanobind::register_exception_translator(translate, nullptr); }

}  // namespace hinterland::native
