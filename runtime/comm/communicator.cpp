// Code that all communicators share: checks and descriptions of calls, and waiting for a call to complete.
#include "runtime/comm/communicator.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "runtime/comm/backoff.h"

namespace weft::comm {

std::string_view to_string(CollectiveKind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"};
  return kNames.at(static_cast<std::size_t>(kind));
}

void World::broadcast(std::vector<std::byte>& bytes, int root) {
  auto all = all_gather_bytes(rank() == root ? std::span<const std::byte>(bytes) : std::span<const std::byte>());
  bytes = std::move(all[static_cast<std::size_t>(root)]);
}

std::vector<std::uint64_t> World::all_gather(std::uint64_t value) {
  return of_ranks(*this, value);
}

void run_blocking(Communicator& communicator, const CollectiveCall& call) {
  communicator.start(call);
  for (Backoff backoff; !communicator.progress();) backoff.pause();
}

std::string describe(const CollectiveCall& call) {
  std::string text = fmt::format("{} of {} {}", to_string(call.kind), call.count, to_string(call.dtype));
  if (call.kind == CollectiveKind::broadcast) text += fmt::format(" from rank {}", call.root);
  return text;
}

void check_call(const CollectiveCall& call, int ranks) {
  const char* wrong = nullptr;
  if (call.count < 0) {
    wrong = "negative count";
  } else if (call.root < 0 || call.root >= ranks) {
    wrong = "root outside the group";
  } else if (call.count > 0 && (call.out == nullptr || (!call.in_place() && call.in == nullptr))) {
    wrong = "missing buffer";
  } else if (call.count > 0 && call.sums() && ranks > 1 && call.workspace == nullptr) {
    wrong = "missing workspace";
  }
  if (wrong != nullptr) throw std::logic_error(fmt::format("{}: {}", describe(call), wrong));
}

}  // namespace weft::comm
