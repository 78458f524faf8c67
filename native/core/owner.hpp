// Whose an object's threads are. A forked child has a copy of it without them: what they held stays held, and who waits for
// them waits for ever. So nothing of it is ended in the child, nor waited for.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <memory>
#include <utility>

namespace hinterland::native {

// The process that made what has this as a member.
class Owner {
 public:
  bool is_here() const { return process_ == ::getpid(); }

 private:
  pid_t process_ = ::getpid();
};

// A new T, which is destroyed in this process alone: its copy in a forked child stays as it is.
template <class T, class... Args>
std::shared_ptr<T> made_here(Args&&... args) {
  return {new T(std::forward<Args>(args)...), [owner = Owner()](T* one) {
            if (owner.is_here()) delete one;
          }};
}

}  // namespace hinterland::native
