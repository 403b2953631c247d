#include "train/run/run_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/files/checksum.h"
#include "base/files/input_file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status_line.h"
#include "text/chat/chat_renderer.h"
#include "text/tokenizer.h"
#include "train/checkpoint/adapter_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/weights.h"
#include "train/config/saved_model.h"
#include "train/data/tokenized_texts.h"
#include "train/run/resumed_run.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPiece = std::size_t{64} << 20;

std::string hex(std::uint64_t digest) {
  return fmt::format("{:016x}", digest);
}

/// Facts about a checkpoint folder, or about none. Sizes of its files are checked against the manifest; their checksums
/// are checked when they are loaded.
std::vector<comm::Fact> checkpoint_facts(const std::optional<fs::path>& checkpoint) {
  std::string name = "none", step = "none", digest = "none";
  if (checkpoint) {
    name = checkpoint->filename().string();
    step = std::to_string(read_checkpoint_info(*checkpoint).step);
    const std::string manifest = whole_file(*checkpoint / kManifestFile);
    digest = hex(Fingerprint().add_bytes(manifest.data(), manifest.size()).value());
  }
  return {{"checkpoint", name}, {"checkpoint step", step}, {"manifest digest", digest}};
}

/// A checksum of each of this rank's pieces of the files, 0 for the other pieces.
std::vector<std::uint32_t> piece_checksums(const std::vector<fs::path>& files, const ReadShare& share) {
  std::vector<std::uint32_t> checksums;
  for (const fs::path& path : files) {
    const InputFile file(path);
    for (std::uint64_t begin = 0; begin < file.size(); begin += kPiece) {
      const bool own = share.has(static_cast<std::int64_t>(checksums.size()));
      const std::uint64_t end = std::min<std::uint64_t>(file.size(), begin + kPiece);
      Crc32c checksum;
      read_in_pieces(file, begin, own ? end : begin, [&](std::span<const std::byte> piece) {
        checksum.add(piece);
        return true;
      });
      checksums.push_back(own ? checksum.value() : 0);
    }
  }
  return checksums;
}

/// Facts about weights without a manifest: names, sizes and contents of their files. A rank may load only a part of
/// them, so only a comparison of all contents shows that ranks on other machines have the same weights. Ranks that see
/// the same files share the work.
std::vector<comm::Fact> weight_facts(comm::World& world, const fs::path& weights, const ReadShare& share) {
  std::vector<fs::path> files;
  std::vector<std::uint32_t> own;
  comm::act_together(world, [&] {
    files = weight_files(weights);
    own = piece_checksums(files, share);
  });
  const std::vector<std::uint64_t> identities = world.all_gather(file_identity(weights));
  const std::vector<std::vector<std::uint32_t>> all = comm::of_ranks(world, own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (identities[rank] != identities[static_cast<std::size_t>(world.rank())]) continue;
    for (std::size_t i = 0; i < std::min(own.size(), all[rank].size()); ++i) own[i] |= all[rank][i];
  }
  Fingerprint digest;
  std::uint64_t bytes = 0;
  for (const fs::path& file : files) {
    std::error_code unknown;
    const std::uint64_t size = fs::file_size(file, unknown);
    digest.add(size);
    bytes += size;
  }
  digest.add_bytes(own.data(), own.size() * sizeof own.front());
  return {{"files of weights", std::to_string(files.size())},
          {"bytes of weights", std::to_string(bytes)},
          {"digest of weights", hex(digest.value())}};
}

/// Whether a configuration names another tokenizer than the checkpoint's did.
bool names_another_tokenizer(const RunConfig& config, const CheckpointInfo& info) {
  const std::optional<RunConfig> before = stored_config(info);
  return before && before->tokenizer != config.tokenizer;
}

/// A run goes on with its checkpoint's own tokenizer, wherever the file that it was read from is by now; one that is
/// named anew has to be the same. Token files need no tokenizer, so a saved one that can't be read is no error; a text
/// then is.
ModelTokenizer tokenizer_of_run(const RunConfig& config, const RunInputs& inputs,
                                const std::optional<CheckpointInfo>& resumed) {
  const fs::path weights = inputs.resume_from.value_or(inputs.init_from.value_or(""));
  const bool goes_on = resumed && text::has_tokenizer(weights), accepted = config.accepted.contains("tokenizer");
  const bool anew = !goes_on || names_another_tokenizer(config, *resumed);
  try {
    ModelTokenizer found = model_tokenizer(anew ? config.tokenizer : "", weights, config.model.vocab, accepted);
    // Its own files, with their ends of texts.
    if (goes_on && anew && !accepted) found = model_tokenizer("", weights, config.model.vocab);
    if (found.tokenizer) found.tokenizer = text::with_chat_template(found.tokenizer, config.chat_template);
    return found;
  } catch (const UserError& error) {
    if (!config.tokenizer.empty() || !config.chat_template.empty()) throw;
    Log(LogTopic::run).warning("the tokenizer beside the weights is left out: {}", first_line(error.what()));
    return {};
  }
}

/// The weights below a run's adapters, whichever run began with these adapters.
std::string base_of_adapters(const RunConfig& config, const RunInputs& inputs) {
  if (!inputs.resume_from && !inputs.init_from) {
    throw UserError("lora without init-from", "weights that the adapters change: random ones would stay random",
                    "--init-from with a run or a folder of Hugging Face");
  }
  const fs::path from = inputs.resume_from ? *inputs.resume_from : *inputs.init_from;
  if (!is_checkpoint(from)) return config.init_from;
  const CheckpointInfo info = read_checkpoint_info(from);
  return info.model.lora.used() ? info.base : config.init_from;
}

}  // namespace

