//! What an answer is held to, before it is compiled.

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::{Value, json};

/// White space between parts of JSON: blanks, or one end of a line and what the next is indented by. Without a limit a small
/// model may go on with it for ever, and with a mere number of characters it may write empty lines until it is cut off.
const WHITE_SPACE: &str = r"(?:[\x20\x09]{1,2}|\x20?\x0D?\x0A[\x20\x09]{0,16})";

/// A grammar: a JSON Schema, or rules that refer to schemas by name.
#[derive(Debug, Clone)]
pub struct Grammar {
    rules: Option<String>,
    schemas: Vec<(String, Value)>,
}

impl Grammar {
    /// Any JSON object.
    pub fn object() -> Self {
        Self::schema(json!({"type": "object"}))
    }

    /// JSON that a schema takes.
    pub fn schema(schema: Value) -> Self {
        Grammar { rules: None, schemas: vec![("schema".into(), schema)] }
    }

    /// Rules in llguidance's Lark syntax, beginning with `start`; `@name` stands for JSON of the schema of that name.
    pub fn rules(rules: String, schemas: Vec<(String, Value)>) -> Self {
        Grammar { rules: Some(rules), schemas }
    }

    /// Schemas that it refers to.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &Value> {
        self.schemas.iter().map(|(_, schema)| schema)
    }

    /// With every schema made anew.
    pub(super) fn with(&self, make: impl Fn(&Value) -> Value) -> Self {
        let schemas = self.schemas.iter().map(|(name, schema)| (name.clone(), make(schema))).collect();
        Grammar { rules: self.rules.clone(), schemas }
    }

    pub(super) fn top_level(&self) -> TopLevelGrammar {
        let rules = self.rules.iter().map(|rules| GrammarWithLexer::from_lark(rules.clone()));
        let schemas = self.schemas.iter().map(|(name, schema)| GrammarWithLexer {
            name: Some(name.clone()),
            json_schema: Some(with_options(schema)),
            lark_grammar: None,
        });
        TopLevelGrammar { grammars: rules.chain(schemas).collect(), max_tokens: None }
    }
}

/// Options go beside a schema's own keys, in place of any that a caller wrote there.
fn with_options(schema: &Value) -> Value {
    let options = json!({"whitespace_pattern": WHITE_SPACE});
    match schema {
        Value::Object(members) => {
            let mut members = members.clone();
            members.insert("x-guidance".into(), options);
            Value::Object(members)
        }
        // `true` and `false` are schemas as well.
        Value::Bool(_) => json!({"allOf": [schema], "x-guidance": options}),
        other => other.clone(),
    }
}
