//! JSON as a proxy must read it: what two parsers could read differently is refused.
//!
//! Duplicate keys, lone surrogates, invalid UTF-8, trailing bytes and deep nesting are all ways to show a detector one
//! text and the model another.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Nesting that is still read. Past it a request is refused rather than half understood.
pub const MAX_DEPTH: usize = 64;

/// Members up to which an object is looked through instead of hashing a name.
const FEW: usize = 16;

/// A member of an object; none of what is no object. Requests, messages and their parts have few members, among which a
/// name is found in a fraction of the time that hashing it takes.
pub fn member<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    let members = value.as_object()?;
    if members.len() > FEW {
        return members.get(name);
    }
    members.iter().find_map(|(key, value)| (key == name).then_some(value))
}

/// Why a body is not JSON that can be read in one way only. Names the place, never the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// What is wrong, without any of the body's text.
    pub message: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Malformed {}

/// Reads a whole body.
///
/// # Errors
/// [`Malformed`] for invalid UTF-8, a syntax error, trailing bytes, a key that stands twice, nesting over
/// [`MAX_DEPTH`], or a number outside what an f64 holds.
pub fn parse(body: &[u8]) -> Result<Value, Malformed> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Malformed { message: "the body is empty, where a JSON object was expected".into() });
    }
    if let Err(error) = std::str::from_utf8(body) {
        return Err(Malformed { message: format!("the body is not UTF-8 at byte {}", error.valid_up_to()) });
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = Strict { depth: 0 }.deserialize(&mut reader).map_err(|e| describe(&e))?;
    reader.end().map_err(|e| describe(&e))?;
    Ok(value)
}

/// serde_json's own messages can quote content (an unexpected string), so only the kind and the place are kept.
fn describe(error: &serde_json::Error) -> Malformed {
    let text = error.to_string();
    let (line, column) = (error.line(), error.column());
    let expected = EXPECTED.iter().find(|(words, _)| text.starts_with(words)).map(|(_, expected)| *expected);
    let what = if text.starts_with(TWICE) {
        "an object has the same key twice"
    } else if text.starts_with(DEEP) || text.starts_with("recursion limit") {
        "nested too deeply"
    } else if text.contains("surrogate") || text.contains("unexpected end of hex escape") {
        "a lone surrogate in a string"
    } else if text.starts_with("trailing characters") {
        "more bytes after the JSON value"
    } else if text.starts_with("EOF") {
        "the JSON ends too early"
    } else if text.starts_with("number out of range") {
        "a number is out of range"
    } else {
        "not valid JSON"
    };
    let expected = expected.map_or_else(String::new, |expected| format!(": {expected} was expected there"));
    Malformed { message: format!("{what}, at line {line} column {column}{expected}") }
}

/// How serde_json's messages begin, and what it would have taken.
const EXPECTED: &[(&str, &str)] = &[
    ("expected value", "a value (an object, a list, a string in double quotes, a number, true, false or null)"),
    ("expected ident", "true, false or null"),
    ("expected `:`", "a colon after the key"),
    ("expected `,` or `}`", "a comma or the object's closing brace"),
    ("expected `,` or `]`", "a comma or the list's closing bracket"),
    ("key must be a string", "a key in double quotes"),
    ("trailing comma", "another member after the comma, or none"),
    ("invalid escape", "an escape that JSON has"),
    ("invalid number", "a number as JSON writes it"),
    ("control character", "an escape such as \\n in place of the control character"),
    ("EOF while parsing a string", "the string's closing quote"),
    ("EOF while parsing a list", "the list's closing bracket"),
    ("EOF while parsing an object", "the object's closing brace"),
    ("EOF while parsing a value", "a value"),
];

const TWICE: &str = "key twice";
const DEEP: &str = "too deep";

#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inner = self.deeper::<A::Error>()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.deeper::<A::Error>()?;
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = access.next_value_seed(inner)?;
            if map.insert(key, value).is_some() {
                return Err(A::Error::custom(TWICE));
            }
        }
        Ok(Value::Object(map))
    }
}

impl Strict {
    fn deeper<E: serde::de::Error>(self) -> Result<Strict, E> {
        if self.depth >= MAX_DEPTH { Err(E::custom(DEEP)) } else { Ok(Strict { depth: self.depth + 1 }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_serde_json_reads() {
        let body = br#"{"a":[1,-2,3.5,true,null,"\ud83d\ude00"],"b":{"c":"d"}}"#;
        assert_eq!(parse(body).unwrap(), serde_json::from_slice::<Value>(body).unwrap());
    }

    #[test]
    fn refuses_what_can_be_read_in_two_ways_without_quoting_it() {
        let deep = "[".repeat(100) + &"]".repeat(100);
        let cases: &[(&[u8], &str)] = &[
            (br#"{"secret":1,"secret":2}"#, "same key twice"),
            (br#"{"a":"\ud800"}"#, "lone surrogate"),
            (br#"{"a":1} secret"#, "more bytes"),
            (b"{\"a\":\"\xff\"}", "not UTF-8 at byte 6"),
            (br#"{"a":"#, "ends too early"),
            (br#"{"a":1e999}"#, "out of range"),
            (br#"{"a":secret}"#, "not valid JSON, at line 1 column 6: a value"),
            (b"GARBAGE", "not valid JSON, at line 1 column 1: a value (an object"),
            (b" \r\n", "the body is empty, where a JSON object"),
            (br#"{"a" "secret"}"#, "column 6: a colon"),
            (br#"{"a":"secret" 1}"#, "closing brace"),
            (br#"{a:1}"#, "double quotes"),
            (b"{\"a\":\"\n\"}", "escape"),
            (br#"{"a":[1,]}"#, "after the comma"),
            (br#"{"a":"secret"#, "closing quote"),
            (deep.as_bytes(), "nested too deeply"),
        ];
        for (body, want) in cases {
            let error = parse(body).unwrap_err().to_string();
            assert!(error.contains(want), "{error} / {want}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
