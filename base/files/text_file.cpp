#include "base/files/text_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"

namespace weft {

std::string read_text_file(const std::filesystem::path& path, std::string_view what, std::size_t most_bytes,
                           std::string_view expected, std::string_view fix) {
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  while (file && text.size() <= most_bytes) {
    const std::size_t kept = text.size(), piece = std::min(most_bytes + 1 - kept, std::max(kept, kPiece));
    text.resize(kept + piece);
    file.read(text.data() + kept, static_cast<std::streamsize>(piece));
    text.resize(kept + static_cast<std::size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad() || (file.fail() && !file.eof())) {
    throw UserError(fmt::format("{} {} can't be read", what, path.string()), expected, fix);
  }
  if (text.size() > most_bytes) {
    throw UserError(fmt::format("{} is larger than {} bytes", path.string(), most_bytes), expected, fix);
  }
  return text;
}

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

}  // namespace weft
