//! Files from outside: what is refused, in which words, and that nothing makes the reader panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/tiny.rs"]
mod tiny;

use terrace_agent::gguf::Gguf;
use terrace_agent::model::{LoadOptions, LoadedModel};

fn load(bytes: Vec<u8>) -> Result<LoadedModel, String> {
    let options = LoadOptions { kv_cache_bytes: Some(1 << 20), ..LoadOptions::default() };
    let file = Gguf::from_bytes(bytes).map_err(|e| e.to_string())?;
    LoadedModel::from_file(&file, &options).map_err(|e| e.to_string())
}

fn refusal(bytes: Vec<u8>) -> String {
    load(bytes).map(|_| ()).expect_err("must be refused")
}

/// The small model with one key's or tensor's bytes replaced.
fn patched(from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = tiny::model(tiny::Kind::Q4_1);
    let at = bytes.windows(from.len()).position(|w| w == from).expect("the pattern is in the file");
    bytes.splice(at..at + from.len(), to.iter().copied());
    bytes
}

#[test]
fn the_small_model_loads_in_every_type() {
    for (kind, name) in
        [(tiny::Kind::F32, "GGUF F32"), (tiny::Kind::Q4_1, "GGUF Q4_1"), (tiny::Kind::Q8_0, "GGUF Q8_0")]
    {
        let model = load(tiny::model(kind)).unwrap();
        assert_eq!((model.info.format.as_str(), model.info.vocabulary), (name, tiny::VOCABULARY));
        assert_eq!((model.info.context_tokens, model.info.name.as_str()), (tiny::CONTEXT, "tiny"));
    }
}

/// Gemma 3 270M's Q4_K_M was called Q8_0, which its vocabulary is in and most of its numbers are.
#[test]
fn a_file_has_the_type_that_it_says_or_else_its_weights() {
    for (number, name) in [
        (Some(15), "GGUF Q4_K_M"),
        (Some(1024 + 7), "GGUF Q8_0"),
        (Some(32), "GGUF BF16"),
        (Some(999), "GGUF Q4_1"),
        (None, "GGUF Q4_1"),
    ] {
        let mut writer = tiny::writer(tiny::Family::Llama, tiny::Kind::Q4_1);
        if let Some(number) = number {
            writer.u32("general.file_type", number);
        }
        assert_eq!(load(writer.finish()).unwrap().info.format, name, "{number:?}");
    }
    let mut writer = tiny::writer(tiny::Family::Llama, tiny::Kind::Q4_1);
    writer.string("general.file_type", "rubbish");
    assert_eq!(load(writer.finish()).unwrap().info.format, "GGUF Q4_1");
}

