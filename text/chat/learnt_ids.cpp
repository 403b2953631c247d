#include "text/chat/learnt_ids.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>

namespace weft::text {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/// The text that an id adds after another one.
std::string text_after(const Tokenizer& tokenizer, std::optional<std::int32_t> before, std::int32_t id) {
  if (!before) return tokenizer.decode(std::array{id});
  const std::size_t known = tokenizer.decode(std::array{*before}).size();
  const std::string both = tokenizer.decode(std::array{*before, id});
  return both.substr(std::min(known, both.size()));
}

/// The offset of each id's first byte, and the text's size. nullopt: the ids' texts, put together, aren't the text,
/// even if blanks that a tokenizer adds and white space that it takes away aren't counted.
std::optional<std::vector<std::uint64_t>> begins_of(const Tokenizer& tokenizer, std::string_view text,
                                                    std::span<const std::int32_t> ids) {
  std::vector<std::uint64_t> begins;
  std::size_t at = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto before = i > 0 ? std::optional(ids[i - 1]) : std::nullopt;
    std::string_view piece;
    const std::string own = text_after(tokenizer, before, ids[i]);
    piece = own;
    begins.push_back(at);
    if (!text.substr(at).starts_with(piece) && piece.starts_with(' ')) piece.remove_prefix(1);
    while (at < text.size() && !text.substr(at).starts_with(piece) && is_blank(text[at])) ++at;
    if (!text.substr(at).starts_with(piece)) return std::nullopt;
    at += piece.size();
  }
  while (at < text.size() && is_blank(text[at])) ++at;
  if (at != text.size()) return std::nullopt;
  begins.push_back(at);
  return begins;
}

IdRange overlapping(const std::vector<std::uint64_t>& begins, const IdRange& bytes) {
  const auto after = std::upper_bound(begins.begin(), begins.end() - 1, bytes.begin);
  const auto first = static_cast<std::uint64_t>(after - begins.begin()) - (after == begins.begin() ? 0 : 1);
  const auto end = std::lower_bound(begins.begin(), begins.end() - 1, bytes.end) - begins.begin();
  return {first, static_cast<std::uint64_t>(end)};
}

/// The first id that isn't the same when the text ends at an offset.
std::uint64_t ids_before(const Tokenizer& tokenizer, std::string_view text, std::span<const std::int32_t> ids,
                         std::uint64_t offset, const EncodeOptions& options) {
  const std::vector<std::int32_t> begin = tokenizer.encode(text.substr(0, offset), options);
  return static_cast<std::uint64_t>(std::ranges::mismatch(begin, ids).in2 - ids.begin());
}

}  // namespace

std::vector<IdRange> ids_of_ranges(const Tokenizer& tokenizer, std::string_view text, std::span<const std::int32_t> ids,
                                   std::span<const IdRange> ranges, const EncodeOptions& options) {
  std::vector<IdRange> found;
  if (ids.empty()) return found;
  const auto begins = begins_of(tokenizer, text, ids);
  for (const IdRange& range : ranges) {
    if (range.begin >= range.end) continue;
    IdRange of_ids = begins ? overlapping(*begins, range)
                            : IdRange{ids_before(tokenizer, text, ids, range.begin, options),
                                      ids_before(tokenizer, text, ids, range.end, options)};
    if (of_ids.begin < of_ids.end) found.push_back(of_ids);
  }
  return found;
}

}  // namespace weft::text
