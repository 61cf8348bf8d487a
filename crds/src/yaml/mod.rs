//! The one way to read and write manifests: through JSON values, so that nothing is written that kubectl refuses (YAML
//! tags, for one) and nothing is read that it would not.

mod read;

use serde::Serialize;
use serde_json::Value;

pub use read::{Manifest, Problem, Problems, documents, read};

/// One document as YAML, with a `---` in front.
pub fn write<T: Serialize>(document: &T) -> String {
    // Documents hold strings, integers, lists and maps with string keys: neither step can fail for those.
    let value = serde_json::to_value(document).unwrap_or(Value::Null);
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place; the value is plain JSON, so no YAML tag can appear"
    )]
    let text = serde_yaml::to_string(&value).unwrap_or_default();
    format!("---\n{text}")
}
