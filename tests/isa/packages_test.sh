#!/usr/bin/env bash
# The packages of a build with all levels, used as on another machine: they are made, unpacked elsewhere, and run without
# the source tree. As root also in a root folder that holds nothing but the .deb and the packages that it declares.
#   tests/isa/packages_test.sh BUILD SOURCE
set -euo pipefail
build=$(realpath "$1") source=$(realpath "$2")
if ! command -v cpack dpkg-deb dpkg-shlibdeps >/dev/null; then
  echo "skipped: cpack, dpkg-deb and dpkg-shlibdeps are needed"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# try_program PREFIX RUNS: the commands of a first try, with nothing but absolute paths below PREFIX.
try_program() {
  local weft=$1/bin/weft runs=$2 refused=0
  "$weft" doctor || return 1
  "$weft" train --model tiny --steps 5 --ranks 2 --threads 1 --run-dir "$runs/run" || return 1
  "$weft" simulate --model tiny --machine perlmutter || return 1
  "$weft" man | cmp - "$1/share/man/man1/weft.1" || return 1
  "$weft" completion bash | cmp - "$1/share/bash-completion/completions/weft" || return 1
  "$weft" completion zsh | cmp - "$1/share/zsh/site-functions/_weft" || return 1
  "$weft" doctor --isa v9 || refused=$?
  [[ $refused == 2 ]]
}
export -f try_program

echo "== packages"
cpack --config "$build/CPackConfig.cmake" -B packages >cpack.log 2>&1 || { cat cpack.log >&2; fail "cpack"; }
deb=$(echo "$work"/packages/*.deb) archive=$(echo "$work"/packages/*.tar.gz)
ls -l "$deb" "$archive"
depends=$(dpkg-deb -f "$deb" Depends)
echo "Depends: $depends"
mkdir deb tar
dpkg-deb -x "$deb" deb
tar -xzf "$archive" -C tar
mv tar/* moved
for prefix in "$work/deb/usr" "$work/moved"; do
  for level in v3 v4 v4-bf16; do
    [[ -f $prefix/lib/weft/libweft_kernels_$level.so ]] || fail "$prefix has no level $level"
  done
  for file in share/man/man1/weft.1 share/bash-completion/completions/weft share/zsh/site-functions/_weft \
    share/weft/machines/laptop.toml; do
    [[ -s $prefix/$file ]] || fail "$prefix has no $file"
  done
  # No file may name the tree that it was built in.
  if grep -rlF -e "$source" -e "$build" "$prefix"; then fail "these files name $source"; fi
done

# hidden COMMAND…: runs it in a mount namespace where the source tree is empty, if that can be made.
namespace=false
if [[ $(id -u) == 0 ]] && unshare -m true 2>/dev/null; then namespace=true; fi
for prefix in "$work/deb/usr" "$work/moved"; do
  echo "== $prefix"
  log=$(basename "$prefix").log
  if $namespace; then
    # shellcheck disable=SC2016
    unshare -m bash -c 'mount -t tmpfs none "$1" && cd / && try_program "$2" "$3"' _ "$source" "$prefix" "$prefix/runs"
  else
    echo "(the source tree can't be hidden here: that needs root)"
    try_program "$prefix" "$prefix/runs"
  fi >"$log" 2>&1 || { cat "$log" >&2; fail "$prefix doesn't run"; }
  grep -E "kernels|loss" "$log" | tail -n 3
done

if ! $namespace; then
  echo "not tried without root: the declared packages alone"
  exit 0
fi
echo "== the declared packages alone"
mapfile -t names < <(tr ',' '\n' <<<"$depends" | sed 's/|.*//; s/(.*//; s/ //g')
# A declared name may be one that an installed package provides.
for i in "${!names[@]}"; do
  dpkg -L "${names[i]}" >/dev/null 2>&1 ||
    names[i]=$(dpkg-query -W -f '${Package} ${Provides}\n' | grep -Fw -- "${names[i]}" | cut -d ' ' -f 1 | head -n 1)
done
mapfile -t all < <(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
  --no-enhances --installed "${names[@]}" | grep '^[a-z0-9]' | sort -u)
all+=(base-files)  # every Debian has it, and the default data is in it
for name in "${all[@]}"; do dpkg -L "$name" 2>/dev/null || true; done | sort -u >files
mkdir -p root/usr/{bin,lib,lib64,sbin}
# Links of the merged /usr come first; documentation stays away.
for link in bin lib lib64 sbin; do [[ ! -L /$link ]] || cp -a "/$link" root/; done
grep -vE '^/(\.|usr/share/(doc|man|locale|perl)/.*|usr/(lib|share)/python3.*)$' files | while read -r file; do
  if [[ -f $file || -L $file ]]; then echo "${file#/}"; fi
done | tar -C / -c --no-recursion -T - | tar -C root -x --keep-directory-symlink
config=/usr/lib/x86_64-linux-gnu/graphviz/config6a  # written when libgvc6 is configured
[[ ! -f $config ]] || install -D "$config" "root$config"
mkdir -p root/proc root/dev root/tmp root/etc
dpkg-deb -x "$deb" root
ldconfig -r root
echo "${#all[@]} packages, $(du -sh root | cut -f 1)"
# shellcheck disable=SC2016
unshare -m bash -c 'mount --rbind /dev "$1/dev" && mount -t proc proc "$1/proc" &&
  chroot "$1" /usr/bin/weft doctor && chroot "$1" /usr/bin/weft train --model tiny --steps 5 --ranks 2 --threads 1 --run-dir /tmp/run &&
  chroot "$1" /usr/bin/weft simulate --model tiny --machine perlmutter' _ "$work/root" >root.log 2>&1 ||
  { cat root.log >&2; fail "the declared packages don't suffice"; }
grep -E "kernels|loss" root.log | tail -n 3
cmp root/tmp/run/checkpoints/*/model.safetensors moved/runs/run/checkpoints/*/model.safetensors
echo "packages: no failure"
