#include "tests/fuzz/fuzz_target.h"

#include <stdlib.h>

#include <fstream>
#include <stdexcept>
#include <system_error>

#include "base/printable.h"

namespace weft::fuzz {

void require(bool holds, std::string_view what) {
  if (!holds) throw std::logic_error("finding: " + std::string(what));
}

void check_refusal(const UserError& error) {
  constexpr std::size_t kLongestMessage = 8192;
  const std::string_view message = error.what();
  require(message.find("\n  fix: ") != std::string_view::npos, "a refusal without a fix: " + std::string(message));
  require(message.size() <= kLongestMessage, "a refusal of " + std::to_string(message.size()) + " bytes");
  require(printable(message) == message, "control characters in: " + std::string(message));
}

InputFolder::InputFolder() {
  std::error_code none;
  const std::filesystem::path memory = "/dev/shm";
  const auto parent = std::filesystem::is_directory(memory, none) ? memory : std::filesystem::temp_directory_path();
  std::string name = (parent / "weft_fuzz_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder for input files below " + parent.string());
  path_ = name;
}

InputFolder::~InputFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path InputFolder::write(std::string_view name, std::string_view content) const {
  std::filesystem::path file = path_ / name;
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!stream.flush()) throw std::runtime_error("can't write " + file.string());
  return file;
}

}  // namespace weft::fuzz
