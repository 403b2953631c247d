// What other programs call things: nanoGPT, Hugging Face, torchtitan and Megatron. For suggestions alone, nothing reads
// these names.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::train {

/// The entries of `known` that a name of another program means, the likeliest first: "batch-size" means "global-batch"
/// and "micro-batch", "training.steps" means "steps", "hidden" means "model.hidden". Empty: none of them is meant.
std::vector<std::string> meant_by(std::string_view name, std::span<const std::string> known);

/// A word of another program for a value of a key, "gpu" for "cuda"; "" for any other word.
std::string_view word_meant_by(std::string_view word);

/// "--micro-batch or --global-batch?", to end a question: the names that are meant, else the nearest; "" if none is
/// near. `before`: what each is written behind, "--".
std::string suggestion(std::string_view name, std::span<const std::string> known, std::string_view before = "");

}  // namespace weft::train
