#include "engine/session/driver/replay.h"

#include "engine/session/decode/session_prompt.h"
#include "engine/session/driver/run_driver.h"

#include <utility>

namespace refreshlab {

std::shared_ptr<Recording> replay(const Recording& recorded, std::shared_ptr<const ModelPair> pair,
                                  Execution execution) {
    const RunInfo& info = recorded.info();
    const auto end = recorded.end();
    RunText text{{info.rendered_prompt, info.prompt_ids, 0}, {}};
    text.given = given_ids(*pair, info.config, text.prompt);
    RunDriver driver({.pair = std::move(pair),
                      .config = info.config,
                      .text = std::make_shared<const RunText>(std::move(text)),
                      .execution = std::move(execution),
                      .commands = commands_of(recorded),
                      .score = end && end->teacher_ppl});
    driver.run([&] {
        const bool all = driver.recording()->steps() >= recorded.steps();
        return all ? RunDriver::Next::leave : RunDriver::Next::step;
    });
    driver.apply_due(); // what was logged behind the last step
    if (end && end->stop_reason == "cancelled") driver.stop();
    return driver.recording();
}

} // namespace refreshlab
