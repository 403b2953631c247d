#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/printable.h"

namespace weft {
namespace {

constexpr std::size_t kLongestPart = 2000, kLongestWord = 64;

/// `text` made safe for a terminal, because messages quote names from files. The middle of a very long text is cut out.
std::string shown(std::string_view text) {
  if (text.size() <= kLongestPart) return printable(text);
  return printable(text.substr(0, kLongestPart / 2)) + " … (" + std::to_string(text.size()) + " bytes) … " +
         printable(text.substr(text.size() - kLongestPart / 2));
}

std::string message(std::string_view found, std::string_view expected, std::string_view fix) {
  std::string text = shown(found);
  if (!expected.empty()) text.append("; expected ").append(shown(expected));
  if (!fix.empty()) text.append("\n  fix: ").append(shown(fix));
  return text;
}

/// Letters that are left out, added, replaced, or swapped with their neighbour.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1), above, before;
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

UserError::UserError(std::string_view found, std::string_view expected, std::string_view fix)
    : std::runtime_error(message(found, expected, fix)) {}

std::string first_line(std::string_view message) {
  const std::string line(message.substr(0, message.find('\n')));
  return line.empty() ? "no reason is known" : line;
}

std::string nearest_name(std::string_view word, std::span<const std::string> known) {
  std::string best;
  if (word.size() > kLongestWord) return best;  // too long for a typo, and the edit distance would take long
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 2) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string join(std::span<const std::string> items, std::string_view separator) {
  return fmt::format("{}", fmt::join(items, separator));
}

}  // namespace weft
