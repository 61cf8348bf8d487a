//! Tools: what a request offers, what it wants called, and the calls of an answer.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::ErrorBody;
use crate::pointer::Pointer;

/// Functions of a request at most, as OpenAI's.
pub const MOST_TOOLS: usize = 128;
/// Characters of a function's name at most, as OpenAI's.
pub const LONGEST_NAME: usize = 64;

/// A function that a model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Letters, digits, `_` and `-`.
    pub name: String,
    /// JSON Schema of the arguments, always an object.
    pub parameters: Value,
    /// Whether arguments that do not fit the schema are worse than none.
    pub strict: bool,
}

/// Which function is to be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// None.
    None,
    /// As the model likes.
    Auto,
    /// One at least.
    Required,
    /// This one, by its index among the tools.
    Named(usize),
}

/// A call in a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Which the result names.
    pub id: String,
    /// `function`.
    pub r#type: String,
    /// What is called.
    pub function: FunctionCall,
}

/// What is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// Its name.
    pub name: String,
    /// Its arguments as JSON text.
    pub arguments: String,
}

impl ToolCall {
    /// A call of a function.
    pub fn function(id: String, name: String, arguments: String) -> Self {
        Self { id, r#type: "function".into(), function: FunctionCall { name, arguments } }
    }
}

/// What changed in a call: id and name first, then its arguments piece by piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallDelta {
    /// Which call of the answer.
    pub index: u32,
    /// In its first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// In its first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    /// What changed.
    pub function: FunctionDelta,
}

/// What changed in a call's function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionDelta {
    /// In the call's first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// More of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
}

/// Reads `tools`; no tools if there are none.
///
/// # Errors
/// 400 or 422 with the place.
pub fn read_tools(tools: Option<&Value>) -> Result<Vec<Tool>, ErrorBody> {
    let at = Pointer::root().key("tools");
    let Some(tools) = tools.filter(|t| !t.is_null()) else { return Ok(Vec::new()) };
    let list = tools.as_array().ok_or_else(|| ErrorBody::invalid(&at, "must be a list"))?;
    if list.len() > MOST_TOOLS {
        return Err(ErrorBody::invalid(&at, format!("has {} tools; {MOST_TOOLS} is the most", list.len())));
    }
    let mut read: Vec<Tool> = Vec::with_capacity(list.len());
    for (i, tool) in list.iter().enumerate() {
        let tool = read_tool(tool, &at.index(i))?;
        if read.iter().any(|other| other.name == tool.name) {
            let place = at.index(i).key("function").key("name");
            return Err(ErrorBody::invalid(&place, "is the name of an earlier tool: give each its own"));
        }
        read.push(tool);
    }
    Ok(read)
}

fn read_tool(tool: &Value, at: &Pointer) -> Result<Tool, ErrorBody> {
    match tool.get("type").and_then(Value::as_str) {
        Some("function") => {}
        Some(_) => return Err(ErrorBody::unsupported(&at.key("type"), "only functions can be called here")),
        None => return Err(ErrorBody::invalid(&at.key("type"), "give the tool's type: function")),
    }
    let at = at.key("function");
    let Some(function) = tool.get("function").and_then(Value::as_object) else {
        return Err(ErrorBody::invalid(&at, "describe the function: an object with name, description and parameters"));
    };
    let name = name_of(function).ok_or_else(|| {
        let rule = format!("must be 1 to {LONGEST_NAME} letters, digits, underscores or hyphens");
        ErrorBody::invalid(&at.key("name"), rule)
    })?;
    let given = |name: &str| function.get(name).filter(|v| !v.is_null());
    if given("description").is_some_and(|v| !v.is_string()) {
        return Err(ErrorBody::invalid(&at.key("description"), "must be a string"));
    }
    let strict = match given("strict") {
        None => false,
        Some(Value::Bool(strict)) => *strict,
        Some(_) => return Err(ErrorBody::invalid(&at.key("strict"), "must be true or false")),
    };
    let parameters = match given("parameters") {
        None => json!({"type": "object", "properties": {}, "additionalProperties": false}),
        Some(Value::Object(schema)) => Value::Object(schema.clone()),
        Some(_) => return Err(ErrorBody::invalid(&at.key("parameters"), "must be a JSON Schema, which is an object")),
    };
    Ok(Tool { name: name.to_owned(), parameters, strict })
}

