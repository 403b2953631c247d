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
#include "base/mixed_bits.h"
#include "text/corpus/token_file_writer.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kTens = 10;
constexpr const char* kOtherSplit = "tokenize its texts with `weft tokenize`, or give --val-split tail or --val-data";
constexpr std::size_t kMostDocuments = std::size_t{1} << 30;

std::string read_whole(const fs::path& path) {
  const InputFile file(path);
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

std::vector<std::uint64_t> document_begins(const CheckedTokens& file) {
  if (file.part.encoding == TokenEncoding::bytes) return {0};
  const fs::path& path = file.part.file->path();
  const fs::path description = text::description_path(path);
  std::error_code error;
  if (!fs::exists(description, error)) {
    throw UserError(fmt::format("{} has no description, so nobody knows where its documents begin", in_quotes(path)),
                    in_quotes(description), kOtherSplit);
  }
  const Document json = read_json(read_whole(description), description.string(), {.most_values = kMostDocuments});
  const DocumentValue root = json.of_format("the description of a token file", "weft tokens", 1);
  if (const DocumentValue tokens = root["tokens"]; tokens.count() != file.part.count) {
    tokens.refuse(fmt::format("{}, the number of tokens in {}", file.part.count, in_quotes(path)));
  }
  std::vector<std::uint64_t> begins;
  for (const DocumentValue& item : root["document_begins"].items()) {
    const std::uint64_t begin = item.count();
    const std::uint64_t least = begins.empty() ? 0 : begins.back(), most = begins.empty() ? 0 : file.part.count;
    if (begin < least || begin > most) item.refuse(fmt::format("a number from {} to {}", least, most));
    begins.push_back(begin);
  }
  if (begins.empty()) begins.push_back(0);
  return begins;
}

bool is_held_out_document(std::uint64_t number, std::uint64_t documents) {
  if (documents < kTens) return documents > 1 && number == mixed_bits(0) % documents;
  const std::uint64_t tens = number / kTens;
  return number % kTens == mixed_bits(tens) % kTens && (tens + 1) * kTens <= documents;
}

}  // namespace weft::train
