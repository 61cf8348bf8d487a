//! What a schema may come to. `llguidance` multiplies out `allOf`, and `anyOf`, `enum` or `$ref` beside other keys, without
//! a bound of its own: thirty choices of two are a billion. What that would come to is reckoned here first, from above.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::refs::Refs;

/// Objects and lists of a schema at most. Each may be inside of the one before it, by references.
const MOST_PARTS: usize = 5000;
/// What one product may come to.
const MOST_COMBINATIONS: u64 = 20_000;
/// Of a part that contains itself.
const ENDLESS: u64 = u64::MAX;

/// Whether a schema has no more objects and lists than are looked at.
pub(super) fn few(schema: &Value) -> bool {
    parts(schema).len() <= MOST_PARTS
}

/// Whether a schema stays within bounds.
pub(super) fn fits(schema: &Value) -> bool {
    few(schema) && Reckoner { refs: Refs::new(schema), known: HashMap::new() }.of(schema).is_some()
}

/// Objects and lists in a value, the outermost first.
fn parts(value: &Value) -> Vec<&Value> {
    let (mut found, mut left) = (Vec::new(), vec![value]);
    while let Some(value) = left.pop() {
        match value {
            Value::Object(members) => left.extend(members.values()),
            Value::Array(list) => left.extend(list),
            _ => continue,
        }
        found.push(value);
        if found.len() > MOST_PARTS {
            break;
        }
    }
    found
}

/// The outline of a compiled schema.
#[derive(Debug, Clone, Default)]
struct Outline {
    /// Alternatives besides the first.
    more: u64,
    /// Size of each member or element that has a place of its own.
    members: BTreeMap<String, u64>,
    /// Size of all others.
    rest: Option<u64>,
    /// It contains itself, or nobody knows what it is.
    endless: bool,
}

impl Outline {
    fn endless() -> Self {
        Outline { endless: true, ..Outline::default() }
    }

    fn is_leaf(&self) -> bool {
        self.more == 0 && self.members.is_empty() && self.rest.is_none() && !self.endless
    }

    fn size(&self) -> u64 {
        if self.endless {
            return ENDLESS;
        }
        // What contains itself stands there by its name.
        let all = self.members.values().chain(&self.rest);
        let inner = all.fold(1, |sum: u64, size| sum.saturating_add(if *size == ENDLESS { 1 } else { *size }));
        inner.saturating_mul(self.more + 1)
    }

    /// What takes both; none if that comes to too much.
    fn and(self, other: Outline) -> Option<Outline> {
        if self.is_leaf() {
            return Some(other);
        }
        if other.is_leaf() {
            return Some(self);
        }
        if self.endless || other.endless {
            return None;
        }
        let mut members = BTreeMap::new();
        for key in self.members.keys().chain(other.members.keys()) {
            let of = |outline: &Outline| outline.members.get(key).copied().or(outline.rest).unwrap_or(1);
            members.insert(key.clone(), product(of(&self), of(&other))?);
        }
        let rest = match (self.rest, other.rest) {
            (Some(one), Some(two)) => Some(product(one, two)?),
            (one, two) => one.or(two),
        };
        let both = Outline { more: product(self.more + 1, other.more + 1)? - 1, members, rest, endless: false };
        (both.size() <= MOST_COMBINATIONS).then_some(both)
    }

    /// What takes either.
    fn or(mut self, other: Outline) -> Outline {
        self.more = self.more.saturating_add(other.more).saturating_add(1);
        for (key, size) in other.members {
            let own = self.members.entry(key).or_insert(0);
            *own = size.max(*own);
        }
        self.rest = self.rest.max(other.rest);
        self.endless |= other.endless;
        self
    }
}

fn product(one: u64, two: u64) -> Option<u64> {
    if one.min(two) <= 1 { Some(one.max(two)) } else { one.checked_mul(two).filter(|n| *n <= MOST_COMBINATIONS) }
}

struct Reckoner<'a> {
    refs: Refs<'a>,
    /// By reference; none while it is being reckoned.
    known: HashMap<&'a str, Option<Outline>>,
}

