// Text with emphasis, which becomes colour on a terminal that has colours and disappears everywhere else.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

enum class Emphasis : std::uint8_t { none, heading, good, bad, error, warning };

///   StyledText text("policy lhs: ");
///   text.add("0.31 ms exposed", Emphasis::bad);
///   say(stdout, text);
class StyledText {
 public:
  StyledText() = default;
  explicit StyledText(std::string_view text) { add(text); }

  StyledText& add(std::string_view text, Emphasis emphasis = Emphasis::none);
  StyledText& add(const StyledText& text);

  bool empty() const { return pieces_.empty(); }
  std::string plain() const;
  /// With control sequences for colours; everything else is printable().
  std::string coloured() const;

 private:
  struct Piece {
    std::string text;
    Emphasis emphasis;
  };
  std::vector<Piece> pieces_;
};

/// Like say() of printable.h, in colours if `file` is a terminal that has them.
void say(std::FILE* file, const StyledText& text);

}  // namespace weft
