//! The network against plain arithmetic: the same weights as numbers, multiplied out in 64 bits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/reference.rs"]
mod reference;
#[path = "support/tiny.rs"]
mod tiny;

use reference::{Reference, Turns};
use terrace_agent::gguf::Gguf;
use terrace_agent::model::{Feed, LoadOptions, LoadedModel, Pooling, Rows, Wanted};
use tiny::{Family, Kind, VOCABULARY, WIDTH};

fn load(bytes: Vec<u8>, contexts: u32) -> (Gguf, LoadedModel) {
    let file = Gguf::from_bytes(bytes).unwrap();
    let options = LoadOptions { max_sequences: contexts, threads: Some(2), ..LoadOptions::default() };
    let model = LoadedModel::from_file(&file, &options).unwrap();
    (file, model)
}

fn error(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let difference: f64 = found.iter().zip(expected).map(|(f, e)| (f64::from(*f) - e).powi(2)).sum();
    (difference / expected.iter().map(|e| e * e).sum::<f64>()).sqrt()
}

fn feed<'a>(blocks: &'a [u32], tokens: &'a [u32], position: usize) -> Feed<'a> {
    Feed { blocks, tokens, position, prompt: tokens.len(), wanted: Wanted::NEXT }
}

const POSITIONS: usize = 40;

fn tokens() -> Vec<u32> {
    (0..POSITIONS as u32).map(|i| (i * 37 + 11) % VOCABULARY as u32).collect()
}

/// The largest error of some positions' logits.
fn worst(model: &mut LoadedModel, reference: &Reference) -> f64 {
    let all = Wanted { logits: Rows::All, hidden: None };
    let output = model.network.step(&[Feed { wanted: all, ..feed(&[0, 1, 2], &tokens(), 0) }]).remove(0);
    assert_eq!((output.logits.len(), output.hidden), (POSITIONS, None));
    let at = [0, 7, 15, 16, POSITIONS - 1];
    at.map(|at| error(&output.logits[at], &reference.logits(&tokens()[..=at]))).into_iter().fold(0.0, f64::max)
}

#[test]
fn logits_of_every_architecture_are_those_of_its_definition() {
    for family in Family::ALL {
        // Exact numbers leave the cache's 16 bits. Quantized products add activations of eight bits, which random
        // weights blow up; each kernel is held to its own bound beside its code.
        for (kind, bound) in [(Kind::F32, 2e-3), (Kind::Q8_0, 0.1), (Kind::Q4_1, 0.1)] {
            let (file, mut model) = load(tiny::writer(family, kind).finish(), 1);
            let error = worst(&mut model, &Reference::of(&file, family));
            assert!(error < bound, "{family:?} {kind:?}: {error}");
        }
    }
}

