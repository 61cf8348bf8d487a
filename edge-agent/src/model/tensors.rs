//! A file's tensors by their names in the architecture. None may be left over: a weight that is not understood would
//! change every answer.

use std::cell::RefCell;
use std::collections::HashSet;

use crate::gguf::{Gguf, GgufError, Tensor, dequantize};

/// The tensors of one file, and which were asked for.
pub(super) struct Tensors<'a> {
    file: &'a Gguf,
    used: RefCell<HashSet<String>>,
}

impl<'a> Tensors<'a> {
    pub(super) fn new(file: &'a Gguf) -> Self {
        Tensors { file, used: RefCell::default() }
    }

    /// One of exactly this shape, columns first.
    ///
    /// # Errors
    /// When it is missing or of another shape; so below.
    pub(super) fn get(&self, name: &str, shape: &[usize]) -> Result<Tensor<'a>, GgufError> {
        self.used.borrow_mut().insert(name.to_owned());
        self.file.shaped(name, shape)
    }

    /// One that the file may lack.
    pub(super) fn find(&self, name: &str, shape: &[usize]) -> Result<Option<Tensor<'a>>, GgufError> {
        self.file.find(name).map(|_| self.get(name, shape)).transpose()
    }

    /// The numbers of a vector.
    pub(super) fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, GgufError> {
        let stored = self.get(name, &[length])?;
        let mut numbers = vec![0.0; length];
        dequantize(stored.kind, stored.bytes, &mut numbers);
        Ok(numbers)
    }

    /// Lets go of the pages that were read: see [`Gguf::forget_pages`].
    pub(super) fn forget_pages(&self) {
        self.file.forget_pages();
    }

    /// # Errors
    /// When the file has one that nothing asked for.
    pub(super) fn nothing_left(&self, architecture: &str) -> Result<(), GgufError> {
        let used = self.used.borrow();
        match self.file.tensors().map(|t| t.name).filter(|name| !used.contains(*name)).min() {
            None => Ok(()),
            Some(name) => Err(GgufError::tensor(
                name,
                format!("is no part of the architecture `{architecture}` that is known here"),
            )),
        }
    }
}
