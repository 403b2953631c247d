// The sequences into which tokens are cut, those of each step, a thread that loads them ahead, and the batches of an
// evaluation.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "train/data/goldfish_mask.h"
#include "train/data/token_stream.h"

namespace weft::train {

/// Tokens of a stream that one sequence reads. The target of each is the token after it, where the stream has one.
struct TokenWindow {
  std::uint64_t begin = 0, tokens = 0;
  friend bool operator==(const TokenWindow&, const TokenWindow&) = default;
};

/// Sequences of whole documents: each takes as many as fit, in the stream's order, and the rest of it is padding. A
/// document that is longer than `seq_len` begins a sequence of its own and is cut after each `seq_len` tokens; its last
/// piece may be followed by other documents. Every token is in exactly one window. `stream` knows its documents.
///
/// Example: documents of 3, 4, 9 and 2 tokens in sequences of 8: {0, 7}, {7, 8}, {15, 3}.
std::vector<TokenWindow> document_windows(const TokenStream& stream, std::int64_t seq_len);

/// Number `index` of a random permutation of [0, size): a pure function, so nothing has to be stored to resume.
/// A balanced Feistel network over the next even power of two, walked until it lands below `size` (Black and Rogaway,
/// "Ciphers with arbitrary finite domains", 2002), with Philox as its round function. `size` ≥ 1, `index` < `size`.
std::uint64_t permuted(std::uint64_t index, std::uint64_t size, std::uint64_t seed, std::uint32_t epoch);

/// The order in which a run reads its training tokens: a pure function from the number of a sequence, counted from the
/// start of the run over all ranks, to a window of the stream. So a run resumes from its step alone, and no order
/// depends on the number of ranks.
///
/// An epoch reads each target once: it cuts them into as few windows as hold them, and draws how many of the places
/// that are left pad the first window; the others pad the last one. It draws the windows' order, too.
///
/// Example: 9 tokens, sequences of 3: 8 targets in 3 windows with one place to pad. An epoch reads tokens {0, 1, 2},
/// {3, 4, 5}, {6, 7} or {0, 1}, {2, 3, 4}, {5, 6, 7}.
///
/// Of given windows, an epoch draws the order alone.
class BatchPlan {
 public:
  /// `whole`: of runs that an older build began, whose windows are all of `seq_len` tokens, one less than fit, past a
  /// phase that the epoch draws; what is left on both sides isn't read in this epoch.
  enum class Cut : std::uint8_t { padded, whole };

  /// Throws UserError if `tokens` < seq_len + 1.
  BatchPlan(std::uint64_t tokens, std::int64_t seq_len, std::uint64_t seed, Cut cut = Cut::padded);
  /// Of at least one window, of `seq_len` tokens at most.
  BatchPlan(std::vector<TokenWindow> windows, std::int64_t seq_len, std::uint64_t seed);

  std::int64_t seq_len() const { return static_cast<std::int64_t>(seq_len_); }
  std::uint64_t windows_per_epoch() const { return windows_; }
  /// The tokens that sequence number `sequence` reads.
  TokenWindow window(std::uint64_t sequence) const;
  /// The sequences of the first epoch none of whose targets is learnt.
  std::uint64_t sequences_without_target(const TokenStream& stream) const;

 private:
  std::uint64_t seq_len_, seed_, windows_, phases_;
  std::uint64_t padded_targets_ = 0;  // 0: no window but given ones is padded
  std::vector<TokenWindow> given_;
};

/// A rank's part of each step: rank d of `ranks` runs A micro-batches of B sequences, global sequences
/// [d·A·B, (d+1)·A·B) of the step's ranks·A·B.
/// Of each of them, it has the tokens [part·T/parts, (part+1)·T/parts).
struct BatchShare {
  std::int64_t rank = 0, ranks = 1;
  std::int64_t micro_batches = 1;  // A
  std::int64_t micro_batch = 1;    // B
  std::int64_t part = 0, parts = 1;

