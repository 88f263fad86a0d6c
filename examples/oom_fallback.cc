// Forty sequences under a limit of memory: when their cache does not fit, the same call runs again with full blocks on
// disk, and gives the same ids.
//
//   example_oom_fallback <model folder or .gguf> [text] [bytes]
#include <mneme/mneme.h>

#include <iostream>

namespace {

mneme::GenerateOutput generate_or_offload(const mneme::CausalLM& model, const mneme::EncodedInputs& inputs,
                                          mneme::GenerateOptions options) {
  try {
    return model.generate(inputs, options);
  } catch (const mneme::Error& error) {
    if (error.kind() != mneme::ErrorKind::kOutOfMemory) throw;
    std::cout << error.what() << "\n-> again, with an offloaded cache\n";
    options.cache_implementation = "offloaded";
    options.cache_config.max_cache_bytes.reset();
    return model.generate(inputs, options);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cerr << "usage: example_oom_fallback <model folder or .gguf> [text] [bytes]\n";
    return 2;
  }
  const std::string path = argv[1], text = argc > 2 ? argv[2] : "The capital of France is";
  const auto model = mneme::AutoModelForCausalLM::from_pretrained(path, {.dtype = at::kBFloat16});
  const auto tokenizer = mneme::AutoTokenizer::from_pretrained(path);
  auto inputs = tokenizer.encode(text);
  inputs.input_ids = inputs.input_ids.expand({40, -1});
  inputs.attention_mask = inputs.attention_mask.expand({40, -1});

  const std::int64_t limit = argc > 3 ? std::stoll(argv[3]) : 1 << 20;
  const auto output = generate_or_offload(
      *model, inputs, {.max_new_tokens = 64, .min_new_tokens = 64, .cache_config = {.max_cache_bytes = limit}});
  std::cout << text << tokenizer.decode(output.new_tokens[0]) << "\n";
  std::cout << output.cache_implementation << " cache: " << output.cache_bytes << " bytes in memory, "
            << output.cache_bytes_offloaded << " on disk\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
