// The pieces of a document: those that a model is to write, and those that it only reads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "text/corpus/text_files.h"

namespace weft::text {

struct TextPiece {
  std::string text;
  bool learnt = true;  // a model is to write it
  bool ends = false;   // the token for the end of a text follows, which is learnt with the piece

  friend bool operator==(const TextPiece&, const TextPiece&) = default;
};

/// The pieces of a part in order. A text is one. So is the text `field` of a line of JSON. A line without it may have
/// - the texts "prompt", which is only read, and "completion", which is learnt with its end;
/// - "messages", a list of objects with the texts "role" (system, user or assistant) and "content". A message is
///   written as "<|ROLE|>\nCONTENT\n", in which the assistant's contents are learnt, each with its end.
/// Throws UserError, naming file and line, if the line is no JSON object of these. Any number of threads may call it.
std::vector<TextPiece> part_pieces(const TextPart& part, const std::vector<std::filesystem::path>& files,
                                   const std::string& field);

/// The text of all pieces.
std::string part_text(const TextPart& part, const std::vector<std::filesystem::path>& files, const std::string& field);

}  // namespace weft::text