/// A function's name, if it is one.
fn name_of(function: &Map<String, Value>) -> Option<&str> {
    let name = function.get("name").and_then(Value::as_str)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    ((1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(fits)).then_some(name)
}

/// Reads `tool_choice` for these tools: [`ToolChoice::Auto`] where nothing is said, [`ToolChoice::None`] without tools.
///
/// # Errors
/// 400 or 422 with the place.
pub fn read_choice(choice: Option<&Value>, tools: &[Tool]) -> Result<ToolChoice, ErrorBody> {
    let at = Pointer::root().key("tool_choice");
    let wanted = match choice.filter(|c| !c.is_null()) {
        None => ToolChoice::Auto,
        Some(Value::String(word)) => match word.as_str() {
            "none" => ToolChoice::None,
            "auto" => ToolChoice::Auto,
            "required" => ToolChoice::Required,
            _ => return Err(ErrorBody::invalid(&at, "must be none, auto, required, or an object that names a tool")),
        },
        Some(Value::Object(one)) if one.get("type").and_then(Value::as_str) == Some("function") => {
            ToolChoice::Named(named(one.get("function"), tools, &at)?)
        }
        Some(Value::Object(one)) if one.get("type").is_some_and(Value::is_string) => {
            return Err(ErrorBody::unsupported(&at.key("type"), "only function is supported"));
        }
        Some(_) => return Err(ErrorBody::invalid(&at, "must be none, auto, required, or an object that names a tool")),
    };
    match wanted {
        ToolChoice::Required if tools.is_empty() => {
            Err(ErrorBody::invalid(&at, "needs tools: give some, or leave it out"))
        }
        _ if tools.is_empty() => Ok(ToolChoice::None),
        wanted => Ok(wanted),
    }
}

/// Which of the tools the `function` of something at this place names.
fn named(function: Option<&Value>, tools: &[Tool], at: &Pointer) -> Result<usize, ErrorBody> {
    let name = function.and_then(|f| f.get("name")).and_then(Value::as_str);
    let index = name.and_then(|name| tools.iter().position(|tool| tool.name == name));
    let place = at.key("function").key("name");
    index.ok_or_else(|| ErrorBody::invalid(&place, "must be the name of one of the tools"))
}

/// Reads a `tool_choice` of OpenAI's kind `allowed_tools`: how they are to be called ([`ToolChoice::Auto`] or
/// [`ToolChoice::Required`]) and which of these tools they are, by their indices; none if it is of another kind.
///
/// # Errors
/// 400 or 422 with the place.
pub fn read_allowed(choice: Option<&Value>, tools: &[Tool]) -> Result<Option<(ToolChoice, Vec<usize>)>, ErrorBody> {
    const KIND: &str = "allowed_tools";
    let Some(choice) = choice.filter(|c| c.get("type").and_then(Value::as_str) == Some(KIND)) else { return Ok(None) };
    let at = Pointer::root().key("tool_choice").key(KIND);
    let Some(allowed) = choice.get(KIND).and_then(Value::as_object) else {
        return Err(ErrorBody::invalid(&at, "give an object with mode and tools"));
    };
    let mode = match allowed.get("mode").and_then(Value::as_str) {
        Some("auto") => ToolChoice::Auto,
        Some("required") => ToolChoice::Required,
        _ => return Err(ErrorBody::invalid(&at.key("mode"), "must be auto or required")),
    };
    let at = at.key("tools");
    let list = allowed.get("tools").and_then(Value::as_array).filter(|list| !list.is_empty());
    let list = list.ok_or_else(|| ErrorBody::invalid(&at, "give a list of at least one of the tools"))?;
    let mut indices = Vec::with_capacity(list.len());
    for (i, one) in list.iter().enumerate() {
        let at = at.index(i);
        match one.get("type").and_then(Value::as_str) {
            Some("function") => {}
            Some(_) => return Err(ErrorBody::unsupported(&at.key("type"), "only functions can be called here")),
            None => return Err(ErrorBody::invalid(&at.key("type"), "give the tool's type: function")),
        }
        let index = named(one.get("function"), tools, &at)?;
        if !indices.contains(&index) {
            indices.push(index);
        }
    }
    indices.sort_unstable();
    Ok(Some((mode, indices)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> Value {
        json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}})
    }

    fn place(error: ErrorBody) -> String {
        assert!(!error.error.message.contains("secret"), "{}", error.error.message);
        error.error.param.unwrap()
    }

    #[test]
    fn tools_are_read_and_what_is_none_is_named_by_its_place() {
        let tools = json!([tool("a"), {"type": "function", "function": {"name": "b-2", "strict": true}}]);
        let read = read_tools(Some(&tools)).unwrap();
        assert_eq!((read[0].name.as_str(), read[0].strict, read[1].strict), ("a", false, true));
        assert_eq!(read[1].parameters["additionalProperties"], false);
        assert_eq!(read_tools(Some(&Value::Null)).unwrap(), []);
        for (tools, at) in [
            (json!({}), "/tools"),
            (json!([{"type": "secret"}]), "/tools/0/type"),
            (json!([{"type": "function"}]), "/tools/0/function"),
            (json!([tool("a"), tool("se cret")]), "/tools/1/function/name"),
            (json!([tool("secret"), tool("secret")]), "/tools/1/function/name"),
            (json!([{"type": "function", "function": {"name": "a", "parameters": 3}}]), "/tools/0/function/parameters"),
        ] {
            assert_eq!(place(read_tools(Some(&tools)).unwrap_err()), at);
        }
        assert!(read_tools(Some(&vec![tool("a"); 129].into())).is_err());
    }

    #[test]
    fn a_choice_is_one_of_the_tools() {
        let tools = read_tools(Some(&json!([tool("a"), tool("b")]))).unwrap();
        let read = |choice: Value| read_choice(Some(&choice), &tools);
        let named = |name: &str| json!({"type": "function", "function": {"name": name}});
        assert_eq!(read_choice(None, &tools).unwrap(), ToolChoice::Auto);
        assert_eq!(read_choice(None, &[]).unwrap(), ToolChoice::None);
        assert_eq!(read(json!("required")).unwrap(), ToolChoice::Required);
        assert_eq!(read(named("b")).unwrap(), ToolChoice::Named(1));
        assert_eq!(place(read(named("secret")).unwrap_err()), "/tool_choice/function/name");
        assert_eq!(place(read(json!("secret")).unwrap_err()), "/tool_choice");
        assert_eq!(place(read(json!({"type": "secret"})).unwrap_err()), "/tool_choice/type");
        // Not understood, not of the wrong kind.
        assert_eq!(read(json!({"type": "secret"})).unwrap_err().error.code, "unsupported_feature");
        assert_eq!(read(json!({"type": 5})).unwrap_err().error.code, "invalid_request");
        assert_eq!(place(read_choice(Some(&json!("required")), &[]).unwrap_err()), "/tool_choice");
    }

    #[test]
    fn allowed_tools_are_some_of_the_tools() {
        let tools = read_tools(Some(&json!([tool("a"), tool("b"), tool("c")]))).unwrap();
        let named = |name: &str| json!({"type": "function", "function": {"name": name}});
        let read = |mode: &str, list: Value| {
            let choice = json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": list}});
            read_allowed(Some(&choice), &tools)
        };
        assert_eq!(read("auto", json!([named("c"), named("a"), named("c")])), Ok(Some((ToolChoice::Auto, vec![0, 2]))));
        assert_eq!(read("required", json!([named("b")])), Ok(Some((ToolChoice::Required, vec![1]))));
        for other in [None, Some(json!("auto")), Some(named("a"))] {
            assert_eq!(read_allowed(other.as_ref(), &tools), Ok(None));
        }
        for (read, at) in [
            (read("secret", json!([named("a")])), "/mode"),
            (read("auto", json!([])), "/tools"),
            (read("auto", json!([named("a"), named("secret")])), "/tools/1/function/name"),
            (read("auto", json!([{"type": "secret"}])), "/tools/0/type"),
            (read_allowed(Some(&json!({"type": "allowed_tools"})), &tools), ""),
        ] {
            assert_eq!(place(read.unwrap_err()), format!("/tool_choice/allowed_tools{at}"));
        }
    }
}
