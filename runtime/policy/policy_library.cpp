#include "runtime/policy/policy_library.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/shared_library.h"
#include "runtime/policy/library/library_answer.h"
#include "runtime/policy/library/library_version_1.h"
#include "runtime/policy/library/library_version_2.h"
#include "runtime/policy/policy_abi.h"

namespace weft::policy {
namespace {

// The loader searches system folders for a path without a slash, so the path is made absolute.
std::array<std::string, 1> place_of(const std::string& path) {
  return {std::filesystem::absolute(path).string()};
}

class LibraryPolicy final : public Policy {
 public:
  LibraryPolicy(std::string path, std::string parameters)
      : path_(std::move(path)), parameters_(std::move(parameters)), library_(place_of(path_)) {
    if (!library_) {
      throw UserError(fmt::format("can't load the policy {}: {}", path_, library_.failure()),
                      "a shared library as in examples/policy", "check the path and how the library was linked");
    }
    if (auto* const entry = library_.find<const weft2_policy*(std::uint32_t)>("weft_policy_entry_2")) {
      version_2_ = entry(weft2_version);
      check_version_2(path_, version_2_);
      return;
    }
    auto* const entry = library_.find<const weft_policy*()>("weft_policy_entry");
    if (entry == nullptr) {
      refuse_library(path_, "it exports no function weft_policy_entry_2",
                     "declare it extern \"C\" and export it, as examples/policy does");
    }
    version_1_ = entry();
    check_version_1(path_, version_1_);
  }

  std::string name() const override { return parameters_.empty() ? path_ : path_ + ":" + parameters_; }

  std::vector<plan::Rewrite> rewrites(const graph::Graph& graph, const PolicyOptions& options) const override {
    if (version_2_ == nullptr) return {};
    return ask_rewrites(path_, functions_of(*version_2_), parameters_, graph, options);
  }

  plan::Order order(const graph::Graph& graph, const PolicyOptions& options) const override {
    if (version_2_ != nullptr) return ask_version_2(path_, functions_of(*version_2_), parameters_, graph, options);
    return ask_version_1(path_, *version_1_, parameters_, graph, options);
  }

 private:
  std::string path_, parameters_;
  SharedLibrary library_;
  const weft2_policy* version_2_ = nullptr;
  const weft_policy* version_1_ = nullptr;  // if the library has no entry of version 2
};

}  // namespace

std::unique_ptr<Policy> load_policy_library(const std::string& path, std::string parameters) {
  return std::make_unique<LibraryPolicy>(path, std::move(parameters));
}

}  // namespace weft::policy
