//! I call receivers: one POST, once, within its timeouts, to an address that may be called.
//!
//! I follow no redirect, use no proxy, inflate nothing, read at most 8 KiB of an answer, and never let a URL, a
//! header or a body into an error or a log. I do not know what an answer means: the core's `outcome` does.
//!
//! What proves what: a request that never passed its [`gate`] was not sent, so whatever ended it (also a timeout) is
//! a failed connection and leaves no doubt. Once it has passed, a failure is a timeout or a cut, and the receiver may
//! have processed it. A status line is evidence in itself: an answer whose body is slow, cut, endless or malformed
//! has been given all the same.
//!
//! Certificates are verified against the system's store, not against roots compiled in: the AWS SDK needs that store
//! too, so a runtime without it fails at once and loudly, and a root that is withdrawn goes away with the image.

mod gate;
mod guard;
mod headers;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use punctual_core::destination::StageRules;
use punctual_core::outcome::{CallResult, Failure};
use punctual_core::ports::{Request, Webhook};
use reqwest::header::RETRY_AFTER;
use reqwest::{Body, Certificate, Client, Response, Url};
use tokio::time::sleep;

pub use self::guard::{Addresses, Lookup};
pub use self::headers::{HeaderInput, USER_AGENT, headers};

use self::gate::{Gate, GatedBody};
use self::guard::{Guard, GuardedResolver};

/// How much of an answer's body is read, in bytes: no further piece after this many. A longer body costs its connection.
const DRAIN_LIMIT: usize = 8 * 1024;

/// The longest `Retry-After` that is passed on, in characters.
const RETRY_AFTER_LIMIT: usize = 128;

/// How long an unused connection is kept. Short: a frozen environment wakes up with dead connections, and a request
/// that is cut on one leaves a doubt that a new connection would not.
const IDLE: Duration = Duration::from_secs(5);

/// How the client behaves on this stage.
#[derive(Debug, Clone, Default)]
pub struct WebhookConfig {
    /// Whether plain HTTP, loopback and private addresses may be called; never on a production stage.
    pub allow_local: bool,
    /// The `user-agent` of requests that bring none.
    pub user_agent: String,
    /// Further roots to trust, as PEM; none if empty. Only with `allow_local`.
    pub extra_roots: Vec<u8>,
}

impl WebhookConfig {
    /// What a stage allows, with the system's roots only.
    #[must_use]
    pub fn for_stage(rules: &StageRules) -> Self {
        Self { allow_local: rules.allow_local, user_agent: USER_AGENT.to_owned(), extra_roots: Vec::new() }
    }
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// Roots beyond the system's are for local stages.
    #[error("extra roots are trusted only where local addresses are allowed")]
    ExtraRoots,
    /// What was given as roots holds no certificate.
    #[error("extra roots hold no certificate")]
    NoRoots,
    /// The client could not be built: no system roots, a malformed root, a malformed user agent.
    #[error("the webhook client cannot be built")]
    Client(#[source] reqwest::Error),
}

/// The way to receivers over HTTP/1.1. Cheap to share: one pool of connections behind it.
#[derive(Debug, Clone)]
pub struct HttpWebhook {
    client: Client,
    guard: Guard,
}

impl HttpWebhook {
    /// A client that resolves names as the operating system does.
    ///
    /// # Errors
    /// [`WebhookError`] says what is missing.
    pub fn new(config: WebhookConfig) -> Result<Self, WebhookError> {
        Self::with_lookup(config, guard::system_lookup())
    }

    /// A client that resolves names with `lookup`; what it finds is guarded all the same.
    ///
    /// # Errors
    /// [`WebhookError`] says what is missing.
    pub fn with_lookup(config: WebhookConfig, lookup: Lookup) -> Result<Self, WebhookError> {
        let guard = Guard { allow_local: config.allow_local };
        let mut builder = Client::builder()
            .user_agent(config.user_agent)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .referer(false)
            .http1_only()
            .https_only(!config.allow_local)
            .dns_resolver(GuardedResolver { guard, lookup })
            .pool_idle_timeout(IDLE);
        if !config.extra_roots.is_empty() {
            if !config.allow_local {
                return Err(WebhookError::ExtraRoots);
            }
            let roots = Certificate::from_pem_bundle(&config.extra_roots).map_err(WebhookError::Client)?;
            if roots.is_empty() {
                return Err(WebhookError::NoRoots);
            }
            builder = builder.tls_certs_merge(roots);
        }
        Ok(Self { client: builder.build().map_err(WebhookError::Client)?, guard })
    }

