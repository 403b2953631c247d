// What names of a device's work tell: whether a kernel communicates, computes or moves memory, which collective it is,
// and a short name that still tells it from others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::inspect {

/// With the rules of Holistic Trace Analysis (hta/common/types.py), and the names of libraries that it doesn't know:
/// DeepEP, NVSHMEM, symmetric memory, all-reduces of vLLM and TensorRT-LLM. other: neither computes nor communicates
/// nor moves memory, such as a wait.
enum class DeviceClass : std::uint8_t { compute, communication, memory, other };

DeviceClass device_class(std::string_view name);

/// Stands for kernels that were launched and aren't in the trace: nobody knows what they did.
inline constexpr std::string_view kLostKernel = "lost_kernel";

/// Kernels that a person calls communication: `pattern` is a part of the name, or all of it where it has '*' or '?'.
struct CommunicationRule {
  std::string pattern, kind;  // kind: one of collective_kinds(); "": as the name tells
};

/// "PATTERN" or "PATTERN=KIND". Throws UserError.
CommunicationRule parse_communication_rule(std::string_view text);
bool matches(const CommunicationRule& rule, std::string_view name);

/// The collective of a kernel, "" if its name doesn't tell; none if it doesn't communicate.
std::optional<std::string> communication_of(std::string_view name, const std::vector<CommunicationRule>& rules);

/// "all_reduce" of ncclDevKernel_AllReduce_Sum_f32_RING_LL or of "_allgather_base": how Weft calls collectives. "" if
/// the name is of none. A kernel that sends and receives is called "send_receive".
std::string_view collective_kind(std::string_view name);
std::vector<std::string> collective_kinds();

/// Whether a kernel that counts as computing has a word of communication in its name.
bool looks_like_communication(std::string_view name);

/// The function's name without return type, namespaces, template arguments and parameters: "DeviceScanKernel". Texts
/// without them, such as "Memcpy DtoD (Device -> Device)", become one word: "memcpy_dtod".
std::string short_kernel_name(std::string_view name);

/// Short names of different kernels, by index. Where several have the same one, or one that says nothing, the template
/// argument that tells them apart is added: "device_kernel<FlashAttnBwd>".
std::vector<std::string> telling_kernel_names(const std::vector<std::string_view>& names);

}  // namespace weft::inspect
