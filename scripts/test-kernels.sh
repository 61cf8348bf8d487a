#!/bin/bash
# The kernels' tests on processors that this machine is not:
#   scripts/test-kernels.sh arm64    NEON with and without dot products, under qemu (Debian: qemu-user-static)
#   scripts/test-kernels.sh avx512   AVX-512 with and without VNNI, on two of Bochs's processors
#                                    (Debian: bochs isolinux xorriso cpio linux-image-cloud-amd64, downloaded and unpacked)
# Only the kernels, the processor's detection and the formats are compiled, as a crate of their own.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD crate=$PWD/target/foreign
mkdir -p "$crate/src"
cp Cargo.lock "$crate/Cargo.lock"
cat > "$crate/Cargo.toml" <<END
[package]
name = "foreign"
edition = "2024"
[dependencies]
half = "2"
rustix = { version = "1", features = ["fs", "process", "thread"] }
tracing = "0.1"
[dev-dependencies]
proptest = { version = "1", default-features = false, features = ["std"] }
tempfile = "3"
[profile.release]
debug-assertions = true
[workspace]
END
src=$root/edge-agent/src
cat > "$crate/src/lib.rs" <<END
#[path = "$src/device/mod.rs"] pub mod device;
#[path = "$src/kernels/mod.rs"] pub mod kernels;
pub mod gguf {
    #[path = "$src/gguf/ggml_type.rs"] mod ggml_type;
    #[path = "$src/gguf/dequant.rs"] mod dequant;
    pub use {dequant::dequantize, ggml_type::GgmlType};
}
END

build() { # TARGET: prints the test program
  rustup target add "$1" > /dev/null 2>&1 || true
  (cd "$crate" && CARGO_TARGET_DIR="$crate/target" RUSTFLAGS="-Clinker=rust-lld -Clink-self-contained=yes" \
    cargo test --release --target "$1" --no-run --message-format=json 2> "$crate/build.log") |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1
}

arm64() {
  local program
  program=$(build aarch64-unknown-linux-musl)
  [ -x "$program" ] || { cat "$crate/build.log"; exit 1; }
  echo "Cortex-A72: NEON"; qemu-aarch64-static -cpu cortex-a72 "$program" --test-threads 1 -q
  echo "Neoverse N1: NEON with dot products"; qemu-aarch64-static -cpu neoverse-n1 "$program" --test-threads 1 -q
}

avx512() {
  local program work=$crate/boot kernel
  program=$(build x86_64-unknown-linux-musl)
  [ -x "$program" ] || { cat "$crate/build.log"; exit 1; }
  mkdir -p "$work/iso" "$work/init/dev" "$work/deb"
  if [ -z "$(ls "$work"/deb/boot/vmlinuz-* 2> /dev/null)" ]; then
    local package
    package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\)/\1/p' | head -1)
    (cd "$work" && apt-get download "$package" && dpkg -x "$package"_*.deb deb)
  fi
  kernel=$(ls "$work"/deb/boot/vmlinuz-* | head -1)
  cp "$kernel" "$work/iso/linux"
  cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 "$work/iso/"
  cp "$program" "$work/init/init"
  (cd "$work/init" && { [ -e dev/console ] || mknod dev/console c 5 1; } && find . | cpio -o -H newc --quiet > "$work/iso/initrd")
  cat > "$work/iso/isolinux.cfg" <<END
default linux
prompt 0
label linux
  kernel linux
  append initrd=initrd console=ttyS0 quiet panic=0 nokaslr mitigations=off RUST_TEST_THREADS=1
END
  xorriso -as mkisofs -quiet -o "$work/boot.iso" -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table "$work/iso"
  local model
  for model in corei7_skylake_x corei7_icelake_u; do
    emulate "$model"
  done
}

emulate() { # MODEL of Bochs. It takes short paths only, so it runs inside the folder.
  local serial=$work/$1.serial
  : > "$serial"
  echo continue > "$work/go" # Debian's Bochs is built with its debugger, which waits for a word
  cat > "$work/bochsrc" <<END
cpu: model=$1, count=1, ips=100000000, reset_on_triple_fault=0
memory: guest=512, host=512
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0-master: type=cdrom, path=boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$1.serial
display_library: rfb, options="timeout=0"
sound: driver=dummy
speaker: enabled=0
log: $1.log
panic: action=fatal
END
  (cd "$work" && exec bochs -q -f bochsrc -rc go) > "$work/$1.out" 2>&1 < /dev/null &
  local emulator=$! deadline=$((SECONDS + 3600))
  until grep -qaE "test result|Kernel panic" "$serial"; do
    kill -0 "$emulator" 2> /dev/null && [ $SECONDS -lt $deadline ] || break
    read -rt 1 < <(:) || true
  done
  kill "$emulator" 2> /dev/null || true
  echo "$1"; grep -aE "^test |panicked|error:" "$serial" || true
  grep -qaE "test result: ok. [1-9]" "$serial" || { echo "see $serial and $work/$1.log"; exit 1; }
}

case "${1:-}" in
  arm64) arm64 ;;
  avx512) avx512 ;;
  *) sed -n 2,7p "$0"; exit 2 ;;
esac
