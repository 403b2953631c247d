// Policy `ddp-bucket`: gradients are reduced over the data axis in buckets, as PyTorch's DistributedDataParallel does.
#pragma once

#include <cstdint>

#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"

namespace weft::policy {

/// Gradients fill buckets in the order in which the backward pass completes them (Li et al., "PyTorch Distributed:
/// Experiences on Accelerating Data Parallel Training", VLDB 2020). A bucket holds at most `bucket-mb` MiB; the first
/// bucket, which can be sent early, holds at most `first-mb`. A larger gradient has its own bucket. When the last
/// gradient of a bucket is ready, its reductions are issued one after the other, in the order of buckets; the update
/// waits for all of them. All else is as in `program`. As a rewrite, neighbouring all-reduces become one message of at
/// most `bucket-mb`.
class DdpBucketPolicy final : public OneClassPolicy {
 public:
  static constexpr plan::ReasonText kTexts[] = {
      {"bucket {} of {} ({} gradients, {MiB} MiB): issued when its last is ready"}};
  static constexpr plan::ReasonTable kReasons{"ddp-bucket", kTexts};

  DdpBucketPolicy() = default;
  explicit DdpBucketPolicy(PolicyParameters& parameters);
  std::string name() const override { return "ddp-bucket"; }
  std::vector<plan::Rewrite> rewrites(const graph::Graph& graph, const PolicyOptions& options) const override;
  plan::Order order(const graph::Graph& graph, const PolicyOptions& options) const override;

 private:
  std::int64_t bucket_bytes_ = 25 << 20, first_bytes_ = 1 << 20;
};

}  // namespace weft::policy
