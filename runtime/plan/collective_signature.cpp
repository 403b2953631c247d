#include "runtime/plan/collective_signature.h"

#include <fmt/format.h>

#include <stdexcept>

namespace weft {

CollectiveSignature signature_of(const Graph& graph, TaskId collective) {
  const Task& task = graph.task(collective);
  CollectiveSignature signature;
  signature.task = task.name;
  signature.kind = kind_name(task.operation);
  std::visit(
      [&]<class Op>(const Op& op) {
        if constexpr (requires { op.channel; }) {
          signature.channel = op.channel;
          signature.count = op.count;
        } else {
          throw std::logic_error("'" + task.name + "' is no collective");
        }
      },
      task.operation);
  if (const Access* payload = payload_of(task)) signature.dtype = graph.tensor(payload->view.tensor).dtype;
  return signature;
}

std::string to_string(const CollectiveSignature& signature) {
  return fmt::format("{} ({} of {} {} on {})", signature.task, signature.kind, signature.count,
                     to_string(signature.dtype), to_string(signature.channel));
}

}  // namespace weft
