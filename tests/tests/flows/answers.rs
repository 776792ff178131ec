//! What answers and operators do to deliveries on their way: the drills of `make drill` that kill nobody, on one stack.

use punctual_tests::answers;
use punctual_tests::stack::Stack;

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_leads_where_it_must_and_every_wait_is_kept() {
    let stack = Stack::start(answers::options()).await.unwrap();
    let drills = answers::play(&stack).await.unwrap();
    stack.stop().await.unwrap();
    for drill in &drills {
        drill.print();
    }
    let failed: Vec<_> = drills.iter().filter(|drill| !drill.problems.is_empty()).map(|d| (&d.what, &d.problems)).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}
