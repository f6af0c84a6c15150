//! Every change of a token is detected.

use std::sync::Arc;

use nagaya_server::{Issuer, LocalIssuer, Verifier};
use nagaya_store::Clock;
use proptest::prelude::*;

use crate::common::{Key, Provider, claims, issue};

fn verifier() -> (Verifier, String) {
    let issuer = Arc::new(LocalIssuer::in_memory().expect("keys can be made"));
    let token = issue(&issuer);
    (Verifier::new(claims(), Clock::system()).trust(&Issuer::local(&issuer), "todo").expect("one issuer"), token)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Proves T15.
    #[test]
    fn a_token_with_any_byte_changed_is_refused(places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), known: bool) {
        let runtime = runtime();
        let (verifier, token) = verifier();
        if known {
            runtime.block_on(verifier.caller(&token)).expect("the token is good");
        }
        let mut bytes = token.clone().into_bytes();
        for (place, byte) in places {
            bytes[place.index(token.len())] = byte & 0x7f;
        }
        let changed = String::from_utf8(bytes).expect("ASCII is text");
        prop_assume!(changed != token);
        let refused = runtime.block_on(verifier.caller(&changed)).expect_err("it is another token");
        prop_assert_eq!(refused.code(), "bad_token");
    }

    #[test]
    fn a_token_with_anything_cut_out_or_put_in_is_refused(at: prop::sample::Index, cut in 0_usize..40, put in "[A-Za-z0-9_.-]{0,20}") {
        let (verifier, token) = verifier();
        let at = at.index(token.len());
        let end = (at + cut).min(token.len());
        let changed = format!("{}{put}{}", &token[..at], &token[end..]);
        prop_assume!(changed != token);
        prop_assert!(runtime().block_on(verifier.caller(&changed)).is_err());
    }

    #[test]
    fn no_input_causes_a_panic(token in "\\PC{0,200}", claims in "[\\PC]{0,100}") {
        use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
        let (verifier, _) = verifier();
        prop_assert!(runtime().block_on(verifier.caller(&token)).is_err());
        let header = BASE64.encode(r#"{"alg":"ES256"}"#);
        let token = format!("{header}.{}.AAAA", BASE64.encode(claims));
        prop_assert!(runtime().block_on(verifier.caller(&token)).is_err());
    }
}

/// Flips bits of a real token.
#[tokio::test]
async fn a_token_with_any_bit_flipped_is_refused() {
    let key = Key::es256("a");
    let provider = Provider::start(&[&key]).await;
    let verifier = crate::common::verifier(&provider.issuer(), &crate::common::TestClock::new());
    let token = key.sign(&provider.claims());
    verifier.caller(&token).await.expect("the token is good");
    for at in 0..token.len() {
        // One bit per byte is enough: every byte is covered, and checking signatures is slow.
        let mut bytes = token.clone().into_bytes();
        bytes[at] ^= 1 << (at % 7);
        let changed = String::from_utf8(bytes).expect("ASCII is text");
        assert!(verifier.caller(&changed).await.is_err(), "byte {at}");
    }
}
