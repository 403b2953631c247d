// Linked with the example, a policy whose loading leaves a trace: the file mine.so.loaded next to it.
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
