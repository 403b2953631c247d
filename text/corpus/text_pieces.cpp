#include "text/corpus/text_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/input_file.h"

namespace weft::text {
namespace {

const std::array<std::string, 3> kRoles = {"system", "user", "assistant"};

/// A member that is text.
std::optional<std::string> text_member(const DocumentValue& object, std::string_view name) {
  const auto found = object.find(name);
  return found && found->is_text() ? std::optional(found->text()) : std::nullopt;
}

void add_message(const DocumentValue& message, std::vector<TextPiece>& pieces) {
  const std::string role = message["role"].name_of(kRoles), content = message["content"].text();
  // The text that is read before a content goes on from the line before.
  if (pieces.empty() || pieces.back().learnt) pieces.push_back({.text = "", .learnt = false});
  pieces.back().text += fmt::format("<|{}|>\n", role);
  if (role == "assistant") {
    pieces.push_back({.text = content, .learnt = true, .ends = true});
    pieces.push_back({.text = "\n", .learnt = false});
  } else {
    pieces.back().text += content + "\n";
  }
}

std::vector<TextPiece> conversation(const DocumentValue& messages) {
  std::vector<TextPiece> pieces;
  for (const DocumentValue& message : messages.items()) add_message(message, pieces);
  if (std::ranges::none_of(pieces, &TextPiece::learnt)) {
    messages.refuse("has no message of the assistant", "one or more, which are learnt; else leave the line out");
  }
  return pieces;
}

[[noreturn]] void refuse_line(const DocumentValue& line, const std::string& field) {
  std::vector<std::string> texts;
  for (const auto& [key, value] : line.members()) {
    if (value.is_text()) texts.push_back(fmt::format("\"{}\"", key));
  }
  throw UserError(fmt::format("{} has no text \"{}\"", line.place(), field),
                  texts.empty() ? "an object with a text" : "one of its texts: " + join(texts),
                  "--field with the name of the text");
}

}  // namespace

std::vector<TextPiece> part_pieces(const TextPart& part, const std::vector<std::filesystem::path>& files,
                                   const std::string& field) {
  if (!part.json) return {{.text = part.text}};
  const Document document =
      read_json(part.text, fmt::format("{} line {}", in_quotes(files[part.file]), part.line),
                {.fix = "give JSON lines, an object on each; or text files, whose names don't end in .jsonl"});
  const DocumentValue line = document.root();
  if (const auto text = text_member(line, field)) return {{.text = *text}};
  const auto prompt = text_member(line, "prompt"), completion = text_member(line, "completion");
  if (prompt && completion) {
    return {{.text = *prompt, .learnt = false}, {.text = *completion, .learnt = true, .ends = true}};
  }
  if (const auto messages = line.find("messages")) return conversation(*messages);
  refuse_line(line, field);
}

std::string part_text(const TextPart& part, const std::vector<std::filesystem::path>& files, const std::string& field) {
  std::string text;
  for (const TextPiece& piece : part_pieces(part, files, field)) text += piece.text;
  return text;
}

}  // namespace weft::text
