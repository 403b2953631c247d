#include "study/memorisation/study_documents.h"

#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/hash.h"
#include "text/bpe/bpe_trainer.h"
#include "text/corpus/text_files.h"
#include "text/corpus/token_file_writer.h"
#include "text/split/lexer.h"
#include "train/data/batches.h"

namespace weft::study {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizer = "tokenizer.json";
constexpr std::uint32_t kDrawEpoch = 0;  // of permuted()

text::TextFiles text_files_of(const StudyTextOptions& options, text::CutAfter cut_after) {
  return {text::files_of(options.data), {}, std::move(cut_after)};
}

text::TokenizerPointer learnt_tokenizer(const StudyTextOptions& options, const fs::path& folder) {
  const fs::path path = folder / kTokenizer;
  if (!fs::exists(path)) {
    const text::Lexer& lexer = *text::lexer_named("gpt2");
    text::TextFiles files = text_files_of(options, text::cut_after);
    const auto next = [&]() -> std::optional<std::string> {
      auto part = files.next();
      if (!part) return std::nullopt;
      return files.text(*part);
    };
    const text::WordCounts words = text::count_words(next, lexer, options.threads);
    const text::TrainedBpe trained =
        text::train_bpe(words, static_cast<std::size_t>(options.vocabulary - 1), [](std::size_t) {});
    write_durable(path, text::tokenizer_json_of(trained, lexer));
  }
  return text::load_tokenizer(path);
}

std::int32_t separator_of(const text::Tokenizer& tokenizer) {
  if (const auto separator = tokenizer.facts().separator()) return *separator;
  throw UserError("the tokenizer names no token for the begin or end of a text",
                  "such a token, which begins each document", "another --tokenizer, or none: one is learnt then");
}

}  // namespace

StudyTexts::StudyTexts(const StudyTextOptions& options, const fs::path& folder)
    : tokenizer_(options.tokenizer.empty() ? learnt_tokenizer(options, folder)
                                           : text::load_tokenizer(options.tokenizer)),
      separator_(separator_of(*tokenizer_)),
      text_tokens_(static_cast<std::size_t>(options.length - 1)) {
  text::TextFiles files = text_files_of(
      options, [&](std::string_view whole, std::size_t from) { return tokenizer_->cut_after(whole, from); });
  while (const auto part = files.next()) {
    tokenizer_->append(files.text(*part), {.add_special = false, .special_texts = text::SpecialTexts::plain}, ids_);
  }
}

DocumentIds StudyTexts::document(std::size_t index) const {
  const auto begin = ids_.begin() + static_cast<std::ptrdiff_t>(index * text_tokens_);
  DocumentIds document(begin, begin + static_cast<std::ptrdiff_t>(text_tokens_));
  document.insert(document.begin(), separator_);
  return document;
}

std::uint64_t StudyTexts::digest() const {
  Fingerprint digest;
  digest.add(tokenizer_->facts().digest);
  digest.add(static_cast<std::uint64_t>(text_tokens_));
  for (const std::int32_t id : ids_) digest.add(static_cast<std::uint64_t>(id));
  return digest.value();
}

void StudyTexts::write(const fs::path& path, std::span<const std::size_t> documents) const {
  text::TokenFileWriter writer(path, *tokenizer_, separator_);
  for (const std::size_t index : documents) {
    const DocumentIds ids = document(index);
    writer.begin_document();
    writer.add(std::span(ids).subspan(1), 0);
  }
  writer.commit();
}

std::int64_t DocumentCounts::all() const {
  return documents * static_cast<std::int64_t>(seen.size()) + background + held_out;
}

std::int64_t DocumentCounts::trained() const {
  return background + documents * std::accumulate(seen.begin(), seen.end(), std::int64_t{0});
}

std::vector<std::size_t> DrawnDocuments::training() const {
  std::vector<std::size_t> all = background;
  for (const auto& [times, documents] : buckets) {
    for (std::int64_t i = 0; i < times; ++i) all.insert(all.end(), documents.begin(), documents.end());
  }
  return all;
}

DrawnDocuments draw_documents(const DocumentCounts& counts, std::size_t available, std::uint64_t seed) {
  DrawnDocuments drawn;
  std::uint64_t next = 0;
  const auto draw = [&](std::int64_t count) {
    std::vector<std::size_t> documents(static_cast<std::size_t>(count));
    for (std::size_t& each : documents) each = train::permuted(next++, available, seed, kDrawEpoch);
    return documents;
  };
  for (const int times : counts.seen) drawn.buckets[times] = draw(counts.documents);
  drawn.held_out = draw(counts.held_out);
  drawn.background = draw(counts.background);
  return drawn;
}

}  // namespace weft::study
