// Linked with the example, a policy that can't be loaded unseen: it makes a file beside itself, mine.so.loaded.
#include <dlfcn.h>

#include <cstdio>
#include <string>

namespace {

[[gnu::constructor]] void leave_trace() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&leave_trace), &self) == 0) return;
  if (std::FILE* const file = std::fopen((std::string(self.dli_fname) + ".loaded").c_str(), "w")) std::fclose(file);
}

}  // namespace
