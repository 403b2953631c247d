// Which processor this is, to keep under its name what was measured on it.
#pragma once

#include <string>

namespace weft::cpu {

/// "AuthenticAMD 26.2.1 AMD EPYC": vendor, family, model, stepping and the name that the processor gives itself. "" on
/// processors without CPUID.
std::string cpu_model();

}  // namespace weft::cpu
