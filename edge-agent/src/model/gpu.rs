//! [`QuantBackend`] on burn's GPU backend, for every runtime of CubeCL: tensors go in and out, kernels in between.

use std::any::TypeId;
use std::cell::RefCell;

use burn::tensor::ops::{FloatTensor, IntTensor};
use burn::tensor::{DType, Shape};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeRuntime};
use cubecl::prelude::ComputeClient;

use super::backend::{LayerCache, QuantBackend};
use crate::gguf::GgmlType;
use crate::kernels::gpu::{self, Buffer, Cache, Format, Plan, Rows, Weights};
use crate::kernels::{Attention, Matrix, Span};

impl<R: CubeRuntime> QuantBackend for CubeBackend<R, f32, i32, u8> {
    fn pack(kind: GgmlType, bytes: &[u8], rows: usize, columns: usize) -> (Matrix, Vec<u8>) {
        let words = Weights::pack(kind, bytes, rows, columns);
        let packed = words.into_iter().flat_map(u32::to_le_bytes).collect();
        (Matrix { rows, columns, kind }, packed)
    }

    fn quant_linear(
        x: FloatTensor<Self>,
        _prompts: usize,
        weights: IntTensor<Self>,
        matrix: Matrix,
    ) -> FloatTensor<Self> {
        on_rows(x, |client, x| gpu::product(client, &self::weights(weights, matrix), x))
    }

    fn quant_rows(weights: IntTensor<Self>, matrix: Matrix, ids: &[u32]) -> FloatTensor<Self> {
        let (client, device) = (weights.client.clone(), weights.device.clone());
        let rows = gpu::rows(&client, &self::weights(weights, matrix), ids);
        tensor(client, device, rows)
    }

    fn rms_norm(x: FloatTensor<Self>, gamma: FloatTensor<Self>, epsilon: f32) -> FloatTensor<Self> {
        on_rows(x, |client, x| gpu::rms_norm(client, x, &whole(gamma), epsilon))
    }

    fn gated_silu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        on_rows(x, |client, x| gpu::gated(client, x, gpu::Gate::Silu))
    }

    fn gated_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        on_rows(x, |client, x| gpu::gated(client, x, gpu::Gate::Gelu))
    }

    fn cached_attention(
        shape: Attention,
        qkv: FloatTensor<Self>,
        spans: &[Span<'_>],
        angles: FloatTensor<Self>,
        cache: &mut LayerCache<Self>,
    ) -> FloatTensor<Self> {
        let angles = self::rows(angles);
        on_rows(qkv, |client, qkv| gpu::attend(client, shape, qkv, &plan(client, spans), &angles, &buffers(cache)))
    }

    fn copy_block(shape: Attention, cache: &mut LayerCache<Self>, from: u32, to: u32) {
        gpu::copy_block(&cache.keys.client, shape, &buffers(cache), from, to);
    }
}

/// Runs a kernel over rows, on the device where they are.
fn on_rows<R: CubeRuntime>(x: CubeTensor<R>, kernel: impl FnOnce(&ComputeClient<R>, &Rows) -> Rows) -> CubeTensor<R> {
    let (client, device) = (x.client.clone(), x.device.clone());
    let out = kernel(&client, &rows(x));
    tensor(client, device, out)
}

/// A tensor's rows where they lie, if each lies in one piece; else a copy.
fn rows<R: CubeRuntime>(x: CubeTensor<R>) -> Rows {
    let x = if x.meta.strides()[1] == 1 { x } else { into_contiguous(x) };
    let (shape, stride) = (x.meta.shape(), x.meta.strides()[0]);
    let (count, width) = (shape[0], shape[1]);
    // Of a single row no stride is kept that could be relied upon.
    let stride = stride.max(width);
    let len = count.saturating_sub(1) * stride + width;
    Rows { buffer: Buffer::new(x.handle, len), count, width, stride }
}

fn tensor<R: CubeRuntime>(client: ComputeClient<R>, device: R::Device, rows: Rows) -> CubeTensor<R> {
    // Rows may be wider than what counts of them only while a kernel reads them.
    debug_assert_eq!(rows.stride, rows.width);
    let shape = Shape::from([rows.count, rows.width]);
    CubeTensor::new_contiguous(client, device, shape, rows.buffer.handle(), DType::F32)
}

/// All of a tensor's numbers, one after the other.
fn whole<R: CubeRuntime>(x: CubeTensor<R>) -> Buffer {
    let x = into_contiguous(x);
    let len = x.meta.shape().num_elements();
    Buffer::new(x.handle, len)
}

fn weights<R: CubeRuntime>(bytes: CubeTensor<R>, matrix: Matrix) -> Weights {
    let bytes = whole(bytes);
    let words = bytes.len() / size_of::<u32>();
    Weights {
        words: Buffer::new(bytes.handle(), words),
        format: Format::of(matrix.kind),
        rows: matrix.rows,
        columns: matrix.columns,
    }
}

fn buffers<R: CubeRuntime>(cache: &LayerCache<CubeBackend<R, f32, i32, u8>>) -> Cache {
    // Written in place: the engine holds the only other reference, and a new step waits for this one's launches.
    let buffer = |x: &CubeTensor<R>| Buffer::new(x.handle.clone(), x.meta.shape().num_elements());
    Cache { keys: buffer(&cache.keys), values: buffer(&cache.values) }
}

thread_local! {
    /// The plan of the step that this thread runs: every layer has the same.
    static PLAN: RefCell<Option<(TypeId, Vec<u32>, Plan)>> = const { RefCell::new(None) };
}

fn plan<R: CubeRuntime>(client: &ComputeClient<R>, spans: &[Span<'_>]) -> Plan {
    let words = Plan::words(spans);
    PLAN.with_borrow_mut(|kept| match kept {
        Some((runtime, kept, plan)) if *runtime == TypeId::of::<R>() && *kept == words => plan.clone(),
        _ => {
            let plan = Plan::new(client, &words, spans);
            *kept = Some((TypeId::of::<R>(), words, plan.clone()));
            plan
        }
    })
}
