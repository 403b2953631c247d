// `weft generate`: continues a text with a trained model.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/json_object.h"
#include "runtime/comm/launch.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "text/chat/chat_renderer.h"
#include "text/tokenizer.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "train/checkpoint/adapter_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/config/saved_model.h"
#include "train/data/tokenized_texts.h"
#include "train/generator.h"
#include "train/measure/bf16_products.h"
#include "train/measure/run_gemm_tuning.h"
#include "train/step/step_config.h"
#include "train/step/training_state.h"

namespace weft::tools {
namespace {

struct GenerateOptions {
  std::string from;       // a run or checkpoint folder, a folder of Hugging Face, or a GGUF file
  std::string adapter;    // of PEFT, for that model
  std::string tokenizer;  // a folder or file; empty: the model's
  std::vector<std::string> accepted;
  std::string prompt;
  std::vector<std::int32_t> prompt_ids;
  bool chat = false;
  std::string system, chat_template;
  std::int64_t max_tokens = 200;
  double temperature = 0.8;
  std::int64_t top_k = 0;
  double top_p = 1.0;
  std::uint64_t seed = 42;
  int threads = 0;
  std::string gemm_tuning;
  bool json = false;
};

/// Standard output for what a model writes: bytes as they are in a file or a pipe, but printable on a terminal, which
/// they could steer.
class ModelText {
 public:
  void write(std::string_view bytes) {
    if (terminal_) {
      show(stream_.add(bytes));
    } else {
      show(bytes);
    }
  }
  void finish() { show(stream_.finish() + "\n"); }

 private:
  static void show(std::string_view bytes) {
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
    std::fflush(stdout);
  }

  const bool terminal_ = isatty(STDOUT_FILENO) != 0;
  PrintableStream stream_;
};

std::vector<std::int32_t> checked_ids(const GenerateOptions& options, const ops::ModelConfig& model) {
  if (!options.prompt.empty()) {
    throw UserError("--prompt and --prompt-ids", "one of them: a text, or the ids of its tokens", "leave one out");
  }
  for (const std::int32_t id : options.prompt_ids) {
    if (id >= 0 && id < model.vocab) continue;
    throw UserError(fmt::format("token id {} in --prompt-ids", id),
                    fmt::format("ids from 0 to {}, the model's vocabulary", model.vocab - 1), "correct that id");
  }
  return options.prompt_ids;
}

/// The tokenizer for a text; none where ids are given.
text::TokenizerPointer tokenizer_for(const GenerateOptions& options, const train::SavedModel& saved) {
  if (!options.chat && !(options.system.empty() && options.chat_template.empty())) {
    throw UserError(options.system.empty() ? "--chat-template without --chat" : "--system without --chat", "--chat",
                    "add --chat, or leave it out");
  }
  if (!options.prompt_ids.empty()) {
    if (!options.chat) return nullptr;
    throw UserError("--chat and --prompt-ids", "the text of a message", "--prompt TEXT");
  }
  auto found = train::model_tokenizer(options.tokenizer, saved.path, saved.model.vocab, !options.accepted.empty());
  if (found.tokenizer) return text::with_chat_template(found.tokenizer, options.chat_template);
  throw UserError(
      fmt::format("{} has no tokenizer, and a vocabulary of {} tokens", in_quotes(saved.path), saved.model.vocab),
      "a tokenizer beside the model, or a vocabulary of bytes (257)",
      "--tokenizer with its tokenizer.json, or the ids of the prompt's tokens: --prompt-ids 464,3290");
}

std::vector<std::int32_t> encoded_prompt(const GenerateOptions& options, const text::Tokenizer& tokenizer) {
  std::vector<std::int32_t> prompt = tokenizer.encode_prompt(options.prompt);
  if (!prompt.empty()) return prompt;
  throw UserError("no prompt, and a tokenizer without a token for the begin of a text", "a prompt", "--prompt TEXT");
}

/// What was said, and its text by the model's chat template.
class Dialogue {
 public:
  Dialogue(const text::Tokenizer& tokenizer, const GenerateOptions& options)
      : tokenizer_(tokenizer), chat_(text::chat_renderer_of(tokenizer)) {
    if (chat_ == nullptr) {
      throw UserError(fmt::format("--chat, and {} has no chat template", in_quotes(options.from)),
                      "the template by which the model writes a dialogue",
                      "--chat-template chatml, or a file with the model's own");
    }
    if (!options.system.empty()) add("system", options.system);
  }

