// Refuses settings that a configuration's device doesn't support.
#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "train/config/config.h"

namespace weft::train {

std::string_view to_string(CommunicatorKind kind) {
  switch (kind) {
    case CommunicatorKind::automatic:
      return "auto";
    case CommunicatorKind::local:
      return "local";
    case CommunicatorKind::nccl:
      return "nccl";
    case CommunicatorKind::staged:
      return "staged";
    case CommunicatorKind::mpi:
      return "mpi";
  }
  return "?";
}

void check_device(const RunConfig& config) {
  const CommunicatorKind kind = config.communicator;
  const std::string communicator = fmt::format("communicator = {}", to_string(kind));
  if (config.device == DeviceKind::cpu) {
    if (kind != CommunicatorKind::nccl && kind != CommunicatorKind::staged) return;
    throw UserError(communicator + " with device cpu", "auto, local or mpi: it moves what lies on GPUs",
                    "--communicator auto, or --device cuda");
  }
  if (config.pack_weights == WeightPacking::on || plan::packs_weights(config.rewrites)) {
    throw UserError("pack-weights with device = cuda", "device cpu: a GPU's products read weights as they are",
                    "leave pack-weights out");
  }
  if (config.check_nan) {
    throw UserError("check-nan with device cuda", "device cpu", "--device cpu: the same step, checked task by task");
  }
  if (kind == CommunicatorKind::mpi) {
    throw UserError(communicator + " with device cuda", "auto, local, nccl, or staged, which is MPI for GPUs",
                    "--communicator staged");
  }
  if (kind == CommunicatorKind::staged && config.cuda_graph) {
    throw UserError(communicator + " with cuda-graph", "a communicator that graphs can hold: local or nccl",
                    "leave --cuda-graph out");
  }
}

}  // namespace weft::train
