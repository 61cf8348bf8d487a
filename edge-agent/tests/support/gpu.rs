//! What every GPU's kernels must do, held against plain arithmetic and against the CPU's. For the tests of one device each.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use burn::backend::Flex;
use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;
use burn::tensor::{Bytes, DType, FloatDType, Int, Shape, Tensor, TensorData, TensorPrimitive};
use half::f16;
use terrace_agent::gguf::{GgmlType, dequantize};
use terrace_agent::kernels::{Attention, BLOCK_TOKENS, RotaryStyle, Span};
use terrace_agent::model::{LayerCache, QuantBackend};

/// Norm-relative difference that a kernel may have; most are far below.
const NEAR: f64 = 1e-3;

/// Numbers between -1 and 1, the same on every call.
pub fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(next).collect()
}

/// Random blocks with scales that are small numbers.
pub fn blocks(kind: GgmlType, count: usize, seed: u64) -> Vec<u8> {
    scaled(kind, count, seed, 0.05)
}

/// Random blocks with scales up to `most`.
fn scaled(kind: GgmlType, count: usize, seed: u64, most: f32) -> Vec<u8> {
    let size = kind.block_bytes();
    let mut bytes: Vec<u8> = numbers(count * size, seed).iter().map(|x| (x * 5e6) as i32 as u8).collect();
    let mut scales = numbers(count * 2, seed + 1).into_iter().map(|x| x * most);
    let mut scale = || scales.next().unwrap();
    for block in bytes.chunks_exact_mut(size) {
        let at: &[usize] = match kind {
            GgmlType::Q4_0 | GgmlType::Q5_0 | GgmlType::Q8_0 => &[0],
            GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4_K | GgmlType::Q5_K => &[0, 2],
            GgmlType::Q6_K => &[208],
            GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => &[],
        };
        at.iter().for_each(|&at| block[at..at + 2].copy_from_slice(&f16::from_f32(scale()).to_le_bytes()));
        match kind {
            GgmlType::F32 => block.copy_from_slice(&scale().to_le_bytes()),
            GgmlType::F16 => block.copy_from_slice(&f16::from_f32(scale()).to_le_bytes()),
            GgmlType::BF16 => block.copy_from_slice(&half::bf16::from_f32(scale()).to_le_bytes()),
            _ => {}
        }
    }
    bytes
}

fn tensor<B: Backend>(values: &[f32], width: usize, device: &B::Device) -> FloatTensor<B> {
    let data = TensorData::new(values.to_vec(), [values.len() / width, width]);
    Tensor::<B, 2>::from_data(data, device).into_primitive().tensor()
}

fn read<B: Backend>(x: FloatTensor<B>) -> Vec<f32> {
    Tensor::<B, 2>::from_primitive(TensorPrimitive::Float(x)).into_data().to_vec().unwrap()
}

/// Norm of the difference over the norm of what is expected.
fn error(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let (mut difference, mut norm) = (0.0, 0.0);
    for (f, e) in found.iter().zip(expected) {
        difference += (f64::from(*f) - f64::from(*e)).powi(2);
        norm += f64::from(*e).powi(2);
    }
    (difference / norm.max(1e-30)).sqrt()
}

fn linear<B: QuantBackend>(kind: GgmlType, bytes: &[u8], shape: [usize; 2], x: &[f32], device: &B::Device) -> Vec<f32> {
    let (matrix, packed) = B::pack(kind, bytes, shape[0], shape[1]);
    let length = packed.len();
    let data = TensorData::from_bytes(Bytes::from_bytes_vec(packed), [length], DType::U8);
    let weights = Tensor::<B, 1, Int>::from_data(data, (device, DType::U8)).into_primitive();
    read::<B>(B::quant_linear(tensor::<B>(x, shape[1], device), 0, weights, matrix))
}

