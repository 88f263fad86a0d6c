#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "mneme/kernels/visibility.h"

namespace mneme::testing {

/// Whether the query at index i sees token j: the definition of Visibility, word for word.
inline bool sees(const kernels::Visibility& v, std::int64_t i, std::int64_t j) {
  if (j > i) return false;
  if (j < v.sinks) return true;
  return (v.window == 0 || j > i - v.window) && (v.chunk == 0 || j / v.chunk == i / v.chunk);
}

struct DenseAttention {
  std::int64_t key_dim, value_dim;
  double scale = 1, softcap = 0;
  kernels::Visibility visibility = {};
  std::int64_t n_keys = 0;                                 ///< 0: causal; else all queries see so many tokens
  std::function<double(std::int64_t distance)> bias = {};  ///< of a key `distance` tokens later than the query

  /// softmax(mask(softcap(scale q k^T) + bias)) v of one query head in double precision; key(j) and value(j) point to
  /// token j.
  template <class Key, class Value>
  std::vector<double> operator()(const float* q, std::int64_t query, const Key& key, const Value& value,
                                 std::optional<double> sink = {}) const {
    std::vector<double> scores, out(static_cast<std::size_t>(value_dim), 0.0);
    std::vector<std::int64_t> seen;
    double largest = sink.value_or(-INFINITY), sum = 0;
    for (std::int64_t j = 0; j < (n_keys ? n_keys : query + 1); ++j) {
      if (n_keys == 0 && !sees(visibility, query, j)) continue;
      double score = 0;
      for (std::int64_t k = 0; k < key_dim; ++k) score += static_cast<double>(q[k]) * key(j)[k];
      score *= scale;
      if (softcap != 0) score = softcap * std::tanh(score / softcap);
      if (bias) score += bias(j - query);
      scores.push_back(score);
      seen.push_back(j);
      largest = std::max(largest, score);
    }
    if (sink) sum = std::exp(*sink - largest);
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (std::size_t s = 0; s < seen.size(); ++s) {
      for (std::int64_t n = 0; n < value_dim; ++n)
        out[static_cast<std::size_t>(n)] += scores[s] / sum * value(seen[s])[n];
    }
    return out;
  }
};

}  // namespace mneme::testing
