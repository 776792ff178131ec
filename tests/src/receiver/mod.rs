//! I am the receiver: the other side of the promise, in-process, on a free port of 127.0.0.1.
//!
//! Each path is a way to behave or misbehave ([`Behaviour`]); what follows the first part of a path is free, so that
//! several destinations can share one behaviour (`/flaky/acme`). I keep two logs: every call, and every effect as it
//! is applied. What the tests claim ("no duplicate effect", "no call before it was due") is computed from these logs.
//! I verify signatures with the reference implementation, not with the product's code, and answer 401 to a wrong
//! one. I know nothing of ledgers, queues and attempts but what the requests say.

mod behaviour;
mod log;
mod verify;

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::behaviour::{Answer, Behaviour, Step};
pub use self::log::{Call, Effect};
pub use self::verify::Verdict;

use self::log::{Log, text};
use self::verify::Verifier;

/// The largest body that is read, in bytes; a larger one is answered with 413.
const BODY_LIMIT: usize = 512 * 1024;

/// The most steps that can be programmed in all.
const PROGRAM_LIMIT: usize = 100_000;

/// How long a graceful stop waits for calls that are being answered.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// How the behaviours are tuned.
#[derive(Debug, Clone)]
pub struct ReceiverOptions {
    /// How long `/late` takes to answer its first call for a key: longer than the caller waits.
    pub answer_after: Duration,
    /// How often `/limited` answers 429 to each key.
    pub limited_times: usize,
    /// The `Retry-After` of `/limited`.
    pub retry_after: String,
}

impl Default for ReceiverOptions {
    fn default() -> Self {
        Self { answer_after: Duration::from_secs(3), limited_times: 1, retry_after: "2".to_owned() }
    }
}

struct Shared {
    options: ReceiverOptions,
    inner: Mutex<Inner>,
    /// The number of calls so far, for those who wait.
    count: watch::Sender<u64>,
    stopping: watch::Sender<bool>,
}

struct Inner {
    verifier: Verifier,
    log: Log,
    programs: HashMap<String, VecDeque<Step>>,
    healed: bool,
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running receiver. Dropped, it stops at once; [`Receiver::stop`] answers what it has begun.
pub struct Receiver {
    base_url: String,
    shared: Arc<Shared>,
    server: Option<JoinHandle<std::io::Result<()>>>,
}

impl Receiver {
    /// Starts with these secrets (`whsec_…`; a call must be signed with one of them; with none, nothing is verified).
    ///
    /// # Errors
    /// If a secret is none, or there is no free port.
    pub async fn start(secrets: &[&str]) -> Result<Self> {
        Self::start_with(secrets, ReceiverOptions::default()).await
    }

