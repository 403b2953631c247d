// The table of configuration keys: each key's name, type, help and range with how its field is read and written. TOML
// files, flags, --set, help texts and dumps are all made from it. Internal to train/config.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"

namespace weft::train {

// Keys with their own way of reading or writing a value. Setting `ranks` anew lets the data axis be filled in anew, so
// that a dumped configuration runs with other --ranks.
ConfigKey ranks_key();
ConfigKey grid_key();
ConfigKey axis_order_key();
ConfigKey stages_key();
ConfigKey gpu_kernels_key();
ConfigKey lora_key();
ConfigKey rewrites_key();
ConfigKey nccl_key();
ConfigKey model_key();
/// Of the sizes: one that differs from the named model's makes the model a custom one.
std::vector<ConfigKey> model_size_keys();

/// A key that older builds had, and wrote into every configuration that they stored.
struct FormerKey {
  std::string_view name;
  std::string_view now;      // the key in its place
  std::string_view neutral;  // the value at which it did nothing: a file may still set it to that
  std::string_view reason;   // why it is gone: "counted …, so that …"
  std::string_view fix;
};

/// nullptr: no such key.
const FormerKey* former_key(std::string_view name);

/// The name of a key written in any accepted way: underscores for dashes, "model.name" for "model".
std::string table_name(std::string_view key);

/// The key written in any accepted way.
/// Throws UserError naming the nearest key, or the one in place of a former one.
const ConfigKey& find_key(std::string_view key, std::string_view source);

/// Of the keys of a model's sizes.
inline constexpr std::string_view kModelPrefix = "model.";
inline constexpr std::string_view kVocabKey = "model.vocab";
/// Among RunConfig::given: the vocabulary was given by itself, not by a model's name.
inline constexpr std::string_view kOwnVocab = "model.vocab itself";

/// Loads the sizes of `model_name` where they aren't those of the model held (a RunConfig that nobody has set).
void load_named_model(RunConfig& config);

}  // namespace weft::train
