// The texts of many files, one after the other: text files, JSON lines, either compressed. The pieces of a text, some
// of which a model is to write while it only reads the others. And their ids, encoded by several threads in the texts'
// order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/files/input_file.h"
#include "text/chat/chat_renderer.h"
#include "text/tokenizer.h"

namespace weft::text {

/// A document, or a part of a long one.
struct TextPart {
  std::string text;
  bool begins = true;      // a document
  bool json = false;       // the text is a line of JSON, see TextFiles::content()
  std::uint32_t file = 0;  // by its index
  std::uint64_t line = 0;  // of the file, from 1; 0: not by lines
};

struct TextPiece {
  std::string text;
  bool learnt = true;  // a model is to write it
  bool ends = false;   // the token for the end of a text follows, which is learnt with the piece

  friend bool operator==(const TextPiece&, const TextPiece&) = default;
};

/// A text of several pieces, or a dialogue.
using TextContent = std::variant<std::vector<TextPiece>, RenderedChat>;

/// Where a long text may be cut behind an offset; its size: nowhere.
using CutAfter = std::function<std::size_t(std::string_view text, std::size_t from)>;

struct TextFileOptions {
  std::string field = "text";                // of JSON lines, the member with the text
  bool all_json = false;                     // all files are JSON lines; else those named *.jsonl or *.ndjson
  std::size_t part_bytes = 4U << 20U;        // long texts are cut into about as many
  std::size_t most_uncut_bytes = 1U << 30U;  // of a line of JSON, or a text that can't be cut; packed files hold any
  std::shared_ptr<const ChatRenderer> chat = {};  // writes dialogues as texts; null: they are refused
  ByteSource stream = {};  // read as JSON lines in place of the content of a single "file", which names it in messages
};

/// Whether a name is that of a file in which data sets are shared: "train-00000-of-00001.parquet", "train.jsonl.gz".
bool is_data_set_name(const std::filesystem::path& path);

/// Takes from a folder's files those that describe a data set and aren't a part of it: README.md and .gitattributes. A
/// data set has files of such names, or a README with the facts of a card above its text, or, if the folder
/// `has_folders`, no file beside them.
std::vector<std::filesystem::path> take_cards(std::vector<std::filesystem::path>& files, bool has_folders = false);

/// What a path names: itself if it is there, else the files and folders that match it as a pattern, by name.
std::vector<std::filesystem::path> matching_paths(const std::string& path);

/// The files that paths name, in the order of the paths: a file; all regular files of a folder and of its folders, by
/// name, but for cards, of which a warning tells, and Git's own files; the files of a pattern such as "data/*.txt", by
/// name. Throws UserError if a path names nothing.
std::vector<std::filesystem::path> files_of(const std::vector<std::string>& paths);

/// Each text file is a document; so is each line of JSON lines. Files are read as they are needed.
class TextFiles {
 public:
  TextFiles(std::vector<std::filesystem::path> files, TextFileOptions options, CutAfter cut_after);

  /// The next part, nothing behind the last. Throws UserError, naming the file, if one can't be read, or if a line or a
  /// text without a place to cut is too long.
  std::optional<TextPart> next();

  /// The pieces of a part in order. A text is one. So is the text `field` of a line of JSON. A line without it may have
  /// the texts "prompt", which is only read, and "completion", which is learnt with its end; or it is a dialogue, see
  /// ChatForm. Throws UserError, naming file and line, if the line is no JSON object of these, has several of them,
  /// unless the field was named for all files, has a member that would change what is learnt ("loss_mask", …), or is a
  /// dialogue without a template or one that the template refuses. Any number of threads may call it.
  TextContent content(const TextPart& part) const;
  /// The text of all pieces; of a dialogue the texts of its turns.
  std::string text(const TextPart& part) const;

  /// The bytes of all files as they lie on the disk, and about how many of them were read, for a progress.
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t bytes_read() const { return before_ + std::min(read_, size_); }

 private:
  bool fill();
  bool open_next();
  TextPart next_line();
  TextPart next_text();
  std::string place_of(const TextPart& part) const;

  std::vector<std::filesystem::path> files_;
  TextFileOptions options_;
  CutAfter cut_after_;
  std::uint64_t bytes_ = 0, before_ = 0;  // before_: of the files before the open one
  std::uint64_t size_ = 0, read_ = 0;     // of the open file; more than its size are read of a compressed one
  std::size_t opened_ = 0;                // files
  std::optional<ByteSource> source_;
  std::string buffer_;
  std::size_t taken_ = 0;  // of the buffer
  bool json_ = false, file_ended_ = false, begins_ = true;
  std::uint64_t line_ = 0;
};

struct EncodedPart {
  std::span<const std::int32_t> ids;
  std::vector<IdRange> ignored = {};  // of `ids`: the pieces that aren't learnt
  std::uint64_t text_bytes = 0;
  bool is_chat = false;  // its own text says how it begins
  bool differs = false;  // the ids of a piece were decoded to another text
};

struct ParallelEncode {
  const Tokenizer& tokenizer;
  EncodeOptions options;
  int threads = 1;
  bool verify = false;  // decodes the ids again
  TextFiles& files;     // whose pieces are encoded as one text up to its end
  /// Takes the result of a part, whose text is gone, in the order of the files. Called by one thread at a time.
  std::function<void(const TextPart&, const EncodedPart&)> take;
};

/// Throws what the files and `take` throw.
void encode_in_order(const ParallelEncode& work);
/// The first part for which `is_wanted` is true, if there is one.
void encode_one(const ParallelEncode& work, const std::function<bool()>& is_wanted);

}  // namespace weft::text
