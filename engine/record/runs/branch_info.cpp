#include "engine/record/runs/branch_info.h"

#include <utility>

namespace refreshlab {

void set_own_info(RunInfo& branch, RunInfo own) {
    branch.config = std::move(own.config);
    branch.device = std::move(own.device);
    branch.threads = own.threads;
    branch.kernel_set = std::move(own.kernel_set);
    branch.started_at = std::move(own.started_at);
    branch.versions = std::move(own.versions);
}

} // namespace refreshlab
