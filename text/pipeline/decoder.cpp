#include "text/pipeline/decoder.h"

#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "text/bpe/byte_alphabet.h"
#include "text/pipeline/normalizer.h"

namespace weft::text {
namespace {

void decode_step(const DecodeByteFallback&, std::vector<std::string>& tokens) {
  for (std::string& token : tokens) {
    if (const auto byte = byte_of_fallback(token)) token.assign(1, *byte);
  }
}

void decode_step(const DecodeFuse&, std::vector<std::string>& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens = {std::move(all)};
}

void decode_step(const DecodeByteLevel&, std::vector<std::string>& tokens) {
  for (std::string& token : tokens) {
    if (auto bytes = bytes_of_alphabet(token)) token = std::move(*bytes);
  }
  decode_step(DecodeFuse(), tokens);
}

void decode_step(const DecodeReplace& step, std::vector<std::string>& tokens) {
  for (std::string& token : tokens) token = replaced(token, step.from, step.to);
}

void decode_step(const DecodeStrip& step, std::vector<std::string>& tokens) {
  for (std::string& token : tokens) {
    std::string_view text = token;
    for (std::size_t i = 0; i < step.start && text.starts_with(step.content); ++i) {
      text.remove_prefix(step.content.size());
    }
    for (std::size_t i = 0; i < step.stop && text.ends_with(step.content); ++i) {
      text.remove_suffix(step.content.size());
    }
    token = std::string(text);
  }
}

void decode_step(const DecodeMetaspace& step, std::vector<std::string>& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool drop = i == 0 && step.scheme != PrefixScheme::never;
    tokens[i] = replaced(tokens[i], step.blank, drop ? "" : " ");
  }
}

}  // namespace

std::optional<char> byte_of_fallback(std::string_view token) {
  constexpr std::size_t kSize = 6;
  if (token.size() != kSize || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned value = 0;
  const char *begin = token.data() + 3, *end = begin + 2;
  const auto [stop, error] = std::from_chars(begin, end, value, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return static_cast<char>(value);
}

std::string Decoder::operator()(std::vector<std::string> tokens) const {
  for (const DecoderStep& step : steps) {
    std::visit([&](const auto& one) { decode_step(one, tokens); }, step);
  }
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) text += separator;
    text += tokens[i];
  }
  return text;
}

}  // namespace weft::text
