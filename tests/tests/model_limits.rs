//! I explore the limiter and the breaker to the end of their spaces: consumers who book by what they believe, and batches
//! and a dispatch run that share one reach row, in every order of their steps, with writes that arrive late, twice or after
//! their sender's death, answers that are lost, and clocks that are off. Every plan, condition, change and gate is the
//! shipped core's own; what a handler does between them is repeated here, in as few steps as it takes.
//!
//! I know one destination, and no delivery row: the protocol's model (`model.rs`) has that.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]
#![allow(unreachable_pub, missing_docs, reason = "a test has no readers outside of it")]

#[path = "limits/bounds.rs"]
mod bounds;
#[path = "limits/breaker.rs"]
mod breaker;
#[path = "limits/limiter.rs"]
mod limiter;
#[path = "limits/row.rs"]
mod row;

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker as _, HasDiscoveries, Model};

use crate::bounds::Found;

/// Explores all of a model's states, and fails with the story of a broken rule.
fn explore<M>(model: M) -> Found
where
    M: Model + Send + Sync + 'static,
    M::State: Debug + Hash + Send + Sync + Clone + PartialEq,
    M::Action: Debug + Clone + PartialEq,
{
    let checker = model.checker().threads(1).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found = Found { states: checker.unique_state_count(), depth: checker.max_depth() };
    println!("{} states, depth {}, {} steps", found.states, found.depth, checker.state_count());
    checker.assert_properties();
    found
}

#[test]
fn the_limiter_with_clocks_that_agree() {
    assert_eq!(explore(limiter::Limiter { skew_ms: 0 }), bounds::AGREEING);
}

#[test]
fn the_limiter_with_clocks_that_are_off() {
    assert_eq!(explore(limiter::Limiter { skew_ms: limiter::SKEW_MS }), bounds::SKEWED);
}

#[test]
fn the_breaker() {
    assert_eq!(explore(breaker::Breaker), bounds::BREAKER);
}
