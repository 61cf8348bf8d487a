//! `response_format`: plain text, any JSON object, or JSON of a schema.

use serde_json::Value;

use crate::error::ErrorBody;
use crate::pointer::Pointer;
use crate::tools::LONGEST_NAME;

/// What an answer's text must be.
#[derive(Debug, Clone, PartialEq)]
pub enum ResponseFormat {
    /// Anything.
    Text,
    /// A JSON object.
    Object,
    /// JSON that this schema takes.
    Schema(Value),
}

/// Where a request's schema stands.
pub fn schema_pointer() -> Pointer {
    Pointer::root().key("response_format").key("json_schema").key("schema")
}

impl ResponseFormat {
    /// Reads `response_format`; text where there is none.
    ///
    /// # Errors
    /// 400 or 422 with the place.
    pub fn read(format: Option<&Value>) -> Result<Self, ErrorBody> {
        let at = Pointer::root().key("response_format");
        let Some(format) = format.filter(|f| !f.is_null()) else { return Ok(Self::Text) };
        match format.get("type").and_then(Value::as_str) {
            Some("text") => Ok(Self::Text),
            Some("json_object") => Ok(Self::Object),
            Some("json_schema") => schema(format.get("json_schema"), &at.key("json_schema")),
            Some(_) => Err(ErrorBody::unsupported(&at.key("type"), "must be text, json_object or json_schema")),
            None => Err(ErrorBody::invalid(&at.key("type"), "give the type: text, json_object or json_schema")),
        }
    }
}

fn schema(given: Option<&Value>, at: &Pointer) -> Result<ResponseFormat, ErrorBody> {
    let Some(given) = given.and_then(Value::as_object) else {
        return Err(ErrorBody::invalid(at, "give an object with name and schema"));
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match given.get("name").and_then(Value::as_str) {
        Some(name) if (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(fits) => {}
        _ => {
            let rule = format!("must be 1 to {LONGEST_NAME} letters, digits, underscores or hyphens");
            return Err(ErrorBody::invalid(&at.key("name"), rule));
        }
    }
    // The grammar is as strict as the schema either way.
    if given.get("strict").is_some_and(|s| !s.is_boolean() && !s.is_null()) {
        return Err(ErrorBody::invalid(&at.key("strict"), "must be true or false"));
    }
    match given.get("schema") {
        None | Some(Value::Null) => {
            let what = "give the schema; for any JSON object, set response_format to {\"type\": \"json_object\"}";
            Err(ErrorBody::invalid(&at.key("schema"), what))
        }
        Some(schema @ Value::Object(_)) => Ok(ResponseFormat::Schema(schema.clone())),
        Some(_) => Err(ErrorBody::invalid(&at.key("schema"), "must be a JSON Schema that is an object")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn formats_are_read_and_what_is_none_is_named_by_its_place() {
        let read = |v: Value| ResponseFormat::read(Some(&v));
        assert_eq!(ResponseFormat::read(None).unwrap(), ResponseFormat::Text);
        assert_eq!(read(json!({"type": "json_object"})).unwrap(), ResponseFormat::Object);
        let of = |more: Value| read(json!({"type": "json_schema", "json_schema": more}));
        let schema = json!({"type": "integer"});
        assert_eq!(of(json!({"name": "a", "schema": schema})).unwrap(), ResponseFormat::Schema(schema));
        for (error, at) in [
            (read(json!({})), "/response_format/type"),
            (read(json!({"type": "secret"})), "/response_format/type"),
            (of(json!({"schema": {}})), "/response_format/json_schema/name"),
            (of(json!({"name": "a secret"})), "/response_format/json_schema/name"),
            (of(json!({"name": "a", "schema": "secret"})), "/response_format/json_schema/schema"),
            (of(json!({"name": "a", "schema": true})), "/response_format/json_schema/schema"),
            // These once meant any object.
            (of(json!({"name": "a", "schema": null})), "/response_format/json_schema/schema"),
            (of(json!({"name": "a", "strict": true})), "/response_format/json_schema/schema"),
        ] {
            let error = error.unwrap_err().error;
            assert_eq!(error.param.as_deref(), Some(at));
            assert!(!error.message.contains("secret"), "{}", error.message);
        }
    }
}
