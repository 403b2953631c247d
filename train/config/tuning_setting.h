// What the key gemm-tuning says: where a run's tuned matrix products come from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::train {

struct TuningSetting {
  enum class From : std::uint8_t {
    checkpoint,  // "": what the checkpoint was trained with, else nothing
    nothing,     // "none": the default methods, whatever a checkpoint holds
    trials,      // "auto": what the checkpoint was trained with, else tuned at the start
    file,        // that `weft tune` wrote
  };
  From from = From::checkpoint;
  std::string file = {};

  friend bool operator==(const TuningSetting&, const TuningSetting&) = default;
};

/// Any text that is no word of the key names a file.
TuningSetting tuning_setting(std::string_view text);

}  // namespace weft::train
