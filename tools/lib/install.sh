# shellcheck shell=bash disable=SC2034
# Installs the Debian packages that Weft is built from. Sourced by tools/test and tools/quickstart.

# Packages for building and running.
build_packages=(build-essential cmake ninja-build pkg-config
  libtbb-dev libdnnl-dev libopenmpi-dev openmpi-bin libgraphviz-dev graphviz zlib1g-dev libzstd-dev
  libfmt-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev
  libutf8proc-dev libpcre2-dev libsqlite3-dev libsentencepiece-dev)
# Packages for the tests.
test_packages=(libgtest-dev python3-jinja2)
# Reports are tested in a real browser. These tests are skipped where a system has none.
browser_packages=(chromium)
# A completion script is tested in a real zsh. These tests are skipped where a system has none.
shell_packages=(zsh)
# The Python module, and an environment to test it in. These tests are skipped where a system has none.
python_packages=(pybind11-dev python3-dev python3-venv)
# Packages for checks of the source. The checks are skipped where a system doesn't offer them.
lint_packages=(clang-format-14 clang-tidy-14)

is_installed() { [[ "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null)" == "install ok installed" ]]; }

# Without a pipe into grep -q: it would end apt-cache early, which looks like a failure under pipefail.
has_candidate() { [[ "$(apt-cache policy "$1" 2>/dev/null)" =~ Candidate:\ [^\(] ]]; }

as_root() {
  if [[ "$(id -u)" == 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
    sudo "$@"
  else
    echo "error: installing packages needs root, and sudo doesn't work here without a password" >&2
    echo "  fix: as root, run: $*" >&2
    return 1
  fi
}

# install_packages REASON [--optional] PACKAGE...: installs the missing packages, if there are any. Optional packages
# that the system doesn't offer are named and left out.
install_packages() {
  local reason=$1 optional=false missing=() package
  shift
  if [[ "$1" == --optional ]]; then
    optional=true
    shift
  fi
  if ! command -v dpkg-query >/dev/null; then
    echo "This system has no dpkg; $reason needs these packages of Debian: $*"
    return 0
  fi
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  if [[ ${#missing[@]} == 0 ]]; then
    echo "Nothing to install for $reason."
    return 0
  fi
  echo "Missing for $reason: ${missing[*]}"
  as_root apt-get update -qq
  if $optional; then
    local offered=()
    for package in "${missing[@]}"; do
      if has_candidate "$package"; then offered+=("$package"); else echo "Not offered by this system: $package"; fi
    done
    missing=("${offered[@]}")
    [[ ${#missing[@]} == 0 ]] && return 0
  fi
  # apt prints a line for each package. The lines are shown only if it fails.
  local log start=$SECONDS
  log=$(mktemp)
  echo "Installing them with apt-get …"
  if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "error: apt-get failed; its whole output is in $log" >&2
    return 1
  fi
  rm -f "$log"
  echo "Installed in $((SECONDS - start)) s."
}
