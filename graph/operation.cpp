#include "graph/operation.h"

#include <array>
#include <utility>

namespace weft::graph {

Operation::Operation() = default;
Operation::Operation(const Operation& other) = default;
Operation::Operation(Operation&& other) noexcept = default;
Operation& Operation::operator=(const Operation& other) = default;
Operation& Operation::operator=(Operation&& other) noexcept = default;
Operation::~Operation() = default;

template <class Op>
requires is_alternative_of<Op, OperationVariant>
[[gnu::used]] Operation::Operation(Op op) : OperationVariant(std::move(op)) {}

namespace {

template <class... Ops>
void construct_each(const std::variant<Ops...>& /*of_all*/) {
  (static_cast<void>(Operation(Ops{})), ...);
}

}  // namespace

// Never called: it instantiates the constructor for every operation. Other files could call it, so that no compiler
// leaves it out.
void instantiate_constructors();
void instantiate_constructors() {
  construct_each(OperationVariant());
}

std::string_view to_string(Channel channel) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"x", "y", "z_gather", "z_scatter", "data", "world", "pipe", "embedding", "stage", "send_next",
       "receive_previous", "send_previous", "receive_next", "context", "expert", "expert_copies"});
  static_assert(kNames.size() == kAxisChannels);
  return is_own(channel) ? "own" : kNames.at(static_cast<std::size_t>(channel));
}

std::string_view kind_name(const Operation& operation) {
  if (const auto* opaque = std::get_if<Opaque>(&operation); opaque != nullptr && !opaque->name.empty()) {
    return opaque->name;
  }
  return std::visit([](const auto& op) { return op.kind; }, operation);
}

KindClass kind_class(const Operation& operation) {
  if (const auto* opaque = std::get_if<Opaque>(&operation)) return opaque->drawn_as;
  return std::visit(
      [](const auto& op) {
        if constexpr (requires { op.kind_class; }) {
          return op.kind_class;
        } else {
          return KindClass::elementwise;
        }
      },
      operation);
}

const Channel* channel_of(const Operation& operation) {
  if (const auto* opaque = std::get_if<Opaque>(&operation)) return opaque->queued ? &opaque->queue : nullptr;
  return std::visit(
      [](const auto& op) -> const Channel* {
        if constexpr (requires { op.channel; }) {
          return &op.channel;
        } else {
          return nullptr;
        }
      },
      operation);
}

bool is_collective(const Operation& operation) {
  const auto* opaque = std::get_if<Opaque>(&operation);
  return opaque == nullptr ? channel_of(operation) != nullptr : opaque->queued && !opaque->local;
}

Work work_of(const Operation& operation, double element_bytes) {
  return std::visit([&](const auto& op) { return op.work(element_bytes); }, operation);
}

std::string_view contradiction_in(const Operation& operation) {
  return std::visit(
      [](const auto& op) -> std::string_view {
        if constexpr (requires { op.contradiction(); }) {
          return op.contradiction();
        } else {
          return "";
        }
      },
      operation);
}

}  // namespace weft::graph