    /// Starts with tuned behaviours.
    ///
    /// # Errors
    /// If a secret is none, or there is no free port.
    pub async fn start_with(secrets: &[&str], options: ReceiverOptions) -> Result<Self> {
        let verifier = Verifier::new(secrets).context("the receiver's secrets")?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("the receiver's port")?;
        let base_url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            options,
            inner: Mutex::new(Inner { verifier, log: Log::default(), programs: HashMap::new(), healed: false }),
            count: watch::Sender::new(0),
            stopping: watch::Sender::new(false),
        });
        let app = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let mut stopping = shared.stopping.subscribe();
        let server = tokio::spawn(async move {
            let stopped = async move {
                let _gone = stopping.wait_for(|stop| *stop).await;
            };
            axum::serve(listener, app).with_graceful_shutdown(stopped).await
        });
        Ok(Self { base_url, shared, server: Some(server) })
    }

    /// `http://127.0.0.1:port`, without a slash at the end.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The URL of a behaviour, like `flaky` or `flaky/acme`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.base_url)
    }

    /// Decides how the next calls for a key are answered, one step for each; after that, its path decides again.
    ///
    /// # Errors
    /// If more is programmed than can be kept.
    pub fn program(&self, key: &str, steps: impl IntoIterator<Item = Step>) -> Result<()> {
        let mut inner = self.shared.inner();
        inner.programs.entry(key.to_owned()).or_default().extend(steps);
        let programmed: usize = inner.programs.values().map(VecDeque::len).sum();
        anyhow::ensure!(programmed <= PROGRAM_LIMIT, "at most {PROGRAM_LIMIT} steps can be programmed");
        Ok(())
    }

    /// Accepts these secrets from the next call on, and no others.
    ///
    /// # Errors
    /// If a secret is none.
    pub fn accept(&self, secrets: &[&str]) -> Result<()> {
        self.shared.inner().verifier = Verifier::new(secrets).context("the receiver's secrets")?;
        Ok(())
    }

    /// Mends `/rejecting`, `/recovering` and `/hang` (true; whoever hangs already goes on hanging), or breaks them again.
    pub fn heal(&self, healed: bool) {
        self.shared.inner().healed = healed;
    }

    /// Every call that was kept, in the order of arrival.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.shared.inner().log.calls().cloned().collect()
    }

    /// The calls for one key, in the order of arrival.
    #[must_use]
    pub fn calls_for(&self, key: &str) -> Vec<Call> {
        self.shared.inner().log.calls().filter(|call| call.key() == key).cloned().collect()
    }

    /// How many calls there were, those not kept included.
    #[must_use]
    pub fn call_count(&self) -> u64 {
        self.shared.inner().log.total()
    }

    /// Calls that were not kept in detail, because there were too many.
    #[must_use]
    pub fn calls_forgotten(&self) -> u64 {
        self.shared.inner().log.forgotten()
    }

    /// The log of applied effects, in order.
    #[must_use]
    pub fn effects(&self) -> Vec<Effect> {
        self.shared.inner().log.effects().to_vec()
    }

    /// Effects beyond the first for a key, from the log of applied effects.
    #[must_use]
    pub fn duplicate_effects(&self) -> usize {
        self.shared.inner().log.duplicate_effects()
    }

    /// Calls that arrived before the instant that their body claims to be due.
    #[must_use]
    pub fn calls_before_due(&self) -> Vec<Call> {
        self.shared.inner().log.calls().filter(|call| call.is_early()).cloned().collect()
    }

    /// Calls whose signatures do not verify.
    #[must_use]
    pub fn badly_signed(&self) -> Vec<Call> {
        self.shared.inner().log.calls().filter(|call| call.is_badly_signed()).cloned().collect()
    }

    /// Waits until there were so many calls, at most for `limit`; says whether there were.
    pub async fn wait_for_calls(&self, calls: u64, limit: Duration) -> bool {
        let mut count = self.shared.count.subscribe();
        let reached = count.wait_for(|count| *count >= calls);
        matches!(tokio::time::timeout(limit, reached).await, Ok(Ok(_)))
    }

    /// Stops: no new connection, what has begun is answered (a hanging call with 503), then the port is free.
    ///
    /// # Errors
    /// If the server failed or did not stop in time.
    pub async fn stop(mut self) -> Result<()> {
        self.shared.stopping.send_replace(true);
        let Some(mut server) = self.server.take() else { return Ok(()) };
        match tokio::time::timeout(STOP_LIMIT, &mut server).await {
            Ok(ended) => ended.context("the receiver's server")?.context("the receiver's server"),
            Err(_) => {
                server.abort();
                anyhow::bail!("the receiver did not stop within {STOP_LIMIT:?}")
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.stopping.send_replace(true);
        if let Some(server) = self.server.take() {
            server.abort();
        }
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let received_at_ms = now_ms();
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        return status(StatusCode::METHOD_NOT_ALLOWED);
    }
    let Ok(body) = to_bytes(body, BODY_LIMIT).await else { return status(StatusCode::PAYLOAD_TOO_LARGE) };
    let step = decide(&shared, received_at_ms, parts.uri.path(), &parts.headers, &body);
    let mut stopping = shared.stopping.subscribe();
    let stopped = stopping.wait_for(|stop| *stop);
    let (code, retry_after) = match step.answer {
        Answer::Cut => return cut(),
        Answer::Hang => {
            let _stopped = stopped.await;
            return status(StatusCode::SERVICE_UNAVAILABLE);
        }
        Answer::Status { status, retry_after } => (status, retry_after),
    };
    if !step.after.is_zero() {
        tokio::select! {
            () = tokio::time::sleep(step.after) => {}
            _ = stopped => {}
        }
    }
    let mut response = status(StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    if let Some(value) = retry_after.and_then(|text| HeaderValue::from_str(&text).ok()) {
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    response
}

/// Records the call, applies its effect and says how it is answered: all in one step, as a careful receiver does it.
fn decide(shared: &Shared, received_at_ms: i64, path: &str, headers: &HeaderMap, body: &[u8]) -> Step {
    let mut guard = shared.inner();
    let inner = &mut *guard;
    let call = Call::new(received_at_ms, path, headers, body, &inner.verifier);
    let key = call.key().to_owned();
    let step = if call.is_badly_signed() {
        Step::status(401)
    } else if !inner.log.has_room() {
        Step::status(507)
    } else {
        let behaviour = Behaviour::of(path);
        let before = inner.log.count(path, &key);
        let programmed = inner.programs.get_mut(&key).and_then(VecDeque::pop_front);
        let step = programmed.unwrap_or_else(|| behaviour.step(before, inner.healed, &shared.options));
        if step.effect {
            inner.log.apply(&call, behaviour.honours_the_key());
        }
        step
    };
    inner.log.record(call, path);
    let total = inner.log.total();
    drop(guard);
    shared.count.send_replace(total);
    step
}

/// A response whose body fails before the head is sent: the server closes the connection.
fn cut() -> Response<Body> {
    let failed = futures::stream::once(async { Err::<Vec<u8>, _>(std::io::Error::other("cut")) });
    Response::new(Body::from_stream(failed))
}

fn status(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::from("{}"));
    *response.status_mut() = code;
    response
}

/// Unix milliseconds of the receiver's own clock.
#[expect(clippy::disallowed_methods, reason = "the receiver is another party: it has a clock of its own")]
fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A header's text, empty if it is missing.
fn header_text(headers: &HeaderMap, name: &str) -> String {
    text(headers.get(name))
}
