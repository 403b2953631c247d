#include "train/data/token_window.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace weft::train {

std::vector<TokenWindow> document_windows(const TokenStream& stream, std::int64_t seq_len) {
  const auto most = static_cast<std::uint64_t>(seq_len);
  const std::span<const std::uint64_t> begins = stream.document_begins();
  std::vector<TokenWindow> windows;
  TokenWindow open;
  const auto close = [&] {
    if (open.tokens > 0) windows.push_back(open);
    open = {open.begin + open.tokens, 0};
  };
  for (std::size_t i = 0; i < begins.size(); ++i) {
    std::uint64_t left = (i + 1 < begins.size() ? begins[i + 1] : stream.size()) - begins[i];
    if (open.tokens + left > most) close();
    for (; left > most; left -= most) {
      open.tokens = most;
      close();
    }
    open.tokens += left;
  }
  close();
  return windows;
}

}  // namespace weft::train
