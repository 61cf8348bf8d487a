//! Why a file is refused.

/// A file that is not a GGUF this program can use. Each names the place and says what was expected there.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// It cannot be opened or mapped.
    #[error("cannot open the model {path}: check that it exists and is readable")]
    Open {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: it does not begin with `GGUF`; download a .gguf file")]
    Magic,
    /// A version that this program does not read.
    #[error("GGUF version {0} is not known here, only 2 and 3 (little endian): convert the file again")]
    Version(u32),
    /// The file ends too early.
    #[error("the file ends inside {place}: {need} bytes are needed there, {have} are left; download it again")]
    Truncated {
        /// The key, tensor or part of the header.
        place: String,
        /// Bytes.
        need: u64,
        /// Bytes.
        have: u64,
    },
    /// A key of the metadata.
    #[error("metadata key `{key}`: {problem}")]
    Key {
        /// Its name.
        key: String,
        /// What was found and what was expected.
        problem: String,
    },
    /// A tensor.
    #[error("tensor `{tensor}`: {problem}")]
    Tensor {
        /// Its name.
        tensor: String,
        /// What was found and what was expected.
        problem: String,
    },
}

impl GgufError {
    /// A problem with a key.
    pub fn key(key: impl Into<String>, problem: impl Into<String>) -> Self {
        GgufError::Key { key: key.into(), problem: problem.into() }
    }

    /// A problem with a tensor.
    pub fn tensor(tensor: impl Into<String>, problem: impl Into<String>) -> Self {
        GgufError::Tensor { tensor: tensor.into(), problem: problem.into() }
    }
}
