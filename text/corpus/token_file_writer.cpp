#include "text/corpus/token_file_writer.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/hash.h"
#include "base/text/json_object.h"

namespace weft::text {
namespace {

constexpr std::size_t kHeaderWords = 256, kBufferBytes = std::size_t{1} << 20;
constexpr std::int32_t kMostIdsOf16Bits = 1 << 16;

std::array<std::int32_t, kHeaderWords> header(bool wide, std::uint64_t tokens) {
  std::array<std::int32_t, kHeaderWords> words{};
  words[0] = wide ? 20240801 : 20240520;
  words[1] = wide ? 7 : 1;
  words[2] = static_cast<std::int32_t>(tokens);
  return words;
}

}  // namespace

std::filesystem::path description_path(const std::filesystem::path& token_file) {
  return token_file.string() + ".json";
}

TokenFileWriter::TokenFileWriter(std::filesystem::path path, const Tokenizer& tokenizer,
                                 std::optional<std::int32_t> separator)
    : path_(std::move(path)), facts_(tokenizer.facts()), separator_(separator), file_(path_, Named::by_person) {
  summary_.width = facts_.vocabulary > kMostIdsOf16Bits ? "u32" : "u16";
  const auto words = header(summary_.width == "u32", 0);
  file_.write(std::as_bytes(std::span(words)));
}

void TokenFileWriter::begin_document(bool is_chat) {
  begins_.push_back(summary_.tokens);
  ++summary_.documents;
  chats_ += is_chat ? 1 : 0;
  if (separator_ && !is_chat) add(std::span(&*separator_, 1), 0);
}

void TokenFileWriter::ignore(IdRange range) {
  if (!ignored_.empty() && ignored_.back().end == range.begin) {
    ignored_.back().end = range.end;
  } else {
    ignored_.push_back(range);
  }
}

void TokenFileWriter::add(std::span<const std::int32_t> ids, std::uint64_t text_bytes,
                          std::span<const IdRange> ignored) {
  const std::uint64_t before = summary_.tokens;
  if (!ignored.empty() && separator_ && before == begins_.back() + 1) ignore({before - 1, before});
  for (const IdRange& range : ignored) ignore({before + range.begin, before + range.end});
  summary_.tokens += ids.size();
  summary_.text_bytes += text_bytes;
  if (summary_.tokens > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
    throw UserError(
        fmt::format("more than {} tokens for {}", std::numeric_limits<std::int32_t>::max(), in_quotes(path_)),
        "as many as a header of llm.c's format can count", "tokenize the files in several parts");
  }
  const std::size_t width = summary_.width == "u32" ? sizeof(std::uint32_t) : sizeof(std::uint16_t);
  std::size_t at = buffer_.size();
  buffer_.resize(at + ids.size() * width);
  for (const std::int32_t id : ids) {
    std::memcpy(buffer_.data() + at, &id, width);  // little-endian: the low bytes come first
    at += width;
  }
  if (buffer_.size() >= kBufferBytes) write_buffer();
}

void TokenFileWriter::write_buffer() {
  file_.write(buffer_);
  buffer_.clear();
}

std::string TokenFileWriter::description() const {
  JsonObject tokenizer;
  tokenizer.add("kind", facts_.kind).add("digest", hex_fingerprint(facts_.digest));
  JsonObject json;
  json.add("format", "weft tokens").add("version", 1).add("width", summary_.width);
  json.add("tokens", summary_.tokens).add("vocabulary", facts_.vocabulary).add("tokenizer", tokenizer);
  json.add("separator", separator_ ? JsonValue(*separator_) : JsonValue(nullptr));
  if (chats_ > 0) json.add(kChats, chats_);
  json.add("documents", summary_.documents).add("document_begins", begins_);
  if (!ignored_.empty()) {
    JsonArray ranges;
    for (const IdRange& range : ignored_) ranges.add(JsonArray{range.begin, range.end});
    json.add(kIgnoredRanges, ranges);
  }
  return json.text() + "\n";
}

TokenFileSummary TokenFileWriter::commit() {
  write_buffer();
  const auto words = header(summary_.width == "u32", summary_.tokens);
  file_.replace_begin(std::as_bytes(std::span(words)));
  // The description is in place first: no token file is ever without one.
  write_durable(description_path(path_), description(), Named::by_person);
  summary_.bytes = file_.commit().bytes;
  return summary_;
}

}  // namespace weft::text
