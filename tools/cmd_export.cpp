// `weft export`: a model, of a checkpoint of any grid or of Hugging Face, as one folder that Hugging Face's libraries
// load or as a GGUF file, or a run's training step as Chakra traces that simulators of machines replay.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/printable.h"
#include "base/text/json_object.h"
#include "base/units.h"
#include "inspect/formats/chakra.h"
#include "runtime/simulate/report.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/export_gguf.h"
#include "tools/input/config_options.h"
#include "tools/streamed_parameters.h"
#include "train/checkpoint/adapter_config.h"
#include "train/checkpoint/adapter_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/hf_config.h"
#include "train/checkpoint/weights.h"
#include "train/config/resolved_run.h"
#include "train/config/saved_model.h"
#include "train/data/tokenized_texts.h"
#include "train/step/planning.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

struct ExportOptions {
  std::string from;  // a run or checkpoint folder; for Chakra also a configuration file
  std::string output;
  std::string format = "hf";
  std::int64_t ranks_written = 0;
  std::vector<train::Setting> overrides;  // of the configuration: its policy
  std::string shard_size = "5GB";         // as transformers
  std::string base;                       // PEFT's name of the model below adapters
  std::string adapter;                    // of PEFT, to merge into the model
  std::vector<std::string> accepted;
  std::string gguf_type;  // of matrices; empty: the model's own
  bool merge = false;     // adapters into the weights
  bool json = false;
};

/// All that `fill` writes, into a folder that is new or holds other files; or nothing.
void write_folder(const fs::path& output, const std::function<void(const fs::path& temporary)>& fill) {
  const fs::path folder = output.has_filename() ? output : output.parent_path();  // "out/" is "out"
  std::error_code error;
  const bool is_there = fs::exists(folder, error);
  MadeFolders above;
  above.make(is_there ? folder : fs::absolute(folder).parent_path(), error);
  const auto refuse = [&](const std::string& reason) {
    throw UserError(fmt::format("can't make the folder {}: {}", in_quotes(folder), reason),
                    "a folder that can be written", "-o with another path");
  };
  if (error) refuse(error.message());
  std::optional<DurableFolder> written;
  try {
    written.emplace(is_there ? folder / "export" : folder);
  } catch (const RuntimeFault& fault) {
    refuse(fault.what());
  }
  fill(written->path());
  is_there ? written->move_files_to(folder) : written->commit();
}

void expect_no_file(const fs::path& folder, std::initializer_list<const char*> files, const char* what) {
  std::error_code error;
  for (const char* file : files) {
    if (!fs::exists(folder / file, error)) continue;
    throw UserError(in_quotes(folder / file) + " exists",
                    fmt::format("a folder without {}: nothing is overwritten", what),
                    "-o with another folder, or remove the file");
  }
}

/// What is written: a model, or adapters alone.
struct ExportedFiles {
  bool adapters = false;
  std::uint64_t shard_bytes = 0;
  std::size_t shards = 1;
  std::map<std::string, FileSummary> files = {};

  std::string weights() const {
    if (adapters) return train::kAdapterFile;
    return shards == 1 ? "model.safetensors" : fmt::format("model-*-of-{:05}.safetensors", shards);
  }
};

void expect_room(const fs::path& folder, std::span<const train::ParameterState> saved, ExportedFiles& exported) {
  std::vector<std::uint64_t> sizes;
  for (auto& shard : train::weight_shards(saved, exported.shard_bytes)) {
    sizes.push_back(train::safetensors_bytes(std::move(shard)));
  }
  exported.shards = sizes.size();
  if (const SpaceCheck space = check_space(folder, sizes); !space.fits()) {
    throw UserError("the model " + space.text(), "room for it", "-o on another disk, or free some space");
  }
}

int print_exported(const ExportOptions& options, const train::SavedModel& model, const ExportedFiles& exported) {
  const fs::path folder = options.output;
  std::vector<std::string> names;
  std::uint64_t bytes = 0, weights_bytes = 0;
  for (const auto& [name, summary] : exported.files) {
    names.push_back((folder / name).string());
    bytes += summary.bytes;
    if (name.ends_with(".safetensors")) weights_bytes += summary.bytes;
  }
  const std::int64_t parameters = exported.adapters ? model.model.adapter_parameters() : model.model.parameters();
  return print_result(
      options.json,
      JsonObject()
          .add("format", options.format)
          .add("files", names)
          .add("files_bytes", bytes)
          .add("model", train::name_of(model))
          .add("parameters", parameters)
          .add("dtype", to_string(model.dtype)),
      fmt::format("{}: {} {} parameters of {}{}, {}\n", (folder / exported.weights()).string(),
                  human_count(static_cast<double>(parameters)), to_string(model.dtype),
                  exported.adapters ? "the adapters of " : "", train::name_of(model), human_bytes(weights_bytes)));
}

