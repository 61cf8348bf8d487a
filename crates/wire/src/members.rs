//! Reads the members of a request's objects, each fault named by its place: for requests that are translated.

use std::fmt;

use serde_json::{Map, Value};

use crate::error::ErrorBody;
use crate::pointer::Pointer;

/// An object of a request and its place. A member that is null counts as absent.
#[derive(Clone)]
pub struct Members<'a> {
    map: &'a Map<String, Value>,
    /// Its place.
    pub at: Pointer,
}

impl fmt::Debug for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its place and nothing of what it holds.
        write!(f, "Members({})", self.at)
    }
}

impl<'a> Members<'a> {
    /// An object at a place.
    ///
    /// # Errors
    /// 400 with what it must be.
    pub fn of(value: &'a Value, at: Pointer, what: &str) -> Result<Self, ErrorBody> {
        match value.as_object() {
            Some(map) => Ok(Self { map, at }),
            None => Err(ErrorBody::invalid(&at, what)),
        }
    }

    /// A member.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// A string.
    ///
    /// # Errors
    /// 400 with its place.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>, ErrorBody> {
        self.read(name, "must be a string", Value::as_str)
    }

    /// A string that must be there.
    ///
    /// # Errors
    /// 400 with its place.
    pub fn needs_text(&self, name: &str, what: &str) -> Result<&'a str, ErrorBody> {
        self.get(name).and_then(Value::as_str).ok_or_else(|| self.fault(name, what))
    }

    /// A list.
    ///
    /// # Errors
    /// 400 with its place.
    pub fn list(&self, name: &str) -> Result<Option<&'a Vec<Value>>, ErrorBody> {
        self.read(name, "must be a list", Value::as_array)
    }

    /// true or false.
    ///
    /// # Errors
    /// 400 with its place.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, ErrorBody> {
        self.read(name, "must be true or false", Value::as_bool)
    }

    /// An object.
    ///
    /// # Errors
    /// 400 with its place.
    pub fn members(&self, name: &str) -> Result<Option<Members<'a>>, ErrorBody> {
        self.get(name).map(|value| Members::of(value, self.at.key(name), "must be an object")).transpose()
    }

    fn read<T>(&self, name: &str, what: &str, as_: impl Fn(&'a Value) -> Option<T>) -> Result<Option<T>, ErrorBody> {
        self.get(name).map(|value| as_(value).ok_or_else(|| self.fault(name, what))).transpose()
    }

    /// 400 about a member.
    pub fn fault(&self, name: &str, what: impl fmt::Display) -> ErrorBody {
        ErrorBody::invalid(&self.at.key(name), what)
    }

    /// Refuses every member that is not `taken`: by its name if it is `known`, else by its position, since a name that
    /// the caller invented is content.
    ///
    /// # Errors
    /// 400 for the first one.
    pub fn only(&self, taken: &[&str], known: &[&str]) -> Result<(), ErrorBody> {
        for (position, (name, value)) in self.map.iter().enumerate() {
            if value.is_null() || taken.contains(&name.as_str()) {
                continue;
            }
            if known.contains(&name.as_str()) {
                return Err(self.fault(name, UNTRANSLATED));
            }
            let what = format!("is not known here: leave it out; known are {}", taken.join(", "));
            return Err(ErrorBody::invalid(&self.at.nth(position), what));
        }
        Ok(())
    }
}

/// What is said of a member that has no counterpart in the request that tiers understand.
pub const UNTRANSLATED: &str = "cannot be translated into what a tier understands: leave it out";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn null_is_absent_and_faults_have_places() {
        let value = json!({"a": null, "b": 7, "c": "x", "secret": 1, "d": [1]});
        let members = Members::of(&value, Pointer::root().key("o"), "x").unwrap();
        assert_eq!((members.get("a"), members.text("a"), members.text("c")), (None, Ok(None), Ok(Some("x"))));
        let place = |error: ErrorBody| error.error.param.unwrap();
        assert_eq!(place(members.text("b").unwrap_err()), "/o/b");
        assert_eq!(place(members.needs_text("a", "give it").unwrap_err()), "/o/a");
        assert_eq!(place(members.flag("b").unwrap_err()), "/o/b");
        assert_eq!(place(members.list("b").unwrap_err()), "/o/b");
        assert_eq!(place(members.members("b").unwrap_err()), "/o/b");
        assert_eq!(place(members.only(&["a", "b", "c", "secret"], &["d"]).unwrap_err()), "/o/d");
        let unknown = members.only(&["b", "c", "d"], &[]).unwrap_err();
        assert!(!unknown.error.message.contains("secret"), "{unknown:?}");
        assert!(place(unknown).starts_with("/o/["));
        assert_eq!(place(Members::of(&json!(1), Pointer::root(), "x").unwrap_err()), "/");
    }
}
