// What a folder of PEFT holds: the tensors of its adapters by the weights that they change, and what they are as a
// configuration.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "ops/model_config.h"
#include "train/checkpoint/safetensors.h"

namespace weft::train {

inline constexpr const char* kAdapterFile = "adapter_model.safetensors";

/// A file of adapters, by the names of the weights that they change.
class AdapterTensors {
 public:
  /// The two tensors of a module.
  struct Halves {
    std::string module;  // as the file names it, without PEFT's prefix
    const StoredTensorInfo *a = nullptr, *b = nullptr;
  };

  /// Throws UserError, naming the tensor, on tensors of other kinds than adapters, and on a half alone.
  AdapterTensors(const std::filesystem::path& folder, ops::Family family);

  const SafetensorsFile& file() const { return file_; }
  const std::map<std::string, Halves>& by_weight() const { return halves_; }
  const Halves* find(const std::string& weight) const;
  /// The tensor that a parameter of an adapter is stored in.
  const StoredTensorInfo& stored(const ops::StoredTensor& piece) const;

 private:
  void add(const StoredTensorInfo& tensor);

  SafetensorsFile file_;
  ops::Family family_;
  std::map<std::string, Halves> halves_;
};

/// The adapters that `folder` has for a model without any. Of each kind of module all layers have one, of one rank and
/// alpha. Throws UserError, naming file and member or tensor, on other kinds of adapters (see read_peft_config()), on
/// tensors that the model has no module for, with another shape or a half missing, and on a config that tells other
/// modules or ranks than the tensors.
ops::LoraConfig read_adapters(const std::filesystem::path& folder, const ops::ModelConfig& base);

}  // namespace weft::train
