#include "train/config/goldfish.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "train/config/key_kinds.h"

namespace weft::train {
namespace {

constexpr std::string_view kForm = "members such as k=4,h=13,strategy=hash";
constexpr double kMostK = 1e6, kMostH = 1 << 20;

const std::vector<Word<Goldfish::Strategy>>& strategies() {
  using Strategy = Goldfish::Strategy;
  static const std::vector<Word<Strategy>> words = {{"hash", Strategy::hash},
                                                    {"avalanche", Strategy::avalanche},
                                                    {"static", Strategy::fixed},
                                                    {"random", Strategy::random}};
  return words;
}

}  // namespace

std::string to_text(const std::optional<Goldfish>& goldfish) {
  if (!goldfish) return "";
  const std::string strategy = word_of_value(strategies(), goldfish->strategy);
  return goldfish->reads_context() ? fmt::format("k={},h={},strategy={}", goldfish->k, goldfish->h, strategy)
                                   : fmt::format("k={},strategy={}", goldfish->k, strategy);
}

std::optional<Goldfish> goldfish_of(std::string_view text, std::string_view where) {
  if (text.empty()) return std::nullopt;
  Goldfish goldfish;
  const MemberForm form{{"k", "h", "strategy"}, "member", "a member and its value", kForm, "k=4"};
  bool gives_h = false;
  for (const auto& [name, value] : members_of(text, where, form)) {
    const std::string place = fmt::format("{}: {}", where, name);
    if (name == "k") goldfish.k = parse_number<std::int64_t>(value, place, 2, kMostK);
    if (name == "h") goldfish.h = parse_number<std::int64_t>(value, place, 1, kMostH);
    if (name == "strategy") goldfish.strategy = value_of_word(strategies(), value, place);
    gives_h = gives_h || name == "h";
  }
  if (gives_h && !goldfish.reads_context()) {
    throw UserError(fmt::format("{}: h = {} with a strategy that reads no context", where, goldfish.h),
                    "h with strategy hash or avalanche", "leave h out");
  }
  if (!goldfish.reads_context()) goldfish.h = Goldfish().h;
  return goldfish;
}

}  // namespace weft::train
