#include "text/chat/chat_renderer.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/python_command.h"
#include "text/chat/chat_script.h"

namespace weft::text {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kMostTime{
    60};  // of a text, if the machine is busy; its CPU time is limited in the child

std::string line_of(const json& message) {
  return message.dump(-1, ' ', true, json::error_handler_t::replace);
}

std::string_view name_of(ChatForm form) {
  switch (form) {
    case ChatForm::messages:
      return "messages";
    case ChatForm::sharegpt:
      return "sharegpt";
    case ChatForm::alpaca:
      return "alpaca";
    case ChatForm::halves:
      return "halves";
  }
  return "";
}

/// Debian's Python, for which python3-jinja2 is, and another that stands before it in PATH.
std::unique_ptr<ChildProcess> start(const ChatTemplate& source, int cpu_seconds) {
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    auto child = std::make_unique<ChildProcess>(python_command(python, kChatScript, {"@requests", "@answers"}),
                                                std::span<const int>{}, ChildProcess::Clock::now() + kMostTime);
    const bool told = child->write_line(line_of({{"templates", source.sources},
                                                 {"special", source.special_tokens},
                                                 {"stops", source.stops},
                                                 {"cpu_seconds", cpu_seconds}}));
    const auto answer = told ? child->read_line() : std::nullopt;
    if (answer && json::parse(*answer, nullptr, false).contains("ready")) return child;
  }
  throw UserError("a chat template is needed, and Python has no package jinja2", "Python 3 with jinja2",
                  "apt-get install python3-jinja2, or pip install jinja2");
}

[[noreturn]] void refuse_end(ChildProcess& child, const std::string& place) {
  const bool late = child.why() == ChildProcess::End::late;
  const int code = child.stop();
  const std::string found =
      late || code == -SIGXCPU ? "takes too much time" : fmt::format("ended Python with code {}", code);
  throw UserError(fmt::format("{}: the chat template {}", place, found), "a template that writes a text",
                  "--chat-template FILE with another one");
}

}  // namespace

ChatRenderer::ChatRenderer(ChatTemplate source, int cpu_seconds)
    : source_(std::move(source)), cpu_seconds_(cpu_seconds) {}

ChatRenderer::~ChatRenderer() = default;

std::string ChatRenderer::ask(const std::string& request, const std::string& place) const {
  const std::scoped_lock lock(mutex_);
  if (child_ == nullptr) child_ = start(source_, cpu_seconds_);
  child_->set_deadline(ChildProcess::Clock::now() + kMostTime);
  std::optional<std::string> answer;
  if (child_->write_line(request)) answer = child_->read_line();
  if (answer) return std::move(*answer);
  const std::unique_ptr<ChildProcess> ended = std::move(child_);
  refuse_end(*ended, place);
}

namespace {

/// The answer to a request that the child didn't refuse.
json accepted(const std::string& line, const std::string& place) {
  json answer = json::parse(line, nullptr, false);
  if (answer.is_object() && answer.contains("text")) return answer;
  const auto text = [&](const char* key) {
    return answer.is_object() && answer.contains(key) ? answer[key].get<std::string>() : std::string();
  };
  throw UserError(fmt::format("{}: {}", place, text("found")), text("expected"),
                  text("fix").empty() ? "correct the record, or --chat-template FILE" : text("fix"));
}

}  // namespace

RenderedChat ChatRenderer::learnt(std::string_view record, ChatForm form, const std::string& place) const {
  const json answer =
      accepted(ask(line_of({{"ask", "learnt"}, {"record", record}, {"form", name_of(form)}}), place), place);
  RenderedChat chat{.text = answer["text"].get<std::string>(), .learnt = {}};
  for (const json& range : answer["learnt"]) {
    chat.learnt.push_back({range[0].get<std::uint64_t>(), range[1].get<std::uint64_t>()});
  }
  return chat;
}

std::string ChatRenderer::prompt(std::string_view record, const std::string& place) const {
  const std::string request = line_of({{"ask", "prompt"}, {"record", record}, {"form", name_of(ChatForm::messages)}});
  return accepted(ask(request, place), place)["text"].get<std::string>();
}

std::string ChatRenderer::turn_end() const {
  const std::string place = "the end of a turn";
  return accepted(ask(line_of({{"ask", "end"}}), place), place)["text"].get<std::string>();
}

std::shared_ptr<const ChatRenderer> chat_renderer_of(const Tokenizer& tokenizer) {
  auto found = chat_template_of(tokenizer);
  return found ? std::make_shared<ChatRenderer>(std::move(*found)) : nullptr;
}

std::vector<std::int32_t> ends_of_turn(const Tokenizer& tokenizer, const ChatRenderer& chat) {
  std::vector<std::int32_t> ends = tokenizer.facts().ends;
  const std::string end = chat.turn_end();
  const std::vector<std::int32_t> ids = tokenizer.encode(end, {.add_special = false, .place = TextPlace::continues});
  if (ids.empty() || tokenizer.facts().is_end(ids.front())) return ends;
  const auto token = tokenizer.token_text(ids.front());
  constexpr std::size_t kShortest = 2;  // no punctuation: a token such as <|im_end|>
  const bool special = token && token->size() > kShortest && end.starts_with(*token) && token->front() == '<';
  if (special) ends.push_back(ids.front());
  return ends;
}

TokenizerPointer with_chat_template(TokenizerPointer tokenizer, const std::string& named) {
  if (named.empty()) return tokenizer;
  const std::string source = chat_template_source(*tokenizer, named);
  const TokenizerPointer made = with_template(tokenizer, source, tokenizer->facts().ends);
  return with_template(tokenizer, source, ends_of_turn(*made, *chat_renderer_of(*made)));
}

}  // namespace weft::text
