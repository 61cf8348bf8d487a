//! The modules that decoders are made of, over [`QuantBackend`].

use burn::module::Module;
use burn::tensor::backend::Backend;
use burn::tensor::{Bytes, DType, Int, Tensor, TensorData, TensorPrimitive};

use super::backend::QuantBackend;
use super::family::Gate;
use crate::gguf::Tensor as Stored;
use crate::kernels::{Attention, Matrix};

/// A product with weights that stay quantized.
#[derive(Module, Debug)]
pub(super) struct QuantLinear<B: Backend> {
    weights: Tensor<B, 1, Int>,
    #[module(skip)]
    matrix: Matrix,
}

impl<B: QuantBackend> QuantLinear<B> {
    /// Rows of several tensors of one type and width become one matrix.
    fn new(tensors: &[Stored<'_>], device: &B::Device) -> Self {
        let (columns, kind) = (tensors[0].shape[0], tensors[0].kind);
        let rows = tensors.iter().map(|t| t.shape[1]).sum();
        let joined;
        let bytes = match tensors {
            [one] => one.bytes,
            several => {
                joined = several.iter().flat_map(|t| t.bytes.iter().copied()).collect::<Vec<u8>>();
                joined.as_slice()
            }
        };
        let (matrix, packed) = B::pack(kind, bytes, rows, columns);
        let length = packed.len();
        let data = TensorData::from_bytes(Bytes::from_elems(packed), [length], DType::U8);
        QuantLinear { weights: Tensor::from_data(data, (device, DType::U8)), matrix }
    }

    fn forward(&self, x: Tensor<B, 2>, prompts: usize) -> Tensor<B, 2> {
        let x = x.into_primitive().tensor();
        wrap(B::quant_linear(x, prompts, self.weights.clone().into_primitive(), self.matrix))
    }

    fn rows(&self, ids: &[u32]) -> Tensor<B, 2> {
        wrap(B::quant_rows(self.weights.clone().into_primitive(), self.matrix, ids))
    }
}

/// One or several tensors that meet the same input: one product where their types agree, else one each.
#[derive(Module, Debug)]
pub(super) struct Projection<B: Backend> {
    parts: Vec<QuantLinear<B>>,
    /// Added to every output, where there is one.
    bias: Option<Tensor<B, 1>>,
}

impl<B: QuantBackend> Projection<B> {
    /// Outputs follow each other in the order of `tensors`.
    pub(super) fn new(tensors: &[Stored<'_>], bias: Option<Vec<f32>>, device: &B::Device) -> Self {
        let same = tensors.iter().all(|t| t.kind == tensors[0].kind);
        let parts = if same {
            vec![QuantLinear::new(tensors, device)]
        } else {
            tensors.iter().map(|t| QuantLinear::new(std::slice::from_ref(t), device)).collect()
        };
        Projection { parts, bias: bias.map(|bias| vector(bias, device)) }
    }

    /// Of rows of which the first `prompts` come from prompts.
    pub(super) fn forward(&self, x: Tensor<B, 2>, prompts: usize) -> Tensor<B, 2> {
        let out = match self.parts.as_slice() {
            [one] => one.forward(x, prompts),
            parts => Tensor::cat(parts.iter().map(|p| p.forward(x.clone(), prompts)).collect(), 1),
        };
        match &self.bias {
            Some(bias) => out + bias.clone().unsqueeze(),
            None => out,
        }
    }

    /// Rows by number; of a projection of one tensor.
    pub(super) fn rows(&self, ids: &[u32]) -> Tensor<B, 2> {
        self.parts[0].rows(ids)
    }
}

/// Root mean square normalisation.
#[derive(Module, Debug)]
pub(super) struct RmsNorm<B: Backend> {
    gamma: Tensor<B, 1>,
    epsilon: f32,
}

impl<B: Backend> RmsNorm<B> {
    pub(super) fn new(gamma: Vec<f32>, epsilon: f32, device: &B::Device) -> Self {
        RmsNorm { gamma: vector(gamma, device), epsilon }
    }
}

impl<B: QuantBackend> RmsNorm<B> {
    pub(super) fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let (x, gamma) = (x.into_primitive().tensor(), self.gamma.clone().into_primitive().tensor());
        wrap(B::rms_norm(x, gamma, self.epsilon))
    }
}

/// The same for each head of queries and of keys; values stay as they are.
#[derive(Module, Debug)]
pub(super) struct HeadNorms<B: Backend> {
    query: RmsNorm<B>,
    key: RmsNorm<B>,
    /// Numbers of all queries of a row, and of all its keys.
    queries: usize,
    keys: usize,
    width: usize,
}

impl<B: Backend> HeadNorms<B> {
    pub(super) fn new(query: Vec<f32>, key: Vec<f32>, shape: &Attention, epsilon: f32, device: &B::Device) -> Self {
        HeadNorms {
            query: RmsNorm::new(query, epsilon, device),
            key: RmsNorm::new(key, epsilon, device),
            queries: shape.heads * shape.width,
            keys: shape.kv_heads * shape.width,
            width: shape.width,
        }
    }
}

impl<B: QuantBackend> HeadNorms<B> {
    pub(super) fn forward(&self, qkv: Tensor<B, 2>) -> Tensor<B, 2> {
        let [rows, row] = qkv.dims();
        let part = |norm: &RmsNorm<B>, from: usize, to: usize| {
            let heads = qkv.clone().slice([0..rows, from..to]).reshape([-1, self.width as i64]);
            norm.forward(heads).reshape([rows, to - from])
        };
        let (keys, values) = (self.queries, self.queries + self.keys);
        let tail = qkv.clone().slice([0..rows, values..row]);
        Tensor::cat(vec![part(&self.query, 0, keys), part(&self.key, keys, values), tail], 1)
    }
}

/// What a part of a layer gives, added to what came into it.
pub(super) fn added<B: QuantBackend>(x: Tensor<B, 2>, y: Tensor<B, 2>) -> Tensor<B, 2> {
    wrap(B::add(x.into_primitive().tensor(), y.into_primitive().tensor()))
}

/// The gate of a feed-forward: the first half of each row, put through its function, times the second.
pub(super) fn gated<B: QuantBackend>(x: Tensor<B, 2>, gate: Gate) -> Tensor<B, 2> {
    let x = x.into_primitive().tensor();
    wrap(match gate {
        Gate::Silu => B::gated_silu(x),
        Gate::Gelu => B::gated_gelu(x),
    })
}

fn vector<B: Backend>(numbers: Vec<f32>, device: &B::Device) -> Tensor<B, 1> {
    let length = numbers.len();
    Tensor::from_data(TensorData::new(numbers, [length]), device)
}

/// A tensor of the backend's own kind.
pub(super) fn wrap<B: Backend>(primitive: B::FloatTensorPrimitive) -> Tensor<B, 2> {
    Tensor::from_primitive(TensorPrimitive::Float(primitive))
}