  /// The ids of the text that the assistant goes on from.
  std::vector<std::int32_t> ask(std::string_view question) {
    add("user", question);
    const std::string text = chat_->prompt(JsonObject().add("messages", messages_).text(), "--chat");
    return tokenizer_.encode(text, {.add_special = false});
  }
  void answered(std::string_view answer) { add("assistant", answer); }
  std::vector<std::int32_t> ends() const { return text::ends_of_turn(tokenizer_, *chat_); }

 private:
  void add(std::string_view role, std::string_view content) {
    messages_.add(JsonObject().add("role", role).add("content", content));
  }

  const text::Tokenizer& tokenizer_;
  std::shared_ptr<const text::ChatRenderer> chat_;
  JsonArray messages_;
};

/// The next question of a dialogue, a line of standard input; nullopt at its end.
std::optional<std::string> next_question() {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  std::string line;
  while (true) {
    if (terminal) {
      std::fputs("> ", stdout);
      std::fflush(stdout);
    }
    if (!std::getline(std::cin, line)) return std::nullopt;
    if (line.find_first_not_of(" \t\r") != std::string::npos) return line;
  }
}

void expect_fits(std::int64_t prompt_size, const ops::ModelConfig& model, bool bytes) {
  if (prompt_size <= model.context) return;
  throw UserError(fmt::format("a prompt of {} {}", bytes ? prompt_size - 1 : prompt_size, bytes ? "bytes" : "tokens"),
                  fmt::format("at most {}, the model's context{}", bytes ? model.context - 1 : model.context,
                              bytes ? " without the token that begins a text" : ""),
                  "shorten the prompt");
}

/// A text to continue, and what is shown before its continuation.
struct Prompt {
  std::vector<std::int32_t> ids;
  std::string text, shown;
};

/// Writes one text after another, by the program's parameters.
class TextWriter {
 public:
  TextWriter(const GenerateOptions& options, std::string saved, const text::Tokenizer* tokenizer,
             std::vector<std::int32_t> ends, train::Generator generator)
      : options_(options),
        saved_(std::move(saved)),
        tokenizer_(tokenizer),
        ends_(std::move(ends)),
        generator_(std::move(generator)),
        sampler_({options.temperature, options.top_k, options.top_p, options.seed}) {}

  /// Returns the text.
  std::string write(const Prompt& prompt) {
    std::vector<std::int32_t> made;
    const auto begin = std::chrono::steady_clock::now();
    std::optional<text::TextStream> stream;
    if (tokenizer_ != nullptr) stream.emplace(*tokenizer_, prompt.ids);
    std::string text;
    ModelText out;
    const auto show = [&](std::string_view piece) {
      text += piece;
      if (!options_.json) out.write(piece);
    };
    if (!options_.json) out.write(prompt.shown);
    generator_.go_on(prompt.ids, options_.max_tokens, sampler_, [&](std::int32_t token) {
      if (std::ranges::find(ends_, token) != ends_.end()) return false;
      made.push_back(token);
      show(stream ? stream->add(token) : fmt::format(" {}", token));
      return true;
    });
    if (stream) show(stream->finish());
    if (!options_.json) {
      out.finish();
      return text;
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    JsonObject json;
    json.add("checkpoint", saved_);
    json.add("ids", made).add("prompt_ids", prompt.ids);
    if (stream) json.add("prompt", prompt.text).add("text", text);
    json.add("tokens", made.size()).add("tokens_per_s", static_cast<double>(made.size()) / seconds);
    say("{}\n", json.text());
    return text;
  }

 private:
  const GenerateOptions& options_;
  const std::string saved_;
  const text::Tokenizer* tokenizer_;
  const std::vector<std::int32_t> ends_;
  train::Generator generator_;
  train::Sampler sampler_;
};

/// Where the texts come from: ids, one text, or the turns of a dialogue.
class Prompts {
 public:
  Prompts(const GenerateOptions& options, const train::SavedModel& saved, const text::Tokenizer* tokenizer)
      : options_(options), saved_(saved), tokenizer_(tokenizer) {
    if (options.chat) dialogue_.emplace(*tokenizer, options);
  }

