// PTX instructions of kernels on tensor cores: products, loads of 8 × 8 matrices, and asynchronous
// copies to shared memory. They are in a file of their own so that a test can replace them.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace weft::cuda {

/// sums[16, 8] += a[16, 16]·b[16, 8]
__device__ inline void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Loads four 8 × 8 matrices. Lane l addresses row l mod 8 of matrix l / 8. It gets, in to[i], the columns 2·(l mod 4)
/// and the next of row l / 4 of matrix i; transposed, the rows 2·(l mod 4) and the next of column l / 4.
__device__ inline void load_matrices(std::uint32_t (&to)[4], const __nv_bfloat16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ inline void load_matrices_transposed(std::uint32_t (&to)[4], const __nv_bfloat16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

/// Begins to copy kBytes (4 or 16; both addresses are aligned to it) to shared memory. Unless `there`, copies zeros;
/// `from` isn't read then but must still be a valid address.
template <int kBytes>
__device__ inline void copy_async(void* to, const void* from, bool there) {
  static_assert(kBytes == 4 || kBytes == 16);
  const int bytes = there ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
  }
}
/// Makes one group of the copies that this thread began since the last group.
__device__ inline void commit_copies() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}
/// Waits for all groups of this thread except the last kLeft.
template <int kLeft>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kLeft) : "memory");
}

}  // namespace weft::cuda
