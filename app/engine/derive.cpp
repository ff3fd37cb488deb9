#include "app/base/output.h"
#include "app/engine/carry_out.h"
#include "app/options/derive_options.h"
#include "engine/base/bytes_text.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/control/parameters.h"
#include "engine/model/derive/write_folder.h"
#include "engine/session/pair/model_pair.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <string>

namespace refreshlab::app {

namespace {

RunConfig config_of_derivation(const DeriveOptions& options) {
    RunConfig config;
    config.teacher_dir = options.teacher;
    config.student_dir = settled_model(is_derivation(options.spec) ? options.spec : "derive:" + options.spec);
    config.device = "cpu";
    config.prompt = options.prompt;
    config.raw_prompt = options.raw_prompt;
    config.threads = options.threads;
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
        if (to_string(dtype) == options.dtype) config.dtype = dtype;
    }
    return config;
}

} // namespace

int carry_out(const DeriveOptions& options) {
    if (is_derivation(options.teacher))
        throw Error("deriving a student", options.teacher, "a teacher cannot be derived",
                    "give a folder or a .gguf file");
    const RunConfig config = config_of_derivation(options);
    require_new_folder(options.out);
    note_interrupts();
    const bool terminal = ::isatty(STDERR_FILENO) == 1;
    const auto show = [terminal](double fraction, const std::string& what) {
        if (terminal) draw_line(fmt::format("{} {:.0f} %", what, 100 * fraction));
        return interrupted() == 0;
    };
    try {
        const auto pair = load_pair(config, show);
        write_folder(*ModelSource::open(options.teacher), *pair->student, options.out, show);
        if (terminal) draw_line({});
        const DerivedFacts& facts = *pair->derived;
        if (facts.is_teacher()) say("note: {}\n", pair->note());
        DeriveSpec done = facts.spec;
        done.skip_auto = 0;
        done.skip_attention = facts.skip_attention;
        done.skip_mlp = facts.skip_mlp;
        print("{}: {}\n", options.out, describe(done));
        print("{} tensors changed, {} of its own, {} the teacher's; weights per token {}, of the teacher {} "
              "(rounded "
              "weights as said, others in 16 bits; here all are held in {})\n",
              facts.changed_tensors, bytes_text(facts.own_bytes), bytes_text(facts.shared_bytes),
              bytes_text(facts.token_bytes), bytes_text(facts.teacher_token_bytes), options.dtype);
    } catch (const Error&) {
        if (terminal) draw_line({});
        if (interrupted() == 0) throw;
        return 128 + interrupted();
    }
    return 0;
}

} // namespace refreshlab::app
