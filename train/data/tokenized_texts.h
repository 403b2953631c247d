// Texts turned into token files once, so that runs read ids and not texts; and the tokenizer that a saved model was
// trained with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/status_line.h"
#include "text/tokenizer.h"
#include "train/config/config.h"
#include "train/config/path_list.h"
#include "train/data/token_file.h"

namespace weft::train {

struct TextCache {
  std::filesystem::path folder;  // of all cached texts; each has a folder of its own in it
  int threads = 1;
  TellStatus tell = {};
};

/// The paths to read tokens from in place of `data`: `data` itself if a path names or holds .bin files, or isn't there.
/// Of texts and folders of texts, the folder of their token files, one for each text with the token for the begin or
/// end of a text before each document; it is made unless the same texts (by path, size and time of change) were
/// tokenized by the same tokenizer before. Texts may be packed with gzip or Zstandard, and JSON lines have their texts
/// in the member "text". Left out of a folder are links, folders, empty files and files with NUL bytes. Throws
/// UserError and RuntimeFault.
PathList tokenized_texts(const PathList& data, const text::Tokenizer& tokenizer, const TextCache& cache);

/// Where the tokenizer of weights is: in their folder, or of a GGUF file in the file itself.
std::filesystem::path tokenizer_place(const std::filesystem::path& weights);

/// The tokenizer for a model of `vocab` tokens: of `named`, a folder or file, if it isn't empty; else that in `folder`,
/// which may be a file's path too; else bytes, if the vocabulary is theirs; else none. Throws UserError if the
/// tokenizer's vocabulary is larger than the model's, or a file can't be read.
text::TokenizerPointer find_tokenizer(const std::string& named, const std::filesystem::path& folder,
                                      std::int64_t vocab);

/// A model that neither comes from saved weights nor has its sizes from a folder takes the vocabulary of the tokenizer
/// that `config` was given, unless it was given model.vocab. Throws UserError if the tokenizer can't be read.
void take_vocabulary(RunConfig& config);

/// A model's tokenizer, as far as it is known.
struct ModelTokenizer {
  text::TokenizerPointer tokenizer = nullptr;      // null: nobody has its files
  std::optional<ExpectedTokenizer> expected = {};  // of ids for the model; none where bytes are a guess
};

/// The tokenizer that find_tokenizer() finds for a model with its weights in `folder`, compared with the digest that a
/// checkpoint tells, or else with that of the files in `folder`. Throws UserError with both digests if they differ,
/// unless `accepted`; and as find_tokenizer().
ModelTokenizer model_tokenizer(const std::string& named, const std::filesystem::path& folder, std::int64_t vocab,
                               bool accepted = false);

}  // namespace weft::train
