// The name of this processor, under which measurements are kept.
#pragma once

#include <string>

namespace weft::cpu {

/// Vendor, family, model, stepping and the processor's own name: "AuthenticAMD 26.2.1 AMD EPYC". "" on processors
/// without CPUID.
std::string cpu_model();

}  // namespace weft::cpu
