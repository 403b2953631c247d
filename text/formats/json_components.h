// The components of Hugging Face's tokenizer.json. What isn't known is refused by name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/files/document.h"
#include "text/pipeline/decoder.h"
#include "text/pipeline/normalizer.h"
#include "text/pipeline/pre_tokenizer.h"

namespace weft::text {

/// A member that is there and isn't null.
std::optional<DocumentValue> given(const DocumentValue& object, std::string_view key);

/// Each takes a component, or a "Sequence" of them, and adds its steps.
void add_normalizer(const DocumentValue& component, Normalizer& normalizer);
void add_pre_tokenizer(const DocumentValue& component, PreTokenizer& pre_tokenizer);
void add_decoder(const DocumentValue& component, Decoder& decoder);

/// The ids around a text.
struct TextFrame {
  std::vector<std::int32_t> before, after;
};
void add_post_processor(const DocumentValue& component, TextFrame& frame);

}  // namespace weft::text
