#include "tests/fuzz/fuzz_target.h"

#include <filesystem>
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

testing::TemporaryFolder input_folder() {
  std::error_code none;
  const std::filesystem::path memory = "/dev/shm";
  return testing::TemporaryFolder(std::filesystem::is_directory(memory, none) ? memory
                                                                              : std::filesystem::temp_directory_path());
}

}  // namespace weft::fuzz
