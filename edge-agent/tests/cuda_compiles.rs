//! Without a GPU: NVRTC compiles every kernel, and a driver that runs nothing takes every launch. What a GPU computes is
//! tests/cuda.rs. `images/cuda-parts.sh && CUDA_PATH=$PWD/target/images/cuda cargo test --release -p terrace-agent \
//! --features cuda --test cuda_compiles`
#![allow(unsafe_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/gpu.rs"]
mod gpu;

use std::path::{Path, PathBuf};
use std::process::Command;

use burn_cuda::Cuda;
use libloading::Library;

/// Libraries that are open are found by their names alone, which is how burn's runtime asks for them.
fn open(path: &Path) -> Library {
    // SAFETY: NVIDIA's own libraries, and one made of support/driver.c.
    unsafe { Library::new(path) }.unwrap()
}

#[test]
fn nvrtc_compiles_every_kernel_and_every_launch_is_within_limits() {
    let Some(parts) = std::env::var_os("CUDA_PATH").map(PathBuf::from) else {
        eprintln!("skipped: CUDA_PATH does not name NVRTC's folder; images/cuda-parts.sh makes target/images/cuda");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let driver = folder.path().join("libcuda.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/driver.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-w", "-DMAJOR=8", "-DMINOR=6", "-Wl,-soname,libcuda.so", "-o"])
        .arg(&driver)
        .arg(source);
    assert!(cc.status().expect("cc, which scripts/packages.sh installs").success());
    let _open = [open(&driver), open(&parts.join("libnvrtc-builtins.so.12.8")), open(&parts.join("libnvrtc.so.12"))];
    gpu::launches::<Cuda>(&Default::default());
}
