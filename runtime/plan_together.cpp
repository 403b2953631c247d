#include "runtime/plan_together.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/error.h"
#include "runtime/checker.h"
#include "runtime/collective_signature.h"
#include "runtime/order.h"

namespace weft {
namespace {

std::vector<std::byte> to_bytes(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

// One line a collective, so that two ranks' orders can be compared by position.
std::string collective_lines(const Plan& plan) {
  std::string lines;
  for (TaskId task : plan.collectives) lines += to_string(signature_of(*plan.graph, task)) + "\n";
  return lines;
}

std::string line_at(std::string_view lines, std::size_t begin) {
  if (begin >= lines.size()) return "nothing more";
  return std::string(lines.substr(begin, lines.find('\n', begin) - begin));
}

// Where two ranks' collectives part first. Every rank gets the same text.
std::string first_difference(World& world, const Plan& plan) {
  const auto all = world.all_gather_bytes(to_bytes(collective_lines(plan)));
  const auto text = [&](std::size_t rank) {
    return std::string_view(reinterpret_cast<const char*>(all[rank].data()), all[rank].size());
  };
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const auto [ours, theirs] = std::mismatch(text(0).begin(), text(0).end(), text(rank).begin(), text(rank).end());
    if (ours == text(0).end() && theirs == text(rank).end()) continue;
    const auto line = static_cast<std::size_t>(ours - text(0).begin());
    const std::size_t before = line == 0 ? std::string_view::npos : text(0).rfind('\n', line - 1);
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    return fmt::format("collective {}: rank {} issues {} where rank 0 issues {}",
                       std::count(text(0).begin(), text(0).begin() + static_cast<std::ptrdiff_t>(begin), '\n'), rank,
                       line_at(text(rank), begin), line_at(text(0), begin));
  }
  return "the collectives are the same, other tasks differ";
}

// Throws on all ranks if one of them holds another value.
void require_equal(World& world, std::uint64_t value, const Plan* plan, std::string_view what, std::string_view fix) {
  const std::vector<std::uint64_t> values = world.all_gather(value);
  const auto other = std::find_if(values.begin(), values.end(), [&](std::uint64_t v) { return v != values.front(); });
  if (other == values.end()) return;
  const std::string detail = plan == nullptr ? std::string() : "; " + first_difference(world, *plan);
  throw RuntimeFault(fmt::format("rank {} has another {} than rank 0 ({:016x}, {:016x}){}\n  fix: {}",
                                 other - values.begin(), what, *other, values.front(), detail, fix));
}

}  // namespace

std::shared_ptr<const Plan> plan_together(World& world, std::shared_ptr<const Graph> graph, const Policy& policy,
                                          const PolicyOptions& options) {
  require_equal(world, graph->fingerprint(), nullptr, "graph",
                "start all ranks with the same configuration and the same binary");
  std::vector<std::byte> bytes;
  if (world.rank() == 0) bytes = encode(policy.order(*graph, options));
  world.broadcast(bytes, 0);
  auto plan = std::make_shared<const Plan>(make_plan(graph, decode_order(bytes, *graph), policy.name()));

  require_equal(world, plan->collective_fingerprint, plan.get(), "order of collectives",
                "start all ranks with the same binary");
  require_equal(world, plan->fingerprint, nullptr, "plan", "start all ranks with the same binary");
  const std::vector<Violation> violations = check_plan(*plan);
  if (!violations.empty()) {
    std::string text = fmt::format("the plan of policy '{}' is not safe:", policy.name());
    for (const Violation& violation : violations) text += "\n  " + violation.message;
    throw RuntimeFault(text);
  }
  return plan;
}

}  // namespace weft
