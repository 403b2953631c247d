// Events of traces as PyTorch's profiler writes them, one by one, by every spelling that they have had. Readers say
// which categories they want whole: of the others nothing but the category is read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/files/input_file.h"
#include "inspect/import/device_trace.h"
#include "inspect/import/step_timeline.h"

namespace weft::inspect {

inline constexpr std::int64_t kMostWorld = 1 << 24;  // ranks
/// A member of files that Weft exports: a host's times in them are made up.
inline constexpr std::string_view kMadeUpHost = "weftMadeUpHostTimes";

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
  arrow,    // from a forward operator to its node in the backward pass
  unnamed,  // of another program than PyTorch: work of a device if its arguments name a stream, as for HTA
};

/// Fields that an event lacks keep what clear() gives them.
struct KinetoEvent {
  char phase = 0;  // 'X', 's', 'f', …; 0: none given
  KinetoCategory category = KinetoCategory::other;
  bool has_category = false, has_begin = false, has_length = false;
  bool is_negative = false;  // the length; taken as 0
  std::string name;
  std::int64_t begin = 0, length = 0;
  std::int64_t process = -1, thread = 0;
  std::int64_t id = -1;  // of a flow or an arrow
  // Of args; -1 and 0: absent.
  std::int64_t correlation = kNoCorrelation, record_correlation = kNoCorrelation;
  std::int64_t device = 0, stream = -1, wait_on_stream = -1;
  double bytes = 0;
  bool has_collective = false;
  CollectiveNote collective;
  double in_elements = 0, out_elements = 0;
  std::string dtype;
  std::int64_t record_function = -1;       // by which PyTorch's execution trace names an operator
  double most_input = 0, least_input = 0;  // elements, where is_exchange()

  void clear() {
    std::string kept = std::move(name);  // its memory
    *this = KinetoEvent();
    kept.clear();
    name = std::move(kept);
  }
  /// An operator that asks for a collective, or the collective itself on a thread of gloo.
  bool is_exchange() const { return name.starts_with("c10d::") || name.starts_with(kGloo); }
  bool on_device() const {
    return category == KinetoCategory::kernel || category == KinetoCategory::copy || category == KinetoCategory::set ||
           (category == KinetoCategory::unnamed && stream >= 0);
  }
};

using WantedCategories = bool (*)(KinetoCategory);
using TakeKineto = std::function<void(const KinetoEvent&)>;

/// Bytes of an element by the name of its type: "BFloat16", "c10::Half", "float"; 4 of an unknown one.
double element_bytes(std::string_view dtype);

/// Calls `take(event)` for each wanted event of a file and returns how many events there are. `info`: gets what the
/// file's other members tell, if it isn't null. Throws UserError.
std::int64_t for_each_kineto_event(ByteSource source, const std::string& name, WantedCategories wanted,
                                   const TellImport& tell, const TakeKineto& take, TraceOutline* info = nullptr);

}  // namespace weft::inspect
