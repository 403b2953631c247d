// `weft generate`: continues a text with a trained model.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/comm/launch.h"
#include "tools/commands.h"
#include "train/bf16_products.h"
#include "train/checkpoint.h"
#include "train/gemm_tuning_file.h"
#include "train/generator.h"
#include "train/tokenizer.h"
#include "train/trainer.h"

namespace weft {
namespace {

struct GenerateOptions {
  std::string from;  // a run or checkpoint folder
  std::string prompt;
  std::int64_t max_tokens = 200;
  double temperature = 0.8;
  std::int64_t top_k = 0;
  double top_p = 1.0;
  std::uint64_t seed = 42;
  std::int64_t threads = 0;
  std::string gemm_tuning;
  bool json = false;
};

int generate(const GenerateOptions& options) {
  const std::filesystem::path checkpoint = find_checkpoint(options.from);
  const CheckpointInfo info = read_checkpoint_info(checkpoint);
  ModelConfig model = info.model;
  const ByteTokenizer tokenizer;
  if (model.vocab != ByteTokenizer::kVocabulary) {
    throw UserError(
        fmt::format("{} has a vocabulary of {} tokens", checkpoint.string(), model.vocab),
        fmt::format("a byte-level model ({} tokens): this version has no other tokenizer", ByteTokenizer::kVocabulary),
        "train a byte-level model, for example with --model tiny");
  }
  Sampler sampler({options.temperature, options.top_k, options.top_p, options.seed});
  std::vector<std::int32_t> prompt = tokenizer.encode(options.prompt);
  if (prompt.empty()) prompt.push_back(ByteTokenizer::kEndOfText);  // what stands before every text
  const auto prompt_size = static_cast<std::int64_t>(prompt.size());
  if (prompt_size > model.context) {
    throw UserError(fmt::format("a prompt of {} bytes", prompt_size),
                    fmt::format("at most {}, the model's context", model.context), "shorten the prompt");
  }
  model = with_short_context(model, prompt_size + options.max_tokens);
  const std::int64_t prefill = prefill_length(prompt_size, options.max_tokens, model.context);
  const int threads = options.threads > 0 ? static_cast<int>(options.threads)
                                          : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));

  RunConfig config;
  config.dtype = info.dtype;
  return run_ranks(1, [&](World& world) {
    config = with_bf16(config, bf16_of_run(world, config, checkpoint));
    const auto tuned = gemm_tuning_of_run(world, options.gemm_tuning, checkpoint, StoredTuning::if_it_fits);
    Program program(world, generation_graphs(model, info.dtype, prefill),
                    {.threads = threads, .gemm_tuning = table_of(tuned, bf16_unit_of(config))});
    const std::vector<ParameterSpec> specs = model_parameters(model);
    const auto shards = shard_parameters(model, specs, {}, {});
    load_parameters(checkpoint, model, weights_of(program.state(), shards, info.dtype));
    Generator generator(program, model, prefill);
    std::vector<std::int32_t> made;
    const auto begin = std::chrono::steady_clock::now();
    if (!options.json) fmt::print("{}", options.prompt);
    generator.generate(prompt, options.max_tokens, sampler, [&](std::int32_t token) {
      if (token == ByteTokenizer::kEndOfText) return false;
      made.push_back(token);
      if (!options.json) {
        std::fputc(token, stdout);
        std::fflush(stdout);
      }
      return true;
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (options.json) {
      const nlohmann::json json = {{"prompt", options.prompt},
                                   {"text", tokenizer.decode(made)},
                                   {"tokens", made.size()},
                                   {"tokens_per_s", static_cast<double>(made.size()) / seconds},
                                   {"checkpoint", checkpoint.string()}};
      fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
      fmt::print("\n");
    }
    return 0;
  });
}

}  // namespace

Command add_generate(CLI::App& root) {
  CLI::App* app = root.add_subcommand("generate", "continue a text with a trained model");
  const auto options = std::make_shared<GenerateOptions>();
  app->add_option("run", options->from, "a run or checkpoint folder")->type_name("FOLDER")->required();
  app->add_option("--prompt", options->prompt, "the text to continue; -: read it from standard input");
  app->add_option("--max-tokens", options->max_tokens, "tokens to generate")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  app->add_option("--temperature", options->temperature, "of the softmax; 0: always the likeliest token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app->add_option("--top-k", options->top_k, "draw from the k likeliest tokens; 0: from all")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  app->add_option("--top-p", options->top_p, "draw from the likeliest tokens of this total probability")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app->add_option("--seed", options->seed, "of the draws")->capture_default_str();
  app->add_option("--threads", options->threads, "threads to compute with; 0: all cores")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app->add_option("--gemm-tuning", options->gemm_tuning,
                  "a file of weft tune; none: the default methods; empty: what the checkpoint was trained with");
  app->add_flag("--json", options->json, "print text and speed as one JSON object");
  app->footer(
      "Examples:\n"
      "  weft generate runs/mine --prompt \"This License\"\n"
      "  weft generate runs/mine --temperature 0 --max-tokens 50\n"
      "  head -c 200 book.txt | weft generate runs/mine --prompt -");
  return [options] {
    if (options->prompt == "-") {
      options->prompt.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    }
    return generate(*options);
  };
}

}  // namespace weft
