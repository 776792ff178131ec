//! I fetch signing secrets from Secrets Manager and keep them for a few seconds.
//!
//! A rotation acts within the time to live, without a deploy. A value never leaves me but as a
//! [`Secret`]: errors name the reference and a cause from a closed list. I do not know what a secret signs.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_secretsmanager::Client;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use futures::future::try_join_all;
use punctual_core::destination::secret_name_is_safe;
use punctual_core::ports::{SecretUnavailable, Secrets};
use punctual_core::signature::Secret;
use serde::Deserialize;

/// How long a secret is kept unless told otherwise.
pub const DEFAULT_TTL: Duration = Duration::from_secs(15);

/// How long a failure is kept, so that a missing secret is not asked for by every record of a batch.
const FAILURE_TTL: Duration = Duration::from_secs(2);

/// The longest that one fetch may take, the SDK's own retries included.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest id of a secret, in characters: it is written into the row with every attempt.
const ID_LIMIT: usize = 24;

/// Time since any fixed point; never goes back.
type Monotonic = Arc<dyn Fn() -> Duration + Send + Sync>;

/// What a fetch gave: the secret, or the problem in words that repeat nothing of it.
type Fetched = Result<Secret, String>;

/// One reference's place: fetches of one reference wait for each other here.
type Place = Arc<tokio::sync::Mutex<Option<(Duration, Fetched)>>>;

/// The store of signing secrets in AWS Secrets Manager.
pub struct SecretsManagerStore {
    client: Client,
    prefix: String,
    capacity: usize,
    ttl: Duration,
    now: Monotonic,
    places: Mutex<HashMap<String, (Duration, Place)>>,
}

impl fmt::Debug for SecretsManagerStore {
    /// Shows no cached value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretsManagerStore").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl SecretsManagerStore {
    /// A store for the secrets below `prefix` that keeps at most `capacity` of them (at least one), each for `ttl`.
    /// `now` is the time since any fixed point.
    pub fn new(
        client: Client,
        prefix: String,
        capacity: usize,
        ttl: Duration,
        now: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        Self { client, prefix, capacity: capacity.max(1), ttl, now: Arc::new(now), places: Mutex::default() }
    }

    /// The reference's place; the one that was unused for longest makes room for a new one.
    fn place(&self, reference: &str) -> Place {
        let now = (self.now)();
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((used, place)) = places.get_mut(reference) {
            *used = now;
            return Arc::clone(place);
        }
        while places.len() >= self.capacity {
            let Some(oldest) = places.iter().min_by_key(|(_, (used, _))| *used).map(|(name, _)| name.clone()) else { break };
            places.remove(&oldest);
        }
        let place = Place::default();
        places.insert(reference.to_owned(), (now, Arc::clone(&place)));
        place
    }

    async fn one(&self, reference: &str) -> Result<Secret, SecretUnavailable> {
        let unavailable = |problem| SecretUnavailable { reference: reference.to_owned(), problem };
        if !secret_name_is_safe(reference, &self.prefix) {
            return Err(unavailable("it is not below this stage's path".to_owned()));
        }
        let place = self.place(reference);
        let mut kept = place.lock().await;
        if let Some((at, fetched)) = kept.as_ref() {
            let ttl = if fetched.is_ok() { self.ttl } else { self.ttl.min(FAILURE_TTL) };
            if (self.now)().saturating_sub(*at) < ttl {
                return fetched.clone().map_err(unavailable);
            }
        }
        let fetched = match tokio::time::timeout(FETCH_TIMEOUT, self.fetch(reference)).await {
            Ok(fetched) => fetched,
            Err(_) => Err("the secret store did not answer in time".to_owned()),
        };
        *kept = Some(((self.now)(), fetched.clone()));
        fetched.map_err(unavailable)
    }

    async fn fetch(&self, reference: &str) -> Fetched {
        // Of the SDK's error only the code is passed on: its text can hold an account, a role, an ARN.
        let answer = self.client.get_secret_value().secret_id(reference).send().await.map_err(|error| {
            match error.as_service_error().and_then(ProvideErrorMetadata::code) {
                Some("ResourceNotFoundException") => "there is no such secret".to_owned(),
                Some("AccessDeniedException") => "this function may not read it".to_owned(),
                Some("DecryptionFailure") => "its key cannot be used".to_owned(),
                Some("InvalidRequestException") => "it is not readable now: is it marked for deletion?".to_owned(),
                _ => "the secret store is unavailable".to_owned(),
            }
        })?;
        parse(reference, answer.secret_string().ok_or("it has no text")?)
    }
}

