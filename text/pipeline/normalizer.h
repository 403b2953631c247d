// Changes of a text before it is split: normal forms, replacements, prefixes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/split/pattern.h"
#include "text/unicode/normal_forms.h"

namespace weft::text {

struct Lowercase {};
struct StripAccents {};
/// `text` before a text that isn't empty.
struct Prepend {
  std::string text;
};
struct ReplaceText {
  std::string from, to;
};
struct ReplaceMatches {
  Pattern from;
  std::string to;
};
/// White space at the ends.
struct StripSpace {
  bool left = false, right = false;
};

using NormalizerStep =
    std::variant<NormalForm, Lowercase, StripAccents, Prepend, ReplaceText, ReplaceMatches, StripSpace>;

/// Steps, one after the other. Immutable.
struct Normalizer {
  std::vector<NormalizerStep> steps;

  std::string operator()(std::string_view text) const;
};

/// `text` with each `from`, which isn't empty, replaced.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

}  // namespace weft::text
