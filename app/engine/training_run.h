#pragma once

#include "engine/study/studies/study_table.h"
#include "engine/train/trainer.h"

#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace refreshlab::app {

/// What a training that a command runs has on the disk while it runs.
struct TrainingFiles {
    std::filesystem::path part; ///< the checkpoint
    std::string csv;            ///< folder of tables; empty: none
};

/// Keeps other programs out of a training: FILE.lock, locked (flock) and gone with this.
class TrainingLock {
public:
    /// Throws Error{bad_input} where another program trains into the same output, Error{failure} where the file cannot be made.
    explicit TrainingLock(const std::filesystem::path& part);
    TrainingLock(const TrainingLock&) = delete;
    TrainingLock& operator=(const TrainingLock&) = delete;
    ~TrainingLock();

private:
    std::filesystem::path m_path;
    int m_file = -1;
};

/// Goes on from the checkpoint if there is one, unless it shall begin again, and says which texts there are.
/// \param texts  held out, and trained on
void begin_training(Trainer& trainer, const TrainingFiles& files, bool restart,
                    const std::array<std::vector<TrainingText>, 2>& texts);

/// Makes the steps that are left, with progress, a checkpoint every 20 seconds (or as seldom that writing takes a twentieth of the time) and the
/// losses so far in the folder of tables once a second. Throws as Trainer, saying what holds the training before the fault.
/// \param losses   the table of the losses so far
/// \param stepped  called after every step; null: nobody
/// \return false: it was interrupted, and the checkpoint has all of it; it is said
[[nodiscard]] bool train_to_end(Trainer& trainer, const TrainingFiles& files,
                                const std::function<StudyTable()>& losses,
                                const std::function<void()>& stepped = {});

/// Of the newest 50 steps, so that it follows what is seen.
[[nodiscard]] double newest_loss(const std::vector<TrainingStep>& losses);

} // namespace refreshlab::app