impl Secrets for SecretsManagerStore {
    async fn active(&self, references: &[String]) -> Result<Vec<Secret>, SecretUnavailable> {
        try_join_all(references.iter().map(|reference| self.one(reference))).await
    }
}

/// The JSON form of a value. Further fields are the owner's business.
#[derive(Deserialize)]
struct Named {
    id: String,
    secret: String,
}

/// Reads a value: `whsec_…` bare, or `{"id":"2026a","secret":"whsec_…"}`.
fn parse(reference: &str, value: &str) -> Fetched {
    let value = value.trim_ascii();
    if !value.starts_with('{') {
        return Secret::parse(id_of(reference), value).map_err(|e| e.to_string());
    }
    // The parser's own words would repeat parts of the value.
    let named: Named =
        serde_json::from_str(value).map_err(|_| "as JSON it must be an object with the texts id and secret".to_owned())?;
    let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if named.id.is_empty() || named.id.len() > ID_LIMIT || !named.id.bytes().all(good) {
        return Err(format!("its id must be 1 to {ID_LIMIT} letters, digits, _ or -"));
    }
    Secret::parse(named.id, &named.secret).map_err(|e| e.to_string())
}

/// The id of a bare secret: the last part of its reference, cut to its bound. A safe reference holds no other
/// characters than an id may have.
fn id_of(reference: &str) -> String {
    let last = reference.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default();
    last.chars().take(ID_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use aws_sdk_secretsmanager::config::{BehaviorVersion, Credentials, Region, retry::RetryConfig};
    use aws_smithy_runtime_api::client::http::{
        HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector, http_client_fn,
    };
    use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
    use aws_smithy_types::body::SdkBody;

    use super::*;

    const VALUE: &str = "whsec_ijkalhPdPaFJX77OsDrQJa/bZd4UvPuT";

    /// The service at the level of HTTP: counts requests and answers by the secret's name.
    #[derive(Debug, Clone, Default)]
    struct Service(Arc<AtomicUsize>);

    impl HttpConnector for Service {
        fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
            self.0.fetch_add(1, Ordering::SeqCst);
            let body: serde_json::Value = serde_json::from_slice(request.body().bytes().expect("bytes")).expect("JSON");
            let name = body["SecretId"].as_str().expect("a name").to_owned();
            HttpConnectorFuture::new(async move {
                // Others get their turn while this is on its way.
                tokio::task::yield_now().await;
                let value = match name.rsplit('/').next() {
                    Some("named") => format!("{{\"id\":\"2026a\",\"secret\":\"{VALUE}\",\"owner\":\"x\"}}"),
                    Some("leaky") => format!("{{\"id\":\"2026a\",\"secret\":[\"{VALUE}\"]}}"),
                    Some("badid") => format!("{{\"id\":\"a,b\",\"secret\":\"{VALUE}\"}}"),
                    Some("short") => "whsec_AAAA".to_owned(),
                    _ => VALUE.to_owned(),
                };
                let (status, json) = match name.rsplit('/').next() {
                    Some("absent") => (400, serde_json::json!({"__type": "ResourceNotFoundException", "message": "arn:x"})),
                    Some("denied") => (400, serde_json::json!({"__type": "AccessDeniedException", "message": "arn:x"})),
                    Some("broken") => (500, serde_json::json!({"__type": "InternalServiceError"})),
                    Some("binary") => (200, serde_json::json!({"Name": name, "SecretBinary": "AAAA"})),
                    _ => (200, serde_json::json!({"Name": name, "SecretString": value})),
                };
                Ok(HttpResponse::new(status.try_into().expect("a status"), SdkBody::from(json.to_string())))
            })
        }
    }

    struct Fixture {
        store: SecretsManagerStore,
        service: Service,
        clock: Arc<AtomicU64>,
    }

    impl Fixture {
        fn new(capacity: usize) -> Self {
            let service = Service::default();
            let connector = SharedHttpConnector::new(service.clone());
            let config = aws_sdk_secretsmanager::Config::builder()
                .behavior_version(BehaviorVersion::latest())
                .region(Region::new("eu-west-1"))
                .credentials_provider(Credentials::new("a", "b", None, None, "test"))
                .retry_config(RetryConfig::disabled())
                .http_client(http_client_fn(move |_: &HttpConnectorSettings, _| connector.clone()))
                .build();
            let clock = Arc::new(AtomicU64::new(0));
            let read = Arc::clone(&clock);
            let now = move || Duration::from_millis(read.load(Ordering::SeqCst));
            let client = Client::from_conf(config);
            let store = SecretsManagerStore::new(client, "punctual/test/".into(), capacity, DEFAULT_TTL, now);
            Self { store, service, clock }
        }

        async fn get(&self, name: &str) -> Result<Secret, SecretUnavailable> {
            Ok(self.store.active(&[format!("punctual/test/{name}")]).await?.remove(0))
        }

        fn requests(&self) -> usize {
            self.service.0.load(Ordering::SeqCst)
        }

        fn advance(&self, ms: u64) {
            self.clock.fetch_add(ms, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn both_forms_are_read_and_named_in_order() {
        let fixture = Fixture::new(8);
        let references = ["punctual/test/acme/named".to_owned(), "punctual/test/acme/2025b".to_owned()];
        let secrets = fixture.store.active(&references).await.expect("secrets");
        assert_eq!(secrets, [Secret::parse("2026a", VALUE).expect("s"), Secret::parse("2025b", VALUE).expect("s")]);
    }

    #[tokio::test]
    async fn a_secret_is_kept_for_its_time() {
        let fixture = Fixture::new(8);
        for (advance, requests) in [(0, 1), (14_999, 1), (1, 2), (14_999, 2)] {
            fixture.advance(advance);
            fixture.get("acme").await.expect("a secret");
            assert_eq!(fixture.requests(), requests, "after {advance} ms more");
        }
    }

    #[tokio::test]
    async fn a_failure_is_kept_for_two_seconds() {
        let fixture = Fixture::new(8);
        for (advance, requests) in [(0, 1), (1_999, 1), (1, 2)] {
            fixture.advance(advance);
            fixture.get("absent").await.expect_err("no secret");
            assert_eq!(fixture.requests(), requests, "after {advance} ms more");
        }
    }

    #[tokio::test]
    async fn concurrent_misses_are_one_fetch() {
        let fixture = Fixture::new(8);
        let (a, b, c) = tokio::join!(fixture.get("acme"), fixture.get("acme"), fixture.get("other"));
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
        assert_eq!(fixture.requests(), 2, "one for each reference");
    }

    #[tokio::test]
    async fn the_cache_is_bounded_and_the_unused_goes_first() {
        let fixture = Fixture::new(2);
        for (name, requests) in [("a", 1), ("b", 2), ("a", 2), ("c", 3), ("a", 3), ("b", 4)] {
            fixture.advance(1);
            fixture.get(name).await.expect("a secret");
            assert_eq!(fixture.requests(), requests, "{name}");
        }
        assert_eq!(fixture.store.places.lock().expect("unpoisoned").len(), 2);
    }

    #[tokio::test]
    async fn references_outside_the_stage_are_never_asked_for() {
        let fixture = Fixture::new(8);
        for reference in ["punctual/prod/acme", "punctual/test/../prod/acme", "punctual/test/", "arn:aws:x"] {
            let error = fixture.store.active(&[reference.to_owned()]).await.expect_err("refused");
            assert_eq!(error.problem, "it is not below this stage's path", "{reference}");
        }
        assert_eq!(fixture.requests(), 0);
    }

    #[tokio::test]
    async fn problems_are_told_without_the_value() {
        let fixture = Fixture::new(8);
        for (name, problem) in [
            ("absent", "there is no such secret"),
            ("denied", "this function may not read it"),
            ("broken", "the secret store is unavailable"),
            ("binary", "it has no text"),
            ("short", "a signing secret holds 24 to 64 bytes"),
            ("badid", "its id must be 1 to 24 letters, digits, _ or -"),
            ("leaky", "as JSON it must be an object with the texts id and secret"),
        ] {
            let error = fixture.get(name).await.expect_err("no secret");
            assert_eq!(error.problem, problem, "{name}");
            let told = format!("{error} {error:?} {:?}", fixture.store);
            assert!(!told.contains("ijkalh") && !told.contains("arn:x"), "{told}");
        }
    }

    #[test]
    fn ids_are_bounded() {
        assert_eq!(id_of("punctual/test/acme/2026a"), "2026a");
        assert_eq!(id_of("punctual/test/acme/"), "acme");
        assert_eq!(id_of("punctual/test/abcdefghijklmnopqrstuvwxyz"), "abcdefghijklmnopqrstuvwx");
    }
}
