//! Metadata: typed values by key.

use std::collections::HashMap;

use super::GgufError;
use super::reader::Reader;

/// Elements of an array at most: no vocabulary or table comes near, and it bounds what a file can make us hold.
const MAX_ELEMENTS: u64 = 1 << 24;

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Any unsigned integer type.
    Unsigned(u64),
    /// Any signed integer type.
    Signed(i64),
    /// `f32` or `f64`.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    String(String),
    /// A list.
    Array(Array),
}

/// A list of one type.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    /// Any integer or boolean type.
    Integers(Vec<i64>),
    /// `f32` or `f64`.
    Floats(Vec<f64>),
    /// Strings.
    Strings(Vec<String>),
}

/// All keys of a file.
#[derive(Debug, Default)]
pub struct Metadata(HashMap<String, Value>);

impl Metadata {
    pub(super) fn insert(&mut self, key: String, value: Value) -> Result<(), GgufError> {
        if self.0.contains_key(&key) {
            return Err(GgufError::key(key, "is there twice"));
        }
        self.0.insert(key, value);
        Ok(())
    }

    /// A value, if the key is there.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// A string that must be there.
    ///
    /// # Errors
    /// When it is missing or of another type; so for all the readers below.
    pub fn string(&self, key: &str) -> Result<&str, GgufError> {
        self.optional_string(key)?.ok_or_else(|| missing(key))
    }

    /// A string that may be missing.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn optional_string(&self, key: &str) -> Result<Option<&str>, GgufError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(other) => Err(wrong(key, "a string", other)),
        }
    }

    /// A whole number from 0 to 2^32 - 1 that must be there.
    ///
    /// # Errors
    /// See [`Self::string`].
    pub fn u32(&self, key: &str) -> Result<u32, GgufError> {
        self.optional_u32(key)?.ok_or_else(|| missing(key))
    }

    /// A whole number that may be missing.
    ///
    /// # Errors
    /// When it is of another type or out of range.
    pub fn optional_u32(&self, key: &str) -> Result<Option<u32>, GgufError> {
        let number = match self.get(key) {
            None => return Ok(None),
            Some(Value::Unsigned(n)) => u32::try_from(*n).ok(),
            Some(Value::Signed(n)) => u32::try_from(*n).ok(),
            Some(other) => return Err(wrong(key, "a whole number", other)),
        };
        number.map(Some).ok_or_else(|| GgufError::key(key, "is not between 0 and 4294967295"))
    }

    /// A number that may be missing.
    ///
    /// # Errors
    /// When it is of another type or not finite in 32 bits.
    pub fn optional_f32(&self, key: &str) -> Result<Option<f32>, GgufError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Float(x)) if (*x as f32).is_finite() => Ok(Some(*x as f32)),
            Some(other) => Err(wrong(key, "a finite number", other)),
        }
    }

    /// A boolean that may be missing.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn optional_bool(&self, key: &str) -> Result<Option<bool>, GgufError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(*b)),
            Some(other) => Err(wrong(key, "true or false", other)),
        }
    }

    /// A list of strings that must be there.
    ///
    /// # Errors
    /// See [`Self::string`].
    pub fn strings(&self, key: &str) -> Result<&[String], GgufError> {
        match self.get(key) {
            None => Err(missing(key)),
            Some(Value::Array(Array::Strings(list))) => Ok(list),
            Some(other) => Err(wrong(key, "a list of strings", other)),
        }
    }

    /// A list of whole numbers that may be missing.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn optional_integers(&self, key: &str) -> Result<Option<&[i64]>, GgufError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::Integers(list))) => Ok(Some(list)),
            Some(other) => Err(wrong(key, "a list of whole numbers", other)),
        }
    }

    /// A list of numbers that may be missing.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn optional_floats(&self, key: &str) -> Result<Option<&[f64]>, GgufError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::Floats(list))) => Ok(Some(list)),
            Some(other) => Err(wrong(key, "a list of numbers", other)),
        }
    }
}

