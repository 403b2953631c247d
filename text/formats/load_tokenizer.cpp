// Finds a tokenizer's file and the reader that its content needs.
#include <fmt/format.h>

#include <optional>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files/input_file.h"
#include "text/formats/tokenizer_file.h"
#include "text/tokenizer.h"

namespace weft::text {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kVocabularyFile = "vocab.json", kMergesFile = "merges.txt";

/// The file that load_tokenizer() takes in a folder.
std::optional<fs::path> file_in(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "tekken.json", "tokenizer.model"}) {
    if (is_file(folder / name)) return folder / name;
  }
  if (is_file(folder / kVocabularyFile) && is_file(folder / kMergesFile)) return folder / kVocabularyFile;
  std::optional<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".tiktoken") continue;
    if (found) {
      throw UserError(fmt::format("{} has several .tiktoken files", in_quotes(folder)), "one tokenizer",
                      "name the file");
    }
    found = entry.path();
  }
  return found;
}

bool begins_object(std::string_view content) {
  const std::size_t begin = content.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && content[begin] == '{';
}

TokenizerPointer load_json(const fs::path& path, std::string content) {
  const Document document = read_tokenizer_json(content, path);
  if (document.root().find("model")) return load_tokenizer_json(path, std::move(content), document);
  if (document.root().find("config")) return load_tekken(path, std::move(content), document);
  throw UserError(fmt::format("{} has neither a \"model\" nor a \"config\"", in_quotes(path)),
                  "a tokenizer.json of Hugging Face or a tekken.json of Mistral", kTokenizerFix);
}

}  // namespace

bool has_tokenizer(const fs::path& folder) {
  return file_in(folder).has_value();
}

TokenizerPointer load_tokenizer(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const auto file = file_in(path);
    if (file) return load_tokenizer(*file);
    throw UserError(in_quotes(path) + " has no tokenizer",
                    "tokenizer.json, tekken.json, tokenizer.model, vocab.json with merges.txt, or a .tiktoken file",
                    "name another folder, or the tokenizer's file");
  }
  if (path.filename() == kVocabularyFile || path.filename() == kMergesFile) {
    return load_gpt2_files(path.parent_path() / kVocabularyFile, path.parent_path() / kMergesFile);
  }
  std::string content = read_tokenizer_file(path);
  if (begins_object(content)) return load_json(path, std::move(content));
  if (is_tiktoken(content)) return load_tiktoken(path, std::move(content));
  return load_sentencepiece(path, std::move(content));
}

}  // namespace weft::text
