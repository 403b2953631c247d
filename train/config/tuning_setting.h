// The value of the key gemm-tuning: the source of a run's tuned matrix products.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::train {

struct TuningSetting {
  enum class From : std::uint8_t {
    checkpoint,  // "": the checkpoint's table, else none
    nothing,     // "none": the default methods, whatever a checkpoint holds
    trials,      // "auto": the checkpoint's table, else tuned at the start
    file,        // a file that `weft tune` wrote
  };
  From from = From::checkpoint;
  std::string file = {};

  friend bool operator==(const TuningSetting&, const TuningSetting&) = default;
};

/// Any text other than these words names a file.
TuningSetting tuning_setting(std::string_view text);

}  // namespace weft::train
