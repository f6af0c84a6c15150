//! The scenario on DynamoDB Local.

use nagaya_testing::DynamodbLocal;

use crate::{
    engines::{assert_same, transcript, transcript_in_memory},
    harness::builder,
};

fn transcript_on_server(design: &str) -> Vec<String> {
    let local = DynamodbLocal::new(&format!("aiagent-{design}"));
    transcript(builder(design, &local.clock), |server| local.start(server))
}

/// Proves M2, M8, A9 and A15.
#[test]
fn both_designs_give_the_same_answers_on_dynamodb_as_in_memory() {
    let expected = transcript_in_memory("single");
    assert_same(&transcript_in_memory("multi"), &expected);
    assert_same(&transcript_on_server("single"), &expected);
    assert_same(&transcript_on_server("multi"), &expected);
}
