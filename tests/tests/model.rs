//! I explore the protocol to the end of its space: one delivery, two dispatch runs, two deliver invocations, an operator
//! who cancels and reschedules, or else two redrive slices that move the row and sweep its letters, in every order of their
//! steps, with a crash at each of them, messages that are lost, late and doubled, answers that are lost, and clocks that
//! are off. Every decision, guard and change is the
//! shipped core's own; the handlers' order of effects is repeated in `model/steps.rs`.
//!
//! I know no payload, limiter, pause or hold, no run but what it does to a row, and one delivery only: the simulated world
//! has those.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]
#![allow(unreachable_pub, missing_docs, reason = "a test has no readers outside of it")]

#[path = "model/bounds.rs"]
mod bounds;
#[path = "model/protocol.rs"]
mod protocol;
#[path = "model/row.rs"]
mod row;
#[path = "model/rules.rs"]
mod rules;
#[path = "model/steps.rs"]
mod steps;
#[path = "model/world.rs"]
mod world;

use stateright::{Checker as _, HasDiscoveries, Model, Property};

use crate::bounds::Scope;
use crate::steps::Step;
use crate::world::World;

/// The protocol as a model.
struct Protocol(Scope);

impl Model for Protocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.0)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        steps::steps(world, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        steps::next(world, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        rules::properties(self.0)
    }
}

#[test]
fn every_rule_holds_in_the_whole_space() {
    explore(Scope::Reminder);
}

#[test]
fn every_rule_holds_for_one_that_is_redriven() {
    explore(Scope::Redrive);
}

fn explore(scope: Scope) {
    let checker = Protocol(scope).checker().threads(1).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{scope:?}: {states} states, depth {depth}, {} steps", checker.state_count());
    let discoveries = checker.discoveries();
    for (name, path) in discoveries.iter().filter(|(name, _)| rules::ALWAYS.iter().any(|(rule, _)| rule == *name)) {
        let story: Vec<String> = path.clone().into_vec().into_iter().map(told).collect();
        println!("broken: {name}\n{}", story.join("\n"));
    }
    checker.assert_properties();
    let bounds = scope.bounds();
    assert_eq!((states, depth), (bounds.states, bounds.depth), "the bound in bounds.rs and in the README");
}

/// One line of a counterexample: the world before the step, and the step.
fn told((world, step): (World, Option<Step>)) -> String {
    let row = world.row;
    format!(
        "  at {} {} next {} wake {:?} held {:?} lease {:?} {:?}: {step:?}",
        world.now, row.state, row.next, row.wake, row.held, row.lease, row.attempts
    )
}
