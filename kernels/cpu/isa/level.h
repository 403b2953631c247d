// The levels of x86-64 for which kernels are built (WEFT_ISA=all), and whether a CPU has them. A level is a set of
// instructions; results depend on it, because vectors have another length and sums another order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace weft::cpu {

/// In rising order: a CPU that has a level has all levels before it.
enum class IsaLevel : std::uint8_t {
  v3,       // x86-64-v3: AVX2 and FMA
  v4,       // x86-64-v4: AVX-512 F, BW, CD, DQ and VL
  v4_bf16,  // x86-64-v4 with AVX512_BF16
};

/// In the order of the enumeration.
inline constexpr std::array<std::pair<std::string_view, IsaLevel>, 3> kIsaLevels = {
    {{"v3", IsaLevel::v3}, {"v4", IsaLevel::v4}, {"v4-bf16", IsaLevel::v4_bf16}}};

constexpr std::string_view to_string(IsaLevel level) {
  return kIsaLevels.at(static_cast<std::size_t>(level)).first;
}

/// What CPUID says about instructions, and which registers the operating system saves (XCR0; 0 if it saves none).
struct CpuFeatures {
  std::uint32_t leaf1_ecx = 0, leaf7_ebx = 0, leaf7_1_eax = 0, extended1_ecx = 0;
  std::uint64_t xcr0 = 0;
};
CpuFeatures features_of_this_cpu();

/// Vendor, family, model, stepping and the processor's own name, under which measurements are kept:
/// "AuthenticAMD 26.2.1 AMD EPYC". "" on processors without CPUID.
std::string cpu_model();

/// The highest level that a CPU and its operating system have; nothing below x86-64-v3.
std::optional<IsaLevel> highest_level(const CpuFeatures& cpu);

/// The level that `asked` names, or the CPU's highest if it is empty. Throws UserError if there is no such level, or if
/// the CPU lacks it.
IsaLevel choose_level(std::string_view asked, const CpuFeatures& cpu);

}  // namespace weft::cpu
