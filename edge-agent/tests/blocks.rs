//! Stored numbers against llama.cpp's reading of them: as they are looked up, and as the products use them.
//! `references/make_blocks.py` made what they are compared with.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use terrace_agent::gguf::{GgmlType, dequantize};
use terrace_agent::kernels::Matrix;

#[derive(serde::Deserialize)]
struct Case {
    r#type: String,
    bytes: Vec<u8>,
    numbers: Vec<f32>,
}

/// Each kind with its blocks, every kind of ours among them.
fn cases() -> Vec<(GgmlType, Vec<Case>)> {
    let mut cases: Vec<Case> = serde_json::from_str(include_str!("references/blocks.json")).unwrap();
    let kinds = GgmlType::ALL.into_iter().map(|kind| {
        let own: Vec<Case> = cases.extract_if(.., |case| case.r#type == kind.to_string()).collect();
        assert!(!own.is_empty(), "no block of {kind}");
        (kind, own)
    });
    let kinds = kinds.collect();
    assert!(cases.is_empty(), "blocks of a kind that we do not know");
    kinds
}

#[test]
fn stored_numbers_are_read_as_llama_cpp_reads_them() {
    for (kind, cases) in cases() {
        for Case { bytes, numbers, .. } in cases {
            let mut found = vec![0.0; numbers.len()];
            dequantize(kind, &bytes, &mut found);
            for (at, (found, expected)) in found.iter().zip(&numbers).enumerate() {
                assert!((found - expected).abs() <= 1e-6 + 1e-5 * expected.abs(), "{kind} {at}: {found} {expected}");
            }
        }
    }
}

/// A product with a row that is zero but for one place is the weight at that place: packing, kernels and the reading of
/// blocks at once, with as many rows of activations as there are columns and with one alone.
#[test]
fn products_take_out_the_numbers_that_llama_cpp_reads() {
    for (kind, cases) in cases() {
        let columns = cases[0].numbers.len();
        let bytes: Vec<u8> = cases.iter().flat_map(|case| case.bytes.iter().copied()).collect();
        let (matrix, packed) = Matrix::pack(kind, &bytes, cases.len(), columns);
        let unit = |place: usize| (0..columns).map(move |at| f32::from(u8::from(at == place)));
        let together: Vec<f32> = (0..columns).flat_map(unit).collect();
        let mut out = vec![0.0; columns * cases.len()];
        matrix.multiply(&packed, &together, 0, &mut out);
        // As a prompt's rows, which some processors take in sixteen bits.
        let mut prompt = vec![0.0; columns * cases.len()];
        matrix.multiply(&packed, &together, columns, &mut prompt);
        for place in 0..columns {
            let mut alone = vec![0.0; cases.len()];
            matrix.multiply(&packed, &unit(place).collect::<Vec<_>>(), 0, &mut alone);
            for (row, case) in cases.iter().enumerate() {
                let expected = case.numbers[place];
                let of = |case: &Case| case.numbers.iter().fold(0.0f32, |most, n| most.max(n.abs()));
                let (largest, widest) = (of(case), cases.iter().map(of).fold(0.0, f32::max));
                let at = place * cases.len() + row;
                // Sixteen bits span what a block's scale can say, whether or not one of its numbers says it.
                for (found, within) in
                    [(out[at], 1e-5 * largest), (alone[row], 1e-5 * largest), (prompt[at], 1e-4 * widest)]
                {
                    let near = (found - expected).abs() <= within;
                    assert!(near, "{kind}, row {row}, column {place}: {found}, not {expected}");
                }
            }
        }
    }
}
