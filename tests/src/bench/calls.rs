//! I count the requests that SDK clients send, by operation: every try, so a retry counts too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeTransmitInterceptorContextRef;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;

/// Requests by the name of their operation.
pub type Counts = BTreeMap<String, u64>;

/// A counter, to be installed as an interceptor on each client whose requests count.
#[derive(Debug, Clone, Default)]
pub struct Calls(Arc<Mutex<Counts>>);

impl Calls {
    /// Gives what was counted so far and starts again at zero.
    #[must_use]
    pub fn take(&self) -> Counts {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[dyn_dispatch_hint]
impl Intercept for Calls {
    fn name(&self) -> &'static str {
        "Calls"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // Both services name the operation there, behind their own name and a dot.
        let target = context.request().headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(operation).or_default() += 1;
        Ok(())
    }
}
