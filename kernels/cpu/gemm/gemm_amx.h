// Tiles of C in a CPU's AMX units, for the packed matrix product (gemm_tile.h).
#pragma once

#include "kernels/cpu/gemm/gemm_tile.h"

namespace weft::cpu {

/// Whether this build has the code: with AVX-512, which every CPU with AMX has. bf16_in_amx() tells whether it may run.
#if defined(__AVX512F__) && defined(__x86_64__)
inline constexpr bool kHasAmx = true;
#else
inline constexpr bool kHasAmx = false;
#endif

/// Asks Linux for the use of AMX tiles, which every process has to, once (Documentation/arch/x86/xstate.rst). False
/// where the CPU or the kernel has none.
bool allow_amx_tiles();

/// While it lives, this thread's AMX registers are tiles of 16 rows of 64 bytes. Only one at a time on a thread, and
/// libraries that set tiles up for themselves (oneDNN) aren't called meanwhile. Afterwards they are as at the start:
/// used tiles are 8 KiB that every switch between threads would save.
class AmxTiles {
 public:
  AmxTiles();
  ~AmxTiles();
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
};

/// multiply_tile() for PackedUnit::amx, only where kHasAmx. Subnormal numbers are zero.
void multiply_amx_tile(const TileArguments& tile);

}  // namespace weft::cpu