fn missing(key: &str) -> GgufError {
    GgufError::key(key, "is missing; the file was made by a converter that leaves it out")
}

fn wrong(key: &str, expected: &str, found: &Value) -> GgufError {
    let found = match found {
        Value::Unsigned(_) | Value::Signed(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Bool(_) => "a boolean",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
    };
    GgufError::key(key, format!("should be {expected}, is {found}"))
}

/// Reads a value of the type that stands before it.
pub(super) fn read_value(reader: &mut Reader<'_>, key: &str) -> Result<Value, GgufError> {
    match reader.u32(key)? {
        8 => Ok(Value::String(text(reader, key)?)),
        9 => Ok(Value::Array(read_array(reader, key)?)),
        kind => scalar(reader, kind, key),
    }
}

fn read_array(reader: &mut Reader<'_>, key: &str) -> Result<Array, GgufError> {
    let kind = reader.u32(key)?;
    let count = reader.u64(key)?;
    if count > MAX_ELEMENTS {
        return Err(GgufError::key(key, format!("a list of {count} elements; {MAX_ELEMENTS} is the most")));
    }
    match kind {
        8 => {
            let count = reader.room_for(count, 8, key)?;
            let mut list = Vec::with_capacity(count);
            for _ in 0..count {
                list.push(text(reader, key)?);
            }
            Ok(Array::Strings(list))
        }
        9 => Err(GgufError::key(key, "a list of lists, which no key is known to hold")),
        6 | 12 => {
            let count = reader.room_for(count, if kind == 6 { 4 } else { 8 }, key)?;
            let mut list = Vec::with_capacity(count);
            for _ in 0..count {
                match scalar(reader, kind, key)? {
                    Value::Float(x) => list.push(x),
                    other => return Err(wrong(key, "a number", &other)),
                }
            }
            Ok(Array::Floats(list))
        }
        _ => {
            let count = reader.room_for(count, 1, key)?;
            let mut list = Vec::new();
            for _ in 0..count {
                match scalar(reader, kind, key)? {
                    Value::Unsigned(n) => list.push(n as i64),
                    Value::Signed(n) => list.push(n),
                    Value::Bool(b) => list.push(i64::from(b)),
                    other => return Err(wrong(key, "a whole number", &other)),
                }
            }
            Ok(Array::Integers(list))
        }
    }
}

fn scalar(reader: &mut Reader<'_>, kind: u32, key: &str) -> Result<Value, GgufError> {
    Ok(match kind {
        0 => Value::Unsigned(u8::from_le_bytes(reader.array(key)?).into()),
        1 => Value::Signed(i8::from_le_bytes(reader.array(key)?).into()),
        2 => Value::Unsigned(u16::from_le_bytes(reader.array(key)?).into()),
        3 => Value::Signed(i16::from_le_bytes(reader.array(key)?).into()),
        4 => Value::Unsigned(u32::from_le_bytes(reader.array(key)?).into()),
        5 => Value::Signed(i32::from_le_bytes(reader.array(key)?).into()),
        6 => Value::Float(f32::from_le_bytes(reader.array(key)?).into()),
        7 => match reader.array::<1>(key)? {
            [0] => Value::Bool(false),
            [1] => Value::Bool(true),
            [other] => return Err(GgufError::key(key, format!("a boolean is 0 or 1, not {other}"))),
        },
        10 => Value::Unsigned(u64::from_le_bytes(reader.array(key)?)),
        11 => Value::Signed(i64::from_le_bytes(reader.array(key)?)),
        12 => Value::Float(f64::from_le_bytes(reader.array(key)?)),
        other => return Err(GgufError::key(key, format!("value type {other} is unknown"))),
    })
}

/// Vocabularies of some files hold pieces that are not UTF-8: those become replacement characters.
fn text(reader: &mut Reader<'_>, key: &str) -> Result<String, GgufError> {
    Ok(String::from_utf8_lossy(reader.string_bytes(key)?).into_owned())
}
