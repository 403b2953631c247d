#include "text/split/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/error.h"
#include "text/unicode/characters.h"

namespace weft::text {
namespace {

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct Pattern::Compiled {
  std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code{nullptr, &pcre2_code_free};
};

Pattern::Pattern(std::string expression, RegexFlavour flavour, std::string_view place)
    : expression_(std::move(expression)) {
  const auto refuse = [&](const std::string& why) {
    throw UserError(fmt::format("{}: the pattern '{}' {}", place, expression_, why),
                    "a regular expression that means the same to PCRE2", "use a tokenizer with another pattern");
  };
  const std::string translated =
      in_pcre_syntax(expression_, flavour, [&](const std::string& construct) { refuse("has " + construct); });
  const std::uint32_t options =
      PCRE2_UTF | PCRE2_UCP | (flavour == RegexFlavour::oniguruma ? PCRE2_MULTILINE : PCRE2_DOLLAR_ENDONLY);
  int error = 0;
  PCRE2_SIZE at = 0;
  auto compiled = std::make_shared<Compiled>();
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), options,
                                     &error, &at, context.get()));
  if (!compiled->code) refuse("has an error: " + message_of(error));
  // Without a compiler for this machine the same matches are found by interpretation.
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  compiled_ = std::move(compiled);
}

void Pattern::for_each_piece(std::string_view text,
                             const std::function<void(std::string_view piece, bool match)>& take) const {
  if (text.empty()) return;
  const pcre2_code* code = compiled_->code.get();
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> found(
      pcre2_match_data_create_from_pattern(code, nullptr), &pcre2_match_data_free);
  std::size_t from = 0, taken = 0;
  std::optional<std::size_t> last_match_end;
  while (from <= text.size()) {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int count = pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, found.get(), nullptr);
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
      count = pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, found.get(), nullptr);
    }
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0) {
      throw RuntimeFault(fmt::format("the pattern '{}' can't be searched: {}", expression_, message_of(count)));
    }
    const PCRE2_SIZE* borders = pcre2_get_ovector_pointer(found.get());
    const std::size_t begin = borders[0], end = borders[1];
    // A match of nothing directly behind a match isn't one, or the search would stay there.
    if (begin == end && last_match_end == end) {
      from += from < text.size() ? decode_valid(text.data() + from).length : 1;
      continue;
    }
    if (taken != begin) take(text.substr(taken, begin - taken), false);
    take(text.substr(begin, end - begin), true);
    taken = from = end;
    last_match_end = end;
  }
  if (taken != text.size()) take(text.substr(taken), false);
}

}  // namespace weft::text
