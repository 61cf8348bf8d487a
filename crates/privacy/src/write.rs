//! JSON of a tree. The same bytes as serde_json's, which looks at a string byte by byte: of a long prompt that took as long as
//! reading it.

use std::io::Write as _;

use serde_json::Value;

/// Writes a value behind what is there. Writing to memory cannot fail.
pub(crate) fn json(value: &Value, out: &mut Vec<u8>) -> std::io::Result<()> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(is) => write!(out, "{is}")?,
        Value::Number(number) => write!(out, "{number}")?,
        Value::String(text) => string(text, out)?,
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                json(item, out)?;
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (at, (key, value)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                string(key, out)?;
                out.push(b':');
                json(value, out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

/// Whether a byte is written as an escape.
fn escaped(b: &u8) -> bool {
    (*b < 0x20) | (*b == b'"') | (*b == b'\\')
}

fn string(text: &str, out: &mut Vec<u8>) -> std::io::Result<()> {
    /// Bytes that are looked at together.
    const TOGETHER: usize = 32;
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let mut plain = 0;
        while let Some(some) = rest[plain..].first_chunk::<TOGETHER>()
            && !some.iter().fold(false, |any, b| any | escaped(b))
        {
            plain += TOGETHER;
        }
        plain += rest[plain..].iter().take_while(|b| !escaped(b)).count();
        let (before, after) = rest.split_at(plain);
        out.extend_from_slice(before);
        let Some((first, after)) = after.split_first() else { break };
        match first {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *first]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            other => write!(out, "\\u{other:04x}")?,
        }
        rest = after;
    }
    out.push(b'"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tree() -> impl Strategy<Value = Value> {
        let text = "[\\x00-\\x7f密é🦀]{0,80}";
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::vec((text, inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_bytes_are_serde_jsons(value in tree()) {
            let mut out = Vec::new();
            json(&value, &mut out).unwrap();
            prop_assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&value).unwrap());
        }
    }
}
