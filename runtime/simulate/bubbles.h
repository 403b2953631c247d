// Explanations of a pipeline's bubble: for what a stage without a running computation waits, and what could run then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/simulate/report.h"

namespace weft::simulate {

/// For what a stage's next computation waits.
enum class BubbleCause : std::uint8_t {
  activation,  // a message of the forward pass that another stage hasn't sent yet
  gradient,    // a message of the backward pass that another stage hasn't sent yet
  message,     // a message that is in flight
  receiver,    // a message of its own, which another stage isn't ready to receive and whose bytes it needs
  members,     // a collective for which other stages aren't ready
  collective,  // a collective that is in flight
  step_end,    // the step's end: the stage has no computation left
  other,       // anything else, such as a collective that runs late by the policy's order
};

inline constexpr std::size_t kBubbleCauses = 8;

std::string_view to_string(BubbleCause cause);
/// The key of JSON with its seconds, which keeps its first words.
std::string_view json_key(BubbleCause cause);

/// A time in which no computation of a stage runs, with one cause. Times are nanoseconds since the step's begin.
struct BubbleGap {
  std::size_t stage = 0;
  double begin_ns = 0, end_ns = 0;
  BubbleCause cause = BubbleCause::other;
  graph::TaskId next = {};       // the computation that ends the wait; invalid at the step's end
  graph::TaskId waits_for = {};  // the stage's own task for which it waits; invalid if there is none
  std::size_t other_stage = 0;   // that `waits_for` waits for; the stage itself if there is none
  graph::TaskId made_by =
      {};  // the task there that ended last before the message or collective; invalid if there is none
  /// Computations that ran later, although their inputs were there when the gap began, and that fit into it. Each
  /// counts for one gap.
  double fill_ns = 0;
  std::vector<graph::TaskId> fillers = {};

  double ns() const { return end_ns - begin_ns; }
};

/// The gaps of all stages, by stage and time. The report must have plans.
std::vector<BubbleGap> bubble_gaps(const Report& report);

/// Idle nanoseconds by cause, and how much of them could be filled.
struct BubbleSums {
  std::array<double, kBubbleCauses> ns{};
  double fill_ns = 0;
};

/// By stage.
std::vector<BubbleSums> bubble_sums(const std::vector<BubbleGap>& gaps, std::size_t stages);

/// "stage 0 waits for a gradient for 2.0 us before b: r comes from c of stage 1; 1.0 us could run meanwhile: w".
std::string to_string(const BubbleGap& gap, const Report& report);

}  // namespace weft::simulate
