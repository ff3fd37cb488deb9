#!/usr/bin/env bash
# Installs what RefreshLab is built with and tested against. Asks nothing, can be repeated, and does nothing the second
# time. Debian packages go to the system (root or sudo); everything else stays in .deps/.
#
#   scripts/setup.sh [--viewer]    --viewer: what the viewer needs alone, without libtorch, CUDA and what the suites need
set -euo pipefail
cd "$(dirname "$0")/.."
viewer=""
[ "${1:-}" != --viewer ] || viewer=1
deps="$PWD/.deps"
mkdir -p "$deps/stamps"
say() { printf 'setup: %s\n' "$*" >&2; }

# done_for NAME FILE...: has this step run for exactly these files?
stamp() { cat "${@:2}" "$0" | sha256sum | cut -d' ' -f1; }
done_for() { [ "$(cat "$deps/stamps/$1" 2>/dev/null)" = "$(stamp "$@")" ]; }
mark() { stamp "$@" > "$deps/stamps/$1"; }

# --- Debian packages -------------------------------------------------------------------------------------------------
wanted=$(sed ${viewer:+-e '/# tests$/d'} -e 's/#.*//' scripts/debian-packages.txt | xargs)
missing=""
for package in $wanted; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ]; then as_root=""; elif sudo -n true 2>/dev/null; then as_root="sudo -n"; else
        say "these Debian packages are missing; install them as root, then run this again: apt-get install$missing"
        exit 2
    fi
    say "installing Debian packages:$missing"
    $as_root apt-get update -qq
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing > "$deps/apt.log" 2>&1 ||
        { tail -5 "$deps/apt.log" >&2; say "apt-get failed; the log is in .deps/apt.log"; exit 1; }
fi

# --- Python environment: libtorch and the parity references ----------------------------------------------------------
[ -x "$deps/venv/bin/python" ] || python3 -m venv "$deps/venv"
if [ -z "$viewer" ] && ! done_for venv requirements.txt; then
    say "making .deps/venv (libtorch 2.11.0 and the parity references, about 5 GB)"
    "$deps/venv/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements.txt > "$deps/pip.log" 2>&1 ||
        { tail -5 "$deps/pip.log" >&2; say "pip failed; the log is in .deps/pip.log"; exit 1; }
    mark venv requirements.txt
fi

# --- Dear ImGui, ImPlot, GLFW, test engine: one source distribution, checksum verified by pip ---------------------------
if ! done_for imgui-bundle scripts/imgui-bundle.txt; then
    say "fetching the imgui-bundle source distribution"
    rm -rf "$deps/imgui-bundle" "$deps/download"
    mkdir -p "$deps/download" "$deps/imgui-bundle"
    "$deps/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary imgui-bundle --require-hashes \
        -r scripts/imgui-bundle.txt -d "$deps/download" > "$deps/imgui-bundle.log" 2>&1 ||
        { tail -5 "$deps/imgui-bundle.log" >&2; say "fetching imgui-bundle failed; the log is in .deps/imgui-bundle.log"; exit 1; }
    tar -xzf "$deps"/download/imgui_bundle-*.tar.gz -C "$deps/imgui-bundle" --strip-components=1
    rm -rf "$deps/download"
    mark imgui-bundle scripts/imgui-bundle.txt
fi

# --- OpenSSH's server, for the suite of `gui --connect ssh://...` ----------------------------------------------------------
# Unpacked and not installed: an installed one would listen on this machine's port 22.
if [ -z "$viewer" ] && ! done_for sshd; then
    rm -rf "$deps/sshd" && mkdir -p "$deps/sshd"
    (cd "$deps/sshd" && apt-get -o APT::Sandbox::User= download -qq openssh-server && dpkg-deb -x ./*.deb . && rm -f ./*.deb)
    mark sshd
fi

# --- Catch2 v3 -----------------------------------------------------------------------------------------------------------
# From the release's own packages where they have version 3 (Debian 13 and newer); on bookworm from its backports, with
# a private list directory derived from the machine's own entry: the machine's apt configuration stays as it is.
if [ -z "$viewer" ] && ! done_for catch2; then
    candidate=$(apt-cache policy catch2 2>/dev/null | sed -n 's/^ *Candidate: //p')
    apt_options=()
    if [ "${candidate%%.*}" != 3 ]; then
        . /etc/os-release
        say "fetching Catch2 v3 from ${VERSION_CODENAME}-backports"
        mkdir -p "$deps/apt/lists/partial" "$deps/apt/cache/archives/partial"
        python3 scripts/backports_entry.py "${VERSION_CODENAME}" > "$deps/apt/backports.sources"
        apt_options=(-o "Dir::Etc::SourceList=$deps/apt/backports.sources" -o Dir::Etc::SourceParts=/dev/null
                     -o "Dir::State::Lists=$deps/apt/lists" -o "Dir::Cache=$deps/apt/cache" -o APT::Sandbox::User=)
        apt-get "${apt_options[@]}" update -qq
    fi
    package=libcatch2-dev
    [ -n "$(apt-cache "${apt_options[@]}" show $package 2>/dev/null)" ] || package=catch2
    rm -rf "$deps/catch2" && mkdir -p "$deps/catch2"
    (cd "$deps/catch2" && apt-get "${apt_options[@]}" download -qq $package && dpkg-deb -x ./*.deb . && rm -f ./*.deb)
    mark catch2
fi
