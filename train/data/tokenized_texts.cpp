#include "train/data/tokenized_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/files/gguf_file.h"
#include "base/files/input_file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/units.h"
#include "text/chat/chat_renderer.h"
#include "text/chat/chat_template.h"
#include "text/corpus/text_files.h"
#include "text/corpus/token_file_writer.h"
#include "text/formats/gguf_tokenizer.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/config/config_table.h"
#include "train/config/saved_model.h"
#include "train/data/data_kind.h"
#include "train/data/token_file.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kCacheVersion = 3;  // another one makes other files

/// Whether the file holds text, as far as its beginning tells.
bool is_text_file(const fs::path& path) {
  const InputFile file(path);
  if (file.size() == 0) return false;
  refuse_no_text(file, false);
  return is_packed_name(path) || std::ranges::count(head_of(file), std::byte{0}) == 0;
}

/// The texts that a path names; nullopt if it names token files.
std::optional<std::vector<fs::path>> texts_of(const fs::path& data) {
  std::error_code error;
  if (!fs::is_directory(data, error)) {
    if (!fs::is_regular_file(data, error) || is_token_file(data)) return std::nullopt;
    if (is_text_file(data)) return std::vector{data};
    return std::vector<fs::path>{};
  }
  std::vector<fs::path> texts;
  bool has_folders = false;
  for (const auto& entry : fs::directory_iterator(data, error)) {
    has_folders |= entry.is_directory();
    if (!entry.is_regular_file() || entry.is_symlink()) continue;
    if (is_token_file(entry.path())) return std::nullopt;
    texts.push_back(entry.path());
  }
  for (const fs::path& card : text::take_cards(texts, has_folders)) {
    Log(LogTopic::run).info("{} is left out: it describes the data set", card.string());
  }
  std::erase_if(texts, [](const fs::path& path) { return !is_text_file(path); });
  std::ranges::sort(texts);
  return texts;
}

/// Texts, and their names as token files: of one folder's their own, of several paths' with their number before, since
/// two of them may have one name.
struct NamedTexts {
  std::vector<fs::path> paths;
  bool numbered = false;

  std::string name(std::size_t index) const {
    const std::string own = paths[index].filename().string() + ".bin";
    return numbered ? fmt::format("{:06}_{}", index, own) : own;
  }
};

/// The texts that a list names; none if one of its paths names token files.
NamedTexts texts_of_list(const PathList& data) {
  NamedTexts texts;
  std::vector<fs::path> paths;
  for (const std::string& pattern : data.paths()) {
    const std::vector<fs::path> matches = text::matching_paths(pattern);
    if (matches.empty()) return {};
    paths.insert(paths.end(), matches.begin(), matches.end());
  }
  for (const fs::path& path : paths) {
    const auto named = texts_of(path);
    if (!named) return {};
    texts.paths.insert(texts.paths.end(), named->begin(), named->end());
  }
  texts.numbered = paths.size() > 1;
  return texts;
}

/// Equal for equal texts and tokenizers, as far as names, sizes and times of change tell.
std::uint64_t key_of(const NamedTexts& texts, const text::Tokenizer& tokenizer) {
  Fingerprint key;
  key.add(kCacheVersion).add(tokenizer.facts().digest).add(tokenizer.vocabulary());
  key.add(tokenizer.facts().separator().value_or(-1)).add(tokenizer.facts().end.value_or(-1));
  if (const auto chat = text::chat_template_of(tokenizer)) {
    for (const auto& [name, source] : chat->sources) key.add(std::string_view(name)).add(std::string_view(source));
    for (const auto& [name, token] : chat->special_tokens) key.add(std::string_view(name)).add(std::string_view(token));
  }
  if (texts.numbered) key.add(texts.numbered);
  for (const fs::path& path : texts.paths) {
    std::error_code error;
    key.add(std::string_view(fs::weakly_canonical(path, error).string()));
    key.add(static_cast<std::uint64_t>(fs::file_size(path, error)));
    key.add(static_cast<std::int64_t>(fs::last_write_time(path, error).time_since_epoch().count()));
  }
  return key.value();
}

std::uint64_t write_tokens(const fs::path& from, const fs::path& to, const text::Tokenizer& tokenizer,
                           const TextCache& cache, const std::shared_ptr<const text::ChatRenderer>& chat) {
  text::TextFiles files({from}, {.chat = chat},
                        [&](std::string_view whole, std::size_t at) { return tokenizer.cut_after(whole, at); });
  text::TokenFileWriter writer(to, tokenizer, tokenizer.facts().separator());
  text::encode_in_order({.tokenizer = tokenizer,
                         .options = {.add_special = false, .special_texts = text::SpecialTexts::plain},
                         .threads = cache.threads,
                         .files = files,
                         .take = [&](const text::TextPart& part, const text::EncodedPart& made) {
                           if (part.begins) writer.begin_document(made.is_chat);
                           writer.add(made.ids, made.text_bytes, made.ignored);
                           if (!cache.tell) return;
                           cache.tell({"tokenizing " + from.filename().string(),
                                       static_cast<std::int64_t>(files.bytes_read()),
                                       static_cast<std::int64_t>(files.bytes())});
                         }});
  return writer.commit().tokens;
}

