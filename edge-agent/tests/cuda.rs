//! The GPU's kernels through CUDA, where there is a GPU: `cargo test --release -p terrace-agent --features cuda --test cuda`
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/cached.rs"]
mod cached;
#[path = "support/gpu.rs"]
mod gpu;
#[path = "support/gpu_networks.rs"]
mod networks;
#[path = "support/reference.rs"]
mod reference;
#[path = "support/tiny.rs"]
mod tiny;

use burn_cuda::{Cuda, CudaDevice};
use terrace_agent::device::Target;
use terrace_agent::device::cuda::{Places, probe};

/// None, and says why, where CUDA cannot be used. With TERRACE_NEED_CUDA=1 that is a failure.
fn device() -> Option<CudaDevice> {
    match probe(&Places::usual()) {
        Ok(found) => {
            eprintln!("on {}, CUDA {}", found.name, found.driver);
            Some(CudaDevice::default())
        }
        Err(missing) => {
            assert!(std::env::var_os("TERRACE_NEED_CUDA").is_none(), "{missing}");
            eprintln!("skipped: {missing}");
            None
        }
    }
}

#[test]
fn products_are_those_of_the_stored_numbers() {
    let Some(device) = device() else { return };
    gpu::products::<Cuda>(&device);
}

#[test]
fn tiny_scales_are_not_taken_for_zero() {
    let Some(device) = device() else { return };
    gpu::tiny_scales::<Cuda>(&device);
}

#[test]
fn rows_of_floats_may_be_of_any_length() {
    let Some(device) = device() else { return };
    gpu::odd_widths::<Cuda>(&device);
}

#[test]
fn an_embeddings_rows_are_the_stored_numbers() {
    let Some(device) = device() else { return };
    gpu::rows::<Cuda>(&device);
}

#[test]
fn normalisation_and_gate_are_the_cpus() {
    let Some(device) = device() else { return };
    gpu::pointwise::<Cuda>(&device);
}

#[test]
fn attention_over_the_paged_cache_is_the_cpus() {
    let Some(device) = device() else { return };
    gpu::attention::<Cuda>(&device);
}

#[test]
fn logits_of_every_architecture_are_those_of_its_definition() {
    if device().is_some() {
        networks::logits(Target::Cuda);
    }
}

#[test]
fn chunks_batches_and_blocks_change_no_bit() {
    if device().is_some() {
        networks::bits(Target::Cuda);
    }
}

#[tokio::test]
async fn greedy_texts_of_small_models_are_the_cpus() {
    if device().is_some() {
        networks::texts(Target::Cuda).await;
    }
}

#[tokio::test]
async fn greedy_answers_of_the_real_model_are_the_cpus() {
    if device().is_some() {
        networks::answers(Target::Cuda).await;
    }
}
