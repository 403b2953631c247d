#include "runtime/execute/device/device_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace weft::execute {

void expect_device_memory(const Device& device, const DeviceNeed& need) {
  const std::int64_t needed = need.state + need.scratch + need.buffers + need.kernels;
  if (need.may_take == 0 || needed <= need.may_take) return;
  const auto gib = [](std::int64_t bytes) { return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30)); };
  const DeviceMemory memory = device.memory();
  std::string found = fmt::format("a rank needs at least {} of {}: {} of parameters, optimizer state and inputs",
                                  gib(needed), device.name(), gib(need.state));
  if (need.scratch > 0) found += fmt::format(", {} of activations, gradients and workspaces", gib(need.scratch));
  if (need.kernels > 0) found += fmt::format(", {} of kernels' scratch", gib(need.kernels));
  if (need.buffers > 0) found += fmt::format(", about {} of communicators' buffers", gib(need.buffers));
  const std::string fix = needed - need.kernels <= need.may_take
                              ? "a smaller --attention-workspace, --micro-batch or --seq-len, or fewer ranks on the "
                                "device"
                              : "a smaller model, --micro-batch or --seq-len, --recompute block, or fewer ranks on "
                                "the device";
  throw UserError(found,
                  fmt::format("at most {}, its share of what is free (the device has {} in all)", gib(need.may_take),
                              gib(memory.total)),
                  fix);
}

std::int64_t memory_share(std::span<const DeviceView> views, std::size_t rank) {
  std::int64_t sharing = 0, free = views[rank].free;
  for (const DeviceView& view : views) {
    if (view.device != views[rank].device) continue;
    ++sharing;
    // A rank that read the free memory before another rank made its context saw more than there is now.
    free = std::min(free, view.free);
  }
  return std::max<std::int64_t>(1, free / sharing);
}

}  // namespace weft::execute