/// Each format's product is that of its numbers, and that of the CPU: for any count of rows, and with a last group of
/// rows that is not full. Activations are whole numbers whose blocks all reach 127, so that the CPU's eight bits hold
/// them exactly.
pub fn products<B: QuantBackend>(device: &B::Device) {
    for kind in GgmlType::ALL {
        let (rows, columns) = (70, 768);
        let bytes = blocks(kind, rows * columns / kind.block_len(), 5);
        let mut weights = vec![0.0; rows * columns];
        dequantize(kind, &bytes, &mut weights);
        for count in [1, 2, 3, 8, 19] {
            let mut x: Vec<f32> = numbers(count * columns, 9).into_iter().map(|x| (x * 127.0).round()).collect();
            x.iter_mut().step_by(32).for_each(|x| *x = 127.0);
            let plain: Vec<f32> = x
                .chunks_exact(columns)
                .flat_map(|x| weights.chunks_exact(columns).map(move |w| (w, x)))
                .map(|(w, x)| w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum::<f64>() as f32)
                .collect();
            let found = linear::<B>(kind, &bytes, [rows, columns], &x, device);
            let cpu = linear::<Flex>(kind, &bytes, [rows, columns], &x, &Default::default());
            assert!(error(&found, &plain) < 1e-5, "{kind} times {count}: {}", error(&found, &plain));
            assert!(error(&found, &cpu) < NEAR, "{kind} times {count} on the CPU: {}", error(&found, &cpu));
            // A row's bits do not depend on what is beside it.
            let last = linear::<B>(kind, &bytes, [rows, columns], &x[(count - 1) * columns..], device);
            assert_eq!(found[(count - 1) * rows..], last, "{kind} alone and as the last of {count}");
        }
    }
}

/// Scales that 16 bits only hold with fewer digits, as files of the K types have them, are not taken for zero.
pub fn tiny_scales<B: QuantBackend>(device: &B::Device) {
    for kind in GgmlType::ALL.into_iter().filter(|kind| !matches!(kind, GgmlType::F32 | GgmlType::BF16)) {
        let (rows, columns) = (16, 512);
        let bytes = scaled(kind, rows * columns / kind.block_len(), 6, 3e-5);
        let mut weights = vec![0.0; rows * columns];
        dequantize(kind, &bytes, &mut weights);
        let x = numbers(columns, 8);
        let plain: Vec<f32> =
            weights.chunks_exact(columns).map(|w| w.iter().zip(&x).map(|(w, x)| w * x).sum()).collect();
        let error = error(&linear::<B>(kind, &bytes, [rows, columns], &x, device), &plain);
        assert!(error < 1e-4, "{kind}: {error}");
    }
}

/// Rows of floats may be of any length.
pub fn odd_widths<B: QuantBackend>(device: &B::Device) {
    for kind in [GgmlType::F32, GgmlType::F16, GgmlType::BF16] {
        for columns in [1, 20, 33] {
            let (rows, count) = (5, 3);
            let bytes = blocks(kind, rows * columns, 3);
            let x = numbers(count * columns, 4);
            let found = linear::<B>(kind, &bytes, [rows, columns], &x, device);
            let cpu = linear::<Flex>(kind, &bytes, [rows, columns], &x, &Default::default());
            assert!(error(&found, &cpu) < 1e-5, "{kind}, {columns} columns: {}", error(&found, &cpu));
        }
    }
}

/// An embedding's rows are the stored numbers.
pub fn rows<B: QuantBackend>(device: &B::Device) {
    for kind in GgmlType::ALL {
        let (rows, columns) = (11, 512);
        let bytes = blocks(kind, rows * columns / kind.block_len(), 7);
        let mut weights = vec![0.0; rows * columns];
        dequantize(kind, &bytes, &mut weights);
        let (matrix, packed) = B::pack(kind, &bytes, rows, columns);
        let length = packed.len();
        let data = TensorData::from_bytes(Bytes::from_bytes_vec(packed), [length], DType::U8);
        let packed = Tensor::<B, 1, Int>::from_data(data, (device, DType::U8)).into_primitive();
        let ids = [10, 0, 3, 3];
        let found = read::<B>(B::quant_rows(packed, matrix, &ids));
        let expected: Vec<f32> =
            ids.iter().flat_map(|&id| &weights[id as usize * columns..][..columns]).copied().collect();
        assert!(error(&found, &expected) < 1e-6, "{kind}: {}", error(&found, &expected));
    }
}