  std::int64_t sequences() const { return micro_batches * micro_batch; }
};

/// Tokens of one step and rank, [A, B·T/parts], and the token after each, or −1 where it isn't learnt or is dropped
/// from the loss.
struct Batch {
  std::span<const std::int32_t> tokens, targets;
  std::span<const std::int32_t> document_starts;  // of all B·T tokens, as TokenStream::document_starts(); or empty
  std::int64_t counted = 0;                       // other targets, of all ranks, by which the step's loss is divided
};

/// Fills two slots ahead of the steps in a thread of its own, because tokens may have to come from disk. Allocates only
/// when made; handing over a slot takes an atomic counter, no lock.
class BatchLoader {
 public:
  /// `stream` must outlive the loader. The thread starts at once, with `first_step`. With a mask, each rank reads the
  /// sequences of all ranks, to count the step's targets without a message. `first_sequence`: of the first step, after
  /// steps of other sizes; without it all steps before had this share.
  BatchLoader(const TokenStream& stream, const BatchPlan& plan, const BatchShare& share, std::int64_t first_step,
              std::optional<GoldfishMask> mask = std::nullopt,
              std::optional<std::uint64_t> first_sequence = std::nullopt);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// The batch of `step`, waiting for it if it isn't read yet. Its spans are valid until the following call, which may
  /// overwrite them. Steps are expected one after the other; any other step restarts the thread there. Throws the
  /// thread's read error at the step to which the tokens belong.
  Batch next(std::int64_t step);

 private:
  void start(std::int64_t step);
  void stop();
  void fill(std::int64_t step);
  /// Reads a sequence into the window, and writes its targets and, if the stream knows its documents, their starts.
  /// Returns how many targets count.
  std::int64_t read(std::uint64_t sequence, std::span<std::int32_t> targets, std::span<std::int32_t> document_starts);
  /// The same number of a sequence that another rank reads.
  std::int64_t counted_by_others(std::uint64_t sequence);

  const TokenStream& stream_;
  const BatchPlan plan_;
  const BatchShare share_;
  const std::optional<GoldfishMask> mask_;
  std::uint64_t sequence_of_step_0_ = 0;  // counted on from there modulo 2^64, as steps before may have been larger
  std::array<std::vector<std::int32_t>, 2> tokens_, targets_, document_starts_;
  std::array<std::int64_t, 2> counted_ = {};
  std::vector<std::int32_t> window_;                        // seq_len + 1 tokens, the thread's own
  std::vector<std::int32_t> whole_targets_, other_starts_;  // of one sequence; of one of another rank
  std::int64_t next_step_ = 0;
  std::atomic<std::int64_t> filled_{0};  // steps below are in their slots
  std::atomic<std::int64_t> wanted_{0};  // steps below may be filled; the largest ends the thread
  std::atomic<std::int64_t> failed_{0};  // the step whose tokens couldn't be read, after which the thread has ended
  std::exception_ptr failure_;           // read after `failed_`
  std::thread thread_;
};

/// The held-out tokens cut into windows of T targets, or into given windows, each target in exactly one, in the same
/// number of micro-batches on every rank: a remainder is padded with token 0 and target −1, which the loss ignores.
/// Micro-batch j of rank d holds windows [(j·ranks + d)·B, … + B). So the targets are the same on every number of
/// ranks, in micro-batches of any size.
class EvalBatches {
 public:
  /// `limit`: windows at most, the first ones, over all ranks; 0: all tokens. Throws UserError if there are fewer than
  /// 2 tokens. `stream` must outlive the object.
  /// Windows that are given cover the stream, in its order.
  EvalBatches(const TokenStream& stream, std::int64_t seq_len, const BatchShare& share, std::int64_t limit,
              std::vector<TokenWindow> windows = {});

  /// Micro-batches of each rank.
  std::int64_t size() const { return micro_batches_; }
  /// Tokens, and targets, of one micro-batch.
  std::size_t ids_per_batch() const {
    return static_cast<std::size_t>(share_.micro_batch) * seq_len_ / static_cast<std::size_t>(share_.parts);
  }
  /// Number of targets over all ranks, with those that aren't learnt.
  std::uint64_t targets() const { return targets_; }
  /// Document starts of one micro-batch, which are those of whole sequences.
  std::size_t starts_per_batch() const { return static_cast<std::size_t>(share_.micro_batch) * seq_len_; }
  /// Writes micro-batch `index` of this rank: its tokens and targets, and, if the stream knows its documents and the
  /// span isn't empty, the start of each token's document in its window.
  void fill(std::int64_t index, std::span<std::int32_t> tokens, std::span<std::int32_t> targets,
            std::span<std::int32_t> document_starts = {}) const;

 private:
  /// Window number `index`, with the tokens that have a target.
  TokenWindow window(std::uint64_t index) const;

  const TokenStream& stream_;
  std::uint64_t seq_len_;
  BatchShare share_;
  std::vector<TokenWindow> given_;  // empty: every window but the last has seq_len tokens
  std::int64_t micro_batches_ = 0;
  std::uint64_t targets_ = 0;
};

}  // namespace weft::train
