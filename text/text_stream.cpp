#include "text/text_stream.h"

#include <algorithm>
#include <string_view>

#include "base/utf8.h"

namespace weft::text {
namespace {

constexpr std::size_t kMostIds = 64, kKeptIds = 4;  // kept: as many as a character's bytes

/// Bytes without an incomplete character at the end.
std::size_t complete_bytes(std::string_view text) {
  constexpr std::size_t kMostMissing = 3;
  for (std::size_t size = 1; size <= std::min(kMostMissing, text.size()); ++size) {
    if (breaks_off(text.substr(text.size() - size))) return text.size() - size;
  }
  return text.size();
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const std::int32_t> before)
    : tokenizer_(tokenizer), ids_(before.last(std::min(before.size(), kKeptIds)).begin(), before.end()) {
  std::erase_if(ids_, [&](std::int32_t id) { return !tokenizer_.token_text(id); });
  shown_ = tokenizer_.decode(ids_).size();
}

std::string TextStream::add(std::int32_t id) {
  if (!tokenizer_.token_text(id)) return "";
  ids_.push_back(id);
  const std::string text = tokenizer_.decode(ids_);
  const std::size_t complete = std::max(complete_bytes(text), std::min(shown_, text.size()));
  std::string fresh = text.substr(std::min(shown_, complete), complete - std::min(shown_, complete));
  shown_ = complete;
  if (ids_.size() >= kMostIds && complete == text.size()) {
    // The ids whose text is out are needed no more, but for those beside the next one.
    ids_.erase(ids_.begin(), ids_.end() - static_cast<std::ptrdiff_t>(kKeptIds));
    shown_ = tokenizer_.decode(ids_).size();
  }
  return fresh;
}

std::string TextStream::finish() {
  const std::string text = tokenizer_.decode(ids_);
  std::string rest = text.substr(std::min(shown_, text.size()));
  shown_ = text.size();
  return rest;
}

}  // namespace weft::text
