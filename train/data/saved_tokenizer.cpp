#include "train/data/saved_tokenizer.h"

#include <fmt/format.h>

#include <memory>
#include <system_error>

#include "base/error.h"
#include "base/files/input_file.h"
#include "text/byte_tokenizer.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

/// The file that checkpoints of byte models carry for other libraries stands for the byte tokenizer itself.
bool holds_bytes(const fs::path& folder) {
  static const text::ByteTokenizer bytes;
  const fs::path path = folder / bytes.facts().files.front().name;
  std::error_code error;
  if (fs::file_size(path, error) != bytes.facts().files.front().content.size() || error) return false;
  return text::load_tokenizer(path)->facts().files.front().content == bytes.facts().files.front().content;
}

}  // namespace

text::TokenizerPointer find_tokenizer(const std::string& named, const fs::path& folder, std::int64_t vocab) {
  std::error_code error;
  fs::path place = named.empty() ? folder : fs::path(named);
  if (named.empty() && !fs::is_directory(place, error)) place = place.parent_path();
  const bool is_there = !named.empty() || (!place.empty() && text::has_tokenizer(place));
  if (!is_there && vocab != text::ByteTokenizer::kVocabulary) return nullptr;
  text::TokenizerPointer tokenizer = std::make_shared<text::ByteTokenizer>();
  if (is_there && !holds_bytes(place)) tokenizer = text::load_tokenizer(place);
  if (tokenizer->vocabulary() > vocab) {
    throw UserError(
        fmt::format("the tokenizer of {} has a vocabulary of {}", in_quotes(place), tokenizer->vocabulary()),
        fmt::format("at most {}, the model's", vocab), "--tokenizer with the one that the model was trained with");
  }
  return tokenizer;
}

}  // namespace weft::train