/// Normalisation and gate are the CPU's, also far from zero and of rows that are a part of wider ones.
pub fn pointwise<B: QuantBackend>(device: &B::Device) {
    for width in [8, 64, 576, 1000] {
        let x: Vec<f32> = numbers(3 * width, 2).into_iter().map(|x| x * 90.0).collect();
        let gamma = numbers(width, 3);
        fn norm<B: QuantBackend>(x: &[f32], gamma: &[f32], device: &B::Device) -> Vec<f32> {
            let gain = Tensor::<B, 1>::from_data(TensorData::new(gamma.to_vec(), [gamma.len()]), device);
            read::<B>(B::rms_norm(tensor::<B>(x, gamma.len(), device), gain.into_primitive().tensor(), 1e-5))
        }
        let (found, cpu) = (norm::<B>(&x, &gamma, device), norm::<Flex>(&x, &gamma, &Default::default()));
        assert!(error(&found, &cpu) < 1e-5, "norm of {width}: {}", error(&found, &cpu));
        let plain = || tensor::<Flex>(&x, width, &Default::default());
        let found = read::<B>(B::gated_gelu(tensor::<B>(&x, width, device)));
        let cpu = read::<Flex>(Flex::gated_gelu(plain()));
        assert!(found.iter().all(|x| x.is_finite()) && error(&found, &cpu) < 1e-5, "gelu: {}", error(&found, &cpu));
        let gate = |x: FloatTensor<B>| read::<B>(B::gated_silu(x));
        let (found, cpu) = (gate(tensor::<B>(&x, width, device)), read::<Flex>(Flex::gated_silu(plain())));
        assert!(found.iter().all(|x| x.is_finite()) && error(&found, &cpu) < 1e-5, "gate: {}", error(&found, &cpu));
        let part = |wide: Tensor<B, 2>| wide.slice([0..3, 0..width / 2]).into_primitive().tensor();
        let wide = Tensor::<B, 2>::from_primitive(TensorPrimitive::Float(tensor::<B>(&x, width, device)));
        let half: Vec<f32> = x.chunks_exact(width).flat_map(|row| &row[..width / 2]).copied().collect();
        assert_eq!(gate(part(wide)), gate(tensor::<B>(&half, width / 2, device)));
    }
}

fn cache<B: Backend>(shape: &Attention, blocks: usize, device: &B::Device) -> LayerCache<B> {
    let empty = || B::float_zeros(Shape::from([blocks, shape.block()]), device, FloatDType::F16);
    LayerCache { keys: empty(), values: empty() }
}

