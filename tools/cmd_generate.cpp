// `weft generate`: continues a text with a trained model.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/text/json_object.h"
#include "runtime/comm/launch.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "text/tokenizer.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
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
  std::string from;       // a run or checkpoint folder, or a folder of Hugging Face
  std::string tokenizer;  // a folder or file; empty: the model's
  std::vector<std::string> accepted;
  std::string prompt;
  std::vector<std::int32_t> prompt_ids;
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

std::filesystem::path folder_of(const std::filesystem::path& saved) {
  std::error_code error;
  return std::filesystem::is_directory(saved, error) ? saved : saved.parent_path();
}

/// The tokenizer for a text; none where ids are given.
text::TokenizerPointer tokenizer_for(const GenerateOptions& options, const train::SavedModel& saved) {
  if (!options.prompt_ids.empty()) return nullptr;
  auto found = train::model_tokenizer(options.tokenizer, saved.path, saved.model.vocab, !options.accepted.empty());
  if (found.tokenizer) return found.tokenizer;
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

int generate(const GenerateOptions& options) {
  const train::SavedModel saved = train::read_saved_model(options.from);
  ops::ModelConfig model = saved.model;
  const text::TokenizerPointer tokenizer = tokenizer_for(options, saved);
  const bool ids = tokenizer == nullptr, bytes = !ids && tokenizer->vocabulary() == text::ByteTokenizer::kVocabulary;
  const std::vector<std::int32_t> prompt = ids ? checked_ids(options, model) : encoded_prompt(options, *tokenizer);
  train::Sampler sampler({options.temperature, options.top_k, options.top_p, options.seed});
  const auto prompt_size = static_cast<std::int64_t>(prompt.size());
  if (prompt_size > model.context) {
    throw UserError(fmt::format("a prompt of {} {}", bytes ? prompt_size - 1 : prompt_size, bytes ? "bytes" : "tokens"),
                    fmt::format("at most {}, the model's context{}", bytes ? model.context - 1 : model.context,
                                bytes ? " without the token that begins a text" : ""),
                    "shorten the prompt");
  }
  model = train::with_short_context(model, prompt_size + options.max_tokens);
  const std::int64_t prefill = train::prefill_length(prompt_size, options.max_tokens, model.context);

  train::RunConfig config;
  config.dtype = saved.dtype;
  const train::TuningSetting tuning = train::tuning_setting(options.gemm_tuning);
  std::vector<std::int32_t> ends;
  if (!ids) {
    ends = tokenizer->facts().ends;
    const auto& listed = text::listed_ends(folder_of(saved.path), model.vocab).ends;
    ends.insert(ends.end(), listed.begin(), listed.end());
  }
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
    train::load_parameters(saved.path, model, train::training_arrays(program.state(), shards, saved.dtype));
    train::Generator generator(program, model, prefill);
    std::vector<std::int32_t> made;
    const auto begin = std::chrono::steady_clock::now();
    ModelText out;
    std::optional<text::TextStream> stream;
    if (!ids) stream.emplace(*tokenizer, prompt);
    std::string text;
    const auto show = [&](std::string_view piece) {
      text += piece;
      if (!options.json) out.write(piece);
    };
    if (!options.json) out.write(ids ? fmt::format("{}", fmt::join(prompt, " ")) : options.prompt);
    generator.generate(prompt, options.max_tokens, sampler, [&](std::int32_t token) {
      if (std::ranges::find(ends, token) != ends.end()) return false;
      made.push_back(token);
      show(ids ? fmt::format(" {}", token) : stream->add(token));
      return true;
    });
    if (stream) show(stream->finish());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (options.json) {
      JsonObject json;
      json.add("checkpoint", saved.path.string());
      json.add("ids", made).add("prompt_ids", prompt);
      if (!ids) json.add("prompt", options.prompt).add("text", text);
      json.add("tokens", made.size()).add("tokens_per_s", static_cast<double>(made.size()) / seconds);
      say("{}\n", json.text());
    } else {
      out.finish();
    }
    return 0;
  });
}

}  // namespace

Command describe_generate() {
  Command command{"generate", "continue a text with a trained model"};
  const auto options = std::make_shared<GenerateOptions>();
  command.add(required(path_option("run", &options->from, "", "a run or checkpoint folder, or a folder of Hugging Face",
                                   Paths::folders)));
  command.add(
      word_option("--prompt", &options->prompt, "TEXT", "the text to continue; -: read it from standard input"));
  command.add(repeated(word_option("--prompt-ids", &options->prompt_ids, "ID,ID,…",
                                   "the ids of the prompt's tokens, without a tokenizer; prints ids")));
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
