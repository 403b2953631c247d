// Text and token files as two long sequences of token ids, for training and held out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint/manifest.h"
#include "train/config/config.h"
#include "train/data/token_file.h"
#include "train/data/token_stream.h"

namespace weft::train {

struct TokenSourceOptions {
  PathList data = {};                        // empty: /usr/share/common-licenses, present on every Debian system
  PathList val_data = {};                    // all of it held out; empty: see TokenSource
  std::int64_t vocab = 257;                  // ids must be below
  std::int64_t seq_len = 64;                 // tokens of one training sequence
  TokenWidth width = TokenWidth::automatic;  // of ids in .bin files without a header
  bool held_out_only = false;                // no training: doesn't open `data` if there is `val_data`
  ValSplit split = ValSplit::tail;
  bool documents = false;                           // the two sequences tell where documents begin
  std::optional<ExpectedTokenizer> tokenizer = {};  // of the model; none: nobody knows it
  bool any_tokenizer = false;                       // the user says that others give the same ids
  std::optional<DataMark> before = {};              // of the run that goes on
};

/// The tokens of a run. A path may be:
/// - a text file: one token a byte, see text::ByteTokenizer, so that the vocabulary has to be its 257 tokens. The
///   training part and the held-out part of a file each end with end-of-text, because in the stream another text
///   follows both;
/// - a .bin file of ids, see check_token_file(). Nothing is appended: such files hold their own end-of-text;
/// - a folder: its regular files by name, all text or all .bin, besides descriptions (x.bin.json) of token files.
///   Symbolic links and folders in it are left out;
/// - a pattern such as "texts/*.txt", if nothing has that name: the files and folders that match it, by name.
/// All files of all paths are of one kind. Of several, empty files, texts with NUL bytes and files equal to an earlier
/// one are left out and noted. A file of another kind (see refuse_foreign_kind()) is refused.
///
/// Held out are, without `val_data`, those of several files whose name has the word "val", "valid" or "validation"
/// (x_val_000000.bin, wiki.valid.txt), and all others are trained on whole; or, where there are none, the last 10 % of
/// each file, or documents as is_held_out_document() tells.
struct TokenSource {
  /// Throws UserError, naming the file: missing, empty, binary, of another kind, a truncated or unknown .bin, an id
  /// outside of the vocabulary (with its position), ids of another tokenizer (see one_tokenizer()), or fewer tokens
  /// than one sequence.
  static TokenSource open(const TokenSourceOptions& options);

  /// "16 text files, 259,012 tokens to train on, 28,771 held out (the last 10 % of each file)".
  std::string description() const;

  TokenStream train, held_out;
  std::size_t files = 0;
  bool is_text = true;
  std::string kind;           // "text", "u16 token"
  std::string what_held_out;  // "the last 10 % of each file"
  /// Of the two sequences: equal, up to collisions, exactly if the same tokens are trained on and held out in the same
  /// order, whatever the files' names.
  std::uint64_t digest = 0;
  /// For the run that goes on from here; and whether the files are those of the run before, with more at their end.
  DataMark mark;
  bool grew = false;
  std::optional<std::uint64_t> tokenizer;  // its digest, see one_tokenizer()
  /// Files left out, and why: "logo.png: left out, it has a NUL byte at 8".
  std::vector<std::string> notes;
};

/// The paths that `data` stands for: itself, or the default folder if it is empty.
PathList data_paths(const PathList& data);

}  // namespace weft::train
