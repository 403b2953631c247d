// Profile files: measured costs that `weft profile` writes and every planning command reads.
#pragma once

#include <string>
#include <string_view>

#include "runtime/cost/profile.h"

namespace weft::cost {

/// JSON: format "weft-profile", version 2, the members of the profile, an entry a line.
std::string profile_json(const Profile& profile);

/// Reads what profile_json() writes. `name` stands for the file in messages. Throws UserError if a part is missing or
/// implausible: a signature that occurs twice, a time that is negative or infinite.
Profile parse_profile(std::string_view json_text, const std::string& name);

Profile load_profile(const std::string& path);

/// The CPU's name from the system: "AMD EPYC 9B14".
std::string cpu_name();

}  // namespace weft::cost
