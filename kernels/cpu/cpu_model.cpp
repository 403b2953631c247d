// The processor's name from CPUID; see cpu_model.h.
#include "kernels/cpu/cpu_model.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace weft::cpu {

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

}  // namespace weft::cpu
