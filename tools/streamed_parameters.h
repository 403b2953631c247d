// A saved model's arrays, read one after the other while a file is written, so that a model needs little memory.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "base/buffer.h"
#include "ops/model_config.h"
#include "train/checkpoint/adapter_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/parameter_state.h"
#include "train/config/saved_model.h"

namespace weft::tools {

/// The arrays, with adapters merged or not. Those asked for last stay in memory: a few of the model's tensors are
/// together in one parameter, and files have others between them. `saved` must outlive the object.
class StreamedParameters {
 public:
  StreamedParameters(const train::SavedModel& saved, bool merges)
      : saved_(saved), merges_(merges), specs_(ops::model_parameters(saved.model)) {}
  StreamedParameters(const StreamedParameters&) = delete;
  StreamedParameters& operator=(const StreamedParameters&) = delete;

  /// Before any array is asked for. Throws UserError like train::open_parameters().
  void open() { read_ = train::open_parameters_and_adapters(saved_.weights(), saved_.model, states()); }
  /// Of all parameters, without arrays.
  std::vector<train::ParameterState> states() const;
  const void* array_of(const train::ParameterState& parameter);

 private:
  struct Array {
    const ops::ParameterSpec* spec = nullptr;
    Buffer bytes;

    train::ParameterState state(DType dtype) { return {spec, dtype, bytes.data()}; }
  };

  Array read(const ops::ParameterSpec& spec, DType dtype) const;
  /// Adapters to merge aren't rounded before they are.
  Array loaded(const ops::ParameterSpec& spec) const;

  const train::SavedModel& saved_;
  const bool merges_;
  const std::vector<ops::ParameterSpec> specs_;
  train::ParameterReader read_;
  std::deque<Array> kept_;
};

}  // namespace weft::tools
