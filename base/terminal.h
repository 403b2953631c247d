// The terminal that an output stream writes to, if it writes to one: its width, and whether text may have colours.
#pragma once

#include <cstdio>

namespace weft {

struct Terminal {
  bool is_terminal = false;
  int columns = 80;  // 80 where the width isn't known, as in a pipe
  bool colours = false;
};

/// The state of now: people resize terminals. Colours are for terminals only, and neither for TERM=dumb nor where
/// NO_COLOR is set and not empty (see no-color.org).
Terminal terminal_of(std::FILE* file);

}  // namespace weft
