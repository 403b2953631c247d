// The throughputs that AxoNN's authors published, with which a simulation of AxoNN can be compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/model_config.h"

namespace weft::study {

/// One training run of Singh et al., "Democratizing AI: Open-source Scalable LLM Training on GPU-based Supercomputers"
/// (SC '24): sequences of 2,048 tokens, bf16, every layer recomputed.
struct PublishedPoint {
  std::string machine, model;  // names of a machine file and of a model
  std::int64_t ranks = 1;
  std::int64_t sequences = 8192;  // of a step: 16.8 million tokens
  double petaflops = 0;           // sustained by all ranks, recomputation counted; 0: only an efficiency is published
  bool verified = false;          // read in the paper itself, not in a source that cites it
  bool fitted = false;            // at the small end of its machine's series: constants are fitted to it
  double efficiency = 0;          // published rate of a rank over that of the machine's smallest run; 0: none
};

/// By machine and rising ranks. The smallest run of a machine comes first.
const std::vector<PublishedPoint>& published_points();

/// "gpt-5b on 512 ranks of frontier".
std::string to_string(const PublishedPoint& point);

/// The rate of the data sheet for dense products in bf16, in 10¹² operations a second of a rank, of which the paper
/// gives percentages.
double advertised_teraflops(const std::string& machine);

/// Floating-point operations of a step as the paper counts them, with the forward pass computed twice and attention
/// unmasked: 96·B·S·l·h²·(1 + S/6h + V/16lh) (Narayanan et al., SC '21, equation 3). Divided by the step and the peak
/// it gives the hardware FLOPs utilization, HFU.
double hardware_flops(const ops::ModelConfig& model, std::int64_t sequences, std::int64_t seq_len);

}  // namespace weft::study
