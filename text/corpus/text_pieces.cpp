#include "text/corpus/text_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/files/input_file.h"

namespace weft::text {
namespace {

using Json = nlohmann::json;

constexpr const char* kPrompt = "prompt";
constexpr const char* kCompletion = "completion";
constexpr const char* kMessages = "messages";
constexpr const char* kAssistant = "assistant";
constexpr std::array<std::string_view, 3> kRoles = {"system", "user", kAssistant};
constexpr const char* kMessageForm = R"({"role": "user", "content": "Hello"})";

std::string as_utf8(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// A member of an object that is text; null: there is none.
const std::string* text_member(const Json& object, const std::string& name) {
  const auto found = object.find(name);
  return found == object.end() || !found->is_string() ? nullptr : found->get_ptr<const std::string*>();
}

void add_message(const Json& message, const std::string& place, std::vector<TextPiece>& pieces) {
  const std::string* role = message.is_object() ? text_member(message, "role") : nullptr;
  const std::string* content = message.is_object() ? text_member(message, "content") : nullptr;
  if (role == nullptr || content == nullptr) {
    throw UserError(place + " has a message without a role or a content", kMessageForm, "give both as texts");
  }
  if (std::ranges::find(kRoles, *role) == kRoles.end()) {
    throw UserError(fmt::format("{} has a message of the role {}", place, as_utf8(*role)),
                    "the role system, user or assistant", "give the message one of these");
  }
  // The text that is read before a content goes on from the line before.
  if (pieces.empty() || pieces.back().learnt) pieces.push_back({.text = "", .learnt = false});
  pieces.back().text += fmt::format("<|{}|>\n", *role);
  if (*role == kAssistant) {
    pieces.push_back({.text = *content, .learnt = true, .ends = true});
    pieces.push_back({.text = "\n", .learnt = false});
  } else {
    pieces.back().text += *content + "\n";
  }
}

std::vector<TextPiece> conversation(const Json& messages, const std::string& place) {
  std::vector<TextPiece> pieces;
  if (messages.is_array()) {
    for (const Json& message : messages) add_message(message, place, pieces);
  }
  if (std::ranges::none_of(pieces, &TextPiece::learnt)) {
    throw UserError(fmt::format("{} has no message of the assistant", place), "one or more, which are learnt",
                    "leave the line out");
  }
  return pieces;
}

[[noreturn]] void refuse_line(const Json& line, const std::string& field, const std::string& place) {
  std::vector<std::string> texts;
  for (const auto& [key, value] : line.items()) {
    if (value.is_string()) texts.push_back(as_utf8(key));
  }
  throw UserError(fmt::format("{} has no text \"{}\"", place, field),
                  texts.empty() ? "an object with a text" : "one of its texts: " + join(texts),
                  "--field with the name of the text");
}

}  // namespace

std::vector<TextPiece> part_pieces(const TextPart& part, const std::vector<std::filesystem::path>& files,
                                   const std::string& field) {
  if (!part.json) return {{.text = part.text}};
  const std::string place = fmt::format("{} line {}", in_quotes(files[part.file]), part.line);
  const Json line = Json::parse(part.text, nullptr, false);
  if (!line.is_object()) {
    throw UserError(fmt::format("{} is no JSON object", place), "JSON lines: an object on each line",
                    "give text files, whose names don't end in .jsonl, without --field");
  }
  if (const std::string* text = text_member(line, field)) return {{.text = *text}};
  const std::string* prompt = text_member(line, kPrompt);
  const std::string* completion = text_member(line, kCompletion);
  if (prompt != nullptr && completion != nullptr) {
    return {{.text = *prompt, .learnt = false}, {.text = *completion, .learnt = true, .ends = true}};
  }
  if (line.contains(kMessages)) return conversation(line[kMessages], place);
  refuse_line(line, field, place);
}

std::string part_text(const TextPart& part, const std::vector<std::filesystem::path>& files, const std::string& field) {
  std::string text;
  for (const TextPiece& piece : part_pieces(part, files, field)) text += piece.text;
  return text;
}

}  // namespace weft::text
