// `weft export`: a checkpoint of any grid as a folder that Hugging Face's libraries load.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "runtime/buffer.h"
#include "tools/commands.h"
#include "train/checkpoint.h"
#include "train/free_space.h"
#include "train/progress.h"
#include "train/weights.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

struct ExportOptions {
  std::string from;  // a run or checkpoint folder
  std::string output;
};

void prepare_folder(const fs::path& folder) {
  std::error_code error;
  for (const char* file : {"model.safetensors", "config.json"}) {
    if (!fs::exists(folder / file, error)) continue;
    throw UserError(in_quotes(folder / file) + " exists", "a folder without a model: nothing is overwritten",
                    "-o with another folder, or remove the file");
  }
  fs::create_directories(folder, error);
  if (!error) return;
  throw UserError(fmt::format("can't make the folder {}: {}", in_quotes(folder), error.message()),
                  "a folder that can be written", "-o with another path");
}

int export_checkpoint(const ExportOptions& options) {
  const fs::path checkpoint = find_checkpoint(options.from), folder = options.output;
  const CheckpointInfo info = read_checkpoint_info(checkpoint);
  const std::vector<ParameterSpec> specs = model_parameters(info.model);
  std::vector<Buffer> arrays;
  std::vector<MutableParameterState> loaded;
  std::vector<ParameterState> saved;
  for (const ParameterSpec& spec : specs) {
    arrays.emplace_back(spec.rows * spec.cols * static_cast<std::int64_t>(size_of(info.dtype)));
    loaded.push_back({&spec, info.dtype, arrays.back().data()});
    saved.push_back({&spec, info.dtype, arrays.back().data()});
  }
  const std::vector<std::uint64_t> sizes = {safetensors_bytes(weight_tensors(saved))};
  if (const SpaceCheck space = check_space(folder, sizes); !space.fits()) {
    throw UserError("the model " + space.text(), "room for it", "-o on another disk, or free some space");
  }
  load_parameters(checkpoint, info.model, loaded);
  prepare_folder(folder);
  const auto files = save_weights(folder, info.model, saved);
  fmt::print("{}: {} {} parameters of step {}, {}\n", (folder / "model.safetensors").string(),
             human_count(static_cast<double>(info.model.parameters())), to_string(info.dtype), info.step,
             human_bytes(files.at("model.safetensors").bytes));
  return 0;
}

}  // namespace

Command add_export(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("export", "write a checkpoint's model as config.json and model.safetensors of Hugging Face");
  const auto options = std::make_shared<ExportOptions>();
  app->add_option("run", options->from, "a run or checkpoint folder, of any grid")->type_name("FOLDER")->required();
  app->add_option("-o,--output", options->output, "the folder to write; it may not hold a model yet")
      ->type_name("FOLDER")
      ->required();
  app->footer(
      "Examples:\n"
      "  weft export runs/mine -o mine-hf\n"
      "  weft export runs/mine/checkpoints/step_00000200 -o step-200");
  return [options] { return export_checkpoint(*options); };
}

}  // namespace weft
