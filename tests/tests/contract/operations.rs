//! The control table: the stage's switches moved one by one, and the record of what operators do.

use punctual_core::id::Correlation;
use punctual_core::operation::{Operation, Outcome};
use punctual_core::ports::{Control as _, Operations as _};
use punctual_core::settings::{RetryMode, Settings, Switch};

use crate::rows::at;
use crate::worlds::World;

fn operation(second: i64, token: &str) -> Operation {
    Operation {
        at: at(second),
        token: Correlation::new(token).expect("a token"),
        action: "pause".into(),
        by: "ann".into(),
        why: "it \"deploys\"\n".into(),
        evidence: "OPS-1420".into(),
        target: "destination acme".into(),
        outcome: Outcome::Begun,
        did: String::new(),
        did_not: String::new(),
    }
}

pub(crate) async fn switches_are_moved_one_by_one(world: &impl World) {
    let control = world.control();
    let settings = async || control.lookup(&[]).await.expect("the switches").1;
    assert_eq!(settings().await, Settings::default());
    let mut expected = Settings::default();
    for switch in [
        Switch::DispatchPaused(Some(at(7))),
        Switch::RetryMode(RetryMode::DeadLetter),
        Switch::DispatchPaused(None),
        Switch::DispatchPaused(None),
        Switch::RetryMode(RetryMode::Retry),
    ] {
        control.switch(switch).await.expect("moved");
        expected = expected.with(switch);
        assert_eq!(settings().await, expected, "{switch:?}");
    }
}

pub(crate) async fn operations_are_read_newest_first_page_by_page(world: &impl World) {
    let control = world.control();
    let page = control.operations(None, 10).await.expect("a page");
    assert_eq!((page.operations, page.next), (Vec::new(), None));
    // Two in one millisecond are two.
    let all = [operation(30, "b"), operation(30, "a"), operation(20, "z"), operation(10, "y"), operation(5, "x")];
    for i in [3, 1, 4, 0, 2] {
        control.record(&all[i]).await.expect("recorded");
    }
    let ended = Operation { outcome: Outcome::Done, did: "paused".into(), did_not: "nothing else".into(), ..all[2].clone() };
    control.record(&ended).await.expect("replaced");
    let expected = [all[0].clone(), all[1].clone(), ended, all[3].clone(), all[4].clone()];
    for limit in [1, 2, 3, 5, 9] {
        let (mut read, mut start) = (Vec::new(), None);
        loop {
            let page = control.operations(start.as_ref(), limit).await.expect("a page");
            assert!(page.operations.len() <= usize::try_from(limit).expect("a number"), "{limit}");
            read.extend(page.operations);
            start = page.next;
            if start.is_none() {
                break;
            }
        }
        assert_eq!(read, expected, "{limit} at a time");
    }
}
