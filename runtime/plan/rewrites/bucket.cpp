// Buckets of all-reduces: fewer, larger messages over contiguous tensors.
#include <algorithm>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include "graph/named_accesses.h"
#include "runtime/plan/rewrites/graph_draft.h"
#include "runtime/plan/rewrites/rewrites.h"

namespace weft::plan {
namespace {

constexpr std::int64_t kAlignment = 64;  // bytes: the alignment of operands that kernels and messages prefer

bool aligned(const graph::Tensor& tensor) {
  return tensor.bytes() % kAlignment == 0;
}

// The range that the task reduces on the channel, if it may join a bucket.
std::optional<graph::View> reduced_range(const graph::Graph& graph, const graph::Task& task, graph::Channel channel) {
  const graph::AllReduce* reduce = plain_all_reduce(task);
  if (reduce == nullptr || reduce->channel != channel) return {};
  const graph::View& view = buffer_of(task);
  if (graph::is_state(graph.tensor(view.tensor).role)) return {};
  return view;
}

// Members reduce whole tensors, or contiguous parts of one tensor (the tensors that another channel's bucket joined).
struct Bucket {
  std::vector<std::size_t> members;  // tasks
  std::int64_t bytes = 0;
  bool whole = true;
  bool has_unaligned = false;       // for whole tensors
  std::int64_t begin = 0, end = 0;  // for parts: a range of elements
};

// Walks the tasks of a graph once and reorders them so that the members of each bucket can become one task.
class BucketMaker {
 public:
  BucketMaker(const graph::Graph& graph, graph::Channel channel, std::int64_t bytes)
      : graph_(graph), channel_(channel), bytes_(bytes), waits_for_(graph.tasks().size(), 0) {}

  std::shared_ptr<const graph::Graph> run() {
    for (std::size_t i = 0; i < graph_.tasks().size(); ++i) visit(i);
    close();
    return draft_of_order();
  }

 private:
  const graph::Task& task(std::size_t i) const { return graph_.tasks()[i]; }

  void visit(std::size_t i) {
    const bool waits = open_ && mark(i);
    const graph::Channel* channel = graph::channel_of(task(i).operation);
    if (channel == nullptr || *channel != channel_) {
      (open_ ? behind_ : order_).push_back(i);
      return;
    }
    const auto range = reduced_range(graph_, task(i), channel_);
    if (open_ && !waits && range && !joined_.contains(range->tensor) && fits(i, *range)) {
      join(i, *range);
      return;
    }
    close();
    if (!range || joined_.contains(range->tensor)) {
      order_.push_back(i);
      return;
    }
    open_.emplace();
    open_->whole = is_whole(*range);
    open_->begin = open_->end = range->offset;
    ++number_;
    join(i, *range);
  }

  // Does the task wait for a member of the open bucket, directly or not?
  bool mark(std::size_t i) {
    const auto edges = graph_.in_edges(graph::TaskId(i));
    if (std::ranges::any_of(edges, [&](const graph::Edge& edge) {
          return edge.distance == 0 && waits_for_[edge.from.index()] == number_;
        })) {
      waits_for_[i] = number_;
      return true;
    }
    return false;
  }

  bool is_whole(const graph::View& range) const { return range.elements() == graph_.tensor(range.tensor).elements(); }

  std::int64_t bytes_of(const graph::View& range) const {
    return range.elements() * static_cast<std::int64_t>(size_of(graph_.tensor(range.tensor).dtype));
  }

  bool fits(std::size_t i, const graph::View& range) const {
    const graph::Task &first = task(open_->members.front()), &other = task(i);
    const graph::TensorId tensor = buffer_of(first).tensor;
    const graph::Tensor &ours = graph_.tensor(tensor), &theirs = graph_.tensor(range.tensor);
    if (first.phase != other.phase || first.micro_batch != other.micro_batch || ours.dtype != theirs.dtype ||
        ours.role != theirs.role ||
        std::get<graph::AllReduce>(first.operation).ranks != std::get<graph::AllReduce>(other.operation).ranks ||
        open_->bytes + bytes_of(range) > bytes_ || open_->whole != is_whole(range)) {
      return false;
    }
    if (open_->whole) return aligned(theirs) || !open_->has_unaligned;
    return tensor == range.tensor && (range.offset == open_->end || range.end() == open_->begin);
  }

  void join(std::size_t i, const graph::View& range) {
    waits_for_[i] = number_;
    open_->members.push_back(i);
    open_->bytes += bytes_of(range);
    open_->has_unaligned = open_->has_unaligned || !aligned(graph_.tensor(range.tensor));
    open_->begin = std::min(open_->begin, range.offset);
    open_->end = std::max(open_->end, range.end());
    // The bucket moves to this position: tasks that wait for it go after it, the others stay before it.
    for (const std::size_t between : behind_) {
      (waits_for_[between] == number_ ? moved_ : order_).push_back(between);
    }
    behind_.clear();
  }

