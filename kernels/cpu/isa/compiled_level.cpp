// The compiler's macros as a level; see kernel_choice.h.
#include "kernels/cpu/isa/kernel_choice.h"

namespace weft::cpu {

std::string_view compiled_level() {
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#if defined(__AVX512BF16__)
  return "v4-bf16" WEFT_LEVEL_SUFFIX;
#else
  return "v4" WEFT_LEVEL_SUFFIX;
#endif
#elif defined(__AVX512F__)
  return "avx512f" WEFT_LEVEL_SUFFIX;
#elif defined(__AVX2__) && defined(__FMA__)
  return "v3" WEFT_LEVEL_SUFFIX;
#else
  return "baseline" WEFT_LEVEL_SUFFIX;
#endif
}

}  // namespace weft::cpu
