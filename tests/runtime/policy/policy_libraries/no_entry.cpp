// A shared library that is no policy.
extern "C" int weft_policy_answer() {
  return 42;
}
