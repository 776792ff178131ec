//! I recognise what a case file is about, by its keys alone.

use std::fmt;

use serde_json::Value;

/// The formats in one line, for whoever wrote a file that is none of them.
pub(super) const KNOWN: &str = "an object with refuse, allow or refuse_urls (addresses); now and cases with retry_after; cases with \
     secret, webhook_id and webhook_signature (signatures); calendars and cases (calendar); or destination and answers (contract)";

/// What a file's cases are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Addresses and URLs that are refused or allowed.
    Addresses,
    /// `Retry-After` texts and their floors.
    RetryAfter,
    /// Bodies and their signatures.
    Signatures,
    /// Renewal dates and their business instants.
    Calendar,
    /// A destination and the classes of its answers.
    Contract,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Addresses => "addresses",
            Self::RetryAfter => "retry_after",
            Self::Signatures => "signatures",
            Self::Calendar => "calendar",
            Self::Contract => "contract",
        })
    }
}

pub(super) fn recognise(file: &Value) -> Option<Format> {
    let object = file.as_object()?;
    let has = |names: &[&str]| names.iter().any(|name| object.contains_key(*name));
    let cases = object.get("cases").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    // One entry is enough: the others may be the malformed ones.
    let case_has = |names: &[&str]| cases.iter().any(|case| names.iter().any(|name| case.get(name).is_some()));
    if has(&["destination", "answers"]) {
        Some(Format::Contract)
    } else if has(&["refuse", "allow", "refuse_urls"]) {
        Some(Format::Addresses)
    } else if has(&["calendars"]) {
        Some(Format::Calendar)
    } else if case_has(&["retry_after", "floor_s"]) {
        Some(Format::RetryAfter)
    } else if case_has(&["webhook_id", "webhook_signature", "x_signature_256"]) {
        Some(Format::Signatures)
    } else {
        None
    }
}
