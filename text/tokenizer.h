// Tokenizers: from text to the ids that a model is trained on, and back; and the byte-level one, for which every text
// is tokens, and which needs no vocabulary files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline/text_place.h"

namespace weft::text {

/// What texts such as "<|endoftext|>" in a text are.
enum class SpecialTexts : std::uint8_t {
  tokens,  // the special tokens, as the package `tokenizers` reads them
  plain    // letters like others: a text of unknown origin can't end a document
};

struct EncodeOptions {
  /// Adds what the tokenizer's files put before and behind each text, such as the begin of a text.
  bool add_special = true;
  SpecialTexts special_texts = SpecialTexts::tokens;
  TextPlace place = TextPlace::begins;
};

/// A file that belongs to a tokenizer, so that it can be written elsewhere.
struct TokenizerFile {
  std::string name;  // "tokenizer.json"
  std::string content;
};

/// What is known of every tokenizer.
struct TokenizerFacts {
  std::string kind;                   // "byte-level BPE", for people
  std::int32_t vocabulary = 0;        // ids are below
  std::optional<std::int32_t> begin;  // of a text: <s>, <|begin_of_text|>
  std::optional<std::int32_t> end;    // of a text: </s>, <|endoftext|>
  std::vector<std::int32_t> ends;     // all that end a text which a model writes, `end` first
  std::uint64_t digest = 0;           // of the files that say how texts are encoded
  std::vector<TokenizerFile> files;

  /// What stands before each text in training, evaluation and generation: the begin of a text, or else the end of the
  /// one before, as llm.c writes them.
  std::optional<std::int32_t> separator() const { return begin ? begin : end; }
  bool is_end(std::int32_t id) const;
};

/// The ids that config.json and generation_config.json in a model's folder, or a GGUF file, give to the ends of a text.
struct ListedEnds {
  std::optional<std::int32_t> begin;
  std::vector<std::int32_t> ends;
};
/// Of ids below `vocabulary`: files that nobody completed name ids of other models. Throws UserError on what is no id.
ListedEnds listed_ends(const std::filesystem::path& folder, std::int64_t vocabulary);

/// A range [begin, end) of the ids of a text.
struct IdRange {
  std::uint64_t begin = 0, end = 0;
  friend bool operator==(const IdRange&, const IdRange&) = default;
};

/// Immutable: any number of threads may encode and decode.
///
/// Bytes that aren't UTF-8 are read as U+FFFD, one for each longest beginning of a character (what Python's
/// errors="replace" makes of them). The byte tokenizer alone keeps them.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  const TokenizerFacts& facts() const { return facts_; }
  std::int32_t vocabulary() const { return facts_.vocabulary; }

  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// A text that a model is to continue, as training encodes a document: `separator` and the text, which may begin with
  /// it.
  std::vector<std::int32_t> encode_prompt(std::string_view text) const;
  /// Appends the ids.
  virtual void append(std::string_view text, const EncodeOptions& options, std::vector<std::int32_t>& ids) const = 0;

  /// The bytes of a text, which may begin or end within a character. `skip_special` leaves special tokens out. Throws
  /// UserError, naming id and position, on an id that isn't in the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const = 0;

  /// A token as the tokenizer's files write it ("Ġthe"); nothing for an id without a token.
  virtual std::optional<std::string> token_text(std::int32_t id) const = 0;
  virtual std::optional<std::int32_t> token_id(std::string_view text) const = 0;

  /// A place after `from` at which a text can be cut into parts that encode to the ids of the whole; its size if none
  /// is known.
  virtual std::size_t cut_after(std::string_view text, std::size_t from) const;

 protected:
  explicit Tokenizer(TokenizerFacts facts);
  [[noreturn]] void refuse_id(std::size_t position, std::int32_t id) const;

 private:
  TokenizerFacts facts_;
};

using TokenizerPointer = std::shared_ptr<const Tokenizer>;

/// Holds a character back until its last byte has come. `tokenizer` must outlive the object.
///
///   TextStream stream(tokenizer, prompt);
///   print(stream.add(id));
///   print(stream.finish());
class TextStream {
 public:
  /// `before`: ids whose text is known, on which the text of the next may depend.
  explicit TextStream(const Tokenizer& tokenizer, std::span<const std::int32_t> before = {});

  /// The characters that are complete with this id. An id without a token, as in padding of a vocabulary, has no text.
  std::string add(std::int32_t id);
  /// The bytes of a character that isn't complete.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::vector<std::int32_t> ids_;  // the last ones
  std::size_t shown_ = 0;          // bytes of their text
};

/// The tokenizer of a folder, which has the first of: tokenizer.json; tekken.json; tokenizer.model; vocab.json and
/// merges.txt; one *.tiktoken file. Or of one of these files, of vocab.json and merges.txt either one, or of a GGUF
/// file. Throws UserError: nothing is there, a file is damaged, or it has a component that isn't known, which is named.
TokenizerPointer load_tokenizer(const std::filesystem::path& path);

/// Whether load_tokenizer() would find a file in this folder, or a tokenizer in a GGUF file.
bool has_tokenizer(const std::filesystem::path& folder);

/// Ids 0..255 are bytes, 256 ends a text. "Hi" is {72, 105}. "<|endoftext|>" is 256 where such texts are tokens, else
/// 13 bytes. Its files are for other libraries: a tokenizer.json that gives the same ids.
class ByteTokenizer : public Tokenizer {
 public:
  static constexpr std::int32_t kEndOfText = 256;
  static constexpr std::int32_t kVocabulary = 257;

  /// `ends`: ids that end a text beside end-of-text.
  explicit ByteTokenizer(std::span<const std::int32_t> ends = {});

  /// One id a byte, also of bytes that aren't UTF-8; no end-of-text is added.
  void append(std::string_view text, const EncodeOptions& options, std::vector<std::int32_t>& ids) const override;
  /// The bytes of `ids`, whether or not they are valid UTF-8; end-of-text reads "<|endoftext|>".
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const override;
  /// A byte in GPT-2's alphabet: "a", "Ġ" for a space.
  std::optional<std::string> token_text(std::int32_t id) const override;
  std::optional<std::int32_t> token_id(std::string_view text) const override;
  std::size_t cut_after(std::string_view text, std::size_t from) const override;
};

}  // namespace weft::text
