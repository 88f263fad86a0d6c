#pragma once

#include <string>

#include "mneme/generate/batch.h"
#include "mneme/generate/config.h"

namespace mneme {

/// Says when a sequence ends, and why. The clock runs from construction.
class Stopping {
 public:
  Stopping(const GenerationSettings& settings, const GenerateOptions& options);

  /// After a sequence got a token: "stop" (eos, a stop string), "length", "time", "cancelled", or empty: it goes on.
  std::string reason(const Sequence& sequence) const {
    const std::string of_text = reason_of_text(sequence);
    return of_text.empty() ? reason_of_call() : of_text;
  }
  /// The part of it that lies in the text, and the part that does not.
  std::string reason_of_text(const Sequence& sequence) const;
  std::string reason_of_call() const;
  bool is_eos(std::int64_t id) const;
  double seconds() const;

 private:
  bool ends_stop_string(const Sequence& sequence) const;

  const GenerationSettings& settings_;
  const GenerateOptions& options_;
  double start_;
};

}  // namespace mneme
