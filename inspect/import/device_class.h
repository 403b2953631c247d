// What work of a device is for, told by its name alone, with the rules of Holistic Trace Analysis
// (hta/common/types.py).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::inspect {

/// other: neither computes nor communicates nor moves memory, such as a wait.
enum class DeviceClass : std::uint8_t { compute, communication, memory, other };

DeviceClass device_class(std::string_view name);

/// "all_reduce" of ncclDevKernel_AllReduce_Sum_f32_RING_LL or of "_allgather_base": how Weft calls collectives. "" if
/// the name is of none. A kernel that sends and receives is called "send_receive".
std::string_view collective_kind(std::string_view name);

/// The function's name without return type, namespaces, template arguments and parameters: "DeviceScanKernel". Texts
/// without them, such as "Memcpy DtoD (Device -> Device)", become one word: "memcpy_dtod".
std::string short_kernel_name(std::string_view name);

}  // namespace weft::inspect
