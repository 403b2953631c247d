#include "train/config/tuning_setting.h"

namespace weft::train {

TuningSetting tuning_setting(std::string_view text) {
  using From = TuningSetting::From;
  if (text.empty()) return {From::checkpoint};
  if (text == "none") return {From::nothing};
  if (text == "auto") return {From::trials};
  return {From::file, std::string(text)};
}

}  // namespace weft::train
