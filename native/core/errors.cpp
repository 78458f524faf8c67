#include "core/errors.hpp"

#include <nanobind/nanobind.h>

#include <cerrno>
#include <cstring>

namespace hinterland::native {

namespace {

// A failed system call.
struct SystemError : StorageError {
  SystemError(const std::string& what, int code) : StorageError(what), code(code) {}

  int code;
};

// `code` becomes the error's errno, unless it is 0.
void raise(const char* name, const char* message, int code = 0) {
  nanobind::object type = nanobind::module_::import_("hinterland.runtime.errors").attr(name);
  // As Python's own errors have it: bytes of a file name that are no UTF-8 come through.
  nanobind::object text = nanobind::steal(PyUnicode_DecodeUTF8(message, std::strlen(message), "surrogateescape"));
  const nanobind::object error = type(text);
  if (code != 0) error.attr("errno") = code;
  PyErr_SetObject(type.ptr(), error.ptr());
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
  } catch (const SystemError& e) {
    raise("StorageError", e.what(), e.code);
  } catch (const StorageError& e) {
    raise("StorageError", e.what());
  } catch (const OutOfMemory& e) {
    raise("OutOfMemory", e.what());
  } catch (const DeviceError& e) {
    raise("DeviceError", e.what());
  }
}

}  // namespace

void throw_errno(const std::string& what, int code) {
  throw SystemError(what + ": " + std::strerror(code) + remedy(code), code);
}

void register_errors() { nanobind::register_exception_translator(translate, nullptr); }

}  // namespace hinterland::native
