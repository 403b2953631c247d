#include "inspect/formats/json_pull.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/units.h"
#include "base/utf8.h"

namespace weft::inspect {
namespace {

constexpr std::size_t kBuffer = 1 << 16;   // grows for long texts
constexpr std::size_t kLongest = 1 << 20;  // text
constexpr int kDeepest = 64;
constexpr std::size_t kLongestToken = 400;  // 1.8e308 without an exponent

constexpr std::array<bool, 256> bytes_that(bool (*holds)(unsigned char)) {
  std::array<bool, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = holds(static_cast<unsigned char>(i));
  return table;
}

constexpr auto kEndsPlainText = bytes_that([](unsigned char c) { return c == '"' || c == '\\' || c < 0x20; });
constexpr auto kInToken = bytes_that([](unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' || c == '+' || c == '-' || c == '.';
});

bool in_table(const std::array<bool, 256>& table, char c) {
  return table[static_cast<unsigned char>(c)];
}

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

}  // namespace

JsonPull::JsonPull(ByteSource source, std::string name)
    : source_(std::move(source)), name_(std::move(name)), buffer_(kBuffer) {}

void JsonPull::refuse(std::string_view found, std::string_view expected) const {
  const auto lines = std::count(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
  throw UserError(fmt::format("{} line {} byte {}: {}", name_, lines_before_ + static_cast<std::uint64_t>(lines) + 1,
                              bytes_before_ + at_, found),
                  expected, "copy or make the file again");
}

bool JsonPull::fill() {
  if (end_ - at_ >= kLongest) refuse("a text of more than 1 MiB", "names and texts of some length");
  const auto kept = buffer_.begin() + static_cast<std::ptrdiff_t>(at_);
  lines_before_ += static_cast<std::uint64_t>(std::count(buffer_.begin(), kept, '\n'));
  bytes_before_ += at_;
  std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
  end_ -= at_;
  at_ = 0;
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  const std::size_t count = source_({buffer_.data() + end_, buffer_.size() - end_});
  end_ += count;
  return count > 0;
}

char JsonPull::peek() {
  for (;;) {
    while (at_ < end_ && is_space(buffer_[at_])) ++at_;
    if (at_ < end_) return buffer_[at_];
    if (!fill()) refuse("the file breaks off", "a whole JSON document");
  }
}

void JsonPull::expect(char c, std::string_view expected) {
  const char found = peek();
  if (found != c) refuse(fmt::format("found '{}'", found), expected);
  ++at_;
}

void JsonPull::open_object() {
  expect('{', "an object");
  opened_ = true;
}

void JsonPull::open_array() {
  expect('[', "a list");
  opened_ = true;
}

void JsonPull::separator(char closing) {
  if (opened_) return;
  const char found = peek();
  if (found != ',') refuse(fmt::format("found '{}'", found), fmt::format("',' or '{}'", closing));
  ++at_;
}

bool JsonPull::next_key(std::string_view& key) {
  if (peek() == '}') {
    ++at_;
    opened_ = false;
    return false;
  }
  separator('}');
  opened_ = false;
  key = text();
  if (at_ < end_ && buffer_[at_] == ':') {
    ++at_;
    return true;
  }
  // Looking further may move the bytes that the view sees.
  scratch_ = std::string(key);
  expect(':', "':'");
  key = scratch_;
  return true;
}

bool JsonPull::next_item() {
  if (peek() == ']') {
    ++at_;
    opened_ = false;
    return false;
  }
  separator(']');
  opened_ = false;
  return true;
}

std::string_view JsonPull::text() {
  if (const char found = peek(); found != '"') refuse(fmt::format("found '{}'", found), "a text in quotes");
  std::size_t length = 1;
  for (;;) {
    while (at_ + length < end_ && !in_table(kEndsPlainText, buffer_[at_ + length])) ++length;
    if (at_ + length < end_) break;
    if (!fill()) refuse("the file breaks off within a text", "a whole JSON document");
  }
  if (buffer_[at_ + length] != '"') return decoded(length, "a text in quotes");
  const std::string_view found(buffer_.data() + at_ + 1, length - 1);
  at_ += length + 1;
  return found;
}

char JsonPull::escape_byte() {
  if (at_ == end_ && !fill()) refuse("the file breaks off within a text", "a whole JSON document");
  return buffer_[at_++];
}

unsigned JsonPull::hex4() {
  unsigned code = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = escape_byte();
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) refuse("an escape \\u without four hex digits", "\\u and four hex digits");
    code = code << 4 | static_cast<unsigned>(digit);
  }
  return code;
}

