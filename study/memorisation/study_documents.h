// The documents of a memorisation study: texts become tokens, tokens become short documents, and each seed draws which
// of them are trained on how often.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace weft::study {

using DocumentIds = std::vector<std::int32_t>;

struct StudyTextOptions {
  std::vector<std::string> data;  // files, folders or patterns, as `weft tokenize` takes them
  std::string tokenizer;          // a folder or file; empty: a vocabulary is learnt from the texts
  std::int64_t vocabulary = 2048;
  std::int64_t length = 64;  // tokens of a document
  int threads = 1;
};

/// The texts, cut into documents of equal length: each is the token for the begin or end of a text, and the following
/// `length` − 1 tokens of the texts.
class StudyTexts {
 public:
  /// Writes a tokenizer that it learns to `folder`, or reads the one that is there. Throws UserError on texts that
  /// can't be read.
  StudyTexts(const StudyTextOptions& options, const std::filesystem::path& folder);

  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  std::size_t documents() const { return ids_.size() / text_tokens_; }
  DocumentIds document(std::size_t index) const;
  /// Equal texts, tokenizers and lengths have equal digests.
  std::uint64_t digest() const;
  /// Writes documents as a token file, each with its separator.
  void write(const std::filesystem::path& path, std::span<const std::size_t> documents) const;

 private:
  text::TokenizerPointer tokenizer_;
  std::int32_t separator_ = 0;
  std::size_t text_tokens_;  // of a document, without its separator
  std::vector<std::int32_t> ids_;
};

/// How many documents a seed draws.
struct DocumentCounts {
  std::vector<int> seen = {0, 1, 4, 16, 64};  // times; a bucket of documents for each
  std::int64_t documents = 24;                // of a bucket
  std::int64_t background = 4000;             // seen once, of no bucket
  std::int64_t held_out = 1000;

  /// All documents that are drawn.
  std::int64_t all() const;
  /// Documents that training reads, repeated ones counted each time.
  std::int64_t trained() const;
};

/// Indices of documents; no document is in two of them.
struct DrawnDocuments {
  std::map<std::int64_t, std::vector<std::size_t>> buckets;  // by the times that they are seen
  std::vector<std::size_t> background, held_out;

  /// The documents that training reads, each as often as it is seen.
  std::vector<std::size_t> training() const;
};

/// A pure function. Of `available` documents, at least counts.all().
DrawnDocuments draw_documents(const DocumentCounts& counts, std::size_t available, std::uint64_t seed);

}  // namespace weft::study
