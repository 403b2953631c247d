// The tokenizer that a saved model was trained with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "text/tokenizer.h"

namespace weft::train {

/// The tokenizer for a model of `vocab` tokens: of `named`, a folder or file, if it isn't empty; else that in `folder`,
/// which may be a file's path too; else bytes, if the vocabulary is theirs; else none. Throws UserError if the
/// tokenizer's vocabulary is larger than the model's, or a file can't be read.
text::TokenizerPointer find_tokenizer(const std::string& named, const std::filesystem::path& folder,
                                      std::int64_t vocab);

}  // namespace weft::train
