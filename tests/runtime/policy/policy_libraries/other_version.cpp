// Compiled, as it says, for a version of the interface that isn't this one.
#include <weft/policy_abi.h>

extern "C" const weft_policy* weft_policy_entry() {
  static const weft_policy policy = {weft_policy_abi_version + 1, sizeof(weft_policy), nullptr};
  return &policy;
}
