#include "base/shared_library.h"

#include <dlfcn.h>

#include <string_view>

namespace weft {

SharedLibrary::SharedLibrary(std::span<const std::string> places, Code code) {
  for (const std::string& place : places) {
    handle_ = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL | (code == Code::stays ? RTLD_NODELETE : 0));
    if (handle_ != nullptr) {
      place_ = place;
      return;
    }
    const char* const why = dlerror();
    const std::string_view text = why == nullptr ? "?" : why;
    failure_ += failure_.empty() ? "" : "; ";
    // The loader's message begins with the file that failed, which may be a dependency of the library.
    if (!text.starts_with(place + ":")) failure_ += place + ": ";
    failure_ += text;
  }
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* SharedLibrary::address(const char* name) const {
  return dlsym(handle_, name);
}

}  // namespace weft
