//! `POST /v1/embeddings`: texts in, vectors out.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::answer::Terrace;
use crate::error::{Code, ErrorBody};
use crate::pointer::Pointer;
use crate::vector;

/// Inputs of one request at most, as OpenAI's.
pub const MOST_INPUTS: usize = 2048;

/// An embedding request, its shape checked.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingRequest {
    /// Model name.
    pub model: String,
    /// What to embed; at least one, none of them empty.
    pub inputs: Vec<Input>,
    /// How vectors are written.
    pub encoding: Encoding,
    /// Numbers of a vector, if the caller says.
    pub dimensions: Option<u32>,
    /// How a text's states become one vector; none: as the model's file says. Not OpenAI's.
    pub pooling: Option<Pooling>,
    /// Whether `input` was a list of inputs and not one.
    listed: bool,
}

/// One thing to embed.
#[derive(Clone, PartialEq, Eq)]
pub enum Input {
    /// A text.
    Text(String),
    /// Token ids, taken as they are.
    Tokens(Vec<u32>),
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Input::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Input::Tokens(ids) => write!(f, "Tokens({})", ids.len()),
        }
    }
}

/// How vectors are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Encoding {
    /// `float`: a list of numbers.
    #[default]
    Float,
    /// `base64`: little-endian 32-bit numbers in base64; what OpenAI's packages ask for by themselves.
    Base64,
}

/// How a text's hidden states become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// `mean`: the mean over its tokens.
    Mean,
    /// `last`: that of its last token.
    Last,
}

/// Fields that there are, for a message.
const FIELDS: [&str; 6] = ["model", "input", "encoding_format", "dimensions", "pooling", "user"];

impl EmbeddingRequest {
    /// Reads a parsed body.
    ///
    /// # Errors
    /// The error body to send: 400 with the field by JSON pointer, by index, never by content.
    pub fn from_value(value: Value) -> Result<Self, ErrorBody> {
        let root = Pointer::root();
        let Value::Object(mut fields) = value else { return fault(&root, "the body must be a JSON object") };
        // Found before anything is taken out, which would move it.
        let unknown = fields.iter().position(|(name, value)| !value.is_null() && !FIELDS.contains(&name.as_str()));
        let model = match fields.remove("model") {
            Some(Value::String(model)) => model,
            _ => {
                let what = "give the model's name as a string; `auto` leaves the choice to the policy";
                return fault(&root.key("model"), what);
            }
        };
        let (inputs, listed) = inputs(fields.remove("input"), &root.key("input"))?;
        let request = Self {
            model,
            inputs,
            listed,
            encoding: one_of(
                &mut fields,
                "encoding_format",
                &[("float", Encoding::Float), ("base64", Encoding::Base64)],
            )?
            .unwrap_or_default(),
            dimensions: dimensions(&mut fields)?,
            pooling: one_of(&mut fields, "pooling", &[("mean", Pooling::Mean), ("last", Pooling::Last)])?,
        };
        // Who asks changes no vector.
        if fields.remove("user").is_some_and(|user| !user.is_string() && !user.is_null()) {
            return fault(&root.key("user"), "must be a string");
        }
        // A name that the caller invented is content: its position says which it is.
        if let Some(position) = unknown {
            let what = format!("is not known here: leave it out; known are {}", FIELDS.join(", "));
            return fault(&root.nth(position), &what);
        }
        Ok(request)
    }

    /// Where an input stands in the request.
    pub fn place(&self, index: usize) -> Pointer {
        let at = Pointer::root().key("input");
        if self.listed { at.index(index) } else { at }
    }
}

fn fault<T>(at: &Pointer, what: &str) -> Result<T, ErrorBody> {
    Err(ErrorBody::new(Code::InvalidRequest, format!("{at}: {what}")).at(at))
}

