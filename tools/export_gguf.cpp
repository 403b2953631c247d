#include "tools/export_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/files/gguf_writer.h"
#include "base/files/input_file.h"
#include "base/printable.h"
#include "base/text/json_object.h"
#include "base/units.h"
#include "base/utf8.h"
#include "text/formats/gguf_tokenizer.h"
#include "text/tokenizer.h"
#include "tools/command_line/shared_options.h"
#include "tools/streamed_parameters.h"
#include "train/checkpoint/gguf_weights.h"
#include "train/config/saved_model.h"
#include "train/data/tokenized_texts.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

const GgufType& type_of(const GgufExport& options, DType dtype) {
  std::string name = options.type.empty() ? std::string(to_string(dtype)) : options.type;
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return gguf_type(name);
}

void expect_new_file(const fs::path& output) {
  std::error_code error;
  if (!output.has_filename() || fs::is_directory(output, error)) {
    throw UserError(in_quotes(output) + " is a folder", "the name of a new file", "-o with a name such as model.gguf");
  }
  if (fs::symlink_status(output, error).type() == fs::file_type::not_found) return;
  throw UserError(in_quotes(output) + " exists", "a new file: nothing is overwritten",
                  "-o with another name, or remove the file");
}

/// Of the model that is written, which has no adapters.
train::SavedModel whole_model(const GgufExport& options) {
  train::SavedModel saved = train::read_saved_model(options.from);
  const bool adapted = saved.model.lora.used();
  if (options.merge && !adapted) {
    throw UserError(fmt::format("--merge, and {} has no adapters", train::name_of(saved)), "a run with --lora",
                    "leave --merge out");
  }
  if (adapted && !options.merge) {
    throw UserError(fmt::format("{} has adapters", train::name_of(saved)), "a whole model for a GGUF file",
                    "--merge, which adds them to the weights; or --format hf for the adapters alone");
  }
  return saved;
}

GgufMetadata metadata_of(const GgufExport& options, const train::SavedModel& saved, const GgufType& type) {
  GgufMetadata metadata;
  train::add_gguf_model(saved.model, type, metadata);
  const auto found = train::model_tokenizer("", saved.path, saved.model.vocab, options.accepted);
  if (found.tokenizer) {
    text::add_gguf_tokenizer(*found.tokenizer, saved.model.vocab, metadata);
  } else {
    metadata.text("tokenizer.ggml.model", "none");
  }
  return metadata;
}

}  // namespace

int export_gguf(const GgufExport& options) {
  const fs::path output = options.output;
  const train::SavedModel saved = whole_model(options);
  const GgufType& type = type_of(options, saved.dtype);
  const GgufMetadata metadata = metadata_of(options, saved, type);
  expect_new_file(output);
  StreamedParameters parameters(saved, options.merge);
  std::vector<train::ParameterState> states = parameters.states();
  std::erase_if(states, [](const auto& state) { return ops::is_adapter(*state.spec); });
  const auto tensors = train::gguf_tensors(saved.model, states, type,
                                           [&](const train::ParameterState& of) { return parameters.array_of(of); });
  const std::array sizes = {gguf_bytes(metadata, tensors)};
  if (const SpaceCheck space = check_space(fs::absolute(output).parent_path(), sizes); !space.fits()) {
    throw UserError("the model " + space.text(), "room for it", "-o on another disk, or free some space");
  }
  parameters.open();
  MadeFolders above;
  std::error_code error;
  above.make(fs::absolute(output).parent_path(), error);
  expect_writable(output);
  const FileSummary written = write_gguf(output, metadata, tensors);
  return print_result(options.json,
                      JsonObject()
                          .add("format", "gguf")
                          .add("files", std::vector{output.string()})
                          .add("files_bytes", written.bytes)
                          .add("model", train::name_of(saved))
                          .add("parameters", saved.model.parameters())
                          .add("dtype", lower_ascii(type.name)),
                      fmt::format("{}: {} {} parameters of {}, {}\n", output.string(),
                                  human_count(static_cast<double>(saved.model.parameters())), lower_ascii(type.name),
                                  train::name_of(saved), human_bytes(written.bytes)));
}

}  // namespace weft::tools
