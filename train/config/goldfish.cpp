#include "train/config/goldfish.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/text/parse_number.h"

namespace weft::train {
namespace {

constexpr std::string_view kForm = "members such as k=4,h=13,strategy=hash";
constexpr double kMostK = 1e6, kMostH = 1 << 20;

/// By the number of the strategy.
const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> names = {"hash", "avalanche", "static", "random"};
  return names;
}

Goldfish::Strategy strategy_of(std::string_view name, std::string_view where) {
  const std::vector<std::string>& names = strategy_names();
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<Goldfish::Strategy>(found - names.begin());
  const std::string nearest = nearest_name(name, names);
  throw UserError(fmt::format("{}: unknown strategy \"{}\"", where, name), "one of " + join(names),
                  nearest.empty() ? "choose one of these" : fmt::format("did you mean \"{}\"?", nearest));
}

}  // namespace

std::string to_text(const std::optional<Goldfish>& goldfish) {
  if (!goldfish) return "";
  const std::string& strategy = strategy_names()[static_cast<std::size_t>(goldfish->strategy)];
  return goldfish->reads_context() ? fmt::format("k={},h={},strategy={}", goldfish->k, goldfish->h, strategy)
                                   : fmt::format("k={},strategy={}", goldfish->k, strategy);
}

std::optional<Goldfish> goldfish_of(std::string_view text, std::string_view where) {
  if (text.empty()) return std::nullopt;
  Goldfish goldfish;
  std::set<std::string, std::less<>> given;
  for (bool more = true; more;) {
    const std::string_view part = text.substr(0, text.find(','));
    more = part.size() < text.size();
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      throw UserError(fmt::format("{}: \"{}\" is not a member and its value", where, part), std::string(kForm),
                      "write it as in k=4");
    }
    const std::string_view name = part.substr(0, equals), value = part.substr(equals + 1);
    const std::string place = fmt::format("{}: {}", where, name);
    if (!given.emplace(name).second) throw UserError(place + " is given twice", std::string(kForm), "leave one out");
    if (name == "k") {
      goldfish.k = parse_number<std::int64_t>(value, place, 2, kMostK);
    } else if (name == "h") {
      goldfish.h = parse_number<std::int64_t>(value, place, 1, kMostH);
    } else if (name == "strategy") {
      goldfish.strategy = strategy_of(value, where);
    } else {
      throw UserError(fmt::format("{}: unknown member \"{}\"", where, name), std::string(kForm),
                      "k, h and strategy are known");
    }
  }
  if (given.contains("h") && !goldfish.reads_context()) {
    throw UserError(fmt::format("{}: h = {} with a strategy that reads no context", where, goldfish.h),
                    "h with strategy hash or avalanche", "leave h out");
  }
  if (!goldfish.reads_context()) goldfish.h = Goldfish().h;
  return goldfish;
}

}  // namespace weft::train
