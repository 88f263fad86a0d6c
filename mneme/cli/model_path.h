#pragma once

#include <string>

namespace mneme::cli {

/// The folder or file that --model means: a path that is there; a hub id ("org/name") whose snapshot lies in the local
/// Hugging Face cache (HF_HUB_CACHE, HF_HOME/hub, ~/.cache/huggingface/hub); or, for "", the model that set-up fetched
/// (${MNEME_CACHE:-${XDG_CACHE_HOME:-~/.cache}/mneme}/models). Nothing is downloaded.
/// Throws Error(kIo) that says where it looked and how to get the model.
std::string find_model(const std::string& given);

}  // namespace mneme::cli
