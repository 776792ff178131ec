//! I am the table of behaviours: which path answers what, from the number of calls that its key had before.

use std::time::Duration;

use super::ReceiverOptions;

/// How a call is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// With a status.
    Status {
        /// The HTTP status.
        status: u16,
        /// The `Retry-After` header, if any.
        retry_after: Option<String>,
    },
    /// Never, until the receiver stops.
    Hang,
    /// Not at all: the connection is cut before the first byte.
    Cut,
}

/// What one call leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// How it is answered.
    pub answer: Answer,
    /// How long the answer takes.
    pub after: Duration,
    /// Whether the call has its effect, at once.
    pub effect: bool,
}

impl Step {
    /// Answers at once; a 2xx has its effect.
    #[must_use]
    pub fn status(status: u16) -> Self {
        let answer = Answer::Status { status, retry_after: None };
        Self { answer, after: Duration::ZERO, effect: (200..300).contains(&status) }
    }

    /// Never answers, and has no effect.
    #[must_use]
    pub fn hang() -> Self {
        Self { answer: Answer::Hang, after: Duration::ZERO, effect: false }
    }

    /// Cuts the connection instead of an answer, and has no effect.
    #[must_use]
    pub fn cut() -> Self {
        Self { answer: Answer::Cut, after: Duration::ZERO, effect: false }
    }

    /// Asks to wait: a number of seconds or an HTTP-date.
    #[must_use]
    pub fn retry_after(mut self, text: impl Into<String>) -> Self {
        if let Answer::Status { retry_after, .. } = &mut self.answer {
            *retry_after = Some(text.into());
        }
        self
    }

    /// Takes its time to answer.
    #[must_use]
    pub fn after(mut self, after: Duration) -> Self {
        self.after = after;
        self
    }

    /// Has its effect, or not, whatever the answer is.
    #[must_use]
    pub fn effect(mut self, effect: bool) -> Self {
        self.effect = effect;
        self
    }
}

/// The first part of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// `/healthy`: 200.
    Healthy,
    /// `/slow`: 200 after 300 ms.
    Slow,
    /// `/flaky`: 503 twice for each key, then 200.
    Flaky,
    /// `/limited`: 429 with `Retry-After` for each key (once unless tuned), then 200.
    Limited,
    /// `/rejecting`: 400 until it is healed.
    Rejecting,
    /// `/late`: has its effect at once, answers the first call for a key too late, later calls at once.
    Late,
    /// `/gone`: 410.
    Gone,
    /// `/conflict`: 422.
    Conflict,
    /// `/busy`: 409 once for each key, then 200.
    Busy,
    /// `/hang`: never answers, until it is healed.
    Hang,
    /// `/down`: 503.
    Down,
    /// `/recovering`: 503 until it is healed.
    Recovering,
    /// `/forgetful`: 200, and a second effect for a second call: the receiver without an idempotency contract.
    Forgetful,
    /// Any other path: 404.
    Unknown,
}

impl Behaviour {
    /// The behaviour of a path.
    #[must_use]
    pub fn of(path: &str) -> Self {
        match path.trim_start_matches('/').split('/').next().unwrap_or_default() {
            "healthy" => Self::Healthy,
            "slow" => Self::Slow,
            "flaky" => Self::Flaky,
            "limited" => Self::Limited,
            "rejecting" => Self::Rejecting,
            "late" => Self::Late,
            "gone" => Self::Gone,
            "conflict" => Self::Conflict,
            "busy" => Self::Busy,
            "hang" => Self::Hang,
            "down" => Self::Down,
            "recovering" => Self::Recovering,
            "forgetful" => Self::Forgetful,
            _ => Self::Unknown,
        }
    }

    /// Whether a second call with the same key has no second effect.
    #[must_use]
    pub fn honours_the_key(self) -> bool {
        self != Self::Forgetful
    }

    /// What a call leads to; `before` counts the earlier calls of its path and key.
    pub(super) fn step(self, before: u64, healed: bool, options: &ReceiverOptions) -> Step {
        let limited = u64::try_from(options.limited_times).unwrap_or(u64::MAX);
        match self {
            Self::Slow => Step::status(200).after(Duration::from_millis(300)),
            Self::Flaky if before < 2 => Step::status(503),
            Self::Limited if before < limited => Step::status(429).retry_after(&options.retry_after),
            Self::Rejecting if !healed => Step::status(400),
            Self::Late if before == 0 => Step::status(200).after(options.answer_after),
            Self::Busy if before == 0 => Step::status(409),
            Self::Gone => Step::status(410),
            Self::Conflict => Step::status(422),
            Self::Down => Step::status(503),
            Self::Recovering if !healed => Step::status(503),
            Self::Unknown => Step::status(404),
            Self::Hang if !healed => Step::hang(),
            Self::Healthy
            | Self::Hang
            | Self::Flaky
            | Self::Limited
            | Self::Rejecting
            | Self::Recovering
            | Self::Late
            | Self::Busy
            | Self::Forgetful => Step::status(200),
        }
    }
}
