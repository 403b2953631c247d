// Of the right version, but with a struct of another size.
#include <weft/policy_abi.h>

extern "C" const weft_policy* weft_policy_entry() {
  static const weft_policy policy = {weft_policy_abi_version, sizeof(weft_policy) + 8, nullptr};
  return &policy;
}
