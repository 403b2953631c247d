// The paths that a key of the configuration names: one, several, or none.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::train {

/// Paths in their order, none of them empty. A text becomes the list of itself, an empty text the empty list.
class PathList {
 public:
  PathList() = default;
  template <class Text>
  requires std::convertible_to<const Text&, std::string> PathList(const Text& path) { add(path); }

  /// Leaves an empty path out.
  void add(std::string path) {
    if (!path.empty()) paths_.push_back(std::move(path));
  }

  const std::vector<std::string>& paths() const { return paths_; }
  bool empty() const { return paths_.empty(); }

  friend bool operator==(const PathList&, const PathList&) = default;

 private:
  std::vector<std::string> paths_;
};

/// The value of a key: the path alone, or the list as TOML writes it: ["a.txt", "b.txt"]. paths_of() reads it back.
std::string to_text(const PathList& list);

/// `where` opens messages. Throws UserError on a list that isn't TOML's, on an item that is no path, and on more paths
/// than a file of a configuration can hold.
PathList paths_of(std::string_view value, std::string_view where);

/// For messages: 'a.txt', or 'a.txt', 'b.txt' and 4 more.
std::string shown(const PathList& list);

/// Whether to_text() made it of several paths.
bool is_path_list(std::string_view value);

/// A text as TOML writes it, in quotes.
std::string toml_quoted(std::string_view value);

}  // namespace weft::train
