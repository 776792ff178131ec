//! I am the cursors of paged answers: opaque to whoever sends them back, and good for the same question only.

use data_encoding::BASE64URL_NOPAD;
use punctual_core::destination::FieldError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest cursor that is read, in characters.
const LONGEST: usize = 2_048;

#[derive(Serialize, Deserialize)]
struct Kept<P> {
    /// What was asked, as text.
    of: String,
    /// Where to go on.
    at: P,
}

/// The cursor of a place in the answer to a question.
///
/// # Errors
/// If the place is no JSON.
pub(crate) fn written<P: Serialize>(question: &str, place: P) -> Result<String, serde_json::Error> {
    Ok(BASE64URL_NOPAD.encode(&serde_json::to_vec(&Kept { of: question.to_owned(), at: place })?))
}

/// The place that a cursor names.
///
/// # Errors
/// [`FieldError`] if it is none of ours, or that of another question.
pub(crate) fn read<P: DeserializeOwned>(question: &str, cursor: &str) -> Result<P, FieldError> {
    let error = |message: &str| FieldError::new("invalid_field", "cursor", message);
    let bytes = Some(cursor).filter(|cursor| cursor.len() <= LONGEST).and_then(|c| BASE64URL_NOPAD.decode(c.as_bytes()).ok());
    let kept: Option<Kept<P>> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    match kept {
        Some(kept) if kept.of == question => Ok(kept.at),
        Some(_) => Err(error("the cursor of an answer to this very question")),
        None => Err(error("a cursor as an answer gave it")),
    }
}
