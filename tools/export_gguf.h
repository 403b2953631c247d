// `weft export --format gguf`: a model with its tokenizer as one file for llama.cpp and Ollama.
#pragma once

#include <string>

namespace weft::tools {

struct GgufExport {
  std::string from;       // what `weft export` takes: a run, a checkpoint, a folder of Hugging Face or a GGUF file
  std::string output;     // the file
  std::string type;       // f32, f16, bf16 or q8_0; empty: the model's own
  bool accepted = false;  // another tokenizer
  bool merge = false;     // adapters into the weights
  bool json = false;
};

/// Returns the exit code. Throws UserError where GGUF can't say what the model or its tokenizer has; nothing is written
/// then.
int export_gguf(const GgufExport& options);

}  // namespace weft::tools