#[test]
fn what_is_wrong_is_named() {
    let whole = tiny::model(tiny::Kind::Q4_1);
    assert!(refusal(b"PK\x03\x04".to_vec()).contains("does not begin with `GGUF`"));
    assert!(refusal(patched(b"GGUF\x03", b"GGUF\x09")).contains("version 9"));
    assert!(refusal(whole[..whole.len() - 40].to_vec()).contains("`output_norm.weight`"), "cut at the end");
    assert!(refusal(whole[..900].to_vec()).contains("tokenizer.ggml.tokens"), "cut in the vocabulary");
    let other = refusal(patched(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0mamba"));
    assert!(other.contains("`mamba`") && other.contains("gemma3 (Gemma 3)"), "{other}");
    let missing = refusal(patched(b"blk.1.ffn_up", b"blk.1.ffn_xx"));
    assert!(missing.contains("`blk.1.ffn_up.weight`"), "{missing}");
    let mut wide = b"attn_k.weight\x02\0\0\0".to_vec();
    wide.extend(64u64.to_le_bytes());
    let shape = [wide.as_slice(), &32u64.to_le_bytes()].concat();
    let refused = refusal(patched(&shape, &[wide.as_slice(), &31u64.to_le_bytes()].concat()));
    assert!(refused.contains("`blk.0.attn_k.weight`") && refused.contains("[64, 32]"), "{refused}");
    let huge = refusal(patched(&shape, &[wide.as_slice(), &(u64::MAX / 2).to_le_bytes()].concat()));
    assert!(huge.contains("`blk.0.attn_k.weight`") && huge.contains("overflows"), "{huge}");
    let mut kind = wide.clone();
    kind.extend(32u64.to_le_bytes());
    let unknown = refusal(patched(&[&kind, &[3u8, 0, 0, 0][..]].concat(), &[&kind, &[99u8, 0, 0, 0][..]].concat()));
    assert!(unknown.contains("`blk.0.attn_k.weight`") && unknown.contains("type 99"), "{unknown}");
    let pre = refusal(patched(b"\x06\0\0\0\0\0\0\0smollm", b"\x06\0\0\0\0\0\0\0nosuch"));
    assert!(pre.contains("tokenizer.ggml.pre") && pre.contains("`nosuch`"), "{pre}");
}

/// What each architecture has beyond the first, missing or of another shape, and what no file of it should have.
#[test]
fn tensors_of_every_architecture_are_held_against_it() {
    use tiny::{Family, Kind};
    let odd = |family: Family, name: &str, shape: &[u64]| {
        let bytes = vec![0; shape.iter().product::<u64>() as usize * 4];
        refusal(tiny::writer(family, Kind::Q4_1).without(name).tensor(name, shape, 0, bytes).finish())
    };
    for (family, name) in [
        (Family::Qwen2, "blk.1.attn_k.bias"),
        (Family::Qwen3, "blk.0.attn_q_norm.weight"),
        (Family::Gemma3, "blk.1.attn_k_norm.weight"),
        (Family::Gemma3, "blk.0.post_attention_norm.weight"),
        (Family::Gemma3, "blk.1.post_ffw_norm.weight"),
    ] {
        let missing = refusal(tiny::writer(family, Kind::Q4_1).without(name).finish());
        assert!(missing.contains(&format!("`{name}`")) && missing.contains("is missing"), "{missing}");
        for shape in [[16, 2].as_slice(), &[4096]] {
            let wrong = odd(family, name, shape);
            assert!(wrong.contains(&format!("`{name}`")) && wrong.contains("shape"), "{wrong}");
        }
    }
    for (family, name) in [
        (Family::Llama, "blk.0.attn_q.bias"),
        (Family::Qwen2, "blk.1.ffn_down.bias"),
        (Family::Qwen3, "blk.0.post_ffw_norm.weight"),
        (Family::Gemma3, "v.patch_embd.weight"),
    ] {
        let unknown = odd(family, name, &[64]);
        assert!(unknown.contains(&format!("`{name}`")) && unknown.contains(family.name()), "{unknown}");
    }
    let slow = odd(Family::Llama, "rope_freqs.weight", &[8]);
    assert!(slow.contains("`rope_freqs.weight`") && slow.contains("not above zero"), "{slow}");
}

/// Keys that would make another network of it, or none.
#[test]
fn keys_of_every_architecture_are_held_against_it() {
    use tiny::{Family, Kind, Writer};
    type Change = dyn for<'a> Fn(&'a mut Writer, &str) -> &'a mut Writer;
    let cases: [(Family, &str, &Change, &str); 14] = [
        (Family::Llama, "expert_count", &|w, k| w.u32(k, 8), "experts"),
        (Family::Qwen3, "attention.causal", &|w, k| w.bool(k, false), "later tokens"),
        (Family::Gemma3, "final_logit_softcapping", &|w, k| w.f32(k, 30.0), "capped"),
        (Family::Llama, "attention.sliding_window", &|w, k| w.u32(k, 128), "gemma3"),
        (Family::Gemma3, "rope.freq_base_swa", &|w, k| w.f32(k, 0.5), "not above 1"),
        (Family::Gemma3, "attention.sliding_window_pattern", &|w, k| w.i32s(k, &[1, 0, 1]), "2 layers"),
        (Family::Gemma3, "attention.sliding_window_pattern", &|w, k| w.u32(k, 0), "not a size"),
        (Family::Qwen2, "rope.scaling.type", &|w, k| w.string(k, "longrope"), "`longrope`"),
        (Family::Qwen2, "rope.scaling.factor", &|w, k| w.f32(k, -2.0), "not above 0"),
        (Family::Qwen2, "rope.freq_base", &|w, k| w.f32(k, f32::NAN), "finite"),
        (Family::Qwen2, "rope.dimension_count", &|w, k| w.u32(k, 8), "16"),
        (Family::Qwen3, "attention.key_length", &|w, k| w.u32(k, 31), "31 wide"),
        (Family::Qwen3, "attention.key_length", &|w, k| w.u32(k, u32::MAX), "not a size"),
        (Family::Qwen3, "attention.head_count", &|w, k| w.string(k, "four"), "a whole number"),
    ];
    for (family, name, change, problem) in cases {
        let key = format!("{}.{name}", family.name());
        let mut writer = tiny::writer(family, Kind::Q4_1);
        change(writer.without_key(&key), &key);
        let refused = refusal(writer.finish());
        assert!(refused.contains(&format!("`{key}`")) && refused.contains(problem), "{refused}");
    }
    let yarn = |name: &str| {
        let mut writer = tiny::writer(Family::Qwen2, Kind::Q4_1);
        writer.string("qwen2.rope.scaling.type", "yarn").f32(name, 0.5);
        refusal(writer.finish())
    };
    for key in ["qwen2.rope.scaling.yarn_ext_factor", "qwen2.rope.scaling.yarn_log_multiplier"] {
        assert!(yarn(key).contains(&format!("`{key}`")));
    }
    // Both ways to say which layers are local.
    for list in [[1, 0], [0, 1]] {
        let key = "gemma3.attention.sliding_window_pattern";
        let mut writer = tiny::writer(Family::Gemma3, Kind::Q4_1);
        load(writer.without_key(key).i32s(key, &list).finish()).unwrap();
    }
}

/// Numbers that contradict each other or the tensors. Such files were taken, or blamed on a tensor or the KV cache: with a
/// context of 0 an agent said 2048, with another vocabulary it drew tokens that have no text.
#[test]
fn what_a_file_says_twice_agrees() {
    use tiny::{Family, Kind};
    let cases: [(Family, &str, u32, &[&str]); 22] = [
        (Family::Llama, "context_length", 0, &["0 tokens", "trained for"]),
        (Family::Llama, "vocab_size", 260, &["says 260", "261 rows"]),
        (Family::Gemma3, "vocab_size", 0, &["says 0", "261 rows"]),
        (Family::Llama, "block_count", 3, &["says 3", "are of 2"]),
        (Family::Qwen2, "block_count", 1 << 20, &["says 1048576", "are of 2"]),
        (Family::Qwen3, "block_count", 1, &["says 1", "are of 2"]),
        (Family::Llama, "block_count", 0, &["not a size"]),
        (Family::Llama, "embedding_length", 32, &["says 32", "`token_embd.weight` have 64"]),
        (Family::Gemma3, "embedding_length", 128, &["says 128", "have 64"]),
        (Family::Llama, "feed_forward_length", 64, &["64 ask for [64, 64]", "`blk.0.ffn_up.weight`", "[64, 96]"]),
        (Family::Llama, "attention.head_count", 0, &["not a size"]),
        (Family::Llama, "attention.head_count", 6, &["6 heads", "embedding_length of 64", "attention.key_length`"]),
        (Family::Llama, "attention.head_count", 64, &["1 wide", "even"]),
        (Family::Qwen3, "attention.head_count", 8, &["8 heads of 32", "`blk.0.attn_q.weight`", "[64, 128]"]),
        (Family::Llama, "attention.head_count_kv", 0, &["not a size"]),
        (Family::Llama, "attention.head_count_kv", 3, &["3 heads of keys", "4 heads"]),
        (Family::Llama, "attention.head_count_kv", 8, &["8 heads of keys", "4 heads"]),
        (Family::Llama, "attention.head_count_kv", 4, &["4 heads of 16", "`blk.0.attn_k.weight`", "[64, 32]"]),
        (Family::Qwen3, "attention.value_length", 16, &["16", "width of 32"]),
        (Family::Llama, "rope.dimension_count", 32, &["32", "width of 16"]),
        (Family::Llama, "rope.dimension_count", 15, &["15", "width of 16"]),
        (Family::Gemma3, "attention.sliding_window", 0, &["no window"]),
    ];
    for (family, name, value, problems) in cases {
        let key = format!("{}.{name}", family.name());
        let refused = refusal(tiny::writer(family, Kind::Q4_1).without_key(&key).u32(&key, value).finish());
        for word in problems.iter().chain(&[format!("`{key}`").as_str()]) {
            assert!(refused.contains(word), "{word}: {refused}");
        }
    }
    for name in ["context_length", "block_count", "embedding_length", "feed_forward_length", "attention.head_count"] {
        let key = format!("llama.{name}");
        let refused = refusal(tiny::writer(Family::Llama, Kind::Q4_1).without_key(&key).finish());
        assert!(refused.contains(&format!("`{key}`")) && refused.contains("is missing"), "{refused}");
    }
    // What agrees is taken, and what may be left out may be.
    let mut writer = tiny::writer(Family::Llama, Kind::Q4_1);
    writer.u32("llama.vocab_size", tiny::VOCABULARY as u32).u32("llama.attention.sliding_window", 0);
    load(writer.u32("llama.rope.dimension_count", 16).finish()).unwrap();
}

/// More rows than tokens, and fewer.
#[test]
fn every_token_has_a_row_and_every_row_a_token() {
    use tiny::{Family, Kind};
    for rows in [tiny::VOCABULARY - 1, tiny::VOCABULARY + 3] {
        let (kind, bytes) = tiny::store(Kind::F32, &tiny::numbers(rows * tiny::WIDTH, 0.3, 1));
        let mut writer = tiny::writer(Family::Llama, Kind::Q4_1);
        writer.without("token_embd.weight").tensor("token_embd.weight", &[64, rows as u64], kind, bytes);
        let refused = refusal(writer.finish());
        assert!(refused.contains("`tokenizer.ggml.tokens`") && refused.contains(&format!("{rows} rows")), "{refused}");
    }
    let flat = vec![0; 64 * 4];
    let mut writer = tiny::writer(Family::Llama, Kind::Q4_1);
    let refused = refusal(writer.without("token_embd.weight").tensor("token_embd.weight", &[64], 0, flat).finish());
    assert!(refused.contains("`token_embd.weight`") && refused.contains("a row for each token"), "{refused}");
}

#[test]
fn tensors_lie_apart_and_in_one_file() {
    use tiny::{Family, Kind};
    // The last tensor's offset becomes that of the first.
    let mut bytes = tiny::model(Kind::Q4_1);
    let entry = b"output_norm.weight\x01\0\0\0\x40\0\0\0\0\0\0\0\0\0\0\0";
    let at = bytes.windows(entry.len()).position(|w| w == entry).unwrap() + entry.len();
    bytes[at..at + 8].fill(0);
    let refused = refusal(bytes);
    for word in ["`output_norm.weight`", "`token_embd.weight`", "inside"] {
        assert!(refused.contains(word), "{refused}");
    }
    let part = refusal(tiny::writer(Family::Llama, Kind::Q4_1).u32("split.count", 3).finish());
    assert!(part.contains("`split.count`") && part.contains("3 files"), "{part}");
    load(tiny::writer(Family::Llama, Kind::Q4_1).u32("split.count", 1).finish()).unwrap();
}

#[test]
fn a_length_that_overflows_is_refused_before_anything_is_made_for_it() {
    let key = b"\x15\0\0\0\0\0\0\0tokenizer.ggml.tokens\x09\0\0\0\x08\0\0\0";
    let count = (tiny::VOCABULARY as u64).to_le_bytes();
    for length in [u64::MAX, 1 << 60, 1 << 24] {
        let bytes = patched(&[&key[..], &count].concat(), &[&key[..], &length.to_le_bytes()].concat());
        assert!(refusal(bytes).contains("tokenizer.ggml.tokens"));
    }
}

/// Thousands of damaged files of each architecture: refused or loaded, never a panic. The same on every run.
#[test]
fn no_damage_makes_it_panic() {
    for family in tiny::Family::ALL {
        let whole = tiny::writer(family, tiny::Kind::Q4_1).finish();
        let header = whole.windows(18).position(|w| w == b"output_norm.weight").unwrap() + 64;
        let mut state = 0x5eed_u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let (mut refused, mut loaded) = (0, 0);
        for _ in 0..1500 {
            let mut bytes = whole.clone();
            for _ in 0..=next(3) {
                let at = next(header);
                match next(5) {
                    0 => bytes[at] = next(256) as u8,
                    1 => bytes[at] ^= 1 << next(8),
                    2 => bytes[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes()),
                    3 => bytes[at..at + 4].copy_from_slice(&(next(1 << 20) as u32).to_le_bytes()),
                    _ => bytes.truncate(next(whole.len()).max(header)),
                }
            }
            match load(bytes) {
                Ok(_) => loaded += 1,
                Err(_) => refused += 1,
            }
        }
        // Both happen, or the damage is not what it should be.
        assert!(refused > 200 && loaded > 40, "{family:?}: {refused} refused, {loaded} loaded");
    }
}
