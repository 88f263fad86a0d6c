// Loads a model, continues a text, and prints it as it comes.
//
//   example_generate <model folder or .gguf> [text]
#include <mneme/mneme.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cerr << "usage: example_generate <model folder or .gguf> [text]\n";
    return 2;
  }
  const std::string path = argv[1], text = argc > 2 ? argv[2] : "I like rock music because";
  const auto model = mneme::AutoModelForCausalLM::from_pretrained(path, {.dtype = at::kBFloat16});
  const auto tokenizer = mneme::AutoTokenizer::from_pretrained(path);

  mneme::TextStreamer streamer(tokenizer.tokenizer(), [](std::string_view piece) { std::cout << piece << std::flush; });
  std::cout << text;
  const auto output = model->generate(tokenizer.encode(text), {.max_new_tokens = 40, .on_token = streamer.callback()});
  streamer.end();
  std::cout << "\n\n"
            << output.new_tokens[0].size() << " tokens, " << output.cache_bytes << " bytes of cache, finished by "
            << output.finish_reasons[0] << "\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