/// Two sequences in chunks and single rows, their blocks here and there, with and without a window: what the CPU gives.
pub fn attention<B: QuantBackend>(device: &B::Device) {
    for (heads, kv_heads, width, window, style) in [
        (4, 2, 64, None, RotaryStyle::Interleaved),
        (3, 3, 16, Some(21), RotaryStyle::Halves),
        (4, 1, 256, Some(5), RotaryStyle::Halves),
        (2, 1, 80, None, RotaryStyle::Interleaved),
    ] {
        let shape = Attention { heads, kv_heads, width, scale: 1.0 / (width as f32).sqrt(), window, style };
        let positions = 150;
        let table: Vec<f32> = (0..positions)
            .flat_map(|p| {
                let angle = move |i: usize| p as f32 * 100f32.powf(-2.0 * i as f32 / width as f32);
                (0..width / 2).map(move |i| angle(i).cos()).chain((0..width / 2).map(move |i| angle(i).sin()))
            })
            .collect();
        let blocks: [Vec<u32>; 2] = [(0..10).map(|i| i * 2).collect(), (0..10).rev().map(|i| i * 2 + 1).collect()];
        let (mut ours, mut cpus) = (cache::<B>(&shape, 20, device), cache::<Flex>(&shape, 20, &Default::default()));
        let mut position = 0;
        for len in [70, 1, 1, 60, 1] {
            let spans = blocks.each_ref().map(|blocks| Span { blocks, position, len, prompt: false });
            let qkv = numbers(2 * len * shape.row(), position as u64 + 1);
            let turns = table[position * width..(position + len) * width].repeat(2);
            let found = B::cached_attention(
                shape,
                tensor::<B>(&qkv, shape.row(), device),
                &spans,
                tensor::<B>(&turns, width, device),
                &mut ours,
            );
            let cpu = Flex::cached_attention(
                shape,
                tensor::<Flex>(&qkv, shape.row(), &Default::default()),
                &spans,
                tensor::<Flex>(&turns, width, &Default::default()),
                &mut cpus,
            );
            let error = error(&read::<B>(found), &read::<Flex>(cpu));
            assert!(error < NEAR, "{shape:?} from {position}: {error}");
            position += len;
        }
        // A copied block is the other, and its neighbours are what they were.
        B::copy_block(shape, &mut ours, blocks[0][1], blocks[1][9]);
        Flex::copy_block(shape, &mut cpus, blocks[0][1], blocks[1][9]);
        let spans = [Span { blocks: &blocks[1], position: 9 * BLOCK_TOKENS, len: 1, prompt: false }];
        let qkv = numbers(shape.row(), 77);
        let turns = &table[9 * BLOCK_TOKENS * width..][..width];
        let found = B::cached_attention(
            shape,
            tensor::<B>(&qkv, shape.row(), device),
            &spans,
            tensor::<B>(turns, width, device),
            &mut ours,
        );
        let cpu = Flex::cached_attention(
            shape,
            tensor::<Flex>(&qkv, shape.row(), &Default::default()),
            &spans,
            tensor::<Flex>(turns, width, &Default::default()),
            &mut cpus,
        );
        assert!(error(&read::<B>(found), &read::<Flex>(cpu)) < NEAR, "{shape:?} after a block was copied");
    }
}

/// Every kernel in every form, whatever it computes: for devices that compute nothing. Burn panics where one does not
/// compile or is not taken.
pub fn launches<B: QuantBackend>(device: &B::Device) {
    for kind in GgmlType::ALL {
        let (rows, columns) = (70, 512);
        let bytes = blocks(kind, rows * columns / kind.block_len(), 5);
        for count in [1, 2, 3, 8] {
            linear::<B>(kind, &bytes, [rows, columns], &numbers(count * columns, 1), device);
        }
        let (matrix, packed) = B::pack(kind, &bytes, rows, columns);
        let length = packed.len();
        let data = TensorData::from_bytes(Bytes::from_bytes_vec(packed), [length], DType::U8);
        let packed = Tensor::<B, 1, Int>::from_data(data, (device, DType::U8)).into_primitive();
        read::<B>(B::quant_rows(packed, matrix, &[3, 1]));
    }
    linear::<B>(GgmlType::F32, &blocks(GgmlType::F32, 5 * 33, 3), [5, 33], &numbers(33, 4), device);
    let x = || tensor::<B>(&numbers(3 * 100, 2), 100, device);
    let gamma = Tensor::<B, 1>::from_data(TensorData::new(numbers(100, 3), [100]), device);
    read::<B>(B::rms_norm(x(), gamma.into_primitive().tensor(), 1e-5));
    read::<B>(B::gated_gelu(x()));
    let sum = Tensor::<B, 2>::from_primitive(TensorPrimitive::Float(B::gated_silu(x()))) * 2.0;
    let rows = Tensor::cat(vec![sum.clone().slice([1..2, 0..50]), sum], 0);
    read::<B>(rows.into_primitive().tensor());
    for (width, style) in [(64, RotaryStyle::Interleaved), (128, RotaryStyle::Halves), (256, RotaryStyle::Halves)] {
        let shape = Attention { heads: 4, kv_heads: 2, width, scale: 0.1, window: Some(9), style };
        let mut cache = cache::<B>(&shape, 4, device);
        let qkv = tensor::<B>(&numbers(40 * shape.row(), 1), shape.row(), device);
        let spans = [Span { blocks: &[2, 0, 1], position: 0, len: 40, prompt: false }];
        let angles = tensor::<B>(&numbers(40 * width, 2), width, device);
        read::<B>(B::cached_attention(shape, qkv, &spans, angles, &mut cache));
        B::copy_block(shape, &mut cache, 0, 3);
    }
    B::sync(device).unwrap();
}
