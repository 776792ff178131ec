//! I am every step that anybody can take: the order of the handlers' effects, and the moments between them at which
//! another actor moves or a crash comes. What a step decides or writes is asked of `protocol.rs`.

use punctual_core::state::State;

use crate::bounds::{MOVED, Scope, TICKS};
use crate::protocol::{CALL, HORIZON, Knows, Question, Reply, ask, last_start, letter_marked, marked, may_start, write_of};
use crate::row::{Answered, Closed, Pending, Row, at};
use crate::world::{Answer, Consumer, Dispatcher, Fault, Operator, Slice, Wish, World};

/// How far an actor's knowledge of the ledger's time reaches behind and ahead of it, in ticks: at most one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    behind: u8,
    ahead: u8,
}

/// The true time.
const EXACT: Clock = Clock { behind: 0, ahead: 0 };
const CLOCKS: [Clock; 4] = [EXACT, Clock { behind: 1, ahead: 0 }, Clock { behind: 0, ahead: 1 }, Clock { behind: 1, ahead: 1 }];

impl Clock {
    fn read(self, world: &World) -> Knows {
        Knows { lo: world.now - self.behind, hi: world.now + self.ahead }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Tick,
    Dispatcher(usize, Dispatch),
    Consumer(usize, Deliver),
    Operator(Operate),
    Slice(usize, Redrive),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dispatch {
    /// A claim without having read the row.
    Claim(Clock),
    /// Reads the row and decides. A row that owes a dead letter has it sent.
    Look(Clock),
    Write,
    Mark,
    /// The queue did not take the message, or said so.
    Return,
    MarkLetter,
    Crash,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deliver {
    /// A claim by a message that was not received before, without having read the row.
    Claim(u8, Clock),
    Look(Clock),
    Write,
    /// The write arrives, its answer does not: it will be written again.
    WriteAnswerLost,
    Call(Clock),
    Answer(Answer, Clock),
    LookLate,
    Crash,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operate {
    Ask(Wish, Clock),
    Write,
    WriteAnswerLost,
    Crash,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redrive {
    /// Reads the row and decides whether this run moves it.
    Look(u8, Clock),
    Write,
    /// Has received the letter of this death, reads the row and decides whether the letter goes.
    Letter(u8),
    Delete,
    Crash,
}

/// The attempts that messages claim without having read the row: past the budget deliver reads it, which knows what was
/// granted.
fn claims(world: &World) -> impl Iterator<Item = u8> {
    bits(world.queue).filter(|n| *n <= world.row.scope.bounds().attempts)
}

fn bits(set: u8) -> impl Iterator<Item = u8> {
    (0..8).filter(move |n| set & (1 << n) != 0)
}

/// All steps that may be possible; one that turns out to change nothing is none.
pub fn steps(world: &World, steps: &mut Vec<Step>) {
    if world.now < TICKS {
        steps.push(Step::Tick);
    }
    for (i, dispatcher) in world.dispatchers.iter().enumerate() {
        if i > 0 && world.dispatchers[i - 1] == *dispatcher {
            continue;
        }
        let mut push = |step| steps.push(Step::Dispatcher(i, step));
        match dispatcher {
            Dispatcher::Idle => {
                for clock in CLOCKS {
                    push(Dispatch::Claim(clock));
                    push(Dispatch::Look(clock));
                }
                continue;
            }
            Dispatcher::Writing { .. } => push(Dispatch::Write),
            Dispatcher::Claimed(_) => {
                push(Dispatch::Mark);
                push(Dispatch::Return);
            }
            Dispatcher::Buried(_) => push(Dispatch::MarkLetter),
        }
        push(Dispatch::Crash);
    }
    for (i, consumer) in world.consumers.iter().enumerate() {
        if i > 0 && world.consumers[i - 1] == *consumer {
            continue;
        }
        let mut push = |step| steps.push(Step::Consumer(i, step));
        match consumer {
            Consumer::Idle => {
                for clock in CLOCKS.into_iter().filter(|_| world.queue != 0) {
                    claims(world).for_each(|n| push(Deliver::Claim(n, clock)));
                    push(Deliver::Look(clock));
                }
                continue;
            }
            Consumer::Writing { .. } => push(Deliver::Write),
            Consumer::Recording { .. } => {
                push(Deliver::Write);
                push(Deliver::WriteAnswerLost);
            }
            Consumer::LateWriting { .. } => push(Deliver::Write),
            Consumer::Claimed(_) => CLOCKS.into_iter().for_each(|clock| push(Deliver::Call(clock))),
            Consumer::Calling { .. } => {
                for answer in [Answer::Accepted, Answer::Failed, Answer::FailedFar, Answer::Rejected] {
                    CLOCKS.into_iter().for_each(|clock| push(Deliver::Answer(answer, clock)));
                }
            }
            Consumer::Late { .. } => push(Deliver::LookLate),
        }
        push(Deliver::Crash);
    }
    match world.operator {
        Operator::Idle => {
            let cancels = !world.cancel_acknowledged;
            let moves = world.row.scope == Scope::Reminder;
            // Moved to the instants that it has, a row is left alone.
            let other = if world.row.after == MOVED.0 { Wish::Backwards } else { Wish::Forwards };
            for (wish, _) in [(Wish::Cancel, cancels), (other, moves)].into_iter().filter(|(_, may)| *may) {
                steps.extend(CLOCKS.map(|clock| Step::Operator(Operate::Ask(wish, clock))));
            }
        }
        Operator::Writing { .. } => {
            steps.extend([Operate::Write, Operate::WriteAnswerLost, Operate::Crash].map(Step::Operator));
        }
    }
    for (i, slice) in world.slices.iter().enumerate() {
        if i > 0 && world.slices[i - 1] == *slice {
            continue;
        }
        let mut push = |step| steps.push(Step::Slice(i, step));
        match slice {
            Slice::Idle => {
                let runs = world.row.scope.bounds().runs;
                if world.row.state.needs_operator() {
                    for run in 0..runs {
                        CLOCKS.into_iter().for_each(|clock| push(Redrive::Look(run, clock)));
                    }
                }
                // A reminder's scope has nobody who sweeps.
                bits(world.there).filter(|_| runs > 0).for_each(|death| push(Redrive::Letter(death)));
                continue;
            }
            Slice::Moving(_) => push(Redrive::Write),
            Slice::Deleting(_) => push(Redrive::Delete),
        }
        push(Redrive::Crash);
    }
}

/// The world after a step; none if the step is not possible or changes nothing.
pub fn next(world: &World, step: Step) -> Option<World> {
    let mut after = world.clone();
    match step {
        Step::Tick => {
            // A call ends within its total timeout.
            let over = |c: &Consumer| matches!(c, Consumer::Calling { since, .. } if since + CALL <= world.now);
            if world.consumers.iter().any(over) {
                return None;
            }
            after.now += 1;
        }
        Step::Dispatcher(i, step) => after.dispatchers[i] = dispatch(&mut after, world.dispatchers[i], step)?,
        Step::Consumer(i, step) => after.consumers[i] = deliver(&mut after, world.consumers[i], step)?,
        Step::Operator(step) => after.operator = operate(&mut after, world.operator, step)?,
        Step::Slice(i, step) => after.slices[i] = redrive(&mut after, world.slices[i], step)?,
    }
    watch(world, &mut after, step);
    let after = after.normalised();
    (after != *world && after.is_within_bounds()).then_some(after)
}

/// Notes what must never happen to the row at a step, whoever takes it.
fn watch(before: &World, after: &mut World, step: Step) {
    let (old, new) = (before.row, after.row);
    let forgotten = |(old, new): (&Option<Closed>, &Option<Closed>)| old.is_some() && old != new && *old != Some(Closed::Unknown);
    if old.closed() > new.closed() || old.attempts.iter().zip(&new.attempts).any(forgotten) {
        after.fault(Fault::AttemptForgotten);
    }
    let died = new.state.needs_operator() && !old.state.needs_operator();
    if !new.state.is_terminal() && new.death != old.death + u8::from(died) {
        after.fault(Fault::DeathForgotten);
    }
    let moved = old.version != new.version || old.state != new.state;
    if !moved {
        return;
    }
    if old.state.is_terminal() {
        after.fault(Fault::TerminalChanged);
    }
    let recorder =
        |i: usize| matches!(before.consumers[i], Consumer::Recording { write, .. } if write.before.version == old.version);
    let by_holder = matches!(step, Step::Consumer(i, _) if recorder(i));
    if old.state == State::Delivering && old.lease.is_some_and(|end| end > before.now) && !by_holder {
        after.fault(Fault::DeliverLeaseBroken);
    }
    if new.state == State::Delivering && before.now < old.next {
        after.fault(Fault::OpenedEarly);
    }
    let again = old.state == State::Dispatching && new.state == State::Dispatching;
    if again && old.held.is_some_and(|end| end > before.now) {
        after.fault(Fault::DispatchLeaseBroken);
    }
}

fn dispatch(world: &mut World, me: Dispatcher, step: Dispatch) -> Option<Dispatcher> {
    use Dispatcher::{Buried, Claimed, Idle, Writing};
    Some(match (me, step) {
        (_, Dispatch::Crash) => Idle,
        (Idle, Dispatch::Claim(clock)) => match ask(Question::DispatchClaim, &world.row, clock.read(world)) {
            Reply::Claimed(row) => {
                world.row = row;
                published(world, row)
            }
            _ => return None,
        },
        (Idle, Dispatch::Look(clock)) => match ask(Question::DispatchLook, &world.row, clock.read(world)) {
            Reply::WriteClaim(write) => Writing { write, claim: true },
            Reply::Write(write) => Writing { write, claim: false },
            Reply::Bury => {
                world.letters |= 1 << world.row.death;
                world.there |= 1 << world.row.death;
                Buried(world.row)
            }
            Reply::Nothing | Reply::Claimed(_) | Reply::Delete => return None,
        },
        (Writing { write, claim }, Dispatch::Write) => match write.write(&mut world.row) {
            Answered::Done if claim => published(world, write.after),
            // A conflict is decided again, like everything: by a look.
            Answered::Done | Answered::Conflict => Idle,
        },
        (Claimed(row), Dispatch::Mark) => written(world, marked(&row, world.now)?),
        (Claimed(row), Dispatch::Return) => {
            let returned = write_of(ask(Question::Return, &row, EXACT.read(world)))?;
            written(world, returned)
        }
        (Buried(row), Dispatch::MarkLetter) => written(world, letter_marked(&row)?),
        _ => return None,
    })
}

fn written(world: &mut World, write: Pending) -> Dispatcher {
    write.write(&mut world.row);
    Dispatcher::Idle
}

fn published(world: &mut World, row: Row) -> Dispatcher {
    world.queue |= 1 << (row.closed() + 1);
    Dispatcher::Claimed(row)
}

/// A write that arrives, and whose answer does not.
fn lost(write: Pending, row: &mut Row) -> Option<Pending> {
    (!write.written && write.write(row) == Answered::Done).then_some(Pending { written: true, ..write })
}

fn deliver(world: &mut World, me: Consumer, step: Deliver) -> Option<Consumer> {
    use Consumer::{Calling, Claimed, Idle, LateWriting, Recording, Writing};
    Some(match (me, step) {
        (_, Deliver::Crash) => Idle,
        (Idle, Deliver::Claim(number, clock)) => match ask(Question::DeliverClaim(number), &world.row, clock.read(world)) {
            Reply::Claimed(row) => {
                world.row = row;
                Claimed(row)
            }
            _ => return None,
        },
        (Idle, Deliver::Look(clock)) => match ask(Question::DeliverLook, &world.row, clock.read(world)) {
            Reply::WriteClaim(write) => Writing { write, claim: true },
            Reply::Write(write) => Writing { write, claim: false },
            // Burying is the same steps as a dispatch run's, who may take them at any time.
            Reply::Nothing | Reply::Claimed(_) | Reply::Bury | Reply::Delete => return None,
        },
        (Writing { write, claim }, Deliver::Write) => match write.write(&mut world.row) {
            Answered::Done if claim => Claimed(write.after),
            Answered::Done | Answered::Conflict => Idle,
        },
        (Claimed(row), Deliver::Call(clock)) => {
            let knows = clock.read(world);
            if may_start(&row, knows) {
                note_call(world, &row);
                Calling { row, since: world.now }
            } else {
                record(&row, Answer::NotCalled, knows)?
            }
        }
        (Calling { row, .. }, Deliver::Answer(answer, clock)) => record(&row, answer, clock.read(world))?,
        (Recording { write, number, answer }, Deliver::Write) => match write.write(&mut world.row) {
            Answered::Done => recorded(world, answer),
            // Only a late success was noted meanwhile, under this very lease: the outcome write honours it.
            Answered::Conflict if world.row.version == write.before.version => {
                let again = write_of(ask(Question::Outcome(answer), &world.row, EXACT.read(world)));
                again.map_or_else(|| Consumer::late(number, answer), |write| Recording { write, number, answer })
            }
            Answered::Conflict => Consumer::late(number, answer),
        },
        (Recording { write, number, answer }, Deliver::WriteAnswerLost) => {
            Recording { write: lost(write, &mut world.row)?, number, answer }
        }
        (Consumer::Late { number, answer }, Deliver::LookLate) => {
            match write_of(ask(Question::Late(number, answer), &world.row, EXACT.read(world))) {
                Some(write) => LateWriting { write, number, answer },
                None => recorded(world, answer),
            }
        }
        (LateWriting { write, number, answer }, Deliver::Write) => match write.write(&mut world.row) {
            Answered::Done => recorded(world, answer),
            Answered::Conflict => Consumer::late(number, answer),
        },
        _ => return None,
    })
}

/// Judges a call by the ledger's true time and by what was promised.
fn note_call(world: &mut World, row: &Row) {
    let number = row.closed() + 1;
    // Whoever calls may have claimed before the row was moved: the present due time counts as well.
    if world.now < row.after.max(world.row.after) || world.now < row.next {
        world.fault(Fault::Early);
    }
    if at(world.now) > last_start(&world.row) {
        world.fault(Fault::TooLate);
    }
    if world.cancel_acknowledged {
        world.fault(Fault::AfterCancel);
    }
    if world.calls & (1 << number) != 0 {
        world.fault(Fault::NumberReused);
    }
    if number > budget(row) {
        world.fault(Fault::OverBudget);
    }
    if row.lease.is_none_or(|end| world.now + CALL > end) {
        world.fault(Fault::CallOutlivesLease);
    }
    world.calls |= 1 << number;
}

fn record(row: &Row, answer: Answer, knows: Knows) -> Option<Consumer> {
    let number = u8::try_from(row.closed() + 1).ok()?;
    Some(Consumer::Recording { write: write_of(ask(Question::Outcome(answer), row, knows))?, number, answer })
}

fn recorded(world: &mut World, answer: Answer) -> Consumer {
    world.success_recorded |= answer == Answer::Accepted;
    Consumer::Idle
}

fn operate(world: &mut World, me: Operator, step: Operate) -> Option<Operator> {
    Some(match (me, step) {
        (Operator::Idle, Operate::Ask(wish, clock)) => {
            Operator::Writing { write: write_of(ask(Question::Wish(wish), &world.row, clock.read(world)))?, wish }
        }
        (Operator::Writing { write, wish }, Operate::Write) => {
            if write.write(&mut world.row) == Answered::Done {
                match wish {
                    Wish::Cancel => world.cancel_acknowledged = true,
                    Wish::Forwards | Wish::Backwards => world.reschedule_acknowledged = true,
                }
            }
            Operator::Idle
        }
        (Operator::Writing { write, wish }, Operate::WriteAnswerLost) => {
            Operator::Writing { write: lost(write, &mut world.row)?, wish }
        }
        (Operator::Writing { .. }, Operate::Crash) => Operator::Idle,
        _ => return None,
    })
}

fn redrive(world: &mut World, me: Slice, step: Redrive) -> Option<Slice> {
    Some(match (me, step) {
        (_, Redrive::Crash) => Slice::Idle,
        (Slice::Idle, Redrive::Look(run, clock)) => {
            Slice::Moving(write_of(ask(Question::Redrive(run), &world.row, clock.read(world)))?)
        }
        (Slice::Moving(write), Redrive::Write) => {
            write.write(&mut world.row);
            Slice::Idle
        }
        (Slice::Idle, Redrive::Letter(death)) => match ask(Question::Letter(death), &world.row, EXACT.read(world)) {
            Reply::Delete => Slice::Deleting(death),
            _ => return None,
        },
        (Slice::Deleting(death), Redrive::Delete) => {
            if world.row.state.needs_operator() && world.row.death == death {
                world.fault(Fault::LetterOfThePresentDeleted);
            }
            world.there &= !(1 << death);
            Slice::Idle
        }
        _ => return None,
    })
}

/// The attempts that a row may make in all.
pub fn budget(row: &Row) -> usize {
    usize::from(row.scope.bounds().attempts) + usize::from(row.granted)
}

/// Whether the row comes to its end when all messages are lost and then nothing fails any more: dispatch ticks,
/// messages arrive, calls succeed.
pub fn comes_to_an_end(world: &World) -> bool {
    const ROUNDS: usize = 80;
    let mut world = World { queue: 0, ..world.clone() };
    for _ in 0..ROUNDS {
        if is_settled(&world.row) {
            return true;
        }
        world = fair_steps(&world).into_iter().find_map(|step| next(&world, step)).unwrap_or_else(|| {
            let now = world.now + 1;
            World { now, ..world.clone() }.normalised()
        });
    }
    false
}

/// Terminal, or in the hands of an operator who has been told.
pub fn is_settled(row: &Row) -> bool {
    row.state.is_terminal() || (row.state.needs_operator() && row.sent == row.death)
}

/// What a healthy stack does next, in this order.
fn fair_steps(world: &World) -> Vec<Step> {
    let mut fair = Vec::new();
    for (i, dispatcher) in world.dispatchers.iter().enumerate() {
        fair.extend(match dispatcher {
            Dispatcher::Idle => None,
            Dispatcher::Writing { .. } => Some(Step::Dispatcher(i, Dispatch::Write)),
            Dispatcher::Claimed(_) => Some(Step::Dispatcher(i, Dispatch::Mark)),
            Dispatcher::Buried(_) => Some(Step::Dispatcher(i, Dispatch::MarkLetter)),
        });
    }
    for (i, consumer) in world.consumers.iter().enumerate() {
        fair.extend(match consumer {
            Consumer::Idle => None,
            Consumer::Claimed(_) => Some(Step::Consumer(i, Deliver::Call(EXACT))),
            Consumer::Calling { .. } => Some(Step::Consumer(i, Deliver::Answer(Answer::Accepted, EXACT))),
            Consumer::Late { .. } => Some(Step::Consumer(i, Deliver::LookLate)),
            _ => Some(Step::Consumer(i, Deliver::Write)),
        });
    }
    let idle = |i: usize| world.consumers[i] == Consumer::Idle;
    if let Some(i) = (0..world.consumers.len()).find(|i| idle(*i)) {
        fair.extend(claims(world).map(|n| Step::Consumer(i, Deliver::Claim(n, EXACT))));
        if world.queue != 0 {
            fair.push(Step::Consumer(i, Deliver::Look(EXACT)));
        }
    }
    // Dispatch looks at what the wake index shows it, and at nothing else.
    let shown = world.row.wake.is_some_and(|wake| at(wake) <= at(world.now).plus(HORIZON));
    if let Some(i) = world.dispatchers.iter().position(|d| *d == Dispatcher::Idle).filter(|_| shown) {
        fair.extend([Dispatch::Claim(EXACT), Dispatch::Look(EXACT)].map(|step| Step::Dispatcher(i, step)));
    }
    fair
}