/// A text, a list of texts, a list of token ids or a list of those; and whether they are several inputs.
fn inputs(value: Option<Value>, at: &Pointer) -> Result<(Vec<Input>, bool), ErrorBody> {
    const WHAT: &str = "give a string, a list of strings, a list of token ids, or a list of such lists";
    const EMPTY: &str = "is empty: give it some text";
    let list = match value {
        Some(Value::String(text)) if text.is_empty() => return fault(at, EMPTY),
        Some(Value::String(text)) => return Ok((vec![Input::Text(text)], false)),
        Some(Value::Array(list)) if list.is_empty() => return fault(at, EMPTY),
        Some(Value::Array(list)) => list,
        _ => return fault(at, WHAT),
    };
    if list[0].is_number() {
        return Ok((vec![Input::Tokens(ids(list, at, WHAT)?)], false));
    }
    if list.len() > MOST_INPUTS {
        return fault(at, &format!("has {} inputs, {MOST_INPUTS} is the most: send the rest in another", list.len()));
    }
    let texts = list[0].is_string();
    let input = |(index, value): (usize, Value)| {
        let at = at.index(index);
        match value {
            Value::String(text) if texts && text.is_empty() => fault(&at, EMPTY),
            Value::String(text) if texts => Ok(Input::Text(text)),
            Value::Array(list) if !texts && list.is_empty() => fault(&at, EMPTY),
            Value::Array(list) if !texts => Ok(Input::Tokens(ids(list, &at, WHAT)?)),
            _ => fault(&at, WHAT),
        }
    };
    let inputs: Result<_, _> = list.into_iter().enumerate().map(input).collect();
    Ok((inputs?, true))
}

fn ids(list: Vec<Value>, at: &Pointer, what: &str) -> Result<Vec<u32>, ErrorBody> {
    let id = |(index, value): (usize, Value)| match value.as_u64().and_then(|id| u32::try_from(id).ok()) {
        Some(id) => Ok(id),
        None => fault(&at.index(index), what),
    };
    list.into_iter().enumerate().map(id).collect()
}

/// A field that is one of some words; none if it is absent or null.
fn one_of<T: Copy>(fields: &mut Map<String, Value>, name: &str, words: &[(&str, T)]) -> Result<Option<T>, ErrorBody> {
    let value = match fields.remove(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    match words.iter().find(|(word, _)| value.as_str() == Some(word)) {
        Some((_, meaning)) => Ok(Some(*meaning)),
        None => {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            fault(&Pointer::root().key(name), &format!("must be one of: {}", words.join(", ")))
        }
    }
}

fn dimensions(fields: &mut Map<String, Value>) -> Result<Option<u32>, ErrorBody> {
    match fields.remove("dimensions") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0) {
            Some(count) => Ok(Some(count)),
            None => {
                let what = format!("must be a whole number from 1 to {}", u32::MAX);
                fault(&Pointer::root().key("dimensions"), &what)
            }
        },
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmbeddingList {
    /// `list`.
    pub object: String,
    /// A vector for each input, in their order.
    pub data: Vec<Embedding>,
    /// The model that answered.
    pub model: String,
    /// Tokens used.
    pub usage: EmbeddingUsage,
    /// Only for a router that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terrace: Option<Terrace>,
}

/// One vector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Embedding {
    /// `embedding`.
    pub object: String,
    /// Which input.
    pub index: u32,
    /// The vector, of length 1.
    pub embedding: Vector,
}

/// A vector as it was asked for.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Vector {
    /// [`Encoding::Float`].
    Float(Vec<f32>),
    /// [`Encoding::Base64`].
    Base64(String),
}

impl Vector {
    /// These numbers, in this encoding.
    pub fn of(numbers: Vec<f32>, encoding: Encoding) -> Self {
        match encoding {
            Encoding::Float => Vector::Float(numbers),
            Encoding::Base64 => Vector::Base64(vector::encode(&numbers)),
        }
    }
}

impl fmt::Debug for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Vector::Float(numbers) => write!(f, "Float({})", numbers.len()),
            Vector::Base64(text) => write!(f, "Base64({} bytes)", text.len()),
        }
    }
}

