#include "study/result_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "base/files/checksum.h"
#include "base/files/durable_file.h"
#include "base/files/text_file.h"

namespace weft::study {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFilePrefix = "# file: ";
constexpr const char* kOtherFolder = "-o with another folder, or the command that wrote this one";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// "# file: perlmutter crc32c e3069283" → "# file: perlmutter"
std::string file_of(const std::string& line) {
  return line.substr(0, line.rfind(" crc32c "));
}

[[noreturn]] void refuse_difference(const fs::path& file, const std::string& found, const std::string& now) {
  throw UserError(fmt::format("{} has the line \"{}\"", file.string(), found),
                  now.empty() ? "no such line" : fmt::format("\"{}\", as this command has it", now), kOtherFolder);
}

void expect_same_lines(const fs::path& file, std::vector<std::string> before, std::vector<std::string> now) {
  before.resize(std::max(before.size(), now.size()));
  now.resize(before.size());
  const auto [found, line] = std::ranges::mismatch(before, now);
  if (found != before.end()) refuse_difference(file, *found, *line);
}

}  // namespace

std::string file_line(std::string_view name, std::string_view content) {
  Crc32c checksum;
  checksum.add(std::as_bytes(std::span(content)));
  return fmt::format("{}{} crc32c {}", kFilePrefix, name, checksum.text());
}

ResultFolder::ResultFolder(fs::path path, std::string_view marker, std::string_view command)
    : path_(std::move(path)), marker_(marker), command_(command) {
  constexpr const char* kFix = "-o with another name";
  std::error_code error;
  const bool existed = fs::exists(path_, error);
  if (existed && !fs::is_directory(path_, error)) {
    throw UserError(fmt::format("{} isn't a folder", path_.string()),
                    fmt::format("a new folder, or one of {}", command), kFix);
  }
  if (existed && !fs::exists(path_ / marker, error) && !fs::is_empty(path_, error)) {
    throw UserError(fmt::format("{} holds other files", path_.string()),
                    fmt::format("a new folder, an empty one or one of {}", command), kFix);
  }
  if (!existed && !fs::create_directories(path_, error)) {
    throw UserError(fmt::format("{} can't be made: {}", path_.string(), error.message()), "a folder for the results",
                    kFix);
  }
  lock_ = std::make_unique<train::FolderLock>(path_, "the folder", kFix);
  if (!fs::exists(path_ / marker_)) write_durable(path_ / marker_, "");
}

std::string ResultFolder::read(const fs::path& name) const {
  constexpr std::size_t kMostRead = std::size_t{1} << 30;
  const fs::path file = path_ / name;
  if (!fs::exists(file)) return "";
  return read_text_file(file, "the file", kMostRead, fmt::format("a file that {} wrote", command_), kOtherFolder);
}

void ResultFolder::describe(const FolderDescription& now) const {
  const fs::path file = path_ / marker_;
  std::vector<std::string> before, files = now.files;
  for (const std::string& line : lines_of(read(marker_))) {
    if (!line.starts_with(kFilePrefix)) {
      before.push_back(line);
      continue;
    }
    const auto same = std::ranges::find(now.files, file_of(line), file_of);
    if (same == now.files.end()) {
      files.push_back(line);
    } else if (*same != line) {
      refuse_difference(file, line, *same);
    }
  }
  const bool is_new = before.empty() || before == std::vector<std::string>{"{}"};
  if (!is_new) expect_same_lines(file, before, lines_of(now.head + now.tail));
  std::string text = now.head;
  for (const std::string& line : files) text += line + "\n";
  write_durable(file, text + now.tail);
}

}  // namespace weft::study
