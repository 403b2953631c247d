// One event of a Kineto trace, and how it is read: by every spelling that PyTorch's profiler has had.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "inspect/formats/json_pull.h"
#include "inspect/import/device_trace.h"

namespace weft::inspect {

enum class KinetoCategory : std::uint8_t {
  other,
  kernel,
  copy,
  set,
  call,  // of the runtime or the driver
  sync,
  user_mark,
  cpu_op,
  flow,     // from a call to what it launched
  unnamed,  // of another program than PyTorch: work of a device if its arguments name a stream, as for HTA
};

/// Fields that an event lacks keep what clear() gives them.
struct KinetoEvent {
  char phase = 0;  // 'X', 's', 'f', …; 0: none given
  KinetoCategory category = KinetoCategory::other;
  bool has_category = false, has_begin = false, has_length = false;
  std::string name;
  std::int64_t begin = 0, length = 0;
  std::int64_t thread = 0;
  std::int64_t id = -1;  // of a flow
  // Of args; -1 and 0: absent.
  std::int64_t correlation = kNoCorrelation, record_correlation = kNoCorrelation;
  std::int64_t device = 0, stream = -1, wait_on_stream = -1;
  double bytes = 0;
  bool has_collective = false;
  CollectiveNote collective;
  double in_elements = 0, out_elements = 0;
  std::string dtype;

  void clear();
  bool on_device() const {
    return category == KinetoCategory::kernel || category == KinetoCategory::copy || category == KinetoCategory::set ||
           (category == KinetoCategory::unnamed && stream >= 0);
  }
};

/// Which events a reader wants whole. Of the others only the category is read.
using WantedCategories = bool (*)(KinetoCategory);

/// Reads one event into `event`, which is cleared first.
void read_kineto_event(JsonPull& in, WantedCategories wanted, KinetoEvent& event);

/// Nanoseconds of microseconds as Kineto writes them: with decimals, an exponent or a sign.
std::int64_t nanoseconds_of(JsonPull& in);

/// A whole number as it stands or in quotes; `otherwise` for any other value.
std::int64_t loose_integer(JsonPull& in, std::int64_t otherwise);
/// A list of whole numbers, or the text of one: "[0, 1]". Anything else is no rank.
std::vector<std::int64_t> loose_ranks(JsonPull& in);
/// A text, or the word of a number; "" of anything else. Bytes that aren't UTF-8 become '?'.
std::string loose_text(JsonPull& in);

}  // namespace weft::inspect
