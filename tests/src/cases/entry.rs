//! I read entries of case files that may be incomplete or of the wrong kind, and collect what becomes of them.

use std::fmt;

use serde_json::Value;

use super::format::Format;
use super::report::{Failing, Outcome};

/// The most characters of a value that a line shows.
const MOST_SHOWN: usize = 160;

/// Why a case fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mismatch(pub(super) String);

impl Mismatch {
    /// Another value than the expected one.
    pub(super) fn new(expected: impl fmt::Display, got: impl fmt::Display) -> Self {
        Self(format!("expected {expected}; got {got}"))
    }
}

/// The cases of a file.
#[derive(Debug, Default)]
pub(super) struct Cases {
    count: usize,
    failing: Vec<Failing>,
}

impl Cases {
    /// Takes the verdict on one case.
    pub(super) fn take(&mut self, which: String, verdict: Result<(), Mismatch>) {
        self.count += 1;
        if let Err(Mismatch(why)) = verdict {
            self.failing.push(Failing { which, why });
        }
    }

    pub(super) fn outcome(self, format: Format) -> Outcome {
        Outcome::Ran { format, cases: self.count, failing: self.failing }
    }
}

/// A list of the file.
///
/// # Errors
/// What the file needs instead.
pub(super) fn list<'a>(file: &'a Value, name: &str) -> Result<&'a [Value], String> {
    match file.get(name) {
        Some(Value::Array(list)) => Ok(list),
        other => Err(format!("needs {name}, a list; got {}", kind(other))),
    }
}

/// A text of a case.
///
/// # Errors
/// What the case needs instead.
pub(super) fn text<'a>(case: &'a Value, name: &str) -> Result<&'a str, Mismatch> {
    let field = case.get(name);
    field.and_then(Value::as_str).ok_or_else(|| Mismatch::new(format!("{name}, a text"), kind(field)))
}

/// A whole number of a case.
///
/// # Errors
/// What the case needs instead.
pub(super) fn integer(case: &Value, name: &str) -> Result<i64, Mismatch> {
    let field = case.get(name);
    field.and_then(Value::as_i64).ok_or_else(|| Mismatch::new(format!("{name}, a whole number"), kind(field)))
}

/// What kind of value there is instead.
pub(super) fn kind(value: Option<&Value>) -> &'static str {
    match value {
        None => "nothing",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "a boolean",
        Some(Value::Number(_)) => "another number",
        Some(Value::String(_)) => "a text",
        Some(Value::Array(_)) => "a list",
        Some(Value::Object(_)) => "an object",
    }
}

/// A text in quotes, on one line and not too long.
pub(super) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(MOST_SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}
