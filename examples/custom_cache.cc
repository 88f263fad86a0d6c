// A cache kind of one's own: the first tokens and a window, whatever the model's layers would keep, so that a text may
// go on for ever in constant memory (Xiao et al. 2023, arXiv:2309.17453). It composes with codecs and placement as any
// other.
//
//   example_custom_cache <model folder or .gguf> [text]
#include <mneme/mneme.h>

#include <iostream>

namespace {

class SinkCache : public mneme::Cache {
 public:
  SinkCache(mneme::CacheShape shape, std::int64_t sinks, std::int64_t window, const mneme::CacheOptions& options = {})
      : Cache(with_sinks(std::move(shape), sinks, window), options) {}

 private:
  static mneme::CacheShape with_sinks(mneme::CacheShape shape, std::int64_t sinks, std::int64_t window) {
    for (mneme::LayerShape& layer : shape.layers) {
      if (!layer.retention.limited()) layer.retention = mneme::Retention::sinks_and_last(sinks, window);
    }
    return shape;
  }
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cerr << "usage: example_custom_cache <model folder or .gguf> [text]\n";
    return 2;
  }
  const std::string path = argv[1], text = argc > 2 ? argv[2] : "The capital of France is";
  const auto model = mneme::AutoModelForCausalLM::from_pretrained(path, {.dtype = at::kBFloat16});
  const auto tokenizer = mneme::AutoTokenizer::from_pretrained(path);

  SinkCache cache(model->config(), 4, 64, {.quantized = true, .config = {.backend = "int8"}});
  const auto output = model->generate(tokenizer.encode(text), {.max_new_tokens = 300, .eos_token_id = {{}}}, &cache);
  std::cout << text << tokenizer.decode(output.new_tokens[0]) << "\n\n"
            << cache.seq_length() << " tokens, " << cache.n_bytes() << " bytes of cache, layers keep "
            << cache.layers().front().attention().retention().name() << "\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
