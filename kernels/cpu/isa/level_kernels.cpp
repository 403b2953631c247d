// The choice of kernels in a build with all levels: one shared library is loaded; see kernel_choice.h.
#include <array>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/shared_library.h"
#include "kernels/cpu/isa/kernel_choice.h"
#include "kernels/cpu/isa/kernel_table.h"
#include "kernels/cpu/isa/level.h"

namespace weft::cpu {
namespace {

struct Loaded {
  IsaLevel level = IsaLevel::v3;
  const KernelTable* table = nullptr;
};

// Beside the program, wherever it was installed: bin/weft and lib/weft/libweft_kernels_v3.so.
std::string library_of(IsaLevel level) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string name = "libweft_kernels_" + std::string(to_string(level)) + ".so";
  return (program.parent_path().parent_path() / "lib" / "weft" / name).string();
}

Loaded load(IsaLevel level) {
  const std::array<std::string, 1> places = {library_of(level)};
  // It stays: kernels are called until the process ends.
  const SharedLibrary library(places, SharedLibrary::Code::stays);
  const std::string expected = "the files of one build: bin/weft and lib/weft", fix = "install Weft again";
  if (!library) throw UserError("the kernels can't be loaded: " + library.failure(), expected, fix);
  auto* const function = library.find<KernelTableFunction>(kKernelTableFunction);
  const KernelTable* const table = function != nullptr ? function(WEFT_KERNEL_BUILD) : nullptr;
  if (table == nullptr) throw UserError(library.place() + " is of another build of Weft", expected, fix);
  return {level, table};
}

// The first call decides.
const Loaded& loaded(std::string_view asked) {
  static const Loaded chosen = load(choose_level(asked, features_of_this_cpu()));
  return chosen;
}

}  // namespace

std::vector<std::string> built_levels() {
  std::vector<std::string> names;
  for (const auto& [name, level] : kIsaLevels) names.emplace_back(name);
  return names;
}

void choose_kernels(std::string_view asked) {
  const std::string_view used = to_string(loaded(asked).level);
  if (!asked.empty() && asked != used) {
    throw std::logic_error("kernels of level " + std::string(used) + " were in use before " + std::string(asked) +
                           " was chosen");
  }
}

const KernelTable& kernels() {
  return *loaded("").table;
}

std::string_view kernel_level() {
  return kernels().compiled_level();
}

}  // namespace weft::cpu
