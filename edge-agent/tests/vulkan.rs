//! The GPU's kernels through Vulkan: on a real device where there is one, else on Mesa's, which is software.
//! `cargo test --release -p terrace-agent --features vulkan --test vulkan`
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

use burn_wgpu::{Vulkan, WgpuDevice};
use terrace_agent::args::Device;
use terrace_agent::device::vulkan::{self, Missing};
use terrace_agent::device::{Target, choose};

fn device() -> WgpuDevice {
    let found = vulkan::probe(true).expect("a device of Vulkan; scripts/packages.sh installs Mesa's");
    eprintln!("on {}", found.name);
    found.adapter.device()
}

#[test]
fn products_are_those_of_the_stored_numbers() {
    gpu::products::<Vulkan>(&device());
}

#[test]
fn tiny_scales_are_not_taken_for_zero() {
    gpu::tiny_scales::<Vulkan>(&device());
}

#[test]
fn rows_of_floats_may_be_of_any_length() {
    gpu::odd_widths::<Vulkan>(&device());
}

#[test]
fn an_embeddings_rows_are_the_stored_numbers() {
    gpu::rows::<Vulkan>(&device());
}

#[test]
fn normalisation_and_gate_are_the_cpus() {
    gpu::pointwise::<Vulkan>(&device());
}

#[test]
fn attention_over_the_paged_cache_is_the_cpus() {
    gpu::attention::<Vulkan>(&device());
}

fn target() -> Target {
    let choice = choose(Device::Vulkan, 1).expect("a device of Vulkan; scripts/packages.sh installs Mesa's");
    assert_eq!((choice.status.kind.as_str(), choice.status.fallback), ("vulkan", None));
    choice.target
}

#[test]
fn logits_of_every_architecture_are_those_of_its_definition() {
    networks::logits(target());
}

#[test]
fn chunks_batches_and_blocks_change_no_bit() {
    networks::bits(target());
}

#[tokio::test]
async fn greedy_texts_of_small_models_are_the_cpus() {
    networks::texts(target()).await;
}

#[tokio::test]
async fn greedy_answers_of_the_real_model_are_the_cpus() {
    networks::answers(target()).await;
}

/// The guide quotes each sentence.
#[test]
fn the_guide_has_every_sentence() {
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/gpu.md")).unwrap();
    let name = || "llvmpipe".to_owned();
    for missing in [Missing::Loader, Missing::Device, Missing::Software(name()), Missing::Half(name())] {
        assert!(guide.contains(&missing.to_string()), "docs/gpu.md lacks: {missing}");
    }
}

/// A device that is the processor itself is taken when asked for by name, never by `auto`.
#[test]
fn auto_takes_no_software() {
    let software = vulkan::probe(false);
    let auto = choose(Device::Auto, 1).unwrap();
    if auto.status.kind == "cuda" {
        return; // CUDA comes first where a build has both
    }
    match software {
        Err(missing) => {
            assert_eq!(auto.target, Target::Cpu);
            let why = auto.status.fallback.unwrap();
            assert!(why.contains(&missing.to_string()) && missing.to_string().contains("this processor"), "{why}");
        }
        Ok(found) => assert_eq!((auto.target, auto.status.detail), (Target::Vulkan(found.adapter), found.name)),
    }
}
