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
  }
  return "?";
}

std::string_view kind_name(const Operation& operation) {
  return std::visit([](const auto& op) { return op.kind; }, operation);
}

KindClass kind_class(const Operation& operation) {
  return std::visit([](const auto& op) { return op.kind_class; }, operation);
}

const Channel* channel_of(const Operation& operation) {
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