type Change<'c> = dyn for<'a> Fn(&'a mut tiny::Writer) -> &'a mut tiny::Writer + 'c;

/// The names that a file gives its scalings of long contexts, and what each does to the rotations.
#[test]
fn rotations_are_stretched_as_the_file_says() {
    let head = Family::Qwen2.head();
    let plain = Turns::plain(10_000.0, head).frequencies;
    let linear = plain.iter().map(|f| f / 4.0).collect::<Vec<f64>>();
    let factors: Vec<f32> = (0..head / 2).map(|i| 1.0 + i as f32).collect();
    let own = plain.iter().zip(&factors).map(|(f, factor)| f / f64::from(*factor)).collect::<Vec<f64>>();
    // By hand for a context of 64 and eight pairs: no pair turns 32 times, so none stays as it was but the first; one
    // turn is at pair 16 ln(64 / 2pi) / (2 ln 10000) = 2.016, so from the third on all are stretched.
    let yarn = (0..head / 2).map(|i| plain[i] * (1.0 - (i as f64 / 3.0).min(1.0) * 0.75)).collect::<Vec<f64>>();
    let magnitude = 1.0 + 0.1 * 4f64.ln();
    let check = |name: &str, change: &Change<'_>, frequencies: &[f64], magnitude: f64| {
        let mut writer = tiny::writer(Family::Qwen2, Kind::F32);
        change(&mut writer);
        let (file, mut model) = load(writer.finish(), 1);
        let mut reference = Reference::of(&file, Family::Qwen2);
        let unscaled = worst(&mut model, &reference);
        reference.global = Turns { frequencies: frequencies.to_vec(), magnitude };
        let error = worst(&mut model, &reference);
        assert!(error < 2e-3 && (unscaled > 1e-2 || name == "none"), "{name}: {error}, {unscaled} unscaled");
    };
    let (kind, factor) = ("qwen2.rope.scaling.type", "qwen2.rope.scaling.factor");
    check("none", &|w| w.string(kind, "none").f32(factor, 4.0), &plain, 1.0);
    check("linear", &|w| w.string(kind, "linear").f32(factor, 4.0), &linear, 1.0);
    check("its older key", &|w| w.f32("qwen2.rope.scale_linear", 4.0), &linear, 1.0);
    let original = "qwen2.rope.scaling.original_context_length";
    check("yarn", &|w| w.string(kind, "yarn").f32(factor, 4.0).u32(original, 64), &yarn, magnitude);
    let bytes = factors.iter().flat_map(|f| f.to_le_bytes()).collect::<Vec<u8>>();
    check("rope_freqs", &|w| w.tensor("rope_freqs.weight", &[8], 0, bytes.clone()), &own, 1.0);
}

/// Gemma stretches only the layers that see everything.
#[test]
fn a_windows_rotations_are_not_stretched() {
    let mut writer = tiny::writer(Family::Gemma3, Kind::F32);
    writer.string("gemma3.rope.scaling.type", "linear").f32("gemma3.rope.scaling.factor", 8.0);
    let (file, mut model) = load(writer.finish(), 1);
    let mut reference = Reference::of(&file, Family::Gemma3);
    assert!(worst(&mut model, &reference) > 1e-2);
    reference.global.frequencies.iter_mut().for_each(|f| *f /= 8.0);
    assert!(worst(&mut model, &reference) < 2e-3);
}

#[test]
fn hidden_states_are_what_logits_are_made_of() {
    for family in Family::ALL {
        let (file, mut model) = load(tiny::writer(family, Kind::F32).finish(), 1);
        let wanted = Wanted { logits: Rows::None, hidden: Some(Pooling::MeanAndLast) };
        let output = model.network.step(&[Feed { wanted, ..feed(&[0, 1, 2], &tokens(), 0) }]).remove(0);
        let (hidden, reference) = (output.hidden.unwrap(), Reference::of(&file, family));
        let states: Vec<Vec<f64>> = (1..=POSITIONS).map(|n| reference.hidden(&tokens()[..n])).collect();
        let sum: Vec<f64> = (0..WIDTH).map(|i| states.iter().map(|s| s[i]).sum()).collect();
        assert!(output.logits.is_empty());
        assert!(error(&hidden.last, &states[POSITIONS - 1]) < 2e-3, "{family:?}");
        let found: Vec<f32> = hidden.sum.iter().map(|x| *x as f32).collect();
        assert!(error(&found, &sum) < 2e-3, "{family:?}");
    }
}

