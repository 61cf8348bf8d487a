//! One byte string for one document: JSON with sorted keys and no white space.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The canonical bytes of a document of this crate.
///
/// Documents here hold only strings, integers, lists and maps with string keys, for which `serde_json` cannot fail.
pub fn bytes<T: Serialize>(document: &T) -> Vec<u8> {
    let mut value = serde_json::to_value(document).unwrap_or(Value::Null);
    sort(&mut value);
    value.to_string().into_bytes()
}

/// SHA-256 of [`bytes`], in lower-case hex.
pub fn sha256<T: Serialize>(document: &T) -> String {
    hex(&Sha256::digest(bytes(document)))
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = vec![0; 2 * bytes.len()];
    // As long as it must be, and its digits are UTF-8.
    let _ = hex::encode_to_slice(bytes, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

fn sort(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.sort_keys();
            map.values_mut().for_each(sort);
        }
        Value::Array(items) => items.iter_mut().for_each(sort),
        _ => {}
    }
}