// The rest of a text whose first `length` bytes, with the quote, need no decoding.
std::string_view JsonPull::decoded(std::size_t length, std::string_view expected) {
  std::string text(buffer_.data() + at_ + 1, length - 1);
  at_ += length;
  for (;;) {
    const char c = escape_byte();
    if (c == '"') break;
    if (static_cast<unsigned char>(c) < 0x20) refuse("a control character within a text", expected);
    if (text.size() > kLongest) refuse("a text of more than 1 MiB", "names and texts of some length");
    if (c != '\\') {
      text += c;
      continue;
    }
    const char kind = escape_byte();
    constexpr std::string_view kKinds = "\"\\/bfnrt", kBytes = "\"\\/\b\f\n\r\t";
    if (const std::size_t at = kKinds.find(kind); at != std::string_view::npos) {
      text += kBytes[at];
      continue;
    }
    if (kind != 'u') refuse("an unknown escape within a text", "one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u");
    unsigned code = hex4();
    if (code >= 0xD800 && code < 0xDC00) {
      const bool paired = escape_byte() == '\\' && escape_byte() == 'u';
      const unsigned low = paired ? hex4() : 0;
      if (low < 0xDC00 || low >= 0xE000) refuse("half of a surrogate pair", "both halves");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
      refuse("half of a surrogate pair", "both halves");
    }
    append_character(text, code);
  }
  scratch_ = std::move(text);
  return scratch_;
}

std::string JsonPull::kept_text() {
  std::string kept(text());
  if (!is_utf8(kept)) refuse("a text that is no UTF-8", "UTF-8");
  return kept;
}

std::string_view JsonPull::token(std::string_view expected) {
  peek();
  std::size_t length = 0;
  for (;;) {
    while (at_ + length < end_ && in_table(kInToken, buffer_[at_ + length])) ++length;
    if (at_ + length < end_ || length > kLongestToken || !fill()) break;
  }
  const std::string_view found(buffer_.data() + at_, length);
  if (length == 0) refuse(fmt::format("found '{}'", buffer_[at_]), expected);
  if (length > kLongestToken) refuse("a number of more than 400 digits", expected);
  at_ += length;
  return found;
}

std::string_view JsonPull::word() {
  return token("a number or a word");
}

bool JsonPull::boolean() {
  const std::string_view word = token("true or false");
  if (word != "true" && word != "false") refuse(fmt::format("found {}", word), "true or false");
  return word == "true";
}

std::int64_t JsonPull::integer(std::int64_t least, std::int64_t most) {
  const std::string_view word = token("an integer");
  const auto value = number_in<std::int64_t>(word);
  if (!value || *value < least || *value > most) refuse(fmt::format("found {}", word), expected_integer(least, most));
  return *value;
}

double JsonPull::number() {
  const std::string_view word = token("a number");
  const auto value = number_in<double>(word);
  const bool good = value && std::isfinite(*value) && *value >= 0;
  if (!good) refuse(fmt::format("found {}", word), "a number that is not negative");
  return *value;
}

std::int64_t JsonPull::microseconds() {
  const std::string_view word = token("microseconds");
  const std::size_t decimals = word.size() - std::min(word.find('.'), word.size());  // with the point
  const std::optional<std::int64_t> value = plain_nanoseconds(word);
  if (!value || decimals == 1 || decimals > 4)
    refuse(fmt::format("found {}", word), "microseconds with at most three decimals");
  return *value;
}

std::optional<std::int64_t> plain_nanoseconds(std::string_view word) {
  const std::size_t point = std::min(word.find('.'), word.size());
  const auto whole = number_in<std::int64_t>(word.substr(0, point));
  const std::string_view decimals = word.substr(std::min(point + 1, word.size()));
  const bool plain = std::ranges::all_of(decimals, [](char c) { return c >= '0' && c <= '9'; });
  std::int64_t value = 0, scale = 100, more = decimals.size() > 3 && decimals[3] >= '5' ? 1 : 0;
  for (const char digit : decimals.substr(0, 3)) {
    more += scale * (digit - '0');
    scale /= 10;
  }
  const bool fits = whole && plain && word[0] != '-' && !__builtin_mul_overflow(*whole, 1000, &value) &&
                    !__builtin_add_overflow(value, more, &value);
  return fits ? std::optional(value) : std::nullopt;
}

void JsonPull::skip() {
  std::uint64_t objects = 0;  // of the open values, a bit each: is it an object?
  int depth = 0;
  for (;;) {
    const char first = peek();
    if (first == '{' || first == '[') {
      if (++depth > kDeepest) refuse(fmt::format("values nest more than {} deep", kDeepest), "a file of few levels");
      objects = objects << 1 | (first == '{' ? 1 : 0);
      first == '{' ? open_object() : open_array();
    } else if (first == '"') {
      text();
    } else {
      token("a value");
    }
    for (;; --depth, objects >>= 1) {
      if (depth == 0) return;
      std::string_view key;
      if ((objects & 1) != 0 ? next_key(key) : next_item()) break;
    }
  }
}

void JsonPull::finish() {
  do {
    while (at_ < end_ && is_space(buffer_[at_])) ++at_;
    if (at_ < end_) refuse(fmt::format("found '{}' after the document", buffer_[at_]), "nothing more");
  } while (fill());
}

}  // namespace weft::inspect