/// Not nearly the same: the same bits. What an answer says must not depend on who else was served.
#[test]
fn chunks_batches_and_blocks_change_no_bit() {
    let tokens: Vec<u32> = (0..100).map(|i| (i * 53 + 7) % VOCABULARY as u32).collect();
    let other: Vec<u32> = tokens.iter().rev().copied().collect();
    let files = Family::ALL.map(|family| (family, Kind::Q4_1));
    for (family, kind) in files.into_iter().chain([(Family::Llama, Kind::F32), (Family::Llama, Kind::Q8_0)]) {
        let (_, mut model) = load(tiny::writer(family, kind).finish(), 2);
        let (whole, parts, others) = ([0, 1, 2, 3, 4, 5, 6], [13, 7, 19, 8, 20, 11, 9], [10, 12, 14, 15, 16, 17, 18]);
        let both = Wanted { logits: Rows::Last, hidden: Some(Pooling::MeanAndLast) };
        let expected = model.network.step(&[Feed { wanted: both, ..feed(&whole, &tokens, 0) }]).remove(0);
        let hidden = expected.hidden.unwrap();
        let mut sum = vec![0.0; WIDTH];
        let mut position = 0;
        // Alone and beside another sequence, in chunks that end inside blocks and at their borders.
        for (turn, len) in [17, 1, 14, 1, 1, 33, 30, 1, 1, 1].into_iter().enumerate() {
            let chunk = Feed { wanted: both, ..feed(&parts, &tokens[position..position + len], position) };
            let beside = Feed { prompt: 0, ..feed(&others, &other[position..position + len], position) };
            let silent =
                Feed { wanted: Wanted::default(), ..feed(&others, &other[position..position + len], position) };
            let step = match turn % 3 {
                0 => vec![chunk, silent],
                1 => vec![beside, chunk],
                _ => vec![silent, chunk],
            };
            let outputs = model.network.step(&step);
            let own = &outputs[usize::from(turn % 3 != 0)];
            let part = own.hidden.as_ref().unwrap();
            sum.iter_mut().zip(&part.sum).for_each(|(sum, x)| *sum += x);
            position += len;
            if position == tokens.len() {
                assert_eq!(own.logits, expected.logits, "{family:?} {kind:?}");
                assert_eq!(part.last, hidden.last, "{family:?} {kind:?}");
            }
        }
        assert_eq!(position, tokens.len());
        // Chunks add up: how they were cut is lost in the rounding.
        let mean = |sum: &[f64]| sum.iter().map(|x| (x / tokens.len() as f64) as f32).collect::<Vec<f32>>();
        assert_eq!(mean(&sum), mean(&hidden.sum), "{family:?} {kind:?}");
    }
}

#[test]
fn the_rest_of_a_prompt_is_the_same_behind_a_cached_beginning() {
    let tokens: Vec<u32> = (0..60).map(|i| (i * 53 + 7) % VOCABULARY as u32).collect();
    let (_, mut model) = load(tiny::model(Kind::Q4_1), 2);
    let whole = Feed { prompt: 44, ..feed(&[0, 1, 2, 3], &tokens, 0) };
    let beside = feed(&[8, 9, 10, 11], &tokens, 0);
    let expected = model.network.step(&[whole, beside]).remove(0);
    assert_eq!(expected.logits.len(), 1);
    model.network.step(&[feed(&[4, 5, 6, 7], &tokens[..44], 0)]);
    let rest = Feed { prompt: 0, ..feed(&[4, 5, 6, 7], &tokens[44..], 44) };
    assert_eq!(model.network.step(&[rest]).remove(0), expected);
}

#[test]
fn a_copied_block_is_the_same_to_read_and_apart_to_write() {
    let tokens: Vec<u32> = (0..40).map(|i| (i * 29 + 3) % VOCABULARY as u32).collect();
    let (_, mut model) = load(tiny::model(Kind::Q4_1), 2);
    let network = &mut model.network;
    let expected = network.step(&[feed(&[0, 1, 2], &tokens, 0)]).remove(0);
    network.step(&[feed(&[4, 5], &tokens[..20], 0)]);
    network.copy_block(5, 6);
    // One of the two goes on otherwise; the copy does not notice.
    network.step(&[feed(&[4, 5], &[9, 9, 9], 20)]);
    assert_eq!(network.step(&[feed(&[4, 6, 7], &tokens[20..], 20)]).remove(0), expected);
}
