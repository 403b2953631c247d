// Files of measured costs, which `weft profile` writes and every planning command reads.
#pragma once

#include <string>
#include <string_view>

#include "runtime/cost/profile.h"

namespace weft::cost {

/// JSON: format "weft-profile", version 1, the members of the profile, an entry a line.
std::string profile_json(const Profile& profile);

/// Reads what profile_json() writes. `name` stands for the file in messages. Throws UserError unless every part is
/// there and believable: each signature once, times finite and not negative.
Profile parse_profile(std::string_view json_text, const std::string& name);

Profile load_profile(const std::string& path);

/// The CPU as the system names it: "AMD EPYC 9B14".
std::string cpu_name();

}  // namespace weft::cost
