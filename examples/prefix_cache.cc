// One system prompt, many questions: the prompt is computed once, and every question starts from a copy of its cache.
//
//   example_prefix_cache <model folder or .gguf> [question]...
#include <mneme/mneme.h>

#include <iostream>

namespace {

std::vector<std::int64_t> ids_of(const at::Tensor& row) {
  return {row.const_data_ptr<std::int64_t>(), row.const_data_ptr<std::int64_t>() + row.numel()};
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cerr << "usage: example_prefix_cache <model folder or .gguf> [question]...\n";
    return 2;
  }
  const std::string path = argv[1];
  std::vector<std::string> questions(argv + 2, argv + argc);
  if (questions.empty()) questions = {"Why do cats purr?", "What is the capital of France?", "Why do cats sleep?"};
  const auto model = mneme::AutoModelForCausalLM::from_pretrained(path, {.dtype = at::kBFloat16});
  const auto tokenizer = mneme::AutoTokenizer::from_pretrained(path);

  // What was computed once is found by its ids. The tree keeps 256 MB of blocks, those that texts share once.
  mneme::PrefixTree tree({.max_bytes = 256 << 20});
  const std::string instructions = "Here are short answers to questions that people ask.\nQuestion: ";
  for (const std::string& question : questions) {
    const auto inputs = tokenizer.encode(instructions + question + "\nAnswer:");
    const std::vector<std::int64_t> ids = ids_of(inputs.input_ids);
    auto hit = tree.find(ids);
    mneme::Cache cache = hit ? std::move(hit->cache) : mneme::DynamicCache(model->config());
    const auto output = model->generate(inputs, {.max_new_tokens = 24}, &cache);
    std::cout << question << "\n  " << tokenizer.decode(output.new_tokens[0]) << "\n  " << output.cached_tokens
              << " of " << output.prompt_tokens << " tokens came from the cache\n\n";
    // The cache holds the question and all of the answer but its last token.
    std::vector<std::int64_t> text = ids;
    text.insert(text.end(), output.new_tokens[0].begin(), output.new_tokens[0].end());
    text.resize(static_cast<std::size_t>(cache.seq_length()));
    tree.insert(text, cache);
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
