#include "runtime/plan/collective_signature.h"

#include <fmt/format.h>

#include <stdexcept>
#include <type_traits>

namespace weft::plan {

CollectiveSignature signature_of(const graph::Graph& graph, graph::TaskId collective) {
  const graph::Task& task = graph.task(collective);
  CollectiveSignature signature;
  signature.task = task.name;
  signature.kind = graph::kind_name(task.operation);
  std::visit(
      [&]<class Op>(const Op& op) {
        if constexpr (std::is_same_v<Op, graph::Opaque>) {
          signature.channel = op.queue;
        } else if constexpr (requires { op.channel; }) {
          signature.channel = op.channel;
          signature.count = op.count;
        } else {
          throw std::logic_error("'" + task.name + "' isn't a collective");
        }
      },
      task.operation);
  if (const graph::Access* payload = graph::payload_of(task))
    signature.dtype = graph.tensor(payload->view.tensor).dtype;
  return signature;
}

std::string to_string(const CollectiveSignature& signature) {
  return fmt::format("{} ({} of {} {} on {})", signature.task, signature.kind, signature.count,
                     to_string(signature.dtype), graph::to_string(signature.channel));
}

}  // namespace weft::plan
