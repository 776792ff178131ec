//! I record what operators do: as begun before it is done, with its outcome after it.
//!
//! Functions that let operators write do it through me, so that one record has all of it.

use punctual_core::destination::FieldError;
use punctual_core::id::Correlation;
use punctual_core::operation::{Operation, Outcome};
use punctual_core::ports::{Operations, Time};

use crate::{FlowError, chain};

/// Who asks for what, and of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// The action's word.
    pub action: String,
    /// Who; 1 to 64 characters.
    pub by: String,
    /// Why; 1 to 256 characters.
    pub why: String,
    /// What that rests on; 1 to 256 characters.
    pub evidence: String,
    /// What it is done to.
    pub target: String,
}

/// Stores that something was begun. Nothing is done that is not recorded: without this write there is no other. The
/// database's time must have been told to this invocation before: any answer of the database does.
///
/// # Errors
/// [`FlowError`] if the time is not known well enough, or the record cannot be written.
pub async fn begin<C: Operations, T: Time>(
    control: &C,
    time: &T,
    token: &Correlation,
    signed: &Signed,
) -> Result<Operation, FlowError> {
    let Signed { action, by, why, evidence, target } = signed.clone();
    let (at, token) = (time.now()?.lo, token.clone());
    let (outcome, did, did_not) = (Outcome::Begun, String::new(), String::new());
    let begun = Operation { at, token, action, by, why, evidence, target, outcome, did, did_not };
    control.record(&begun).await?;
    Ok(begun)
}

/// Stores what came of it. What was done is done, recorded or not: a failure here is logged, and the record stays as begun.
pub async fn end<C: Operations>(control: &C, ended: &Operation) {
    if let Err(error) = control.record(ended).await {
        tracing::error!(by = %ended.token, error = %chain(&error), "the outcome of an operation is not recorded");
    }
}

/// The same operation as one that was refused.
#[must_use]
pub fn refused(begun: Operation, errors: &[FieldError]) -> Operation {
    let wants: Vec<String> = errors.iter().map(|e| format!("{}: {} must be {}", e.code, e.field, e.message)).collect();
    Operation { outcome: Outcome::Refused, did: format!("nothing; {}", wants.join("; ")), ..begun }
}

/// The same operation as one that failed on the way.
#[must_use]
pub fn failed(begun: Operation, error: &FlowError) -> Operation {
    Operation { outcome: Outcome::Failed, did: format!("unknown; {error}"), ..begun }
}