  std::optional<Prompt> next() {
    if (is_dialogue()) {
      const auto question = next_question();
      return question ? std::optional(asked(*question)) : std::nullopt;
    }
    if (std::exchange(taken_, true)) return std::nullopt;
    if (dialogue_) return asked(options_.prompt);
    if (tokenizer_ != nullptr) return Prompt{encoded_prompt(options_, *tokenizer_), options_.prompt, options_.prompt};
    std::vector<std::int32_t> ids = checked_ids(options_, saved_.model);
    std::string shown = fmt::format("{}", fmt::join(ids, " "));
    return Prompt{std::move(ids), "", std::move(shown)};
  }
  void answered(std::string_view text) {
    if (dialogue_) dialogue_->answered(text);
  }
  bool is_dialogue() const { return dialogue_ && options_.prompt.empty(); }

  std::vector<std::int32_t> ends() const {
    if (tokenizer_ == nullptr) return {};
    std::vector<std::int32_t> ends = dialogue_ ? dialogue_->ends() : tokenizer_->facts().ends;
    const auto& listed = text::listed_ends(train::tokenizer_place(saved_.path), saved_.model.vocab).ends;
    ends.insert(ends.end(), listed.begin(), listed.end());
    return ends;
  }

 private:
  Prompt asked(const std::string& question) { return {dialogue_->ask(question), question, ""}; }

