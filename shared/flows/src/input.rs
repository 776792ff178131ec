//! I read a function's input strictly: an unknown, missing or mistyped field is an error that names its path and says
//! what would be right.
//!
//! I never repeat a value: an input may hold a payload or a subscriber.

use punctual_core::destination::FieldError;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// The one field that every input of a function with several actions has.
#[derive(serde::Deserialize)]
struct Envelope {
    action: String,
}

/// The action that an input asks for.
///
/// # Errors
/// [`FieldError`] if there is none, or if it is none of `known`.
pub fn action<'k>(event: &RawValue, known: &[&'k str]) -> Result<&'k str, FieldError> {
    let right = || format!("one of {}", known.join(", "));
    let envelope: Envelope = Some(event)
        .filter(|event| is_object(event))
        .and_then(|event| serde_json::from_str(event.get()).ok())
        .ok_or_else(|| FieldError::new("invalid_action", "action", format!("a text, {}", right())))?;
    known
        .iter()
        .copied()
        .find(|name| *name == envelope.action)
        .ok_or_else(|| FieldError::new("unknown_action", "action", right()))
}

/// Serde takes a list of the fields' values, in their order, for the object: nothing that a sender would mean.
fn is_object(value: &RawValue) -> bool {
    value.get().trim_start().starts_with('{')
}

/// So many characters of an unknown field's name are told.
const LONGEST_NAME: usize = 64;

/// Reads an object of a known form; `base` is the path of the value within the whole input.
///
/// # Errors
/// [`FieldError`] with the path of the first thing that is wrong.
pub fn strict<T: DeserializeOwned>(value: &RawValue, base: &str) -> Result<T, FieldError> {
    if !is_object(value) {
        return Err(FieldError::new("invalid_field", base, "expected an object"));
    }
    let mut json = serde_json::Deserializer::from_str(value.get());
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let text = without_place(&error.into_inner().to_string());
        let (path, text) = match text.split('`').nth(1) {
            // Whoever sends a field that nobody knows does not get it back whole: a thousand such items must fit into an answer.
            Some(name) if name.chars().count() > LONGEST_NAME => {
                let short: String = name.chars().take(LONGEST_NAME).chain(['…']).collect();
                (path.replace(name, &short), text.replace(name, &short))
            }
            _ => (path, text),
        };
        let (code, field) = match text.split('`').nth(1) {
            Some(field) if text.starts_with("missing field") => ("missing_field", Some(field.to_owned())),
            Some(field) if text.starts_with("unknown field") => ("unknown_field", Some(field.to_owned())),
            _ => ("invalid_field", None),
        };
        let mut whole = base.to_owned();
        // An unknown field is part of the reported path already; a missing one is not.
        let inner = if path == "." { String::new() } else { path };
        let tail = match field {
            Some(field) if inner.rsplit('.').next() != Some(field.as_str()) => join(&inner, &field),
            _ => inner,
        };
        if !tail.is_empty() {
            whole = join(&whole, &tail);
        }
        FieldError::new(code, whole, expected(&text))
    })
}

/// Checks who asks for a write, why, and on what evidence.
///
/// # Errors
/// A [`FieldError`] for each of them that is blank or too long.
pub fn signed(by: &str, why: &str, evidence: &str) -> Result<(), Vec<FieldError>> {
    let mut errors = Vec::new();
    for (field, value, max) in [("by", by, 64), ("why", why, 256), ("evidence", evidence, 256)] {
        if value.trim().is_empty() || value.chars().count() > max {
            errors.push(FieldError::new("out_of_bounds", field, format!("1 to {max} characters")));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn join(left: &str, right: &str) -> String {
    if left.is_empty() || right.starts_with('[') { format!("{left}{right}") } else { format!("{left}.{right}") }
}

/// Cuts "at line 1 column 2": the path says it better.
fn without_place(text: &str) -> String {
    text.rfind(" at line ").and_then(|at| text.get(..at)).unwrap_or(text).to_owned()
}

/// What would be right. Serde repeats a wrong value ("invalid type: string \"x\", expected u32"): only the kind is kept.
fn expected(text: &str) -> String {
    match text.split_once(", expected ") {
        Some((head, right)) if text.starts_with("invalid ") => {
            let kind = head.split_once(": ").map_or("", |(_, got)| got.split(' ').next().unwrap_or(""));
            if kind.is_empty() { format!("expected {right}") } else { format!("expected {right}; got a {kind}") }
        }
        Some((_, right)) if text.starts_with("unknown variant") => format!("expected {right}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "read by serde only")]
    struct Inner {
        count: u32,
        body: Box<RawValue>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        items: Vec<Inner>,
    }

    fn read(text: &str) -> Result<Outer, (String, String, String)> {
        let raw = RawValue::from_string(text.to_owned()).expect("JSON");
        strict::<Outer>(&raw, "in").map_err(|e| (e.code.to_owned(), e.field, e.message))
    }

    #[test]
    fn keeps_the_exact_bytes_of_a_raw_value() {
        let outer = read(r#"{"items":[{"count":1,"body":{"a" : 1.10}}]}"#).expect("good");
        assert_eq!(outer.items[0].body.get(), r#"{"a" : 1.10}"#);
    }

    #[test]
    fn a_long_name_is_not_sent_back_whole() {
        let long = "x".repeat(5_000);
        let error = read(&format!(r#"{{"items":[{{"count":1,"body":1,"{long}":2}}]}}"#)).expect_err("unknown");
        let short = format!("{}…", "x".repeat(64));
        let right = format!("unknown field `{short}`, expected `count` or `body`");
        assert_eq!(error, ("unknown_field".to_owned(), format!("in.items[0].{short}"), right));
    }

    #[test]
    fn names_the_path_and_what_would_be_right() {
        let cases = [
            (
                r#"{"items":[{"count":"secret value","body":1}]}"#,
                "invalid_field",
                "in.items[0].count",
                "expected u32; got a string",
            ),
            (r#"{"items":[{"body":1}]}"#, "missing_field", "in.items[0].count", "missing field `count`"),
            (r#"{"items":[],"x":1}"#, "unknown_field", "in.x", "unknown field `x`, expected `items`"),
            (
                r#"{"items":[{"count":1,"body":1,"y":2}]}"#,
                "unknown_field",
                "in.items[0].y",
                "unknown field `y`, expected `count` or `body`",
            ),
        ];
        for (text, code, field, message) in cases {
            assert_eq!(read(text).err(), Some((code.into(), field.into(), message.into())), "{text}");
        }
    }

    #[test]
    fn a_list_of_the_right_values_is_no_object() {
        let raw = RawValue::from_string(r#"[1, {"a":1}]"#.to_owned()).expect("JSON");
        let error = strict::<Inner>(&raw, "in").expect_err("a list");
        assert_eq!((error.code, error.field.as_str(), error.message.as_str()), ("invalid_field", "in", "expected an object"));
    }

    #[test]
    fn actions() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).expect("JSON");
        assert_eq!(action(&raw(r#"{"action":"get","x":1}"#), &["get", "put"]), Ok("get"));
        assert_eq!(action(&raw(r#"{"action":"gut"}"#), &["get", "put"]).map_err(|e| e.message), Err("one of get, put".into()));
        for no_object in ["[]", r#"["get"]"#, r#""get""#, "null"] {
            assert_eq!(action(&raw(no_object), &["get"]).map_err(|e| e.code), Err("invalid_action"), "{no_object}");
        }
    }
}
