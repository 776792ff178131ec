//! I am the one place that reads clocks and randomness.
//!
//! I feed the core's [`Estimate`] with the `Date` header of every DynamoDB response of one invocation, and compare it
//! with this machine's clock. I forget everything when an invocation begins: a frozen environment keeps a stale estimate.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::{ConfigBag, Storable, StoreReplace};
use punctual_core::clock::{ClockError, Estimate, Now, check_machine};
use punctual_core::ports::Time;
use punctual_core::time::Timestamp;

/// An interval this narrow is not narrowed further while waiting.
const NARROW: Duration = Duration::from_millis(40);

#[expect(clippy::disallowed_methods, reason = "the clock adapter is where clocks are read")]
fn monotonic() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the clock adapter is where clocks are read")]
fn machine_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// This machine's clock in milliseconds since the Unix epoch: for log lines and caches, never for what is due.
#[must_use]
pub fn machine_time() -> Timestamp {
    Timestamp::from_millis(machine_ms())
}

/// The time since now, as a function that never goes back: for caches.
pub fn monotonic_since_now() -> impl Fn() -> Duration + Send + Sync + 'static {
    let origin = monotonic();
    move || monotonic().saturating_duration_since(origin)
}

/// A monotonic reading in milliseconds from a fixed origin.
#[derive(Debug, Clone, Copy)]
struct Origin(Instant);

impl Origin {
    fn reading(self) -> i64 {
        i64::try_from(monotonic().saturating_duration_since(self.0).as_millis()).unwrap_or(i64::MAX)
    }
}

/// The database's time as far as this process has seen it.
#[derive(Debug, Clone)]
pub struct DatabaseClock {
    origin: Origin,
    estimate: Arc<Mutex<Estimate>>,
    narrowing: Arc<tokio::sync::Mutex<()>>,
}

impl Default for DatabaseClock {
    fn default() -> Self {
        Self { origin: Origin(monotonic()), estimate: Arc::default(), narrowing: Arc::default() }
    }
}

impl DatabaseClock {
    /// Forgets what earlier invocations saw.
    pub fn reset(&self) {
        *self.estimate.lock().unwrap_or_else(PoisonError::into_inner) = Estimate::default();
    }

    /// The interceptor that must be installed on every DynamoDB client of this process.
    #[must_use]
    pub fn interceptor(&self) -> DateInterceptor {
        DateInterceptor { clock: self.clone() }
    }

    fn observe(&self, date: &str, sent: i64) {
        let Ok(date) = httpdate::parse_http_date(date) else { return };
        let Ok(second) = date.duration_since(UNIX_EPOCH) else { return };
        let second = i64::try_from(second.as_secs()).unwrap_or(i64::MAX);
        self.estimate.lock().unwrap_or_else(PoisonError::into_inner).observe(second, sent, self.origin.reading());
    }

    fn now(&self) -> Result<Now, ClockError> {
        let now = self.estimate.lock().unwrap_or_else(PoisonError::into_inner).now(self.origin.reading())?;
        check_machine(now, machine_time())?;
        Ok(now)
    }

    /// How long until one more response would halve the interval.
    fn until_useful(&self) -> Duration {
        let reading = self.origin.reading();
        let useful = self.estimate.lock().unwrap_or_else(PoisonError::into_inner).next_useful_reading(reading);
        Duration::from_millis(useful.map_or(0, |at| u64::try_from(at - reading).unwrap_or(0)))
    }
}

/// When an attempt's request was sent.
#[derive(Debug)]
struct SentAt(i64);

impl Storable for SentAt {
    type Storer = StoreReplace<Self>;
}

/// Reads the `Date` header of each response.
#[derive(Debug, Clone)]
pub struct DateInterceptor {
    clock: DatabaseClock,
}

#[dyn_dispatch_hint]
impl Intercept for DateInterceptor {
    fn name(&self) -> &'static str {
        "DateInterceptor"
    }

    fn read_before_transmit(
        &self,
        _context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        cfg.interceptor_state().store_put(SentAt(self.clock.origin.reading()));
        Ok(())
    }

    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let (Some(date), Some(sent)) = (context.response().headers().get("date"), cfg.load::<SentAt>()) {
            self.clock.observe(date, sent.0);
        }
        Ok(())
    }
}

/// A read that costs little and brings a fresh `Date`; its own result does not matter.
pub type Probe = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// The database's time within one invocation.
#[derive(Clone)]
pub struct InvocationTime {
    clock: DatabaseClock,
    probe: Probe,
    ends: Instant,
}

impl InvocationTime {
    /// Begins an invocation that the platform ends at `deadline_ms` (milliseconds since the Unix epoch, this machine's clock).
    #[must_use]
    pub fn begin(clock: &DatabaseClock, probe: Probe, deadline_ms: u64) -> Self {
        clock.reset();
        let left = i64::try_from(deadline_ms).unwrap_or(i64::MAX).saturating_sub(machine_ms());
        let ends = monotonic() + Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(Duration::from_secs(900));
        Self { clock: clock.clone(), probe, ends }
    }
}

impl Time for InvocationTime {
    fn now(&self) -> Result<Now, ClockError> {
        self.clock.now()
    }

    fn best_guess(&self) -> Result<Timestamp, ClockError> {
        Ok(self.clock.now()?.closest_to(machine_time()))
    }

    fn time_left(&self) -> Duration {
        self.ends.saturating_duration_since(monotonic())
    }

    async fn wait_until(&self, at: Timestamp) -> Result<Now, ClockError> {
        loop {
            let now = self.now()?;
            if now.reached(at) {
                return Ok(now);
            }
            let sure = at.since(now.lo);
            if now.hi.since(now.lo) <= NARROW {
                tokio::time::sleep(sure).await;
                continue;
            }
            let useful = self.clock.until_useful();
            tokio::time::sleep(sure.min(useful)).await;
            if useful < sure {
                // One probe at a time; whoever waited for another's probe has its answer now.
                match self.clock.narrowing.try_lock() {
                    Ok(_guard) => (self.probe)().await,
                    Err(_) => drop(self.clock.narrowing.lock().await),
                }
            }
        }
    }

    async fn pause(&self, how_long: Duration) {
        tokio::time::sleep(how_long).await;
    }

    fn random(&self) -> f64 {
        fastrand::f64()
    }

    fn unique(&self) -> String {
        data_encoding::BASE32_NOPAD.encode(&fastrand::u128(..).to_be_bytes()).to_ascii_lowercase().chars().take(16).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http_date(ms: i64) -> String {
        httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
    }

    #[tokio::test]
    async fn waits_until_the_instant_has_surely_come() {
        let clock = DatabaseClock::default();
        let probed = clock.clone();
        let probe: Probe = Arc::new(move || {
            let clock = probed.clone();
            Box::pin(async move { clock.observe(&http_date(machine_ms()), clock.origin.reading()) })
        });
        let time = InvocationTime::begin(&clock, probe.clone(), u64::try_from(machine_ms() + 30_000).unwrap_or(0));
        assert_eq!(time.now(), Err(ClockError::Unknown));
        probe().await;
        let at = machine_time().plus(Duration::from_millis(1_300));
        let now = time.wait_until(at).await.expect("known");
        assert!(now.reached(at) && machine_time() >= at, "{now:?} {at}");
    }

    #[tokio::test]
    async fn refuses_when_this_machine_is_off() {
        let clock = DatabaseClock::default();
        clock.observe(&http_date(machine_ms() - 60_000), clock.origin.reading());
        assert!(matches!(clock.now(), Err(ClockError::MachineOff(_))));
    }
}