    fn prepare(&self, url: Url, request: &Request, gate: &Gate) -> Result<reqwest::Request, reqwest::Error> {
        let body = Bytes::copy_from_slice(&request.body);
        let mut builder = self.client.post(url);
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        builder.body(Body::wrap(GatedBody::new(gate.clone(), body))).build()
    }

    /// Sends the request, up to the answer's head.
    async fn send(
        &self,
        prepared: reqwest::Request,
        gate: &Gate,
        timeouts: (impl Future<Output = ()>, &mut (impl Future<Output = ()> + Unpin)),
        may_start: &(dyn Fn() -> bool + Send + Sync),
    ) -> Result<Response, CallResult> {
        let (connect, total) = timeouts;
        let mut connect = pin!(connect);
        let mut total = pin!(total);
        let mut sending = pin!(self.client.execute(prepared));
        // Every step towards the connection comes through here, the one that hands the request over included.
        poll_fn(|cx| {
            if gate.is_closed() {
                if !may_start() && gate.stop() {
                    return Poll::Ready(Err(CallResult::not_called()));
                }
                let late = connect.as_mut().poll(cx).is_ready() || total.as_mut().poll(cx).is_ready();
                if late && gate.stop() {
                    return Poll::Ready(Err(Failure::Connect.into()));
                }
            }
            match sending.as_mut().poll(cx) {
                Poll::Ready(Ok(response)) => return Poll::Ready(Ok(response)),
                Poll::Ready(Err(error)) if gate.stop() => return Poll::Ready(Err(guard::unsent(&error).into())),
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Failure::Cut.into())),
                Poll::Pending => {}
            }
            if gate.is_closed() {
                return Poll::Pending;
            }
            total.as_mut().poll(cx).map(|()| Err(Failure::Timeout.into()))
        })
        .await
    }
}

impl Webhook for HttpWebhook {
    /// A call that has a status is `Answered`, whatever its body does afterwards. A URL that may not be called is
    /// `Refused` by its rule, as an address is. A request that HTTP cannot express (a header that is
    /// no header, an empty body, which could not be held back) is `NotCalled`.
    async fn call(&self, request: &Request, may_start: &(dyn Fn() -> bool + Send + Sync)) -> CallResult {
        let url = match self.guard.url(&request.url) {
            Ok(url) => url,
            Err(rule) => return Failure::Refused(rule).into(),
        };
        let gate = Gate::default();
        let prepared = match self.prepare(url, request, &gate) {
            Ok(prepared) if !request.body.is_empty() => prepared,
            _ => return CallResult::not_called(),
        };
        let mut total = pin!(sleep(request.total_timeout));
        let response = match self.send(prepared, &gate, (sleep(request.connect_timeout), &mut total), may_start).await {
            Ok(response) => response,
            Err(result) => return result,
        };
        let answered = CallResult::Answered { status: response.status().as_u16(), retry_after: retry_after(&response) };
        tokio::select! {
            () = drain(response) => {}
            () = total => {}
        }
        answered
    }
}

/// The first `Retry-After`, if it is visible ASCII; cut to its bound.
fn retry_after(response: &Response) -> Option<String> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    Some(text.chars().take(RETRY_AFTER_LIMIT).collect())
}

/// Reads a body to its end, so that the connection can be used again, or to the limit, which drops the connection.
async fn drain(mut response: Response) {
    let mut left = DRAIN_LIMIT;
    while left > 0 {
        match response.chunk().await {
            Ok(Some(chunk)) => left = left.saturating_sub(chunk.len()),
            Ok(None) | Err(_) => return,
        }
    }
}
