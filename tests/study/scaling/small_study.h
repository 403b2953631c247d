// A study of small steps that tests share.
#pragma once

#include <vector>

#include "runtime/policy/catalog/policies.h"
#include "study/scaling/scaling.h"

namespace weft::testing {

/// Strong scaling of a small model on one, two and four ranks.
inline study::ScalingStudy small_study() {
  study::ScalingStudy study;
  study.settings = {{"model", "tiny", "--model"},
                    {"machine", "perlmutter", "--machine"},
                    {"seq-len", "32", "--seq-len"},
                    {"global-batch", "8", "--global-batch"}};
  study.points = {{1}, {2}, {4}};
  study.search.policies = {policy::named_policy("lhs")};
  study.search.finalists = 2;
  study.search.threads = 2;
  return study;
}

inline std::vector<study::ScalingRow> rows_of(const study::ScalingStudy& study) {
  return study::run_scaling(study, [](const Status&) {});
}

}  // namespace weft::testing
