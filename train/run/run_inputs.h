// The input files of a run: its data, and the checkpoint or weights from which it starts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "runtime/comm/agreement.h"
#include "runtime/comm/communicator.h"
#include "text/tokenizer.h"
#include "train/checkpoint/checkpoint.h"
#include "train/config/config.h"
#include "train/data/batches.h"
#include "train/data/token_source.h"
#include "train/data/tokenized_texts.h"

namespace weft::train {

struct RunInputs {
  TokenSource source;
  text::TokenizerPointer tokenizer = nullptr;          // of the texts, or that of the weights; none if nobody knows it
  std::optional<std::filesystem::path> resume_from;    // a checkpoint folder
  std::optional<std::filesystem::path> init_from;      // a checkpoint folder, or what load_weights() takes
  std::optional<std::uint64_t> tokenizer_digest = {};  // of the ids, if it is known
  std::int64_t first_step = 0;
  std::uint64_t tokens_seen = 0;  // before it
  double decay_seconds = 0;       // of a checkpoint: see CheckpointInfo
  BatchPlan::Cut cut = {};        // of the training data; a run keeps that with which it began
  std::string base;               // of adapters: see CheckpointInfo
  ReadShare share = {};           // of reading the checkpoint or the weights
};

/// Compares the checkpoint that a configuration resumes. A rank may have its configuration from there, so a later
/// comparison would only report a consequence. Throws and is collective like find_run_inputs().
void agree_on_resumed(comm::World& world, const RunConfig& config);

/// Opens the files that a resolved configuration names. Each rank opens them itself, and all ranks compare their
/// findings, including digests of data, manifest and weights, before anything is loaded. Throws the same UserError on
/// every rank if a rank finds no file or a different one, or ids of another tokenizer, or a run that isn't the resumed
/// one (see expect_same_run()). Collective over the world.
/// Texts are tokenized by rank 0, and by ranks that don't see its files; `speaks`: with a status line.
RunInputs find_run_inputs(comm::World& world, const RunConfig& config, bool speaks = false);

/// The tokens of a configuration whose model uses `tokenizer`; of none, texts are bytes. `before`: the data of the run
/// that goes on. Collective over the world.
TokenSource open_tokens(comm::World& world, const RunConfig& config, const ModelTokenizer& tokenizer,
                        bool held_out_only, bool speaks = false, const std::optional<DataMark>& before = {});

/// The part of find_run_inputs() about `weights`: a checkpoint folder, a path for load_weights(), or none; and about a
/// folder of adapters beside them, unless it is empty. Returns how ranks share the reading. Collective over the world.
ReadShare agree_on_weights(comm::World& world, const std::optional<std::filesystem::path>& weights,
                           const std::filesystem::path& adapters = {});

/// Tokens to train on and held out, and the digest of both.
std::vector<comm::Fact> facts_of(const TokenSource& source);

}  // namespace weft::train
