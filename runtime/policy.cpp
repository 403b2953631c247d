#include "runtime/policy.h"

#include <array>

#include "base/error.h"
#include "runtime/policies/program.h"
#include "runtime/policies/serial.h"

namespace weft {
namespace {

template <class P>
std::unique_ptr<Policy> make() {
  return std::make_unique<P>();
}

using Factory = std::unique_ptr<Policy> (*)();
constexpr std::array<Factory, 2> kFactories = {make<SerialPolicy>, make<ProgramPolicy>};

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Factory factory : kFactories) names.push_back(factory()->name());
  return names;
}

std::unique_ptr<Policy> make_policy(std::string_view name) {
  for (const Factory factory : kFactories) {
    std::unique_ptr<Policy> policy = factory();
    if (policy->name() == name) return policy;
  }
  const std::vector<std::string> names = policy_names();
  const std::string nearest = nearest_name(name, names);
  throw UserError("unknown policy \"" + std::string(name) + "\"", "one of " + join(names),
                  nearest.empty() ? "choose one of them" : "write \"" + nearest + "\"");
}

}  // namespace weft
