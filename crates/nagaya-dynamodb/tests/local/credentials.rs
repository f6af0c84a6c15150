//! Credentials that the server rejects: one sentence with the remedy.

use nagaya_dynamodb::{Dynamodb, Options, Settings};
use nagaya_store::{Key, Store as _};

use crate::server::{self, Failure};

#[tokio::test]
async fn rejected_credentials_are_reported_in_one_sentence_with_the_remedy() {
    let rejected = "AWS rejected the credentials";
    for (code, start, remedy) in [
        ("UnrecognizedClientException", rejected, "AWS_ACCESS_KEY_ID"),
        ("InvalidSignatureException", rejected, "AWS_SECRET_ACCESS_KEY"),
        ("ExpiredTokenException", rejected, "AWS_SESSION_TOKEN"),
        ("AccessDeniedException", "the credentials do not allow this call", "dynamodb:"),
    ] {
        let endpoint = server::start(move |_, _| Some(Err(Failure { status: "400 Bad Request", code }))).await;
        let store = Dynamodb::open(&Settings::local(endpoint), Options::default()).await.expect("no request yet");
        let error = store.get("notes", &Key::new("a", "b")).await.expect_err(code);
        let text = error.to_string();
        assert!(text.contains(start) && text.contains(code) && text.contains(remedy), "{text}");
        assert!(!text.contains('{') && !text.contains('\n'), "no debug output: {text}");
    }
}
