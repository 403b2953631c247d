#include "runtime/policy/catalog/policy_library.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/shared_library.h"
#include "runtime/policy/library/library_answer.h"
#include "runtime/policy/library/library_call.h"
#include "runtime/policy/policy_abi.h"

namespace weft::policy {
namespace {

// The loader searches system folders for a path without a slash, so the path is made absolute.
std::array<std::string, 1> place_of(const std::string& path) {
  return {std::filesystem::absolute(path).string()};
}

[[noreturn]] void refuse_version(const std::string& path, std::uint32_t found) {
  const std::string source = std::filesystem::path(path).stem().string() + ".cpp";
  throw UserError(
      fmt::format("policy {}: it was compiled for version {} of the interface", path, found),
      fmt::format("version {}", static_cast<int>(weft2_version)),
      fmt::format("change the source as docs/policies.md tells, and compile it with the header that `cmake --install "
                  "build --prefix PREFIX` installs: c++ -std=c++20 -O2 -fPIC -shared -I PREFIX/include {} -o {}",
                  source, path));
}

/// The library's own struct. Throws UserError if it isn't of this version.
const weft2_policy& policy_in(const SharedLibrary& library, const std::string& path) {
  auto* const entry = library.find<const weft2_policy*(std::uint32_t)>("weft_policy_entry_2");
  if (entry == nullptr) {
    if (library.find<const void*()>("weft_policy_entry") != nullptr) refuse_version(path, 1);
    refuse_library(path, "it exports no function weft_policy_entry_2",
                   "declare it extern \"C\" and export it, as examples/policy does");
  }
  const weft2_policy* const policy = entry(weft2_version);
  if (policy == nullptr) {
    refuse_library(path, "weft_policy_entry_2() returns null", "return the address of a static weft2_policy");
  }
  if (policy->version != weft2_version) refuse_version(path, policy->version);
  if (policy->size < sizeof(weft2_policy) || policy->order == nullptr) {
    refuse_library(path,
                   fmt::format("its weft2_policy has {} bytes (at least {}), or no function order", policy->size,
                               sizeof(weft2_policy)),
                   "set size to sizeof(weft2_policy), and order");
  }
  return *policy;
}

class LibraryPolicy final : public Policy {
 public:
  LibraryPolicy(std::string path, std::string parameters)
      : path_(std::move(path)), parameters_(std::move(parameters)), library_(place_of(path_)) {
    if (!library_) {
      throw UserError(fmt::format("can't load the policy {}: {}", path_, library_.failure()),
                      "a shared library as in examples/policy", "check the path and how the library was linked");
    }
    policy_ = &policy_in(library_, path_);
  }

  std::string name() const override { return parameters_.empty() ? path_ : path_ + ":" + parameters_; }

  std::vector<plan::Rewrite> rewrites(const graph::Graph& graph, const PolicyOptions& options) const override {
    if (policy_->rewrites == nullptr) return {};
    const std::shared_ptr<const graph::Graph> one = graph::borrowed(graph);
    return LibraryCall(path_, parameters_, {&one, 1}, options).rewrites(policy_->rewrites);
  }

  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const override {
    return LibraryCall(path_, parameters_, classes, options).orders(policy_->order);
  }

  bool orders_several_classes() const override { return policy_->several_classes != 0; }

 private:
  std::string path_, parameters_;
  SharedLibrary library_;
  const weft2_policy* policy_ = nullptr;  // in the library
};

}  // namespace

std::unique_ptr<Policy> load_policy_library(const std::string& path, std::string parameters) {
  return std::make_unique<LibraryPolicy>(path, std::move(parameters));
}

}  // namespace weft::policy
