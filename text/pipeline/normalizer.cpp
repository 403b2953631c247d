#include "text/pipeline/normalizer.h"

#include <cstddef>

#include "base/overloaded.h"
#include "text/unicode/char_class.h"

namespace weft::text {
std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, done)) {
    out.append(text.substr(done, at - done)).append(to);
    done = at + from.size();
  }
  return out.append(text.substr(done));
}

std::string Normalizer::operator()(std::string_view text) const {
  std::string out(text);
  for (const NormalizerStep& step : steps) {
    std::visit(Overloaded{[&](NormalForm form) { out = normalized(out, form); },
                          [&](const Lowercase&) { out = lower_case(out); },
                          [&](const StripAccents&) { out = without_accents(out); },
                          [&](const Prepend& prepend) {
                            if (!out.empty()) out.insert(0, prepend.text);
                          },
                          [&](const ReplaceText& replace) { out = replaced(out, replace.from, replace.to); },
                          [&](const ReplaceMatches& replace) {
                            std::string made;
                            replace.from.for_each_piece(out, [&](std::string_view piece, bool match) {
                              made.append(match ? std::string_view(replace.to) : piece);
                            });
                            out = std::move(made);
                          },
                          [&](const StripSpace& ends) {
                            if (ends.right) out.erase(out.size() - space_at_end(out));
                            if (ends.left) out.erase(0, space_at_begin(out));
                          }},
               step);
  }
  return out;
}

}  // namespace weft::text
