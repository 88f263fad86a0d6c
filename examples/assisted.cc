// Tokens guessed ahead: by a smaller model with the same ids or others, or without one from what followed the same
// words before. The text is the same; where guesses are right, fewer passes write it.
//
//   example_assisted <model folder or .gguf> [text] [smaller model]
#include <mneme/mneme.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cerr << "usage: example_assisted <model folder or .gguf> [text] [smaller model]\n";
    return 2;
  }
  const std::string path = argv[1];
  const std::string text = argc > 2 ? argv[2] : "A list of cities: Rome, Paris, London, Rome, Paris, London, Rome,";
  const auto model = mneme::AutoModelForCausalLM::from_pretrained(path, {.dtype = at::kBFloat16});
  const auto tokenizer = mneme::AutoTokenizer::from_pretrained(path);
  const auto inputs = tokenizer.encode(text);

  mneme::GenerateOptions options{.max_new_tokens = 40};
  const auto plain = model->generate(inputs, options);

  std::shared_ptr<const mneme::CausalLM> smaller;
  std::optional<mneme::TextTokenizer> other;
  if (argc > 3) {
    smaller = mneme::AutoModelForCausalLM::from_pretrained(argv[3], {.dtype = at::kBFloat16});
    other = mneme::AutoTokenizer::from_pretrained(argv[3]);
    options.assistant_model = smaller.get();
    options.tokenizer = &tokenizer.tokenizer();  // not needed where both have the same ids
    options.assistant_tokenizer = &other->tokenizer();
  } else {
    options.prompt_lookup_num_tokens = 10;
  }
  const auto drafted = model->generate(inputs, options);
  std::cout << text << tokenizer.decode(drafted.new_tokens[0], {.skip_special_tokens = true}) << "\n\n"
            << "the same text: " << (drafted.new_tokens == plain.new_tokens ? "yes" : "no") << "; "
            << plain.decode_steps << " passes without drafts, " << drafted.decode_steps << " with them ("
            << drafted.accepted_tokens << " of " << drafted.draft_tokens << " guesses right); " << drafted.cache_bytes
            << " bytes of cache\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
