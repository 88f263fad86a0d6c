#pragma once

#include <atomic>
#include <memory>

namespace mneme {

/// A way for any thread to end a call on another one: hand it over as GenerateOptions::cancelled and call cancel().
/// Copies are one token. The call ends after the current token, or the current piece of the prompt (about a quarter of
/// a second), with what there is.
class CancellationToken {
 public:
  void cancel() noexcept { flag_->store(true); }
  bool operator()() const noexcept { return flag_->load(); }

 private:
  std::shared_ptr<std::atomic<bool>> flag_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace mneme
