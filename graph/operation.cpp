#include "graph/operation.h"

namespace weft::graph {

std::string_view to_string(Channel channel) {
  switch (channel) {
    case Channel::x:
      return "x";
    case Channel::y:
      return "y";
    case Channel::z_gather:
      return "z_gather";
    case Channel::z_scatter:
      return "z_scatter";
    case Channel::data:
      return "data";
    case Channel::world:
      return "world";
    case Channel::pipe:
      return "pipe";
    case Channel::embedding:
      return "embedding";
    case Channel::stage:
      return "stage";
    case Channel::send_next:
      return "send_next";
    case Channel::receive_previous:
      return "receive_previous";
    case Channel::send_previous:
      return "send_previous";
    case Channel::receive_next:
      return "receive_next";
  }
  return "own";
}

std::string_view kind_name(const Operation& operation) {
  if (const auto* opaque = std::get_if<Opaque>(&operation); opaque != nullptr && !opaque->name.empty()) {
    return opaque->name;
  }
  return std::visit([](const auto& op) { return op.kind; }, operation);
}

KindClass kind_class(const Operation& operation) {
  if (const auto* opaque = std::get_if<Opaque>(&operation)) return opaque->drawn_as;
  return std::visit([](const auto& op) { return op.kind_class; }, operation);
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
