//! The one trait that joins burn and our kernels: a burn [`Backend`] that also has quantized products and the fused
//! operations of a decoder. The model is generic over it; a new device, or a newer burn, is a new implementation here
//! and nothing else.

use burn::backend::Flex;
use burn::backend::flex::{FlexTensor, Layout};
use burn::tensor::backend::Backend;
use burn::tensor::ops::{FloatTensor, IntTensor};
use burn::tensor::{Bytes, DType, Shape};
use half::f16;

use super::reuse;
use crate::gguf::GgmlType;
use crate::kernels::{Attention, Matrix, Span, add, gated_gelu, gated_silu, rms_norm};

/// Burn's operations and the decoder's own. All rows are `[rows, width]`, contiguous, `f32`.
pub trait QuantBackend: Backend {
    /// Rows as a file has them become what this device multiplies with; `columns` are whole blocks.
    fn pack(kind: GgmlType, bytes: &[u8], rows: usize, columns: usize) -> (Matrix, Vec<u8>);

    /// `x[m, columns]` times the transposed weights, packed as [`Self::pack`] does: `[m, rows]`. The first `prompts`
    /// rows come from prompts, which a device may multiply in another way than the tokens of answers: always the same.
    fn quant_linear(
        x: FloatTensor<Self>,
        prompts: usize,
        weights: IntTensor<Self>,
        matrix: Matrix,
    ) -> FloatTensor<Self>;

    /// Rows of packed weights by number, as an embedding is looked up: `[ids, columns]`.
    fn quant_rows(weights: IntTensor<Self>, matrix: Matrix, ids: &[u32]) -> FloatTensor<Self>;

    /// `x` and `y` added up, number by number: of the same shape.
    fn add(x: FloatTensor<Self>, y: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_add(x, y)
    }

    /// Each row over its root mean square, times `gamma[width]`.
    fn rms_norm(x: FloatTensor<Self>, gamma: FloatTensor<Self>, epsilon: f32) -> FloatTensor<Self>;

    /// `silu` of the first half of each row times the second: `[m, width / 2]`.
    fn gated_silu(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// `gelu`, by its approximation with `tanh`, of the first half of each row times the second: `[m, width / 2]`.
    fn gated_gelu(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Rotary positions, cache write and attention; see [`Attention::run`]. The cache is changed in place.
    fn cached_attention(
        shape: Attention,
        qkv: FloatTensor<Self>,
        spans: &[Span<'_>],
        angles: FloatTensor<Self>,
        cache: &mut LayerCache<Self>,
    ) -> FloatTensor<Self>;

    /// Copies one block of the cache over another.
    fn copy_block(shape: Attention, cache: &mut LayerCache<Self>, from: u32, to: u32);
}

/// Keys and values of one layer, `f16`, in blocks of [`BLOCK_TOKENS`](crate::kernels::BLOCK_TOKENS) positions; which
/// block belongs to whom, and when, is the engine's business.
pub struct LayerCache<B: Backend> {
    /// Rotated keys: `[blocks, kv_heads, width, BLOCK_TOKENS]`.
    pub keys: FloatTensor<B>,
    /// Values: `[blocks, kv_heads, BLOCK_TOKENS, width]`.
    pub values: FloatTensor<B>,
}

impl QuantBackend for Flex {
    fn pack(kind: GgmlType, bytes: &[u8], rows: usize, columns: usize) -> (Matrix, Vec<u8>) {
        let (matrix, packed) = Matrix::pack(kind, bytes, rows, columns);
        crate::device::large(&packed);
        (matrix, packed)
    }

    fn quant_linear(x: FlexTensor, prompts: usize, weights: FlexTensor, matrix: Matrix) -> FlexTensor {
        rows(x, matrix.rows, |x, out| matrix.multiply(weights.bytes(), x, prompts, out))
    }

    fn quant_rows(weights: FlexTensor, matrix: Matrix, ids: &[u32]) -> FlexTensor {
        let mut out = vec![0.0; ids.len() * matrix.columns];
        for (id, out) in ids.iter().zip(out.chunks_exact_mut(matrix.columns)) {
            matrix.row(weights.bytes(), *id as usize, out);
        }
        tensor(out, ids.len(), matrix.columns)
    }

    fn add(mut x: FlexTensor, y: FlexTensor) -> FlexTensor {
        let (count, width) = (x.layout().shape()[0], x.layout().shape()[1]);
        // A part of another tensor becomes one of its own; numbers that somebody else has are copied as well.
        if x.bytes().len() != count * width * size_of::<f32>() {
            x = tensor(floats(&x).into_owned(), count, width);
        }
        add(x.storage_mut(), &floats(&y));
        reuse::give_back(y);
        x
    }

    fn rms_norm(x: FlexTensor, gamma: FlexTensor, epsilon: f32) -> FlexTensor {
        let gamma = floats(&gamma);
        rows(x, gamma.len(), |x, out| rms_norm(x, &gamma, epsilon, out))
    }

    fn gated_silu(x: FlexTensor) -> FlexTensor {
        let width = x.layout().shape()[1] / 2;
        rows(x, width, |x, out| gated_silu(x, width, out))
    }

    fn gated_gelu(x: FlexTensor) -> FlexTensor {
        let width = x.layout().shape()[1] / 2;
        rows(x, width, |x, out| gated_gelu(x, width, out))
    }

    fn cached_attention(
        shape: Attention,
        qkv: FlexTensor,
        spans: &[Span<'_>],
        angles: FlexTensor,
        cache: &mut LayerCache<Self>,
    ) -> FlexTensor {
        // Nobody else holds the cache, so neither is copied.
        let (keys, values) = (cache.keys.storage_mut::<f16>(), cache.values.storage_mut::<f16>());
        let angles = floats(&angles);
        rows(qkv, shape.heads * shape.width, |qkv, out| shape.run(qkv, spans, &angles, keys, values, out))
    }

    fn copy_block(shape: Attention, cache: &mut LayerCache<Self>, from: u32, to: u32) {
        let size = shape.block();
        let (from, to) = (from as usize * size, to as usize * size);
        for part in [cache.keys.storage_mut::<f16>(), cache.values.storage_mut::<f16>()] {
            part.copy_within(from..from + size, to);
        }
    }
}

/// A tensor's numbers, copied only where they do not lie in a row.
fn floats(x: &FlexTensor) -> std::borrow::Cow<'_, [f32]> {
    match x.as_slice::<f32>() {
        Some(slice) => slice.into(),
        None => x.to_contiguous().storage::<f32>().to_vec().into(),
    }
}

/// A new tensor of as many rows as `x`, all of whose numbers `fill` writes.
fn rows(x: FlexTensor, width: usize, fill: impl FnOnce(&[f32], &mut [f32])) -> FlexTensor {
    let count = x.layout().shape()[0];
    let mut out = reuse::take(count * width);
    fill(&floats(&x), &mut out);
    reuse::give_back(x);
    tensor(out, count, width)
}

fn tensor(values: Vec<f32>, rows: usize, width: usize) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(Shape::from([rows, width])), DType::F32)
}
