// Agreement of ranks to stop: each rank adds its vote to a number that is summed over ranks in any case, so no extra
// message is needed.
#pragma once

#include <cstdint>

namespace weft::train {

/// The reasons for which a rank, or any rank, wants to stop.
struct StopReasons {
  bool signal = false, time = false;

  bool any() const { return signal || time; }
  void add(const StopReasons& more) {
    signal = signal || more.signal;
    time = time || more.time;
  }
};

/// One rank's vote. Sums are exact in fp32 to 4096 ranks.
inline float stop_vote(const StopReasons& reasons) {
  return (reasons.signal ? 1.0F : 0.0F) + (reasons.time ? 4096.0F : 0.0F);
}

/// The reasons in a sum of votes.
inline StopReasons stop_reasons(float votes) {
  const auto sum = static_cast<std::int64_t>(votes);
  return {sum % 4096 != 0, sum >= 4096};
}

}  // namespace weft::train