impl<'a> Reckoner<'a> {
    fn of(&mut self, schema: &'a Value) -> Option<Outline> {
        let Some(schema) = schema.as_object() else { return Some(Outline::default()) };
        let mut whole = Outline::default();
        for (key, value) in schema {
            match (key.as_str(), value) {
                ("properties" | "patternProperties", Value::Object(members)) => {
                    for (name, member) in members {
                        let size = self.of(member)?.size();
                        whole.members.insert(format!("{key}/{name}"), size);
                    }
                }
                ("items" | "prefixItems", Value::Array(list)) => {
                    for (i, element) in list.iter().enumerate() {
                        let size = self.of(element)?.size();
                        whole.members.insert(format!("{i}"), size);
                    }
                }
                ("items" | "additionalItems" | "additionalProperties", Value::Object(_)) => {
                    whole.rest = whole.rest.max(Some(self.of(value)?.size()));
                }
                _ => {}
            }
        }
        for (key, value) in schema {
            whole = match (key.as_str(), value) {
                ("enum", Value::Array(list)) => {
                    let more = (list.len() as u64).saturating_sub(1);
                    whole.and(Outline { more, ..Outline::default() })?
                }
                ("allOf", Value::Array(list)) => {
                    list.iter().try_fold(whole, |whole, part| whole.and(self.of(part)?))?
                }
                ("anyOf" | "oneOf", Value::Array(list)) => {
                    let mut choices = list.iter();
                    let first = choices.next().map_or(Some(Outline::default()), |first| self.of(first))?;
                    whole.and(choices.try_fold(first, |all, one| Some(all.or(self.of(one)?)))?)?
                }
                ("$ref", Value::String(name)) => whole.and(self.referred(name)?)?,
                _ => whole,
            };
        }
        Some(whole)
    }

    fn referred(&mut self, name: &'a str) -> Option<Outline> {
        match self.known.get(name) {
            Some(Some(known)) => return Some(known.clone()),
            Some(None) => return Some(Outline::endless()),
            None => {}
        }
        let Some(schema) = self.refs.get(name) else { return Some(Outline::endless()) };
        self.known.insert(name, None);
        let outline = self.of(schema)?;
        self.known.insert(name, Some(outline.clone()));
        Some(outline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_would_be_multiplied_out_is_reckoned_before() {
        let two = json!({"anyOf": [{"type": "string"}, {"type": "integer"}]});
        let many = |schema: &Value, count: usize| json!({"allOf": vec![schema.clone(); count]});
        let member = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
        assert!(fits(&two) && fits(&many(&two, 8)));
        assert!(!fits(&many(&two, 30)));
        assert!(!fits(&many(&member(two.clone()), 30)), "members of one name meet as well");
        let mixed = (0..30).map(|i| json!({"properties": {format!("p{i}"): two}})).collect::<Vec<_>>();
        assert!(fits(&json!({"allOf": mixed})), "members of other names do not");
        assert!(!fits(&json!({"enum": (0..300).collect::<Vec<_>>(), "anyOf": vec![two; 100]})));
    }

    #[test]
    fn what_contains_itself_is_fine_where_nothing_meets_it() {
        let tree =
            json!({"type": "object", "properties": {"l": {"$ref": "#/$defs/tree"}, "r": {"$ref": "#/$defs/tree"}}});
        let with = |schema: Value| {
            let mut schema = schema;
            schema["$defs"] = json!({"tree": tree, "other": tree});
            schema
        };
        assert!(fits(&with(json!({"$ref": "#/$defs/tree", "description": "a tree"}))));
        assert!(fits(&with(json!({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/tree"}]}))));
        assert!(fits(&with(json!({"allOf": [{"$ref": "#/$defs/tree"}, {"required": ["l"]}]}))));
        assert!(!fits(&with(json!({"allOf": [{"$ref": "#/$defs/tree"}, {"$ref": "#/$defs/other"}]}))));
        assert!(!fits(&json!({"allOf": [{"$ref": "https://example.com/x"}, {"enum": [1, 2]}]})));
    }

    /// A property of that name made every reference of its schema count as endless.
    #[test]
    fn a_property_called_id_is_no_name_of_a_schema() {
        let two = json!({"anyOf": [{"type": "string"}, {"type": "integer"}]});
        assert!(fits(
            &json!({"properties": {"id": {"type": "integer"}, "x": {"allOf": [{"$ref": "#/$defs/two"}, two]}},
            "$defs": {"two": two}})
        ));
    }

    #[test]
    fn parts_are_counted() {
        let deep = |count: usize| {
            let defs = (0..count).map(|i| (format!("d{i}"), json!({"items": {"$ref": format!("#/$defs/d{}", i + 1)}})));
            json!({"$ref": "#/$defs/d0", "$defs": defs.collect::<serde_json::Map<_, _>>()})
        };
        assert!(fits(&deep(200)));
        assert!(!fits(&deep(3000)));
    }
}