/// The model's tokenizer. A tokenizer that is in the folder already must equal it; a file that isn't read as one need
/// not.
text::TokenizerPointer tokenizer_beside(const ExportOptions& options, const train::SavedModel& model) {
  const bool accepted = !options.accepted.empty();
  auto tokenizer = train::model_tokenizer("", model.path, model.model.vocab, accepted).tokenizer;
  if (!tokenizer || accepted || !text::has_tokenizer(options.output)) return tokenizer;
  try {
    (void)train::find_tokenizer(options.output, model.path, model.model.vocab);
  } catch (const UserError&) {
    return tokenizer;
  }
  (void)train::model_tokenizer(options.output, model.path, model.model.vocab);
  return tokenizer;
}

int export_model(const ExportOptions& options) {
  const fs::path folder = options.output;
  if (!options.adapter.empty() && !options.merge) {
    throw UserError("--adapter without --merge", "adapters that are merged: alone they are in that folder already",
                    "--merge");
  }
  const train::SavedModel model = train::read_saved_model(options.from, options.adapter);
  if (options.merge && !model.model.lora.used()) {
    throw UserError(fmt::format("--merge, and {} has no adapters", train::name_of(model)),
                    "a run with --lora, or --adapter", "leave --merge out");
  }
  ExportedFiles exported{model.model.lora.used() && !options.merge,
                         static_cast<std::uint64_t>(parse_bytes(options.shard_size, "--shard-size"))};
  if (!exported.adapters && !options.base.empty()) {
    throw UserError(fmt::format("--base = {} for a whole model", options.base),
                    "adapters alone, whose file names the model below them", "leave --base out");
  }
  StreamedParameters parameters(model, options.merge);
  const auto array_of = [&](const train::ParameterState& of) { return parameters.array_of(of); };
  std::vector<train::ParameterState> saved = parameters.states();
  std::erase_if(saved, [&](const auto& state) { return ops::is_adapter(*state.spec) != exported.adapters; });
  expect_room(folder, saved, exported);
  exported.adapters
      ? expect_no_file(folder, {train::kAdapterFile, train::kAdapterConfigFile}, "adapters")
      : expect_no_file(folder, {"model.safetensors", "model.safetensors.index.json", "config.json"}, "a model");
  parameters.open();
  const text::TokenizerPointer tokenizer = tokenizer_beside(options, model);
  std::optional<train::TextEnds> ends;
  if (tokenizer) ends = {tokenizer->facts().begin, tokenizer->facts().ends};
  write_folder(folder, [&](const fs::path& temporary) {
    exported.files = exported.adapters
                         ? train::save_adapter(temporary, model.model, saved,
                                               options.base.empty() ? model.checkpoint->base : options.base, array_of)
                         : train::save_weights(temporary, model.model, saved, exported.shard_bytes, ends, array_of);
    if (!tokenizer || text::has_tokenizer(folder)) return;  // a tokenizer that is there stays
    for (const text::TokenizerFile& file : text::files_to_export(*tokenizer)) {
      std::error_code error;
      if (fs::exists(folder / file.name, error)) continue;
      exported.files.emplace(file.name, write_durable(temporary / file.name, file.content));
    }
  });
  return print_exported(options, model, exported);
}

/// Chakra traces of the step that a configuration describes, with the times that its profile or machine gives tasks.
int export_chakra(const ExportOptions& options) {
  constexpr std::int64_t kMostFiles = 4096;
  const fs::path folder = options.output;
  std::error_code error;
  train::RunConfig config;
  train::load_toml(config, options.from);
  train::apply_command_line(config, options.overrides);
  const train::ResolvedRun run = train::resolve(std::move(config), 0);
  const graph::Grid& grid = run.config.grid;
  const std::int64_t ranks = grid.ranks();
  if (options.ranks_written == 0 && ranks > kMostFiles) {
    throw UserError(fmt::format("{} ranks: as many files", ranks), fmt::format("at most {} of them", kMostFiles),
                    "--ranks-written N for the first N ranks; they differ in their groups alone");
  }
  if (fs::exists(folder, error) && (!fs::is_directory(folder, error) || !fs::is_empty(folder, error))) {
    throw UserError(in_quotes(folder) + " exists and is no empty folder", "a new folder", "-o with another name");
  }
  const simulate::Problem problem = train::planning_problem(run);
  const simulate::Report report = simulate::report_plan(problem, run.policy);
  if (!report.planned()) throw UserError(report.refusal, "", "");
  std::vector<std::vector<double>> ns;
  for (const cost::TaskCosts& costs : report.costs) ns.push_back(costs.ns);
  const inspect::ChakraTraces traces(report.plans(), grid, std::move(ns));
  const std::int64_t written = options.ranks_written == 0 ? ranks : std::min(ranks, options.ranks_written);
  write_folder(folder, [&](const fs::path& temporary) {
    for (std::int64_t rank = 0; rank < written; ++rank) {
      write_durable(temporary / fmt::format("step.{}.et", rank), traces.trace(rank));
    }
    write_durable(temporary / "groups.json", traces.groups());
  });
  std::vector<std::string> names = {(folder / "groups.json").string()};
  for (std::int64_t rank = 0; rank < written; ++rank) {
    names.push_back((folder / fmt::format("step.{}.et", rank)).string());
  }
  const std::size_t nodes = report.first().plan->sequence.size();
  return print_result(options.json,
                      JsonObject()
                          .add("format", options.format)
                          .add("files", names)
                          .add("ranks", ranks)
                          .add("ranks_written", written)
                          .add("nodes_per_rank", nodes)
                          .add("policy", report.policy.name),
                      fmt::format("{}: {} of {} ranks, {} nodes each, and groups.json; policy {}\n",
                                  (folder / "step.*.et").string(), written, ranks, nodes, report.policy.name));
}

}  // namespace

