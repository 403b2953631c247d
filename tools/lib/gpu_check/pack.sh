# shellcheck shell=bash disable=SC2154
# Builds the programs, and packs them with the libraries that they need on another machine. Sourced by tools/gpu-check.

# build_programs ARCHITECTURE
build_programs() {
  cmake -S "$root" -B "$root/build-gpu" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGPU=ON -DWEFT_BENCH=ON -DWEFT_ARCH="$1"
  cmake --build "$root/build-gpu" --target weft gpu_test bench_gpu
}

make_pack() {
  local folder=$1 built=() name library size
  # For any x86-64 of the last ten years, because the machine with the GPU is another machine.
  build_programs x86-64-v3
  built=("$root/build-gpu/weft" "$root/build-gpu/tests/gpu_test" "$root/build-gpu/bench/bench_gpu")
  mkdir -p "$folder/bin" "$folder/lib" "$folder/bench/peers" "$folder/gpu_check"
  for name in "${built[@]}"; do
    strip -o "$folder/bin/$(basename "$name")" "$name"
  done
  # All libraries except CUDA's own and the system's.
  for library in $(for name in "${built[@]}"; do ldd "$name"; done | awk '$3 ~ /^\// {print $3}' | sort -u); do
    case "$(basename "$library")" in
      libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | ld-linux* | libcu* | libnccl* | libnv*) ;;
      *) cp -L "$library" "$folder/lib/" ;;
    esac
  done
  # Drawings are laid out by plugins of Graphviz, found through GVBINDIR.
  mkdir -p "$folder/lib/graphviz"
  cp -L /usr/lib/*/graphviz/libgvplugin_{core,dot_layout}.so.6 /usr/lib/*/graphviz/config6a "$folder/lib/graphviz/"
  tar -C "$folder" -czf "$folder/programs.tar.gz" bin lib # unpacked by the first run
  rm -r "${folder:?}/bin" "${folder:?}/lib"
  cp "$here/gpu-check" "$folder/"
  cp "$scripts"/*.sh "$folder/gpu_check/"
  cp "$root"/bench/peers/pytorch_*.py "$folder/bench/peers/"
  size=$(du -sm "$folder" | cut -f1)
  echo "$folder: $size MiB"
  [[ "$size" -le 64 ]] || fail "$folder is larger than 64 MiB"
}
