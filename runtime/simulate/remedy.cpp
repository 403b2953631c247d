#include "runtime/simulate/remedy.h"

namespace weft::simulate {

std::string_view identifier_of(RemedyKind kind) {
  switch (kind) {
    case RemedyKind::issue_earlier:
      return "issue_earlier";
    case RemedyKind::issue_later:
      return "issue_later";
    case RemedyKind::pass_queue:
      return "pass_queue";
    case RemedyKind::local_task:
      return "local_task";
    case RemedyKind::unblock:
      return "unblock";
    case RemedyKind::computations_first:
      return "computations_first";
    case RemedyKind::computations_moved:
      return "computations_moved";
    case RemedyKind::rewrite:
      return "rewrite";
    case RemedyKind::no_memory_limit:
      return "no_memory_limit";
    case RemedyKind::no_time:
      return "no_time";
  }
  return "?";
}

bool Remedy::gains() const {
  return gain_ns >= kLeastGain;
}

}  // namespace weft::simulate
