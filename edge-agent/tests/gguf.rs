//! Files from outside: what is refused, in which words, and that nothing makes the reader panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/tiny.rs"]
mod tiny;

use terrace_agent::gguf::{ChatTemplate, GgmlType, Gguf, TemplateError, Tokenizer, dequantize};
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

#[test]
fn what_is_wrong_is_named() {
    let whole = tiny::model(tiny::Kind::Q4_1);
    assert!(refusal(b"PK\x03\x04".to_vec()).contains("does not begin with `GGUF`"));
    assert!(refusal(patched(b"GGUF\x03", b"GGUF\x09")).contains("version 9"));
    assert!(refusal(whole[..whole.len() - 40].to_vec()).contains("`output_norm.weight`"), "cut at the end");
    assert!(refusal(whole[..900].to_vec()).contains("tokenizer.ggml.tokens"), "cut in the vocabulary");
    let other = refusal(patched(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0mamba"));
    assert!(other.contains("`mamba`") && other.contains("llama"), "{other}");
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

#[test]
fn a_length_that_overflows_is_refused_before_anything_is_made_for_it() {
    let key = b"\x15\0\0\0\0\0\0\0tokenizer.ggml.tokens\x09\0\0\0\x08\0\0\0";
    let count = (tiny::VOCABULARY as u64).to_le_bytes();
    for length in [u64::MAX, 1 << 60, 1 << 24] {
        let bytes = patched(&[&key[..], &count].concat(), &[&key[..], &length.to_le_bytes()].concat());
        assert!(refusal(bytes).contains("tokenizer.ggml.tokens"));
    }
}

/// Thousands of damaged files: refused or loaded, never a panic. The seed is printed by the assertion's index.
#[test]
fn no_damage_makes_it_panic() {
    let whole = tiny::model(tiny::Kind::Q4_1);
    let header = whole.windows(18).position(|w| w == b"output_norm.weight").unwrap() + 64;
    let mut state = 0x5eed_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut refused, mut loaded) = (0, 0);
    for _ in 0..4000 {
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
    assert!(refused > 500 && loaded > 100, "{refused} refused, {loaded} loaded");
}

#[test]
fn text_survives_the_way_to_tokens_and_back() {
    let file = Gguf::from_bytes(tiny::model(tiny::Kind::F32)).unwrap();
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    for text in ["hello", "  two  spaces\n\n", "naïve 🦀 42", ""] {
        assert_eq!(tokenizer.decode(&tokenizer.encode(text).unwrap()), text);
    }
    // `hell` is one piece; digits stand alone.
    assert_eq!(tokenizer.encode("hello").unwrap(), [258, u32::from(b'o')]);
    assert_eq!(tokenizer.encode("<|im_start|>he").unwrap(), [259, 256]);
    assert!(tokenizer.is_end(260) && !tokenizer.is_end(259));
    assert_eq!(tokenizer.decode(&[259, 256, 260]), "he");
}

#[test]
fn a_sentence_piece_vocabulary_merges_by_score() {
    let mut w = tiny::Writer::default();
    let tokens = ["<unk>", "<s>", "</s>", "<0xF0>", "▁", "a", "b", "ab", "▁a", "▁ab", "bb"].map(String::from);
    w.string("tokenizer.ggml.model", "llama").strings("tokenizer.ggml.tokens", &tokens);
    w.i32s("tokenizer.ggml.token_type", &[2, 3, 3, 6, 1, 1, 1, 1, 1, 1, 1]);
    w.f32s("tokenizer.ggml.scores", &[0., 0., 0., 0., -9., -8., -7., -1., -3., -2., -4.]);
    w.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2);
    let file = Gguf::from_bytes(w.finish()).unwrap();
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    // The beginning token, then the space that SentencePiece puts before a text: `▁ab` wins over `▁a` and `bb`.
    assert_eq!(tokenizer.encode("abb").unwrap(), [1, 9, 6]);
    assert_eq!(tokenizer.decode(&[9, 6, 8]), " abb a");
}

#[test]
fn the_template_makes_the_prompt_and_refuses_without_repeating() {
    let file = Gguf::from_bytes(tiny::model(tiny::Kind::F32)).unwrap();
    let template = ChatTemplate::from_metadata(file.metadata(), "", "").unwrap().unwrap();
    let messages = |role: &str| vec![serde_json::json!({"role": role, "content": " marker-7f3a "})];
    let prompt = template.render(&messages("user"), None).unwrap();
    assert_eq!(prompt, "<|im_start|>user\nmarker-7f3a<|im_end|>\n<|im_start|>assistant\n");
    let refused = template.render(&messages("robot"), None).unwrap_err();
    assert_eq!(refused, TemplateError::Refused("only system, user and assistant".into()));
    let odd = template.render(&[serde_json::json!({"role": "user", "content": ["marker-7f3a"]})], None).unwrap_err();
    assert!(!odd.to_string().contains("marker"), "{odd}");
}

#[test]
fn stored_numbers_are_read_as_the_gguf_package_reads_them() {
    #[derive(serde::Deserialize)]
    struct Case {
        r#type: String,
        bytes: Vec<u8>,
        numbers: Vec<f32>,
    }
    let cases: Vec<Case> = serde_json::from_str(include_str!("references/blocks.json")).unwrap();
    assert_eq!(cases.len(), 10);
    for Case { r#type, bytes, numbers } in cases {
        let kind = GgmlType::ALL.into_iter().find(|k| k.to_string() == r#type).unwrap();
        let mut found = vec![0.0; numbers.len()];
        dequantize(kind, &bytes, &mut found);
        for (at, (found, expected)) in found.iter().zip(&numbers).enumerate() {
            assert!((found - expected).abs() <= 1e-6 + 1e-5 * expected.abs(), "{kind} {at}: {found} {expected}");
        }
    }
}
