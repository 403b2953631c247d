// Levels and names from CPUID and XCR0; see level.h. In a build with all levels this code runs before the CPU is known,
// so it is compiled for any x86-64.
#include "kernels/cpu/isa/level.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace weft::cpu {
namespace {

template <class... Bits>
constexpr std::uint32_t bits(Bits... numbers) {
  return ((std::uint32_t{1} << numbers) | ...);
}

// From the x86-64 psABI, "Micro-Architecture Levels".
constexpr std::uint32_t kV3Leaf1Ecx = bits(0, 9, 12, 13, 19, 20, 22, 23, 27, 28, 29);  // SSE3 … FMA, MOVBE, AVX, F16C
constexpr std::uint32_t kV3Leaf7Ebx = bits(3, 5, 8);                                   // BMI1, AVX2, BMI2
constexpr std::uint32_t kV3Extended1Ecx = bits(0, 5);                                  // LAHF, LZCNT
constexpr std::uint32_t kV4Leaf7Ebx = bits(16, 17, 28, 30, 31);                        // AVX-512 F, DQ, CD, BW, VL
constexpr std::uint32_t kBf16Leaf7Subleaf1Eax = bits(5);
constexpr std::uint64_t kYmmSaved = bits(1, 2), kZmmSaved = kYmmSaved | bits(5, 6, 7);

template <class Word>
bool has_all(Word word, Word needed) {
  return (word & needed) == needed;
}

}  // namespace

CpuFeatures features_of_this_cpu() {
  CpuFeatures cpu;
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) != 0) cpu.leaf1_ecx = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    cpu.leaf7_ebx = b;
    const bool has_subleaf = a >= 1;
    if (has_subleaf && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) cpu.leaf7_1_eax = a;
  }
  if (__get_cpuid(0x80000001, &a, &b, &c, &d) != 0) cpu.extended1_ecx = c;
  if (has_all(cpu.leaf1_ecx, bits(27))) {  // OSXSAVE: the system uses XSAVE, so XCR0 can be read
    unsigned low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));  // NOLINT(hicpp-no-assembler)
    cpu.xcr0 = std::uint64_t{high} << 32 | low;
  }
#endif
  return cpu;
}

std::string cpu_model() {
  std::string text;
#if defined(__x86_64__)
  struct Registers {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  };
  const auto leaf = [](unsigned number) {
    Registers all;
    __get_cpuid(number, &all.eax, &all.ebx, &all.ecx, &all.edx);
    return all;
  };
  const auto append = [&](const auto&... words) {
    const std::array<unsigned, sizeof...(words)> bits{words...};
    std::array<char, sizeof bits + 1> characters{};
    std::memcpy(characters.data(), bits.data(), sizeof bits);
    text += characters.data();
  };
  const Registers vendor = leaf(0);
  append(vendor.ebx, vendor.edx, vendor.ecx);
  const unsigned version = leaf(1).eax, base = version >> 8 & 0xfU;
  const unsigned family = base == 0xf ? base + (version >> 20 & 0xffU) : base;
  const unsigned model = (version >> 4 & 0xfU) | (base == 0x6 || base == 0xf ? (version >> 16 & 0xfU) << 4 : 0);
  text += " " + std::to_string(family) + "." + std::to_string(model) + "." + std::to_string(version & 0xfU) + " ";
  for (unsigned number = 0x80000002; number <= 0x80000004; ++number) {
    const Registers name = leaf(number);
    append(name.eax, name.ebx, name.ecx, name.edx);
  }
  while (text.ends_with(' ')) text.pop_back();
#endif
  return text;
}

std::optional<IsaLevel> highest_level(const CpuFeatures& cpu) {
  const bool v3 = has_all(cpu.leaf1_ecx, kV3Leaf1Ecx) && has_all(cpu.leaf7_ebx, kV3Leaf7Ebx) &&
                  has_all(cpu.extended1_ecx, kV3Extended1Ecx) && has_all(cpu.xcr0, kYmmSaved);
  if (!v3) return std::nullopt;
  if (!has_all(cpu.leaf7_ebx, kV4Leaf7Ebx) || !has_all(cpu.xcr0, kZmmSaved)) return IsaLevel::v3;
  return has_all(cpu.leaf7_1_eax, kBf16Leaf7Subleaf1Eax) ? IsaLevel::v4_bf16 : IsaLevel::v4;
}

IsaLevel choose_level(std::string_view asked, const CpuFeatures& cpu) {
  std::vector<std::string> names, offered;
  const std::optional<IsaLevel> highest = highest_level(cpu);
  for (const auto& [name, level] : kIsaLevels) {
    names.emplace_back(name);
    if (level <= highest) offered.emplace_back(name);
  }
  if (!highest) {
    throw UserError("this CPU, or its operating system, has no AVX2 and FMA (x86-64-v3)", "a CPU with x86-64-v3",
                    "build Weft on this machine: -DWEFT_ISA=native");
  }
  if (asked.empty()) return *highest;
  const auto* const found = std::ranges::find(kIsaLevels, asked, &std::pair<std::string_view, IsaLevel>::first);
  if (found == kIsaLevels.end()) {
    const std::string nearest = nearest_name(std::string(asked), names);
    throw UserError("--isa " + std::string(asked), "one of " + join(names),
                    nearest.empty() ? "leave --isa out for the CPU's highest level" : "did you mean " + nearest + "?");
  }
  if (found->second > *highest) {
    throw UserError("--isa " + std::string(asked) + " on a CPU without this level", "one of " + join(offered),
                    "--isa " + offered.back());
  }
  return found->second;
}

}  // namespace weft::cpu
