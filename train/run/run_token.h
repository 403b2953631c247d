// The file with the secret that the processes of a run share: by it they know each other when they meet over TCP.
#pragma once

#include <string>

namespace weft::train {

/// The token in the file `named`; if that is "", in the user's `own` file, which is made with a random token where it
/// is missing, so that processes of one user agree without being told. Throws UserError if there is no such file, or if
/// others may read it.
std::string read_token(const std::string& named, const std::string& own);

}  // namespace weft::train
