// Compiled, as it says, for a version of the interface that isn't there yet.
#include <weft/policy_abi.h>

extern "C" const weft2_policy* weft_policy_entry_2(uint32_t) {
  static const weft2_policy policy = {weft2_version + 1, sizeof(weft2_policy), 0, nullptr, nullptr};
  return &policy;
}
