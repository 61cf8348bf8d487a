//! The modules that decoders are made of, over [`QuantBackend`].

use burn::module::Module;
use burn::tensor::backend::Backend;
use burn::tensor::{Bytes, DType, Int, Tensor, TensorData, TensorPrimitive};

use super::backend::QuantBackend;
use crate::gguf::{Gguf, GgufError, Tensor as Stored, dequantize};
use crate::kernels::Matrix;

/// A product with weights that stay quantized.
#[derive(Module, Debug)]
pub(super) struct QuantLinear<B: Backend> {
    weights: Tensor<B, 1, Int>,
    #[module(skip)]
    matrix: Matrix,
}

impl<B: Backend> QuantLinear<B> {
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
        let (matrix, packed) = Matrix::pack(kind, bytes, rows, columns);
        let length = packed.len();
        let data = TensorData::from_bytes(Bytes::from_bytes_vec(packed), [length], DType::U8);
        QuantLinear { weights: Tensor::from_data(data, (device, DType::U8)), matrix }
    }
}

impl<B: QuantBackend> QuantLinear<B> {
    fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let x = x.into_primitive().tensor();
        wrap(B::quant_linear(x, self.weights.clone().into_primitive(), self.matrix))
    }

    fn rows(&self, ids: &[u32]) -> Tensor<B, 2> {
        wrap(B::quant_rows(self.weights.clone().into_primitive(), self.matrix, ids))
    }
}

/// One or several tensors that meet the same input: one product where their types agree, else one each.
#[derive(Module, Debug)]
pub(super) struct Projection<B: Backend> {
    parts: Vec<QuantLinear<B>>,
}

impl<B: Backend> Projection<B> {
    /// Outputs follow each other in the order of `tensors`.
    pub(super) fn new(tensors: &[Stored<'_>], device: &B::Device) -> Self {
        let same = tensors.iter().all(|t| t.kind == tensors[0].kind);
        let parts = if same {
            vec![QuantLinear::new(tensors, device)]
        } else {
            tensors.iter().map(|t| QuantLinear::new(std::slice::from_ref(t), device)).collect()
        };
        Projection { parts }
    }
}

impl<B: QuantBackend> Projection<B> {
    pub(super) fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        match self.parts.as_slice() {
            [one] => one.forward(x),
            parts => Tensor::cat(parts.iter().map(|p| p.forward(x.clone())).collect(), 1),
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
    pub(super) fn load(
        file: &Gguf,
        name: &str,
        width: usize,
        epsilon: f32,
        device: &B::Device,
    ) -> Result<Self, GgufError> {
        let stored = file.shaped(name, &[width])?;
        let mut gamma = vec![0.0; width];
        dequantize(stored.kind, stored.bytes, &mut gamma);
        Ok(RmsNorm { gamma: Tensor::from_data(TensorData::new(gamma, [width]), device), epsilon })
    }
}

impl<B: QuantBackend> RmsNorm<B> {
    pub(super) fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let (x, gamma) = (x.into_primitive().tensor(), self.gamma.clone().into_primitive().tensor());
        wrap(B::rms_norm(x, gamma, self.epsilon))
    }
}

/// A tensor of the backend's own kind.
pub(super) fn wrap<B: Backend>(primitive: B::FloatTensorPrimitive) -> Tensor<B, 2> {
    Tensor::from_primitive(TensorPrimitive::Float(primitive))
}
