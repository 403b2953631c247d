// Documents in files of data: where each begins, and which of them are held out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/data/token_file.h"

namespace weft::train {

/// The first token of each document of a checked file, in order; the first of all is 0. A text is one document. Of a
/// token file the description that `weft tokenize` wrote beside it tells them. Throws UserError if it has none, or one
/// of another file; `instead` is what the user may do then, beside writing a description.
std::vector<std::uint64_t> document_begins(const CheckedTokens& file, const std::string& instead);

/// The tokens of a checked file that aren't learnt: prompts, and messages to an assistant. They are in the description
/// that `weft tokenize` wrote beside it. Throws UserError if that is of another file.
std::vector<text::IdRange> ignored_ranges(const CheckedTokens& file);

/// Whether a document is held out. Of each ten documents in a row one is: number 10·g + mixed_bits(g) mod 10 of tens g,
/// counted from 0; the last tens have none if they aren't full. Of fewer than ten documents in all, number
/// mixed_bits(0) mod `documents` is. So it is the same on every rank and for a run that goes on.
bool is_held_out_document(std::uint64_t number, std::uint64_t documents);

}  // namespace weft::train
