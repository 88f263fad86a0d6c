// Beam search: four beginnings on the way, the three best texts with their scores. Beams share the blocks of what they
// have in common, so the prompt is in memory once.
//
//   example_beams <model folder or .gguf> [text]
#include <mneme/mneme.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cerr << "usage: example_beams <model folder or .gguf> [text]\n";
    return 2;
  }
  const std::string path = argv[1], text = argc > 2 ? argv[2] : "The capital of France is";
  const auto model = mneme::AutoModelForCausalLM::from_pretrained(path, {.dtype = at::kBFloat16});
  const auto tokenizer = mneme::AutoTokenizer::from_pretrained(path);

  const auto output = model->generate(tokenizer.encode(text), {.max_new_tokens = 20,
                                                               .num_beams = 4,
                                                               .num_return_sequences = 3,
                                                               .no_repeat_ngram_size = 3,
                                                               .offload_if_out_of_memory = true});
  for (std::size_t i = 0; i < output.new_tokens.size(); ++i) {
    const std::vector<std::int64_t>& ids = output.new_tokens[i];
    std::cout << output.sequences_scores[i] << "  " << text << tokenizer.decode(ids, {.skip_special_tokens = true})
              << "\n";
  }
  std::cout << output.cache_bytes << " bytes of cache\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
