//! Embeddings as a client gets them: a vector for each input, in their order, in the encoding that it asked for.

use serde_json::{Value, json};
use terrace_wire::vector;

/// What was asked of embeddings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vectors {
    /// How many inputs there are.
    pub inputs: usize,
    /// Whether vectors are wanted in base64.
    pub base64: bool,
}

impl Vectors {
    /// Reads an embedding request of a checked shape.
    pub fn of_request(request: &Value) -> Self {
        let inputs = match request.get("input") {
            // A list of token ids is one input.
            Some(Value::Array(list)) if !list.iter().any(Value::is_number) => list.len(),
            _ => 1,
        };
        let base64 = request.get("encoding_format").and_then(Value::as_str) == Some("base64");
        Self { inputs, base64 }
    }

    /// The vectors of a tier's answer, its `data`, built new; none if there is not one for each input.
    ///
    /// A tier that knows one encoding only is no reason to fail: the other is made from it.
    pub fn of_answer(self, data: Value) -> Option<Vec<Value>> {
        let Value::Array(said) = data else { return None };
        if said.len() != self.inputs {
            return None;
        }
        let mut ordered = vec![None; self.inputs];
        for (position, mut one) in said.into_iter().enumerate() {
            let index = match one.get("index") {
                None => position,
                Some(index) => usize::try_from(index.as_u64()?).ok()?,
            };
            let vector = self.encoded(one.get_mut("embedding")?.take())?;
            // One that comes twice leaves another without any.
            let place = ordered.get_mut(index).filter(|place| place.is_none())?;
            *place = Some(json!({"object": "embedding", "index": index, "embedding": vector}));
        }
        ordered.into_iter().collect()
    }

    fn encoded(self, vector: Value) -> Option<Value> {
        match vector {
            Value::Array(numbers) if !numbers.is_empty() && numbers.iter().all(Value::is_number) => {
                if !self.base64 {
                    return Some(Value::Array(numbers));
                }
                let numbers: Option<Vec<f32>> = numbers.iter().map(|n| n.as_f64().map(|n| n as f32)).collect();
                Some(vector::encode(&numbers?).into())
            }
            Value::String(text) => {
                let numbers = vector::decode(&text).filter(|numbers| !numbers.is_empty())?;
                if self.base64 { Some(Value::String(text)) } else { serde_json::to_value(numbers).ok() }
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(vectors: &[(usize, Value)]) -> Value {
        let data: Vec<Value> = vectors.iter().map(|(i, v)| json!({"index": i, "embedding": v, "cost": 7})).collect();
        Value::Array(data)
    }

    #[test]
    fn inputs_are_counted_as_they_are_read() {
        for (input, inputs) in
            [(json!("a"), 1), (json!(["a", "b"]), 2), (json!([1, 2, 3]), 1), (json!([[1, 2], [3]]), 2)]
        {
            assert_eq!(Vectors::of_request(&json!({ "input": input })).inputs, inputs, "{input}");
        }
    }

    #[test]
    fn vectors_come_in_order_and_in_the_encoding_that_was_asked_for() {
        let (one, two) = (json!([0.5, -1.0]), json!("AACAPwAAAMA="));
        let said = answer(&[(1, two.clone()), (0, one.clone())]);
        let get = |base64| Vectors { inputs: 2, base64 }.of_answer(said.clone()).unwrap();
        let item = |index: u32, vector: &Value| json!({"object": "embedding", "index": index, "embedding": vector});
        assert_eq!(get(false), [item(0, &one), item(1, &json!([1.0, -2.0]))]);
        assert_eq!(get(true), [item(0, &json!("AAAAPwAAgL8=")), item(1, &two)]);
    }

    #[test]
    fn an_answer_that_is_short_of_a_vector_is_none() {
        let vector = json!([1.0]);
        for said in [
            json!({}),
            json!([]),
            answer(&[(0, vector.clone())]),
            answer(&[(0, vector.clone()), (0, vector.clone())]),
            answer(&[(0, vector.clone()), (2, vector.clone())]),
            answer(&[(0, vector.clone()), (1, json!([]))]),
            answer(&[(0, vector.clone()), (1, json!("not base64!"))]),
            answer(&[(0, vector.clone()), (1, json!(["x"]))]),
        ] {
            assert_eq!(Vectors { inputs: 2, base64: false }.of_answer(said.clone()), None, "{said}");
        }
    }
}