/// The file that checkpoints of byte models carry for other libraries stands for the byte tokenizer itself.
bool holds_bytes(const fs::path& folder) {
  static const text::ByteTokenizer bytes;
  const std::string& content = bytes.facts().files.front().content;
  if (is_gguf(folder)) return text::holds_bytes(GgufFile(folder));
  const fs::path path = folder / bytes.facts().files.front().name;
  std::error_code error;
  if (fs::file_size(path, error) != content.size() || error) return false;
  return text::load_tokenizer(path)->facts().files.front().content == content;
}

/// Bytes with the chat template that stands beside their file.
text::TokenizerPointer with_template_of(const fs::path& folder, const text::TokenizerPointer& bytes) {
  const fs::path own = folder / text::kChatTemplateFile;
  std::error_code error;
  return fs::is_regular_file(own, error) ? text::with_chat_template(bytes, own) : bytes;
}

}  // namespace

PathList tokenized_texts(const PathList& data, const text::Tokenizer& tokenizer, const TextCache& cache) {
  const NamedTexts texts = texts_of_list(data);
  if (texts.paths.empty()) return data;
  const fs::path folder = cache.folder / fmt::format("{:016x}", key_of(texts, tokenizer));
  std::error_code error;
  if (fs::is_directory(folder, error)) return folder;
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t tokens = 0;
  const auto chat = text::chat_renderer_of(tokenizer);
  DurableFolder made(folder);
  for (std::size_t i = 0; i < texts.paths.size(); ++i) {
    tokens += write_tokens(texts.paths[i], made.path() / texts.name(i), tokenizer, cache, chat);
  }
  made.commit();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  Log(LogTopic::run)
      .info("{} tokenized by {}: {} tokens in {:.1f} s, kept in {}", shown(data), tokenizer.facts().kind,
            human_count(static_cast<double>(tokens)), seconds, folder.string());
  return folder;
}

fs::path tokenizer_place(const fs::path& weights) {
  std::error_code error;
  return fs::is_directory(weights, error) || is_gguf(weights) ? weights : weights.parent_path();
}

text::TokenizerPointer find_tokenizer(const std::string& named, const fs::path& folder, std::int64_t vocab) {
  const fs::path place = named.empty() ? tokenizer_place(folder) : fs::path(named);
  const bool is_there = !named.empty() || (!place.empty() && text::has_tokenizer(place));
  if (!is_there && vocab != text::ByteTokenizer::kVocabulary) return nullptr;
  text::TokenizerPointer tokenizer = std::make_shared<text::ByteTokenizer>(text::listed_ends(place, vocab).ends);
  if (is_there) tokenizer = holds_bytes(place) ? with_template_of(place, tokenizer) : text::load_tokenizer(place);
  if (tokenizer->vocabulary() > vocab) {
    throw UserError(
        fmt::format("the tokenizer of {} has a vocabulary of {}", in_quotes(place), tokenizer->vocabulary()),
        fmt::format("at most {}, the model's", vocab),
        fmt::format("--tokenizer with the one that the model was trained with, or --model.vocab {} for a new model",
                    tokenizer->vocabulary()));
  }
  return tokenizer;
}

void take_vocabulary(RunConfig& config) {
  const bool given = config.given.contains("tokenizer") && !config.tokenizer.empty();
  if (!given || config.given.contains(kOwnVocab) || !config.model_folder.empty()) return;
  if (!config.init_from.empty() || checkpoint_to_resume(config)) return;
  const auto tokenizer = find_tokenizer(config.tokenizer, {}, std::numeric_limits<std::int64_t>::max());
  set_key(config, kVocabKey, std::to_string(tokenizer->vocabulary()), "the tokenizer's vocabulary");
}

ModelTokenizer model_tokenizer(const std::string& named, const fs::path& folder, std::int64_t vocab, bool accepted) {
  const fs::path place = tokenizer_place(folder);
  const bool has_files = !place.empty() && text::has_tokenizer(place);
  std::optional<std::uint64_t> own;
  if (!folder.empty() && is_checkpoint(folder)) own = read_manifest(folder).info.tokenizer_digest;
  ModelTokenizer found{find_tokenizer(named, folder, vocab)};
  if (!own && !named.empty() && has_files) {
    try {
      own = find_tokenizer("", folder, vocab)->facts().digest;
    } catch (const UserError&) {  // which only the named one makes readable
    }
  }
  const bool guessed = named.empty() && !has_files;
  if (found.tokenizer && own && found.tokenizer->facts().digest != *own) {
    if (guessed) {
      found.tokenizer = nullptr;
    } else if (!accepted) {
      throw UserError(fmt::format("the tokenizer {} is {}", in_quotes(named.empty() ? place : fs::path(named)),
                                  hex_fingerprint(found.tokenizer->facts().digest)),
                      fmt::format("{}, that of {}", hex_fingerprint(*own), in_quotes(folder)),
                      "leave --tokenizer out; or --accept tokenizer where both give the same ids");
    }
  }
  if (found.tokenizer && !guessed) {
    found.expected = {found.tokenizer->facts().digest, found.tokenizer->vocabulary(),
                      in_quotes(named.empty() ? folder : fs::path(named))};
  } else if (own) {
    found.expected = {.digest = *own, .named = in_quotes(folder)};
  }
  return found;
}

}  // namespace weft::train
