# Of comparisons of everything with everything a run of the suites takes one third, another for every commit (tests/support/share.h).
# `make test-long` sets REFRESHLAB_SHARE to nothing, which is everything; so is a checkout without git.
if [ -z "${REFRESHLAB_SHARE+set}" ]; then
    commit=$(git rev-parse --short=8 HEAD 2> /dev/null || true)
    export REFRESHLAB_SHARE="${commit:+$((0x$commit % 3))/3}"
fi