  const GenerateOptions& options_;
  const train::SavedModel& saved_;
  const text::Tokenizer* tokenizer_;
  std::optional<Dialogue> dialogue_;
  bool taken_ = false;
};

int generate(const GenerateOptions& options) {
  const train::SavedModel saved = train::read_saved_model(options.from, options.adapter);
  ops::ModelConfig model = saved.model;
  const text::TokenizerPointer tokenizer = tokenizer_for(options, saved);
  Prompts prompts(options, saved, tokenizer.get());
  std::optional<Prompt> prompt = prompts.next();
  if (!prompt) return 0;
  const auto prompt_size = static_cast<std::int64_t>(prompt->ids.size());
  expect_fits(prompt_size, model, tokenizer && tokenizer->vocabulary() == text::ByteTokenizer::kVocabulary);
  constexpr std::int64_t kTokensOfDialogue = 4096;  // with more of them the caches would take much memory
  const std::int64_t tokens = prompt_size + options.max_tokens;
  model = train::with_short_context(model, prompts.is_dialogue() ? std::max(tokens, kTokensOfDialogue) : tokens);
  const std::int64_t prefill = train::prefill_length(prompt_size, options.max_tokens, model.context);

  train::RunConfig config;
  config.dtype = saved.dtype;
  const train::TuningSetting tuning = train::tuning_setting(options.gemm_tuning);
  const std::vector<std::int32_t> ends = prompts.ends();
  return comm::run_ranks(1, [&](comm::World& world) {
    if (const auto bf16 = train::bf16_of_run(world, config, train::checkpoint_of(saved)))
      config.bf16_products = bf16->unit;
    const auto tuned =
        train::gemm_tuning_of_run(world, tuning, train::checkpoint_of(saved), train::StoredTuning::if_it_fits);
    execute::Program program(
        world, train::generation_graphs(model, saved.dtype, prefill),
        {.threads = threads_of(options.threads), .gemm_tuning = execute::table_of(tuned, train::bf16_unit_of(config))});
    const std::vector<ops::ParameterSpec> specs = ops::model_parameters(model);
    const auto shards = ops::shard_parameters(model, specs, {}, {});
    train::load_parameters_and_adapters(saved.weights(), model,
                                        train::training_arrays(program.state(), shards, saved.dtype));
    TextWriter writer(options, saved.path.string(), tokenizer.get(), ends, train::Generator(program, model, prefill));
    for (; prompt; prompt = prompts.next()) prompts.answered(writer.write(*prompt));
    return 0;
  });
}

}  // namespace

Command describe_generate() {
  Command command{"generate", "continue a text with a trained model"};
  const auto options = std::make_shared<GenerateOptions>();
  command.add(
      required(path_option("run", &options->from, "",
                           "a run or checkpoint folder, a folder of Hugging Face, or a GGUF file", Paths::files)));
  command.add(adapter_option(options->adapter));
  command.add(
      word_option("--prompt", &options->prompt, "TEXT", "the text to continue; -: read it from standard input"));
  command.add(repeated(word_option("--prompt-ids", &options->prompt_ids, "ID,ID,…",
                                   "the ids of the prompt's tokens, without a tokenizer; prints ids")));
  command.add({.names = "--chat",
               .target = &options->chat,
               .help =
                   "the prompt is a message, which the model answers by its chat template; without a prompt each line "
                   "of standard input is one, and the dialogue goes on"});
  command.add(word_option("--system", &options->system, "TEXT", "with --chat: the message that begins the dialogue"));
  command.add(path_option("--chat-template", &options->chat_template, "chatml|FILE",
                          "with --chat: another template than the model's own"));
  command.add(path_option("--tokenizer", &options->tokenizer, "PATH",
                          "a tokenizer's file, or a folder with one; empty: the model's own"));
  command.add(accept_option(options->accepted, {"tokenizer"}));
  command.add(number_option("--max-tokens", &options->max_tokens, "tokens to generate", 1, 1 << 24));
  command.add(
      number_option("--temperature", &options->temperature, "of the softmax; 0: always the likeliest token", 0, 100));
  command.add(number_option("--top-k", &options->top_k, "draw from the k likeliest tokens; 0: from all", 0, 1 << 24));
  command.add(
      number_option("--top-p", &options->top_p, "draw from the likeliest tokens of this total probability", 0, 1));
  command.add(number_option("--seed", &options->seed, "of the draws", 0));
  command.add(number_option("--threads", &options->threads, "threads to compute with; 0: all cores", 0, 4096));
  command.add({.names = "--gemm-tuning",
               .target = &options->gemm_tuning,
               .value = "FILE",
               .help = "a file of weft tune; none: the default methods; empty: what the checkpoint was trained with",
               .suggestions = {"none"},
               .paths = Paths::files});
  command.add({.names = "--json", .target = &options->json, .help = "print text, ids and speed as one JSON object"});
  command.examples = {{"weft generate runs/mine --prompt \"This License\""},
                      {"weft generate runs/mine --temperature 0 --max-tokens 50"},
                      {"weft generate SmolLM2-135M-Instruct --chat --prompt \"Where is Paris?\" --temperature 0"},
                      {"weft generate SmolLM2-135M-Instruct --chat", "a dialogue, a message a line"},
                      {"head -c 200 book.txt | weft generate runs/mine --prompt -"},
                      {"weft generate gpt2-folder --prompt-ids 464,3290 --max-tokens 20"}};
  command.run = [options] {
    if (options->prompt == "-") {
      options->prompt.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    }
    return generate(*options);
  };
  return command;
}

}  // namespace weft::tools
