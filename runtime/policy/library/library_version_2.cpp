#include "runtime/policy/library/library_version_2.h"

#include <fmt/format.h>

#include "runtime/policy/library/library_answer.h"

namespace weft::policy {

void check_version_2(const std::string& path, const weft2_policy* entry) {
  if (entry == nullptr) {
    refuse_library(path, "weft_policy_entry_2() returns null", "return the address of a static weft2_policy");
  }
  if (entry->version != weft2_version) {
    refuse_library(path,
                   fmt::format("it was compiled for version {} of the interface, and this Weft knows 1 and {}",
                               entry->version, static_cast<int>(weft2_version)),
                   "compile it with the policy_abi.h of this version");
  }
  if (entry->size < sizeof(weft2_policy) || entry->order == nullptr) {
    refuse_library(path,
                   fmt::format("its weft2_policy has {} bytes (at least {}), or no function order", entry->size,
                               sizeof(weft2_policy)),
                   "set size to sizeof(weft2_policy), and order");
  }
}

ForeignFunctions functions_of(const weft2_policy& entry) {
  ForeignFunctions functions;
  if (entry.rewrites != nullptr) functions.rewrites = entry.rewrites;
  functions.order = entry.order;
  return functions;
}

std::vector<plan::Rewrite> ask_rewrites(const std::string& path, const ForeignFunctions& functions,
                                        const std::string& parameters, const graph::Graph& graph,
                                        const PolicyOptions& options) {
  if (!functions.rewrites) return {};
  return LibraryCall(LibraryCall::Of::rewrites, path, parameters, graph, options).rewrites(functions);
}

plan::Order ask_version_2(const std::string& path, const ForeignFunctions& functions, const std::string& parameters,
                          const graph::Graph& graph, const PolicyOptions& options) {
  return LibraryCall(LibraryCall::Of::order, path, parameters, graph, options).order(functions);
}

}  // namespace weft::policy
