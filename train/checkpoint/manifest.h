// The manifest of a checkpoint: facts about the run, its files with their checksums, and the parts of tensors in each
// file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/files/durable_file.h"
#include "ops/model_config.h"
#include "text/tokenizer.h"
#include "train/checkpoint/hf_config.h"

namespace weft::train {

/// The fix where a checkpoint can't be read.
inline constexpr const char* kUseAnother = "use another checkpoint of the run";

/// What tells the data of a run from other data. Of token files and texts, as far as they are read; collisions aside.
struct DataMark {
  std::uint64_t files = 0, last_tokens = 0;  // number of files to train on, and tokens of the last one
  std::uint64_t digest = 0;                  // of their tokens, those held out of them too
  std::uint64_t val_digest = 0;              // of the tokens of files that are held out whole
  std::uint64_t split = 0;                   // of both, and of which tokens are held out

  friend bool operator==(const DataMark&, const DataMark&) = default;
};

/// A checkpoint's description of itself; together with the arrays, all data from which a run continues. The data
/// position follows from the tokens seen (see BatchPlan), and Philox has no state.
struct CheckpointInfo {
  std::int64_t step = 0;  // steps done; the first step to run next
  std::uint64_t seed = 42;
  std::uint64_t tokens_seen = 0;
  DType dtype = DType::f32;
  ops::ModelConfig model;
  std::string config_toml;                      // the resolved configuration
  std::map<std::string, std::string> versions;  // "weft": "0.1.0", and of the libraries that compute
  std::string gemm_tuning = {};  // see gemm_tuning_file.h; kept in a file beside the manifest, empty: none
  std::vector<text::TokenizerFile> tokenizer = {};  // to be written; found by load_tokenizer() in the folder
  std::optional<TextEnds> ends = {};                // of its texts, to be written
  std::string base = {};  // below adapters: the init-from of the run that began with them; empty without adapters
  std::optional<double> val_loss = {};  // held-out loss of this step, of runs that keep the best checkpoint
  std::optional<std::uint64_t> tokenizer_digest = {};  // of the ids it reads (text::TokenizerFacts), if it is known
  std::optional<DataMark> data = {};                   // none in checkpoints of older builds
  bool padded = false;                                 // BatchPlan::Cut; false in checkpoints of older builds
  double decay_seconds = 0;  // that time limits have taken from the learning rate's decay; see TimeLimit
};

/// A stored shard: elements [range_begin, range_end), counted row-major, of the block [block_begin, block_end) of a
/// tensor. A grid that shards the model cuts each matrix into blocks over x and y and each block into ranges over z;
/// data parallel ranks hold equal parameters, so that one of them stores whole tensors:
///
///   {"file": "optimizer.safetensors", "entry": "h.0.attn.c_attn.weight.m", "tensor": "h.0.attn.c_attn.weight",
///    "content": "m", "dtype": "F32", "layout": "in, out", "global_shape": [64, 192],
///    "block": [[0, 64], [0, 192]], "range": [0, 12288]}
struct StoredShard {
  std::string file;     // one of the manifest's files
  std::string entry;    // the tensor's name in that file
  std::string tensor;   // Hugging Face's name of the parameter
  std::string content;  // "parameter", or "m", "v" and "master" of the optimizer
  std::string dtype;    // as safetensors names it
  std::string layout;   // of the dimensions: "out, in", "in, out" (GPT-2's transposed matrices), "out" of vectors
  std::vector<std::uint64_t> global_shape, block_begin, block_end;
  std::uint64_t range_begin = 0, range_end = 0;

  /// Is the shard the whole of its tensor?
  bool whole() const;
};

struct Manifest {
  CheckpointInfo info;
  std::map<std::string, FileSummary> files;  // by name, without folders
  std::vector<StoredShard> shards;
};

/// JSON: format "weft-checkpoint", version 2, the members above, and "crc32c", the checksum of the rest.
std::string to_json(const Manifest& manifest);

/// Reads what to_json() writes. `name` stands for the file in messages. Throws UserError unless every member is present
/// and valid: a model that can be trained, file names without folders, shards within their blocks, each entry once and
/// in a listed file, and the right checksum.
Manifest parse_manifest(std::string_view json_text, const std::string& name);

/// Reads manifest.json of a checkpoint's folder, and checks that the files that it lists are there in full size. Throws
/// UserError.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace weft::train
