#include "train/data/documents.h"

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/input_file.h"
#include "base/hash.h"
#include "text/corpus/token_file_writer.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kTens = 10;
constexpr std::size_t kMostDocuments = std::size_t{1} << 30;

std::string read_whole(const fs::path& path) {
  const InputFile file(path);
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

/// Calls take(root) with a description, once it is that of the file.
template <class Take>
void read_description(const CheckedTokens& file, const std::string& text, Take take) {
  const fs::path& path = file.part.file->path();
  const Document json = read_json(text, text::description_path(path).string(), {.most_values = kMostDocuments});
  const DocumentValue root = json.of_format("the description of a token file", "weft tokens", 1);
  if (const DocumentValue tokens = root["tokens"]; tokens.count() != file.part.count) {
    tokens.refuse(fmt::format("{}, the number of tokens in {}", file.part.count, in_quotes(path)));
  }
  take(root);
}

std::uint64_t number_from(const DocumentValue& item, std::uint64_t least, std::uint64_t most) {
  const std::uint64_t number = item.count();
  if (number < least || number > most) item.refuse(fmt::format("a number from {} to {}", least, most));
  return number;
}

}  // namespace

std::vector<std::uint64_t> document_begins(const CheckedTokens& file, const std::string& instead) {
  if (file.part.encoding == TokenEncoding::bytes) return {0};
  const fs::path& path = file.part.file->path();
  const fs::path description = text::description_path(path);
  std::error_code error;
  if (!fs::exists(description, error)) {
    throw UserError(fmt::format("{} has no description, so nobody knows where its documents begin", in_quotes(path)),
                    in_quotes(description), "tokenize its texts with `weft tokenize`, or " + instead);
  }
  std::vector<std::uint64_t> begins;
  read_description(file, read_whole(description), [&](const DocumentValue& root) {
    for (const DocumentValue& item : root["document_begins"].items()) {
      begins.push_back(number_from(item, begins.empty() ? 0 : begins.back(), begins.empty() ? 0 : file.part.count));
    }
  });
  if (begins.empty()) begins.push_back(0);
  return begins;
}

std::vector<text::IdRange> ignored_ranges(const CheckedTokens& file) {
  std::error_code error;
  const fs::path description = text::description_path(file.part.file->path());
  if (file.part.encoding == TokenEncoding::bytes || !fs::is_regular_file(description, error)) return {};
  const std::string text = read_whole(description);
  // Most files have none, and their lists of documents are long.
  if (text.find(fmt::format("\"{}\":", text::kIgnoredRanges)) == std::string::npos) return {};
  std::vector<text::IdRange> ranges;
  read_description(file, text, [&](const DocumentValue& root) {
    for (const DocumentValue& item : root[text::kIgnoredRanges].items()) {
      const std::vector<DocumentValue> ends = item.items(2, "[begin, end]");
      const std::uint64_t begin = number_from(ends[0], ranges.empty() ? 0 : ranges.back().end, file.part.count);
      ranges.push_back({begin, number_from(ends[1], begin, file.part.count)});
    }
  });
  return ranges;
}

bool is_held_out_document(std::uint64_t number, std::uint64_t documents) {
  if (documents < kTens) return documents > 1 && number == mixed_bits(0) % documents;
  const std::uint64_t tens = number / kTens;
  return number % kTens == mixed_bits(tens) % kTens && (tens + 1) * kTens <= documents;
}

}  // namespace weft::train