Command describe_export() {
  Command command{"export", "write a model for Hugging Face or llama.cpp, or a run's step for simulators"};
  const auto options = std::make_shared<ExportOptions>();
  command.add(required(
      path_option("run", &options->from, "",
                  "a run or checkpoint folder of any grid, a folder of Hugging Face, or a GGUF file; chakra: a "
                  "run or a config.toml")));
  command.add(required(output_option(options->output, "FOLDER|FILE.gguf",
                                     "the folder to write, of gguf the file; nothing is overwritten")));
  command.add(choice_option(
      "--format", &options->format, "hf|gguf|chakra",
      "hf: config.json, model.safetensors or several such files, and the tokenizer's files; gguf: one file with the "
      "tokenizer, as llama.cpp and Ollama read it; chakra: execution traces of one training step (MLCommons), a file a "
      "rank, and the communicator groups, as ASTRA-sim reads them",
      {"hf", "gguf", "chakra"}));
  command.add(choice_option("--gguf-type", &options->gguf_type, "f32|f16|bf16|q8_0",
                            "gguf: the type of matrices; vectors are f32; empty: the model's own",
                            {"f32", "f16", "bf16", "q8_0"}));
  command.add(number_option("--ranks-written", &options->ranks_written, "chakra: only the first N ranks; 0: all", 0));
  command.add(
      {.names = "--shard-size",
       .target = &options->shard_size,
       .value = "SIZE",
       .help = "hf: the largest file of weights, such as 2GB; a larger model becomes several files with an index"});
  command.add({.names = "--merge",
               .target = &options->merge,
               .help =
                   "hf and gguf, of a model with adapters (lora, --adapter): the whole model with them added to its "
                   "weights; without it hf has the adapters alone, as PEFT loads them"});
  command.add(
      word_option("--base", &options->base, "NAME",
                  "hf, of adapters: the model below them, a name or a folder, as PEFT is to find it; empty: the "
                  "init-from of the run that began with them"));
  command.add(adapter_option(options->adapter));
  command.add(accept_option(options->accepted, {"tokenizer"}));
  command.add(policy_option(options->overrides));
  command.add({.names = "--json", .target = &options->json, .help = "print what was written as one JSON object"});
  command.examples = {{"weft export runs/mine -o mine-hf"},
                      {"weft export runs/mine/checkpoints/step_00000200 -o step-200"},
                      {"weft export runs/adapted --merge -o adapted-hf"},
                      {"weft export llama-folder --adapter peft-folder --merge -o merged-hf"},
                      {"weft export runs/mine --format gguf --gguf-type q8_0 -o mine.gguf"},
                      {"weft export runs/mine --format chakra -o mine-et"}};
  command.run = [options] {
    if (options->format != "chakra" && !options->overrides.empty()) {
      throw UserError("--policy with --format " + options->format, "--format chakra, which writes a plan",
                      "leave it out: parameters are the same under every policy");
    }
    if (options->format == "chakra" && (options->merge || !options->adapter.empty())) {
      throw UserError(fmt::format("{} with --format chakra", options->merge ? "--merge" : "--adapter"),
                      "--format hf, which writes weights", "leave it out");
    }
    if (options->format != "gguf" && !options->gguf_type.empty()) {
      throw UserError("--gguf-type with --format " + options->format, "--format gguf", "leave it out");
    }
    if (options->format != "gguf" && fs::path(options->output).extension() == ".gguf") {
      throw UserError(fmt::format("-o {} with --format {}", options->output, options->format),
                      "--format gguf, which writes such files", "add --format gguf, or name a folder");
    }
    if (options->format == "gguf") {
      return export_gguf({.from = options->from,
                          .output = options->output,
                          .type = options->gguf_type,
                          .accepted = !options->accepted.empty(),
                          .merge = options->merge,
                          .json = options->json});
    }
    return options->format == "chakra" ? export_chakra(*options) : export_model(*options);
  };
  return command;
}

}  // namespace weft::tools
