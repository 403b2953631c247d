#include "runtime/simulate/exposure_groups.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <tuple>

namespace weft::simulate {

std::string group_name(const std::string& name) {
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  std::string text;
  for (std::size_t at = 0; at < name.size();) {
    const bool begins = at == 0 || !letter(name[at - 1]);
    const std::string_view rest = std::string_view(name).substr(at);
    const std::size_t prefix = !begins ? 0 : rest.starts_with("mb") ? 2 : rest.starts_with("L") ? 1 : 0;
    std::size_t end = at + prefix;
    while (prefix > 0 && end < name.size() && digit(name[end])) ++end;
    if (prefix == 0 || end == at + prefix || (end < name.size() && letter(name[end]))) {
      text += name[at++];
      continue;
    }
    text += name.substr(at, prefix) + "*";
    at = end;
  }
  return text;
}

std::vector<ExposureGroup> exposure_groups(const SimulatedStep& step,
                                           const std::vector<ExposedCollective>& collectives) {
  std::map<std::tuple<std::string, std::string, ExposureCause>, std::size_t> known;
  std::vector<ExposureGroup> groups;
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    const ExposedCollective& exposed = collectives[i];
    const std::string name = group_name(step.name(exposed.task));
    const auto [at, is_new] = known.emplace(
        std::tuple(name, kind_of(step.graph, step.graph.task(exposed.task)), exposed.cause), groups.size());
    if (is_new) groups.push_back({name, {}, 0, {}});
    groups[at->second].members.push_back(i);
    groups[at->second].exposed_ns += exposed.exposed_ns;
  }
  for (ExposureGroup& group : groups) {
    if (group.members.size() == 1) group.name = step.name(collectives[group.members.front()].task);
  }
  std::ranges::stable_sort(groups, std::greater{}, &ExposureGroup::exposed_ns);
  return groups;
}

}  // namespace weft::simulate
