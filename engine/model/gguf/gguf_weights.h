#pragma once

#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/checkpoint/weight_store.h"
#include "engine/model/gguf/gguf_file.h"
#include "engine/model/model_config.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab {

/// The weights of a GGUF file under Hugging Face names and in their row order. Blocks are unpacked while they are read, on
/// the threads of the calling thread's execution context; nothing else of the file is held.
///
/// Row order: in files of some architectures (gguf_rows_in_pairs()) llama.cpp rotates adjacent pairs of channels. So the rows of q and k
/// (and of their biases) stand there in the order 0, d/2, 1, d/2 + 1, ... of each head of width d. Here they are put
/// back. Scores would be the same without that, the columns of a K cache would not.
/// Source: llama.cpp, conversion/llama.py (permute) and src/llama-model.cpp (llama_model_rope_type).
class GgufWeights final : public WeightStore {
public:
    /// \param config  gguf_config(*file). Throws Error{bad_input} naming a tensor that such a model has no place for.
    GgufWeights(std::shared_ptr<const GgufFile> file, const ModelConfig& config);

    [[nodiscard]] std::vector<std::string> names() const override;
    [[nodiscard]] std::filesystem::path file_of(const std::string& name) const override;
    [[nodiscard]] std::string stored_name(const std::string& name) const override;
    void check(const std::string& name, at::IntArrayRef shape) const override;
    [[nodiscard]] at::Tensor read(const std::string& name, at::IntArrayRef shape,
                                  at::ScalarType wanted) const override;
    [[nodiscard]] bool stays_in_blocks(const std::string& name, at::IntArrayRef shape) const override;
    [[nodiscard]] at::Tensor read_blocks(const std::string& name, at::IntArrayRef shape) const override;
    [[nodiscard]] int64_t stored_bytes(const std::string& name) const override;
    [[nodiscard]] int64_t total_bytes() const override;
    [[nodiscard]] std::string stored_types() const override;

    /// A tensor as the file packs it, for kernels that compute on blocks.
    struct Blocks {
        const GgufTensor* tensor = nullptr;
        int64_t head_dim =
            0; ///< of q and k where pairs stand side by side: see source_row(); 0: rows stand in their order
        int64_t first =
            0; ///< its first row, of a tensor that holds several weights (q|k|v, gate|up, experts)
        std::vector<int64_t> whole; ///< the shape of such a tensor; empty: it holds one weight
        double offset = 0;          ///< the file's numbers are larger by this (norms of Gemma)
        /// Where row `row` of the Hugging Face tensor stands in the file.
        [[nodiscard]] int64_t source_row(int64_t row) const;
    };
    /// \param name  one of names()                                                                    (asserted)
    [[nodiscard]] const Blocks& blocks(const std::string& name) const;

private:
    std::shared_ptr<const GgufFile> m_file;
    struct Place {
        std::string tensor; ///< the file's name
        Blocks blocks;      ///< its tensor null: the file lacks it
        int64_t rows = 0;   ///< of the weight
    };
    [[nodiscard]] static Place place_of(const ModelConfig& config, const WeightPlace& place);
    [[nodiscard]] const Place* find(const std::string& name) const; ///< null: the file lacks it

    std::map<std::string, Place> m_places; ///< by Hugging Face name
    int64_t m_total_bytes = 0;
};

} // namespace refreshlab
