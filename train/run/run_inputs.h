// The files that a run begins with: its data, and the checkpoint or the weights that it goes on from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "runtime/comm/agreement.h"
#include "runtime/comm/communicator.h"
#include "train/checkpoint/read_share.h"
#include "train/config/config.h"
#include "train/data/token_source.h"

namespace weft::train {

struct RunInputs {
  TokenSource source;
  std::optional<std::filesystem::path> resume_from;  // a checkpoint folder
  std::optional<std::filesystem::path> init_from;    // a checkpoint folder, or what load_weights() takes
  std::int64_t first_step = 0;
  ReadShare share = {};  // of reading the checkpoint or the weights
};

/// Compares the checkpoint that a configuration goes on from, which may have told a rank the rest of its configuration:
/// an error about that would name the consequence. Throws and is collective as find_run_inputs().
void agree_on_resumed(comm::World& world, const RunConfig& config);

/// Opens and finds what a resolved configuration names. Each rank looks for itself; what it found has to be what the
/// others found, down to digests of data, manifest and weights, before anything is read into the model. Throws the same
/// UserError on every rank where one finds nothing, or something else. Collective over the world.
RunInputs find_run_inputs(comm::World& world, const RunConfig& config);

/// The part of it that is about `weights`: a checkpoint folder, what load_weights() takes, or none. Returns who shares
/// the reading of them. Collective over the world.
ReadShare agree_on_weights(comm::World& world, const std::optional<std::filesystem::path>& weights);

/// Tokens to train on and held out, and the digest of both.
std::vector<comm::Fact> facts_of(const TokenSource& source);

}  // namespace weft::train