  void close() {
    if (!open_) return;
    order_.push_back(open_->members.back());
    order_.insert(order_.end(), moved_.begin(), moved_.end());
    order_.insert(order_.end(), behind_.begin(), behind_.end());
    moved_.clear();
    behind_.clear();
    if (open_->members.size() > 1) {
      for (const std::size_t member : open_->members) joined_.insert(buffer_of(task(member)).tensor);
      buckets_.push_back(std::move(*open_));
    }
    open_.reset();
  }

  std::shared_ptr<const graph::Graph> draft_of_order() {
    GraphDraft draft(graph_);
    std::vector<std::pair<graph::TensorId, std::int64_t>> place(graph_.tensors().size());
    for (std::size_t i = 0; i < place.size(); ++i) place[i] = {graph::TensorId(i), 0};
    for (const Bucket& bucket : buckets_) merge(draft, bucket, place);
    for (const std::size_t i : order_) {
      for (graph::Access& access : draft.task(i).accesses) {
        if (access.view.tensor.index() >= place.size()) continue;  // a bucket's tensor
        const auto [tensor, offset] = place[access.view.tensor.index()];
        access.view.tensor = tensor;
        access.view.offset += offset;
      }
    }
    draft.reorder(order_);
    return std::move(draft).build();
  }

  void merge(GraphDraft& draft, const Bucket& bucket,
             std::vector<std::pair<graph::TensorId, std::int64_t>>& place) const {
    if (!bucket.whole) {
      const graph::TensorId tensor = buffer_of(task(bucket.members.front())).tensor;
      become_bucket(draft, bucket, {tensor, bucket.begin, 1, bucket.end - bucket.begin, bucket.end - bucket.begin});
      return;
    }
    std::vector<graph::TensorId> tensors;
    for (const std::size_t member : bucket.members) tensors.push_back(buffer_of(task(member)).tensor);
    std::stable_partition(tensors.begin(), tensors.end(),
                          [&](graph::TensorId id) { return aligned(graph_.tensor(id)); });
    graph::Tensor merged = graph_.tensor(tensors.front());
    std::int64_t count = 0;
    for (const graph::TensorId id : tensors) {
      place[id.index()].second = count;
      count += graph_.tensor(id).elements();
    }
    merged.name += ".bucket";
    merged.shape = {count};
    const graph::TensorId whole = draft.add_tensor(std::move(merged));
    for (const graph::TensorId id : tensors) place[id.index()].first = whole;
    become_bucket(draft, bucket, {whole, 0, 1, count, count});
  }

  // The last member becomes the bucket; the other members are dropped.
  void become_bucket(GraphDraft& draft, const Bucket& bucket, const graph::View& range) const {
    graph::Task& reduce = draft.task(bucket.members.back());
    auto& operation = std::get<graph::AllReduce>(reduce.operation);
    operation.count = range.elements();
    const std::int64_t work = graph::all_reduce_workspace(operation.count, operation.ranks);
    reduce.name = draft.fresh_task_name(reduce.name + ".bucket");
    const DType dtype = draft.tensor(range.tensor).dtype;
    const graph::TensorId workspace =
        draft.add_tensor({reduce.name + ".workspace", dtype, {work}, graph::Role::workspace});
    reduce.accesses = graph::accesses_of(
        operation, {{"buffer", graph::read_write(range)}, {"workspace", graph::write({workspace, 0, 1, work, work})}});
  }

  const graph::Graph& graph_;
  const graph::Channel channel_;
  const std::int64_t bytes_;
  std::vector<std::size_t> order_;
  std::optional<Bucket> open_;
  std::uint32_t number_ = 0;              // of the open bucket, from 1 on
  std::vector<std::uint32_t> waits_for_;  // by task: the last bucket that it waits for or belongs to
  std::vector<std::size_t> behind_;       // tasks after the last member of the open bucket
  std::vector<std::size_t> moved_;        // earlier tasks that wait for an earlier member
  std::vector<Bucket> buckets_;
  std::unordered_set<graph::TensorId> joined_;  // a tensor joins one bucket; a second all-reduce of it stays alone
};

}  // namespace

std::shared_ptr<const graph::Graph> bucket_all_reduces(const graph::Graph& graph, const BucketAllReduces& rewrite) {
  std::set<graph::Channel> channels;
  for (const graph::Task& task : graph.tasks()) {
    if (const auto* reduce = std::get_if<graph::AllReduce>(&task.operation)) channels.insert(reduce->channel);
  }
  auto bucketed = std::make_shared<const graph::Graph>(graph);
  for (const graph::Channel channel : channels) bucketed = BucketMaker(*bucketed, channel, rewrite.bytes).run();
  return bucketed;
}

}  // namespace weft::plan
