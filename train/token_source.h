// Training text and token files as two long rows of token ids, one to train on and one held out, read through mmap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "train/mapped_file.h"

namespace weft {

/// How ids lie in memory.
enum class TokenEncoding : std::uint8_t { bytes, u16, u32 };

/// A row of tokens made of parts that lie elsewhere (in mapped files), so that files of any size cost no memory.
/// The owner of that memory must outlive the stream.
class TokenStream {
 public:
  /// `count` ids at `data` (unaligned is fine); `end_of_text`: one more token, 256, follows them.
  struct Part {
    TokenEncoding encoding = TokenEncoding::bytes;
    const std::byte* data = nullptr;
    std::uint64_t count = 0;
    bool end_of_text = false;
  };

  void append(const Part& part);
  std::uint64_t size() const { return size_; }
  std::int32_t at(std::uint64_t index) const;
  /// Writes tokens [begin, begin + count) to `out`. Throws std::out_of_range beyond the end.
  void copy(std::uint64_t begin, std::uint64_t count, std::int32_t* out) const;

 private:
  std::vector<Part> parts_;
  std::vector<std::uint64_t> begins_;  // index of each part's first token
  std::uint64_t size_ = 0;
};

struct TokenSourceOptions {
  std::string data;           // a file or folder; empty: /usr/share/common-licenses, present on every Debian system
  std::string val_data;       // a file or folder, all of it held out; empty: the last 10 % of each file of `data`
  std::int64_t vocab = 257;   // ids must be below
  std::int64_t seq_len = 64;  // tokens of one training sequence
};

/// The tokens of a run. What a path may be:
/// - a text file: one token a byte, see ByteTokenizer. The training part and the held-out part of a file each end with
///   end-of-text, because in the stream another text follows both;
/// - a .bin file: llm.c's format (header of 256 int32: 20240520, 1, count, then u16 ids; or 20240801, 7, count, then
/// u32
///   ids), or nanoGPT's (bare u16 ids), little-endian. Nothing is appended: such files hold their own end-of-text;
/// - a folder: its regular files by name, all text or all .bin. Symbolic links, empty files, files with NUL bytes and
///   files equal to an earlier one are left out and noted.
class TokenSource {
 public:
  /// Throws UserError, naming the file: missing, empty, binary, a truncated or unknown .bin, an id outside the
  /// vocabulary (with its position), or fewer tokens than one sequence.
  static TokenSource open(const TokenSourceOptions& options);

  const TokenStream& train() const { return train_; }
  const TokenStream& held_out() const { return held_out_; }
  std::size_t files() const { return files_.size(); }
  bool is_text() const { return text_; }
  /// Of the two rows: equal exactly, up to chance, where the same tokens are trained on and held out in the same order,
  /// whatever the files are called.
  std::uint64_t digest() const { return digest_; }
  /// "16 text files, 259,012 tokens to train on, 28,771 held out".
  std::string description() const;
  /// Files left out, and why: "logo.png: left out, it has a NUL byte at 8".
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::vector<MappedFile> files_;
  TokenStream train_, held_out_;
  bool text_ = true;
  std::uint64_t digest_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace weft
