#include "train/config/path_list.h"

#include <fmt/format.h>

#include <cstddef>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/input_file.h"
#include "train/config/key_kinds.h"

namespace weft::train {
namespace {

constexpr std::string_view kListBegins = "[\"";  // no path begins so, but for one that means harm
constexpr std::size_t kShown = 3;
constexpr std::size_t kMostBytes = kLargestToml / 2;  // of all paths, with their quotes

}  // namespace

bool is_path_list(std::string_view value) {
  return value.starts_with(kListBegins) && value.ends_with("]");
}

std::string toml_quoted(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      text += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      text += c;
    }
  }
  return text + '"';
}

std::string to_text(const PathList& list) {
  const std::vector<std::string>& paths = list.paths();
  if (paths.empty()) return "";
  if (paths.size() == 1 && !is_path_list(paths.front())) return paths.front();
  std::vector<std::string> quoted;
  for (const std::string& path : paths) quoted.push_back(toml_quoted(path));
  return "[" + join(quoted) + "]";
}

PathList paths_of(std::string_view value, std::string_view where) {
  expect_plain_text(value, where);
  if (!is_path_list(value)) return value.empty() ? PathList() : PathList(std::string(value));
  if (value.size() > kMostBytes) {
    throw UserError(fmt::format("{} names paths of {} bytes", where, value.size()),
                    fmt::format("at most {}, which a configuration file can hold", kMostBytes),
                    "name a folder, or a pattern in quotes: 'texts/*.txt'");
  }
  const Document document =
      read_toml("paths = " + std::string(value), std::string(where), "write it as in [\"a.txt\", \"b.txt\"]");
  PathList list;
  for (const DocumentValue& item : document.root()["paths"].items()) {
    const std::string path = item.text();
    if (path.empty()) throw UserError(fmt::format("{} has an empty path", where), "paths", "leave it out");
    expect_plain_text(path, where);
    list.add(path);
  }
  return list;
}

std::string shown(const PathList& list) {
  std::vector<std::string> quoted;
  for (const std::string& path : list.paths()) {
    if (quoted.size() < kShown) quoted.push_back(in_quotes(path));
  }
  const std::size_t more = list.paths().size() - quoted.size();
  return join(quoted) + (more == 0 ? "" : fmt::format(" and {} more", more));
}

}  // namespace weft::train
