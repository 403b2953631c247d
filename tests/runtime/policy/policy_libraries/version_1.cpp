// A policy of version 1, of which nothing is called: the name of its entry tells the version.
extern "C" const void* weft_policy_entry() {
  return nullptr;
}