/// Tokens of an embedding request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingUsage {
    /// Of all inputs.
    pub prompt_tokens: u32,
    /// The same.
    pub total_tokens: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(more: Value) -> Result<EmbeddingRequest, ErrorBody> {
        let mut body = json!({"model": "m", "input": "x"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        EmbeddingRequest::from_value(body)
    }

    #[test]
    fn inputs_are_texts_or_token_ids_one_or_many() {
        let text = |t: &str| Input::Text(t.into());
        for (input, expected, place) in [
            (json!("a"), vec![text("a")], "/input"),
            (json!(["a", "b"]), vec![text("a"), text("b")], "/input/0"),
            (json!(["a"]), vec![text("a")], "/input/0"),
            (json!([1, 2]), vec![Input::Tokens(vec![1, 2])], "/input"),
            (json!([[1], [2, 3]]), vec![Input::Tokens(vec![1]), Input::Tokens(vec![2, 3])], "/input/0"),
        ] {
            let request = read(json!({ "input": input })).unwrap();
            assert_eq!((request.place(0).to_string().as_str(), &request.inputs), (place, &expected));
        }
        assert_eq!(read(json!({"input": vec!["a"; MOST_INPUTS]})).unwrap().inputs.len(), MOST_INPUTS);
        assert!(!format!("{:?}", read(json!({"input": "secret"}))).contains("secret"));
    }

    #[test]
    fn options_have_defaults_and_null_is_none() {
        let plain = read(json!({"dimensions": null, "encoding_format": null, "pooling": null, "other": null})).unwrap();
        assert_eq!((plain.encoding, plain.dimensions, plain.pooling), (Encoding::Float, None, None));
        let set = json!({"dimensions": 64, "encoding_format": "base64", "pooling": "last", "user": "u"});
        let set = read(set).unwrap();
        assert_eq!((set.encoding, set.dimensions, set.pooling), (Encoding::Base64, Some(64), Some(Pooling::Last)));
    }

    #[test]
    fn faults_are_named_by_pointer_and_never_by_content() {
        for (more, at) in [
            (json!({"model": 7}), "/model"),
            (json!({"input": null}), "/input"),
            (json!({"input": ""}), "/input"),
            (json!({"input": []}), "/input"),
            (json!({"input": {"secret": 1}}), "/input"),
            (json!({"input": ["a", ""]}), "/input/1"),
            (json!({"input": ["a", 3]}), "/input/1"),
            (json!({"input": [{"secret": 1}]}), "/input/0"),
            (json!({"input": [1, "secret"]}), "/input/1"),
            (json!({"input": [1, -1]}), "/input/1"),
            (json!({"input": [1, 1.5]}), "/input/1"),
            (json!({"input": [1, 4294967296u64]}), "/input/1"),
            (json!({"input": [[1], []]}), "/input/1"),
            (json!({"input": [[1], [2, "secret"]]}), "/input/1/1"),
            (json!({"input": [[1], 2]}), "/input/1"),
            (json!({"input": vec!["a"; MOST_INPUTS + 1]}), "/input"),
            (json!({"encoding_format": "secret"}), "/encoding_format"),
            (json!({"pooling": "secret"}), "/pooling"),
            (json!({"pooling": 1}), "/pooling"),
            (json!({"dimensions": 0}), "/dimensions"),
            (json!({"dimensions": "secret"}), "/dimensions"),
            (json!({"user": ["secret"]}), "/user"),
            (json!({"secret": 1}), "/[2]"),
            (json!({"dimensions": 4294967296u64}), "/dimensions"),
        ] {
            let error = read(more).unwrap_err().error;
            assert_eq!((error.param.as_deref(), error.code.as_str()), (Some(at), "invalid_request"));
            assert!(!error.message.contains("secret"), "{}", error.message);
        }
        assert_eq!(EmbeddingRequest::from_value(json!([])).unwrap_err().error.param.as_deref(), Some("/"));
    }

    #[test]
    fn vectors_are_written_as_asked_and_without_noise() {
        let list = |encoding| EmbeddingList {
            object: "list".into(),
            data: vec![Embedding {
                object: "embedding".into(),
                index: 0,
                embedding: Vector::of(vec![0.1, -1.0], encoding),
            }],
            model: "m".into(),
            usage: EmbeddingUsage { prompt_tokens: 2, total_tokens: 2 },
            terrace: None,
        };
        let float = serde_json::to_string(&list(Encoding::Float)).unwrap();
        assert!(float.contains("\"embedding\":[0.1,-1.0]") && !float.contains("terrace"), "{float}");
        let base64 = list(Encoding::Base64);
        let Vector::Base64(text) = &base64.data[0].embedding else { panic!("{base64:?}") };
        assert_eq!(vector::decode(text), Some(vec![0.1, -1.0]));
        for written in [list(Encoding::Float), base64] {
            assert_eq!(
                serde_json::from_str::<EmbeddingList>(&serde_json::to_string(&written).unwrap()).unwrap(),
                written
            );
        }
    }
}
