// Tiles of C in a CPU's AMX units, for the packed matrix product (gemm_tile.h).
#pragma once

#include "kernels/cpu/gemm/gemm_tile.h"

namespace weft::cpu {

/// Whether this build has the code: it requires AVX-512, which every CPU with AMX has. bf16_in_amx() tells whether it
/// may run.
#if defined(__AVX512F__) && defined(__x86_64__)
inline constexpr bool kHasAmx = true;
#else
inline constexpr bool kHasAmx = false;
#endif

/// Asks Linux for permission to use AMX tiles, once per process, as Linux requires (Documentation/arch/x86/xstate.rst).
/// Returns false if the CPU or the kernel has no AMX.
bool allow_amx_tiles();

/// While this object exists, this thread's AMX registers are tiles of 16 rows of 64 bytes. A thread has at most one,
/// and must not meanwhile call libraries that configure tiles themselves (oneDNN). Its destructor releases the tiles:
/// otherwise every thread switch would save 8 KiB.
class AmxTiles {
 public:
  AmxTiles();
  ~AmxTiles();
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
};

/// multiply_tile() for PackedUnit::amx; only if kHasAmx. Subnormal numbers count as zero.
void multiply_amx_tile(const TileArguments& tile);

}  // namespace weft::cpu