std::vector<comm::Fact> facts_of(const TokenSource& source) {
  return {{"tokens to train on", std::to_string(source.train.size())},
          {"tokens held out", std::to_string(source.held_out.size())},
          {"data digest", hex(source.digest)}};
}

void agree_on_resumed(comm::World& world, const RunConfig& config) {
  const bool in_run_dir = config.resume == kResumeAuto;
  const std::string run_dir = comm::text_of_rank_0(world, config.run_dir);
  const fs::path from = in_run_dir ? run_dir : config.resume;
  std::vector<comm::Fact> facts;
  comm::act_together(world, [&] {
    std::optional<fs::path> checkpoint;  // if there is none, the rank reports it later
    if (!in_run_dir && is_checkpoint(from)) {
      checkpoint = from;
    } else if (!from.empty()) {
      checkpoint = latest_checkpoint(from);
    }
    facts = checkpoint_facts(checkpoint);
  });
  comm::expect_same_facts(world, facts);
}

ReadShare agree_on_weights(comm::World& world, const std::optional<fs::path>& weights, const fs::path& adapters) {
  const bool from_checkpoint = weights && is_checkpoint(*weights);
  std::vector<comm::Fact> facts;
  comm::act_together(world, [&] { facts = checkpoint_facts(from_checkpoint ? weights : std::nullopt); });
  comm::expect_same_facts(world, facts);
  // All ranks agree whether it is a checkpoint, and the configuration tells whether there are weights.
  if (!weights) return {};
  const ReadShare share = share_reading(world, *weights);
  if (!from_checkpoint) comm::expect_same_facts(world, weight_facts(world, *weights, share));
  if (!adapters.empty()) comm::expect_same_facts(world, weight_facts(world, adapters / kAdapterFile, share));
  return share;
}

TokenSource open_tokens(comm::World& world, const RunConfig& config, const ModelTokenizer& of_model, bool held_out_only,
                        bool speaks, const std::optional<DataMark>& before) {
  TokenSourceOptions options{config.data,
                             config.val_data,
                             config.model.vocab,
                             config.seq_len,
                             config.data_dtype,
                             held_out_only,
                             config.val_split,
                             reads_documents(config),
                             of_model.expected,
                             config.accepted.contains("tokenizer"),
                             before};
  const text::TokenizerPointer& tokenizer = of_model.tokenizer;
  TokenSource source;
  const auto open = [&] { source = TokenSource::open(options); };
  const bool bytes = tokenizer && tokenizer->facts().digest == text::ByteTokenizer().facts().digest;
  if (tokenizer == nullptr || (bytes && !text::chat_template_of(*tokenizer))) {
    comm::act_together(world, open);
    return source;
  }
  StatusLine line(speaks && world.rank() == 0);
  const fs::path beside = fs::path(config.run_dir).lexically_normal().parent_path();
  const TextCache cache{.folder = beside / "tokens",
                        .threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency())),
                        .tell = [&](const Status& status) { line.show(status); }};
  const auto tokenize = [&] {
    if (!held_out_only || options.val_data.empty()) {
      options.data = tokenized_texts(data_paths(options.data), *tokenizer, cache);
    }
    if (!options.val_data.empty()) options.val_data = tokenized_texts(options.val_data, *tokenizer, cache);
  };
  comm::act_together(world, [&] {
    if (world.rank() == 0) tokenize();
  });
  comm::act_together(world, [&] {
    if (world.rank() != 0) tokenize();  // nothing is left to do where the files of rank 0 are seen
    open();
  });
  return source;
}

RunInputs find_run_inputs(comm::World& world, const RunConfig& config, bool speaks) {
  RunInputs inputs;
  std::optional<CheckpointInfo> resumed;
  ModelTokenizer tokenizer;
  comm::act_together(world, [&] {
    inputs.resume_from = checkpoint_to_resume(config);
    // A run's newest checkpoint, so that all ranks load the one that they have agreed on.
    if (!config.init_from.empty()) inputs.init_from = inside_run(config.init_from);
    if (config.model.lora.used()) inputs.base = base_of_adapters(config, inputs);
    if (inputs.resume_from) {
      resumed = read_checkpoint_info(*inputs.resume_from);
      inputs.first_step = resumed->step;
      inputs.tokens_seen = resumed->tokens_seen;
      inputs.decay_seconds = resumed->decay_seconds;
      if (!resumed->padded) inputs.cut = BatchPlan::Cut::whole;
    }
    tokenizer = tokenizer_of_run(config, inputs, resumed);
  });
  inputs.source =
      open_tokens(world, config, tokenizer, /*held_out_only=*/false, speaks, resumed ? resumed->data : std::nullopt);
  comm::expect_same_facts(world, facts_of(inputs.source));
  std::vector<std::string> warnings;
  comm::act_together(world, [&] {
    if (resumed) warnings = expect_same_run(config, *resumed, inputs.source);
  });
  if (world.rank() != 0) warnings.clear();
  for (const std::string& warning : warnings) Log(LogTopic::run, 0).warning("{}", warning);
  // Bytes were a guess where token files tell another tokenizer.
  const std::optional<std::uint64_t>& of_ids = inputs.source.tokenizer;
  const bool guessed = tokenizer.tokenizer && !tokenizer.expected;
  if (!guessed || !of_ids || *of_ids == tokenizer.tokenizer->facts().digest) inputs.tokenizer = tokenizer.tokenizer;
  inputs.tokenizer_digest = inputs.tokenizer ? inputs.tokenizer->facts().digest : of_ids;
  inputs.share = inputs.resume_from ? agree_on_weights(world, inputs.resume_from)
                                    : agree_on_weights(world, inputs.init_from, config.adapter);
  return inputs;
}

}  // namespace weft::train
