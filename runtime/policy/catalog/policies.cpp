#include "runtime/policy/catalog/policies.h"

#include <algorithm>
#include <concepts>
#include <functional>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "runtime/policy/builtin/anneal.h"
#include "runtime/policy/builtin/axonn.h"
#include "runtime/policy/builtin/ddp_bucket.h"
#include "runtime/policy/builtin/deepcompile.h"
#include "runtime/policy/builtin/exact.h"
#include "runtime/policy/builtin/file.h"
#include "runtime/policy/builtin/fit_memory.h"
#include "runtime/policy/builtin/fsdp.h"
#include "runtime/policy/builtin/inductor.h"
#include "runtime/policy/builtin/list_policies.h"
#include "runtime/policy/builtin/portfolio.h"
#include "runtime/policy/builtin/program.h"
#include "runtime/policy/builtin/random.h"
#include "runtime/policy/builtin/recorded.h"
#include "runtime/policy/library/policy_library.h"
#include "runtime/policy/policy_parameters.h"
#include "runtime/policy/python/python_policy.h"
#include "runtime/policy/schedules/pipe_search.h"
#include "runtime/policy/schedules/published.h"
#include "runtime/policy/scheduling/program_order.h"
#include "runtime/policy/scheduling/wait_moves.h"

namespace weft::policy {
namespace {

struct Factory {
  std::string_view name;
  std::function<std::unique_ptr<Policy>(PolicyParameters&)> make;
  const plan::ReasonTable* reasons;  // of the policy alone; null: none
};

template <class P>
Factory factory(std::string_view name) {
  Factory made{name, nullptr, nullptr};
  made.make = [](PolicyParameters& parameters) -> std::unique_ptr<Policy> {
    if constexpr (std::constructible_from<P, PolicyParameters&>) {
      return std::make_unique<P>(parameters);
    } else {
      return std::make_unique<P>();
    }
  };
  if constexpr (requires { P::kReasons; }) made.reasons = &P::kReasons;
  return made;
}

const std::vector<Factory>& factories() {
  static const std::vector<Factory> all = [] {
    std::vector<Factory> factories = {
        factory<SerialPolicy>("serial"),     factory<ProgramPolicy>("program"),
        factory<AxonnPolicy>("axonn"),       factory<DdpBucketPolicy>("ddp-bucket"),
        factory<FsdpPolicy>("fsdp"),         factory<DeepCompilePolicy>("deepcompile"),
        factory<InductorPolicy>("inductor"), factory<CriticalPathPolicy>("critical-path"),
        factory<LhsPolicy>("lhs"),           factory<RandomPolicy>("random"),
        factory<AnnealPolicy>("anneal"),     factory<PortfolioPolicy>("portfolio"),
        factory<ExactPolicy>("exact"),
    };
    for (const PublishedSchedule& each : published_schedules()) {
      const auto make = [&each](PolicyParameters& parameters) {
        return std::make_unique<PublishedPolicy>(each, parameters);
      };
      factories.push_back({each.reasons.name, make, &each.reasons});
    }
    factories.push_back(factory<PipeListPolicy>("pipe-list"));
    factories.push_back(factory<PipeSearchPolicy>("pipe-search"));
    return factories;
  }();
  return all;
}

/// Of code that policies share.
constexpr const plan::ReasonTable* kSharedReasons[] = {&kProgramReasons, &ListScheduler::kReasons, &kLhsReasons,
                                                       &kFittedReasons,  &kPipelineReasons,        &kLibraryReasons,
                                                       &kWaitReasons,    &RecordedPolicy::kReasons};

std::vector<std::string> names_but_for(PolicyScope scope) {
  std::vector<std::string> names;
  for (const Factory& factory : factories()) {
    PolicyParameters none(std::string(factory.name), "");
    if (factory.make(none)->scope() != scope) names.emplace_back(factory.name);
  }
  return names;
}

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Factory& factory : factories()) names.emplace_back(factory.name);
  return names;
}

std::vector<std::string> graph_policy_names() {
  return names_but_for(PolicyScope::pipelines);
}

std::vector<std::string> pipeline_policy_names() {
  return names_but_for(PolicyScope::one_class);
}

bool searches(std::string_view name) {
  const std::string_view bare = name.substr(0, name.find(':'));
  return bare == "anneal" || bare == "portfolio" || bare == "exact";
}

plan::ReasonTables reason_tables() {
  static const std::vector<const plan::ReasonTable*> tables = [] {
    std::vector<const plan::ReasonTable*> all(std::begin(kSharedReasons), std::end(kSharedReasons));
    for (const Factory& factory : factories()) {
      if (factory.reasons != nullptr) all.push_back(factory.reasons);
    }
    return all;
  }();
  return tables;
}

std::unique_ptr<Policy> make_policy(std::string_view name, const TrustedLibraries& libraries) {
  const std::string_view wanted = name.substr(0, name.find(':'));
  const std::string rest(name.substr(std::min(name.size(), wanted.size() + 1)));
  if (wanted == "recorded" && rest.empty()) return std::make_unique<RecordedPolicy>();
  if (wanted == "file") return std::make_unique<FilePolicy>(rest, reason_tables());
  if (const std::string_view library = library_of(name); !library.empty()) {
    if (!libraries.contains(library)) {
      throw UserError("policy " + std::string(library) + " is code, which is loaded only if the command line names it",
                      "a built-in policy or a plan file in a policy that a file names",
                      "if you trust that code, add --policy " + std::string(name));
    }
    if (library.ends_with(".py")) return python_policy(std::string(library), rest);
    return load_policy_library(std::string(library), rest);
  }
  for (const Factory& factory : factories()) {
    if (factory.name != wanted) continue;
    PolicyParameters parameters(std::string(wanted), rest);
    std::unique_ptr<Policy> policy = factory.make(parameters);
    parameters.finish();
    return policy;
  }
  const std::vector<std::string> names = policy_names();
  const std::string nearest = nearest_name(wanted, names);
  std::string fix = nearest.empty() ? "choose one of them" : "write \"" + nearest + "\"";
  if (wanted.find_first_of(",; ") != std::string_view::npos) {
    fix = "name one policy; `weft compare` takes several as separate words: --policies serial program";
  }
  throw UserError("unknown policy \"" + std::string(wanted) + "\"", "one of " + join(names), fix);
}

std::unique_ptr<Policy> default_policy() {
  return std::make_unique<ProgramPolicy>();
}

NamedPolicy named_policy(std::string name, const TrustedLibraries& libraries) {
  std::shared_ptr<const Policy> policy = make_policy(name, libraries);
  return {std::move(name), std::move(policy)};
}

}  // namespace weft::policy
